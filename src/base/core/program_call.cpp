#include "base/core/program_call.h"

#include <exception>
#include <new>

#include "base/core/out_of_memory.h"

namespace quire::base {

namespace internal {
constinit thread_local int program_calls = 0;
}  // namespace internal

Status CalledInside(const char* what) {
  return Status(Code::kInvalidArgument,
                std::string(what) +
                    ": called inside a function that Quire calls (an update, place or partitioner "
                    "function, or the log sink); return from it first");
}

Status StatusOfException(const std::string& function) {
  return OrOutOfMemory([&] {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return OutOfMemory();
    } catch (const std::exception& error) {
      return Status(Code::kInvalidArgument, function + " threw an exception: " + error.what());
    } catch (...) {
      return Status(Code::kInvalidArgument,
                    function + " threw something that is no std::exception");
    }
  });
}

}  // namespace quire::base
