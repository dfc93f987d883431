/// The identity of a writer: a thread, or another rank for which a thread writes.
///
/// Layer      engine
/// Source     docs/decisions/0015-holes-in-the-log.md
/// Threads    a Writer: one thread after another; each sees what the one before it did
/// Invariants a record in the log names the record that its writer finished before it: after a
///            power loss a prefix of each writer's records remains
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quire::engine {

/// The last record that a writer finished in each of the MemTables to which it writes by turns:
/// usually one MemTable per database.
class Writer {
 public:
  struct Record {
    uint64_t table = 0;   ///< MemTable's number, never 0
    uint64_t offset = 0;  ///< 0: none
  };
  /// Returns the record for `table`. If it is of another table, this writer's last one in `table`
  /// is not known.
  Record& LastIn(uint64_t table) { return last_[table % last_.size()]; }

 private:
  std::array<Record, 8> last_{};
};

/// Returns the writer for which this thread writes: its own unless a WritesFor names another.
Writer& ThisWriter();

/// A scope in which this thread, and no other thread, writes for `writer`.
class WritesFor {
 public:
  explicit WritesFor(Writer* writer);
  ~WritesFor();
  WritesFor(const WritesFor&) = delete;
  WritesFor& operator=(const WritesFor&) = delete;

 private:
  Writer* const before_;
};

}  // namespace quire::engine
