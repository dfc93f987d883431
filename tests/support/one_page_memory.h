// Memory that can be written to in one page at a time: a fault opens its page and closes the one
// that was open. A full btrfs does the same with the mapping of a file: in order to open a page, it
// writes back others, which closes them. There a store into two pages faults without end; here it
// ends after many faults, and is counted.
#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace quire::test {

/// One at a time in a process, for one thread.
class OnePageMemory {
 public:
  static constexpr size_t kPageBytes = 4096;

  explicit OnePageMemory(size_t pages) : size_(pages * kPageBytes) {
    void* const at = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    data_ = static_cast<char*>(at);
    present_ = this;
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~OnePageMemory() {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(data_, size_);
  }
  OnePageMemory(const OnePageMemory&) = delete;
  OnePageMemory& operator=(const OnePageMemory&) = delete;

  char* data() const { return data_; }
  /// Stores that had to be ended, by opening all pages.
  int endless() const { return endless_; }

 private:
  // A page of this memory is opened a few times at most, if stores go forward.
  static constexpr int kFaultsMax = 64;

  static void OnFault(int, siginfo_t* info, void*) { present_->Open(info->si_addr); }

  void Open(void* address) {
    const size_t at = static_cast<size_t>(static_cast<char*>(address) - data_);
    if (at >= size_) abort();
    // Faults at two addresses by turns are one instruction's.
    faults_ = address == before_last_ ? faults_ + 1 : 0;
    before_last_ = last_;
    last_ = address;
    if (faults_ < kFaultsMax) {
      mprotect(data_, size_, PROT_READ);
      mprotect(data_ + at / kPageBytes * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE);
      return;
    }
    mprotect(data_, size_, PROT_READ | PROT_WRITE);
    ++endless_;
    faults_ = 0;
  }

  inline static OnePageMemory* present_ = nullptr;
  const size_t size_;
  char* data_ = nullptr;
  struct sigaction before_ = {};
  void* last_ = nullptr;
  void* before_last_ = nullptr;
  int faults_ = 0;
  int endless_ = 0;
};

}  // namespace quire::test
