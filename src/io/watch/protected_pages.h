/// The protected pages of one range of memory, which a handler of SIGSEGV makes writable when they
/// are stored to; and the table in which the handler finds the range of an address.
///
/// Layer      io (internal)
/// Threads    Open and OpenWatched: any, and in a handler of a signal. TakeWritten: one at a time.
///            The table's Add and Remove: any
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "io/watch/page_watch.h"

namespace quire::io {

/// The number of mappings into which protected pages may split this process's memory. Each
/// protected range, and each run of open pages in one, takes one or two mappings: at the system's
/// limit (vm.max_map_count) the program could map nothing any more. The budget is below half of
/// this limit, and of its usual value: more faults would cost more than other ways of tracking.
class MappingBudget {
 public:
  /// False if there is no room.
  bool Take(int64_t runs);
  void Give(int64_t runs) { taken_.fetch_sub(runs, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> taken_ = 0;
};
MappingBudget& TheMappingBudget();

class ProtectedPages {
 public:
  ProtectedPages(char* memory, uint64_t pages);
  ~ProtectedPages();

  uintptr_t begin() const { return begin_; }
  uintptr_t end() const { return end_; }

  /// Makes all pages read-only. The caller must have room for one mapping in the budget.
  Status Protect();
  /// Makes all pages writable. Returns false if the system refuses.
  bool OpenAll();
  /// Makes the page of `address` writable, and records it; makes all pages writable if there would
  /// be too many mappings. Returns false if the system refuses.
  bool Open(uintptr_t address);
  /// Returns whether all pages were made writable because of too many mappings: then nothing is
  /// recorded.
  bool given_up() const { return given_up_.load(); }
  /// Appends the recorded pages.
  void ListWritten(std::vector<PageRun>* written) const;
  /// Appends the recorded pages, forgets them, and makes them read-only again.
  Status TakeWritten(std::vector<PageRun>* written);

 private:
  bool IsNoted(uint64_t page) const;
  int64_t RunsMadeBy(uint64_t page) const;
  Status MakeReadOnly(uint64_t first, uint64_t count);
  bool GiveUp();

  const uintptr_t begin_;
  const uintptr_t end_;
  const uint64_t pages_;
  std::unique_ptr<std::atomic<uint64_t>[]> words_;  // a bit per page
  std::atomic<int64_t> runs_ = 0;                   // of open pages, about
  std::atomic<bool> given_up_ = false;
};

/// All protected ranges of the process.
class ProtectedTable {
 public:
  constexpr ProtectedTable() = default;
  void Add(ProtectedPages* pages);
  /// Removes `pages`, which are freed as soon as no handler can be using them. Takes no memory.
  void Remove(std::unique_ptr<ProtectedPages> pages) noexcept;
  /// Called by the handler: opens the page of `address` if it is a protected one.
  bool OpenWatched(uintptr_t address);

 private:
  struct Range {
    Range(uintptr_t from, ProtectedPages* of) : begin(from), pages(of) {}
    Range(const Range& other) : begin(other.begin), pages(other.pages.load()) {}

    const uintptr_t begin;
    std::atomic<ProtectedPages*> pages;  // null once they are removed
  };
  using Sorted = std::vector<Range>;
  void FreeOld() noexcept;

  std::mutex mutex_;
  std::atomic<Sorted*> current_ = nullptr;
  std::atomic<uint64_t> handlers_ = 0;  // that use the present or a former `current_`
  // Tables that handlers may still use: freed when a change finds no handler running.
  std::vector<std::unique_ptr<Sorted>> old_tables_;
  std::vector<std::unique_ptr<ProtectedPages>> old_pages_;
};

}  // namespace quire::io
