/// Notes which pages of memory are written to.
///
/// Layer      io
/// Source     NVStream, HPDC18, section 5.2 (write-protected pages and a handler of SIGSEGV);
///            userfaultfd(2), ioctl PAGEMAP_SCAN (Linux 6.7)
/// Threads    a watch: one at a time. The memory: any threads write to it at any time; what they
///            write while Collect runs is noted then or by the next
///
/// kKernel: userfaultfd's asynchronous write protection. Sees what processors store in this
/// process, in programs and in system calls. Not what is written through another mapping, by
/// another process, or by devices.
///
/// kProtect: pages are read-only, and a handler of SIGSEGV opens those that are stored to. A system
/// call that would write to such a page fails with EFAULT instead. The handler takes only faults of
/// stores in watched memory; all else goes to the handler that the program had before. A thread
/// that holds SIGSEGV back must not write to the memory, except under WatchedStores. A handler that
/// the program installs later and that does not pass on what is not its own gets ours, too; Collect
/// fails from then on.
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
  /// Begins with no page noted. `memory` begins at a page and can be written to. The first of a
  /// kind in a process tests the kind on pages of its own.
  ///
  /// Errors   kUnsupported  This machine, or this memory, cannot do it, or another watch has one of
  ///                         the pages: the text says why.
  ///          kNoSpace      Too many mappings.
  static Result<std::unique_ptr<PageWatch>> New(WatchKind kind, char* memory, uint64_t pages);
  PageWatch();
  /// Nothing is watched any more.
  virtual ~PageWatch();

  /// Appends the pages that were written to since the Collect before, rising, and forgets them.
  /// Pages beside each other are one run, mostly.
  ///
  /// Errors   It works no more, and any page may have been written to: let it go.
  virtual Status Collect(std::vector<PageRun>* written) = 0;
  /// The same pages, and forgets none: cheaper if most pages were written to, because Collect
  /// starts to watch each of them again.
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

/// [ns] What the first store to a watched page costs the program, as measured by the kind's test of
/// itself; kUnsupported, or what else that said.
Result<uint64_t> FirstStoreNs(WatchKind kind);
/// For tests: the kind's test of itself fails, or no longer does.
void FailSelfTestForTests(WatchKind kind, bool fails);

}  // namespace quire::io
