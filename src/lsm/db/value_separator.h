/// Stores large values apart from their keys: decides which values these are, appends them to the
/// value log, and bounds how many bytes of them the records of one MemTable refer to.
///
/// Layer      lsm (internal)
/// Source     docs/decisions/0003-large-values-apart.md
/// Threads    any; Attach before all others
/// Invariants a value is stored before its record. The caller adds the record under the EpochGuard
///            under which the value was stored, or before it ends LargeValues::protection: until
///            then the value segment does not count as dead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/write_batch.h"
#include "log/record.h"
#include "lsm/jobs/counters.h"
#include "lsm/jobs/write_health.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/segment_tracker.h"
#include "lsm/version/version_set.h"
#include "lsm/vlog/value_log.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

class ValueSeparator {
 public:
  /// A group of writes in which references replace separated values.
  struct Group {
    std::vector<engine::WriteOp> ops;
    std::vector<log::ValueRef> references;
    uint64_t value_bytes = 0;
  };
  /// Values that were stored without a guard.
  struct LargeValues {
    Group group;
    /// Held from before the values are stored until their records are in a MemTable.
    std::optional<SegmentTracker::Protection> protection;
  };

  /// All arguments outlive this. `options` are those of the database.
  ValueSeparator(const StorageOptions& options, VersionSet& versions, WriteHealth& health,
                 StorageCounters& counters)
      : options_(options),
        record_bytes_max_(options.memtable_bytes - log::kSegmentHeaderBytes),
        versions_(versions),
        health_(health),
        counters_(counters) {}
  ValueSeparator(const ValueSeparator&) = delete;
  ValueSeparator& operator=(const ValueSeparator&) = delete;
  /// Called once, when the database is opened.
  void Attach(ValueLog* values) { values_ = values; }

  /// Returns the bytes of the largest record, or atomic batch, that fits a MemTable.
  uint64_t record_bytes_max() const { return record_bytes_max_; }
  /// Returns whether a MemTable can take a key and a value of these sizes; if not, see RefusalOf.
  bool Fits(Slice key, uint64_t value_size) const {
    return log::IsKeySize(key.size()) && value_size <= log::kValueBytesMax &&
           RecordBytesAtLeast(key, value_size) <= record_bytes_max_;
  }
  /// Returns the kInvalidArgument of a key and a value that do not fit.
  Status RefusalOf(Slice key, uint64_t value_size) const;
  /// Returns kInvalidArgument if no MemTable or table takes this range tombstone, whose begin fits.
  Status CheckRange(const engine::WriteOp& op) const;

  /// Returns whether the operation's value is stored apart from its key.
  bool Separates(const engine::WriteOp& op) const {
    if (op.type != log::RecordType::kPut) return false;
    return op.value.size() >= options_.value_separation_bytes_min ||
           (op.value.size() > sizeof(log::ValueRef) &&
            log::RecordSize(op.key.size(), op.value.size()) > record_bytes_max_ / kRecordShareMax);
  }
  bool SeparatesAny(const std::vector<engine::WriteOp>& ops) const;
  /// Returns the bytes that the operation's record takes in a MemTable.
  uint64_t StoredBytes(const engine::WriteOp& op) const;
  /// Returns whether copying the separated values takes so long that no thread may wait for it at a
  /// guard: StoreLarge stores such values.
  bool MayHoldUp(const std::vector<engine::WriteOp>& ops) const;

  /// Returns whether the records of `memory` refer to so many bytes that it takes no more
  /// references. Called before a value is stored: a writer that finds the MemTable full waits until
  /// another one is active. This bounds the bytes that are not durable, and those that are
  /// overwritten and not collected.
  bool IsFull(const PooledMemTable& memory) const;
  /// Counts values to which records in `memory` refer now. Returns true for the one call that fills
  /// it.
  bool Count(PooledMemTable& memory, uint64_t value_bytes) const;

  /// Stores the operation's value, and replaces it in the operation by `reference`, which refers to
  /// it.
  ///
  /// Errors  as of Append.
  Status Separate(engine::WriteOp* op, log::ValueRef* reference);
  /// Separates the values of a group: `group` becomes `ops`, with references instead of them.
  Status SeparateAll(const std::vector<engine::WriteOp>& ops, Group* group);
  /// Does the same as SeparateAll without a guard, under a protection. If the active MemTable is
  /// full of values, stores nothing and sets `full_generation` to that MemTable's.
  Status StoreLarge(const std::vector<engine::WriteOp>& ops, LargeValues* large,
                    uint64_t* full_generation);
  /// Stores a value.
  ///
  /// Errors  as of ValueLog::Append; kReadOnly instead of kBusy: the directory belongs to another
  ///         opener, which ends writes.
  Status Append(Slice key, Slice value, log::ValueRef* reference);

 private:
  // Bytes of a record, with the value stored apart if that makes it smaller.
  static uint64_t RecordBytesAtLeast(Slice key, uint64_t value_size) {
    return log::RecordSize(key.size(), std::min<uint64_t>(value_size, sizeof(log::ValueRef)));
  }

  // A record that would take more than this part of a MemTable has its value stored apart.
  static constexpr uint64_t kRecordShareMax = 4;

  const StorageOptions& options_;
  const uint64_t record_bytes_max_;
  VersionSet& versions_;
  WriteHealth& health_;
  StorageCounters& counters_;
  ValueLog* values_ = nullptr;  // set by Attach
};

}  // namespace quire::lsm
