#include "base/threads/fork_generation.h"

#include <pthread.h>

#include <string>

namespace quire::base {

namespace internal {
constinit std::atomic<uint32_t> fork_generation{0};
}  // namespace internal

namespace {

void CountFork() { internal::fork_generation.fetch_add(1, std::memory_order_relaxed); }

// Fails only for lack of memory when the library is loaded: then forked children are not
// recognized.
[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, CountFork);

}  // namespace

Status InForkedChild(const char* what) {
  return Status(Code::kInvalidArgument,
                std::string(what) +
                    ": opened by the parent of this forked process, which alone may use it; the "
                    "child can open it for reading, or start another program");
}

}  // namespace quire::base
