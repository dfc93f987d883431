#include "base/threads/thread.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/core/out_of_memory.h"

namespace quire::base {
namespace {

constexpr size_t kThreadNameMax = 15;  // the kernel's limit, without the NUL

std::atomic<int> starts{0};
std::atomic<int> failing_first{0};
std::atomic<int> failing_count{0};

bool MustFail() {
  const int number = starts.fetch_add(1, std::memory_order_relaxed);
  const int first = failing_first.load(std::memory_order_relaxed);
  return number >= first && number - first < failing_count.load(std::memory_order_relaxed);
}

// Blocks the program's signals in the calling thread, and so in the threads that it starts.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&blocked, own);
    }
    // A mask that cannot be invalid: the call has no other error.
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

Status Refused(const char* name, const char* why) {
  return Status(Code::kOutOfMemory,
                std::string("the system refused the thread \"") + name + "\" (" + why +
                    "): raise the limit on threads (ulimit -u, the cgroup's pids.max), or use "
                    "fewer threads");
}

}  // namespace

Result<std::thread> StartThread(const char* name, std::function<void()> body) {
  return OrOutOfMemory([&]() -> Result<std::thread> {
    if (MustFail()) return Refused(name, "a test asked for it");
    const SignalsBlocked blocked;
    const std::string label(name, std::min(std::strlen(name), kThreadNameMax));
    try {
      std::thread thread(std::move(body));
      // For debuggers: failure is harmless.
      pthread_setname_np(thread.native_handle(), label.c_str());
      return thread;
    } catch (const std::system_error& error) {
      return Refused(name, error.what());
    }
  });
}

void FailThreadStarts(int first, int count) {
  failing_first.store(first, std::memory_order_relaxed);
  failing_count.store(count, std::memory_order_relaxed);
  starts.store(0, std::memory_order_relaxed);
}

int ThreadStarts() { return starts.load(std::memory_order_relaxed); }

}  // namespace quire::base
