/// The identity of a writer: a thread, or another rank for which a thread writes.
///
/// Layer      engine
/// Source     docs/decisions/0015-holes-in-the-log.md
/// Threads    a Writer: one thread after another, each of which sees what the one before it did
/// Invariants a record in the log names the one that its writer finished before it: after a power
///            loss a prefix of each writer's records is there
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quire::engine {

/// The record that a writer finished last, in each of the MemTables that it writes to by turns: as
/// a rule one of each database.
class Writer {
 public:
  struct Record {
    uint64_t table = 0;   ///< MemTable's number, never 0
    uint64_t offset = 0;  ///< 0: none
  };
  /// If the record is of another table, this writer's last one in `table` is not known.
  Record& LastIn(uint64_t table) { return last_[table % last_.size()]; }

 private:
  std::array<Record, 8> last_{};
};

/// Whom this thread writes for; itself if nothing else was said.
Writer& ThisWriter();

/// Until it ends this thread writes for `writer`, and no other thread does.
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
