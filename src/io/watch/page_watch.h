/// Records which pages of memory are written to.
///
/// Layer      io
/// Source     NVStream, HPDC18, section 5.2 (write-protected pages and a handler of SIGSEGV);
///            userfaultfd(2), ioctl PAGEMAP_SCAN (Linux 6.7)
/// Threads    a watch: one at a time. The memory: any threads write to it at any time; writes while
///            Collect runs are recorded by it or by the next one
///
/// kKernel: userfaultfd's asynchronous write protection. Detects stores of processors in this
/// process, in programs and in system calls. Does not detect writes through another mapping, by
/// another process, or by devices.
///
/// kProtect: pages are read-only, and a handler of SIGSEGV opens those that are stored to. A system
/// call that would write to such a page fails with EFAULT instead. The handler handles only faults
/// of stores in watched memory; all others go to the program's earlier handler. A thread that
/// blocks SIGSEGV must not write to the memory, except under WatchedStores. If the program later
/// installs a handler that does not pass on signals that are not its own, it also receives ours;
/// Collect fails from then on.
///
/// After fork, the child's kKernel watches fail and do nothing; those of the parent work on.
#pragma once

#include <signal.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "quire/status.h"

namespace quire::io {

enum class WatchKind : uint8_t { kKernel, kProtect };

/// Pages [first, first + count).
struct PageRun {
  uint64_t first;
  uint64_t count;
};

class PagesTaken;

class PageWatch {
 public:
  /// Creates a watch with no page recorded. `memory` begins at a page and can be written to. The
  /// first watch of a kind in a process tests the kind on pages of its own.
  ///
  /// Errors   kUnsupported  This machine, or this memory, cannot do it, or another watch has one of
  ///                         the pages: the text says why.
  ///          kNoSpace      Too many mappings.
  static Result<std::unique_ptr<PageWatch>> New(WatchKind kind, char* memory, uint64_t pages);
  PageWatch();
  /// Ends the watch.
  virtual ~PageWatch();

  /// Appends the pages that were written to since the previous Collect, in rising order, and
  /// forgets them. Adjacent pages are mostly one run.
  ///
  /// Errors   The watch no longer works, and any page may have been written to: destroy it.
  virtual Status Collect(std::vector<PageRun>* written) = 0;
  /// Appends the same pages, but forgets none: cheaper if most pages were written to, because
  /// Collect starts to watch each of them again.
  virtual Status Look(std::vector<PageRun>* written) const = 0;

 private:
  std::unique_ptr<PagesTaken> taken_;  // released after the watch has ended
};

/// While one exists, this thread may store to watched memory, also if the program blocks SIGSEGV in
/// it: without the signal, the first store to a page of a kProtect watch would end the process.
class WatchedStores {
 public:
  WatchedStores();
  ~WatchedStores();
  WatchedStores(const WatchedStores&) = delete;
  WatchedStores& operator=(const WatchedStores&) = delete;

 private:
  sigset_t before_;
};

/// Returns the cost of the first store to a watched page [ns], as measured by the self-test of the
/// kind; kUnsupported, or another error of the self-test.
Result<uint64_t> FirstStoreNs(WatchKind kind);
/// For tests: makes the self-test of the kind fail, or succeed again.
void FailSelfTestForTests(WatchKind kind, bool fails);

}  // namespace quire::io
