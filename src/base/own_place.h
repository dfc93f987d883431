/// Where a get puts its value: places of Quire's own, and those that the program gives.
///
/// Layer      base
/// Threads    any
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "base/program_call.h"
#include "quire/status.h"

namespace quire::base {

/// A place of Quire's own. It neither blocks nor calls Quire, so a get may call it where it holds
/// an EpochGuard or a lock. Keeps a reference to `function`.
class OwnPlace {
 public:
  template <typename Function>
  explicit OwnPlace(Function& function)
      : function_(&function), call_([](void* own, size_t size) -> char* {
          return (*static_cast<Function*>(own))(size);
        }) {}
  char* operator()(size_t size) const { return call_(function_, size); }

 private:
  void* function_;
  char* (*call_)(void* function, size_t size);
};

/// Runs `get(place)` if `place` is an OwnPlace. A function of the program may block: other ranks
/// and the memory that they wait for would wait for it. So the value comes into memory of Quire
/// first, and is copied outside of all guards and locks.
template <typename Get>
Status GetIntoPlace(const std::function<char*(size_t size)>& place, const Get& get) {
  if (place.target<OwnPlace>() != nullptr) return get(place);
  std::string value;
  auto into_value = [&value](size_t size) {
    value.resize(size);
    return value.data();
  };
  QUIRE_RETURN_IF_ERROR(get(OwnPlace(into_value)));
  return CallProgram([] { return std::string("the place function"); }, [&] {
    char* const to = place(value.size());
    if (to == nullptr) return Status(Code::kOutOfMemory, "no place for the value");
    if (!value.empty()) std::memcpy(to, value.data(), value.size());
    return Status();
  });
}

}  // namespace quire::base
