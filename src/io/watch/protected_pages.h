/// The pages that a handler of SIGSEGV opens when they are stored to, of one range of memory; and
/// the table in which the handler finds the range of an address.
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

/// Mappings that protected pages may split this process's memory into. Each protected range, and
/// each run of pages that are open in one, is a mapping or two: at the system's limit
/// (vm.max_map_count) nothing in the program could be mapped any more. This is below half of it,
/// and of what is usual: so many faults cost more than other ways.
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

  /// Makes all read-only. The caller has room for one mapping in the budget.
  Status Protect();
  /// Makes all writable. False where the system refuses.
  bool OpenAll();
  /// Makes the page of `address` writable, and notes it; all pages, where they would be too many
  /// mappings. False where the system refuses.
  bool Open(uintptr_t address);
  /// Whether all were made writable because of too many mappings: then nothing is noted.
  bool given_up() const { return given_up_.load(); }
  /// Appends what was noted.
  void ListWritten(std::vector<PageRun>* written) const;
  /// Appends what was noted, forgets it, and makes it read-only again.
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
  /// `pages` goes as soon as no handler can be using it.
  void Remove(std::unique_ptr<ProtectedPages> pages);
  /// For the handler: opens the page of `address` if it is one of ours.
  bool OpenWatched(uintptr_t address);

 private:
  using Sorted = std::vector<ProtectedPages*>;
  void Publish(std::unique_ptr<Sorted> next);

  std::mutex mutex_;
  std::atomic<Sorted*> current_ = nullptr;
  std::atomic<uint64_t> handlers_ = 0;  // that use what `current_` was or is
  // What handlers may still use: freed when a change finds none running.
  std::vector<std::unique_ptr<Sorted>> old_tables_;
  std::vector<std::unique_ptr<ProtectedPages>> old_pages_;
};

}  // namespace quire::io
