/// The memory for the value of a get: Quire's own, or the program's.
///
/// Layer      base
/// Threads    any
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "base/core/program_call.h"
#include "quire/buffer_allocator.h"
#include "quire/status.h"

namespace quire::base {

/// An allocator of Quire's own, like Into. It neither blocks nor calls Quire, so a get may call it
/// while it holds an EpochGuard or a lock. Keeps a reference to `function`.
class OwnBuffer {
 public:
  template <typename Function>
  explicit OwnBuffer(Function& function)
      : function_(&function), call_([](void* own, size_t size) -> char* {
          return (*static_cast<Function*>(own))(size);
        }) {}
  char* operator()(size_t size) const { return call_(function_, size); }

 private:
  void* function_;
  char* (*call_)(void* function, size_t size);
};

inline bool IsOwn(const BufferAllocator& allocate) {
  return allocate.target<OwnBuffer>() != nullptr || allocate.target<Into>() != nullptr;
}

/// Runs `get(allocate)` if `allocate` is Quire's own. An allocator of the program may block, and
/// would then delay other ranks and the reclamation of memory. So in that case the value is stored
/// in Quire's memory first, and copied outside of all guards and locks.
template <typename Get>
Status GetInto(const BufferAllocator& allocate, const Get& get) {
  if (IsOwn(allocate)) return get(allocate);
  std::string value;
  QUIRE_RETURN_IF_ERROR(get(Into(&value)));
  return CallProgram([] { return std::string("the buffer allocator"); },
                     [&] {
                       char* const to = allocate(value.size());
                       if (to == nullptr)
                         return Status(Code::kOutOfMemory, "no memory for the value");
                       if (!value.empty()) std::memcpy(to, value.data(), value.size());
                       return Status();
                     });
}

}  // namespace quire::base
