/// A neighbour's MemTable, read through shared memory while its owner writes to it, recycles it, or
/// dies.
///
/// Layer      lsm (internal)
/// Source     docs/decisions/0005-direct-reads.md
/// Threads    any; nothing is written
///
/// Nothing that is read is trusted: offsets and sizes are checked before they are followed, and
/// offsets along a chain must fall. A result counts only if Unchanged() returns true after the
/// value has been copied. The owner removes the generation from the index before it changes
/// anything else in it, and gives the segment a new header before it writes new records: so a
/// reader that still finds both generations has read bytes of that generation only.
#pragma once

#include <cstdint>
#include <optional>

#include "lsm/memtable/memtable.h"
#include "quire/slice.h"

namespace quire::lsm {

class PeerMemTable {
 public:
  /// Index and segment of a pool slot, as mapped here; the segment's size, and the generation that
  /// the board names.
  PeerMemTable(const char* index, const char* data, uint64_t segment_bytes, uint64_t generation)
      : index_(reinterpret_cast<const IndexHeader*>(index)),
        slots_(reinterpret_cast<const IndexSlot*>(index + sizeof(IndexHeader))),
        data_(data),
        mask_(IndexSlots(segment_bytes) - 1),
        segment_bytes_(segment_bytes),
        generation_(generation) {}

  /// Returns the newest visible version of `key`, unconfirmed: its value lies in the shared memory,
  /// and must be copied before Unchanged is called. Nullopt: what was read is impossible.
  std::optional<table::LookupResult> Find(Slice key, uint64_t hash) const;
  /// Returns whether everything that was read before this call belonged to the generation.
  bool Unchanged() const;

 private:
  struct Record;
  bool Load(uint32_t at, Record* record) const;
  bool Visible(uint32_t at, const Record& record, bool* visible) const;
  bool FindTombstone(Slice key, uint32_t* found) const;
  bool FindVersion(Slice key, uint64_t hash, uint32_t* found, Record* record) const;

  const IndexHeader* index_;
  const IndexSlot* slots_;
  const char* data_;
  uint64_t mask_;
  uint64_t segment_bytes_;
  uint64_t generation_;
};

}  // namespace quire::lsm
