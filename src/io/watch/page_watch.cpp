#include "io/watch/page_watch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "io/files/descriptor.h"
#include "io/files/machine.h"
#include "io/files/page_memory.h"
#include "io/watch/page_watch_kinds.h"

namespace quire::io {
namespace {

constexpr size_t kKinds = 2;
constexpr uint64_t kTestPages = 64;
constexpr int kTestRounds = 3;

std::array<std::atomic<bool>, kKinds> fails_for_tests;

// Ranges of addresses that are watched, by where they begin.
struct TakenRanges {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> end_of;
};

TakenRanges& AllTaken() {
  static TakenRanges& all = *new TakenRanges;  // watches of static objects end after everything
  return all;
}

Result<std::unique_ptr<PageWatch>> NewUntested(WatchKind kind, char* memory, uint64_t pages) {
  return kind == WatchKind::kKernel ? NewKernelWatch(memory, pages)
                                    : NewProtectWatch(memory, pages);
}

// Lets a system call write one byte.
bool ReadInto(char* to) {
  const auto [from, into] = FileDescriptor::Pipe();
  const char byte = 1;
  return from.ok() && ::write(into.get(), &byte, 1) == 1 && ::read(from.get(), to, 1) == 1;
}

Status Unseen(const std::string& what) {
  return Status(Code::kUnsupported, "a test of watching pages failed: " + what);
}

Status ExpectCollected(PageWatch& watch, const std::vector<uint64_t>& pages,
                       const std::string& what) {
  std::vector<PageRun> written;
  QUIRE_RETURN_IF_ERROR(watch.Collect(&written));
  std::vector<uint64_t> seen;
  for (const PageRun& run : written) {
    for (uint64_t page = run.first; page < run.first + run.count; ++page) seen.push_back(page);
  }
  return seen == pages ? Status() : Unseen(what);
}

// Tests that stores are seen once, that writes of system calls are seen, and that nothing else is.
Status TestSeeing(WatchKind kind, PageWatch& watch, char* memory) {
  volatile char* const stored = memory;
  QUIRE_RETURN_IF_ERROR(ExpectCollected(watch, {}, "a page without a store"));
  stored[PageBytes()] = 1;
  QUIRE_RETURN_IF_ERROR(ExpectCollected(watch, {1}, "a store"));
  QUIRE_RETURN_IF_ERROR(ExpectCollected(watch, {}, "a store that was reported before"));
  stored[PageBytes() + 1] = 2;
  QUIRE_RETURN_IF_ERROR(ExpectCollected(watch, {1}, "a second store"));
  if (kind == WatchKind::kProtect) return Status();  // system calls fail
  if (!ReadInto(memory + 3 * PageBytes())) return Unseen("a system call that writes to a page");
  return ExpectCollected(watch, {3}, "what a system call wrote");
}

// Returns the time per page [ns]: the least of some rounds, because other programs take the
// processor.
Result<uint64_t> MeasureFirstStore(PageWatch& watch, char* memory) {
  uint64_t least = UINT64_MAX;
  std::vector<PageRun> written;
  for (int round = 0; round < kTestRounds; ++round) {
    const uint64_t begin = RealClock().NowNs();
    for (uint64_t page = 0; page < kTestPages; ++page) {
      static_cast<volatile char*>(memory)[page * PageBytes()] = 1;
    }
    least = std::min(least, RealClock().NowNs() - begin);
    QUIRE_RETURN_IF_ERROR(watch.Collect(&written));
  }
  return std::max<uint64_t>(least / kTestPages, 1);
}

Result<uint64_t> SelfTest(WatchKind kind) {
  QUIRE_ASSIGN_OR_RETURN(const PageMemory memory, AllocatePages(kTestPages * PageBytes()));
  std::unique_ptr<PageWatch> watch;
  QUIRE_ASSIGN_OR_RETURN(watch, NewUntested(kind, memory.data(), kTestPages));
  const WatchedStores stores;
  QUIRE_RETURN_IF_ERROR(TestSeeing(kind, *watch, memory.data()));
  return MeasureFirstStore(*watch, memory.data());
}

const Result<uint64_t>& Tested(WatchKind kind) {
  if (kind == WatchKind::kKernel) {
    static const Result<uint64_t> kernel = SelfTest(WatchKind::kKernel);
    return kernel;
  }
  static const Result<uint64_t> protect = SelfTest(WatchKind::kProtect);
  return protect;
}

}  // namespace

// Pages that no other watch may have. A child of fork inherits what its parent's watches had taken:
// there these pages cannot be watched.
class PagesTaken {
 public:
  static Result<std::unique_ptr<PagesTaken>> Take(const char* memory, uint64_t pages) {
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t end = begin + pages * PageBytes();
    TakenRanges& all = AllTaken();
    const std::lock_guard lock(all.mutex);
    const auto next = all.end_of.lower_bound(begin);
    const bool meets_next = next != all.end_of.end() && next->first < end;
    if (meets_next || (next != all.end_of.begin() && std::prev(next)->second > begin)) {
      return Status(Code::kUnsupported,
                    "pages of this memory are watched for another object, and each page can be "
                    "watched for one object only");
    }
    all.end_of.emplace(begin, end);
    return std::unique_ptr<PagesTaken>(new PagesTaken(begin));
  }
  ~PagesTaken() {
    TakenRanges& all = AllTaken();
    const std::lock_guard lock(all.mutex);
    all.end_of.erase(begin_);
  }

 private:
  explicit PagesTaken(uintptr_t begin) : begin_(begin) {}
  const uintptr_t begin_;
};

Result<std::unique_ptr<PageWatch>> PageWatch::New(WatchKind kind, char* memory, uint64_t pages) {
  QUIRE_RETURN_IF_ERROR(FirstStoreNs(kind).status());
  QUIRE_ASSIGN_OR_RETURN(auto taken, PagesTaken::Take(memory, pages));
  QUIRE_ASSIGN_OR_RETURN(auto watch, NewUntested(kind, memory, pages));
  watch->taken_ = std::move(taken);
  return watch;
}

PageWatch::PageWatch() = default;
PageWatch::~PageWatch() = default;

WatchedStores::WatchedStores() {
  sigset_t fault;
  ::sigemptyset(&fault);
  ::sigaddset(&fault, SIGSEGV);
  ::pthread_sigmask(SIG_UNBLOCK, &fault, &before_);
}

WatchedStores::~WatchedStores() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Result<uint64_t> FirstStoreNs(WatchKind kind) {
  if (fails_for_tests[static_cast<size_t>(kind)]) return Unseen("as asked for");
  return Tested(kind);
}

void FailSelfTestForTests(WatchKind kind, bool fails) {
  fails_for_tests[static_cast<size_t>(kind)] = fails;
}

}  // namespace quire::io
