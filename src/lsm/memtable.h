/// MemTable: a hash index in node-shared memory over records in a log segment's mapping. A put is one reservation, one
/// copy, one checksum, one slot. Order is made when somebody asks for it (SortedView).
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, section 2.4 (MemTable); DESIGN "the log is the MemTable's arena"
/// Threads    Add, AddBatch, Get: any number of threads, lock-free. Close: one thread.
///            Other processes read through PeerMemTable (peer_reader.h), never write.
/// Invariants a slot, once taken by a key, keeps that key; versions hang from it newest first by LSN;
///            a reader sees a version only when it is complete and, in a batch, when the whole batch is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "log/record.h"
#include "log/segment.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

constexpr uint64_t kMaxLsn = UINT64_MAX;

/// The index's first bytes in shared memory; the slots follow at the next 64-byte boundary.
struct alignas(64) IndexHeader {
  std::atomic<uint64_t> generation;          ///< of the segment it belongs to; 0 while it is being recycled
  std::atomic<uint64_t> base_lsn;
  uint64_t slot_count;                       ///< power of two
  uint64_t segment_bytes;
  alignas(64) log::SegmentTail tail;         ///< contended by writers: a line of its own
  alignas(64) std::atomic<uint64_t> key_count;
  std::atomic<uint32_t> range_delete_head;   ///< offset/8 of the newest range tombstone, chained by prev; 0: none
  std::atomic<uint32_t> range_delete_count;
};

/// Bytes of shared memory the index of a segment of `segment_bytes` takes.
uint64_t IndexBytes(uint64_t segment_bytes);

/// What a lookup in one source (MemTable or table) found.
struct Lookup {
  enum class State { kAbsent, kValue, kValueRef, kDeleted };
  State state = State::kAbsent;
  Slice value;       ///< kValue: the bytes; kValueRef: the 32 bytes of a log::ValueRef. Lives as long as its source.
  uint64_t lsn = 0;
};

/// One operation of a write.
struct WriteOp {
  log::RecordType type;
  Slice key;
  Slice value;
};

/// One source of ordered entries: see iterator.h. Made by MemTable::NewView.
class SortedView;

class MemTable {
 public:
  /// Over `index` (IndexBytes, zeroed here) and `segment_data` (segment_bytes, header page included), for a segment of
  /// that generation. Both outlive it. `stored` is told of stores (simulation); may be null.
  MemTable(char* index, char* segment_data, uint64_t segment_bytes, uint64_t generation, uint64_t base_lsn,
           io::MappedFile* stored);
  ~MemTable();

  /// Appends and indexes one record. False: no room (segment or index); the MemTable is closed, rotate and try again.
  /// `lsn` (may be null) gets the record's.
  [[nodiscard]] bool Add(const WriteOp& op, uint64_t* lsn);
  /// The same for several, in order. `atomic`: all are seen, and recovered, or none. The whole must fit.
  [[nodiscard]] bool AddBatch(const std::vector<WriteOp>& ops, bool atomic, uint64_t* last_lsn);
  /// Bytes a batch takes: to be checked against capacity before it is tried.
  static uint64_t BatchBytes(const std::vector<WriteOp>& ops, bool atomic);

  /// The newest version at or below `snapshot`, range tombstones applied.
  Lookup Get(Slice key, uint64_t hash, uint64_t snapshot) const;
  /// The newest range tombstone at or below `snapshot` that covers `key`: its LSN, 0: none.
  uint64_t CoveringTombstone(Slice key, uint64_t snapshot) const;

  /// Rebuilds the index over records that a dead process left (replay); no store to the segment but `prev`.
  Status Adopt(uint64_t offset);
  /// After the last Adopt: where the records end. Closes it.
  void FinishAdoption(uint64_t end);

  /// No further Add succeeds; waits for those under way. Returns the end offset. Idempotent.
  uint64_t Close();
  bool closed() const;
  /// An LSN that splits all writes into before and after: those before are complete. The instant's pause of writers.
  uint64_t QuiescedLsn();
  uint64_t base_lsn() const;
  uint64_t generation() const;
  /// Bytes of records so far; number of distinct keys.
  uint64_t data_bytes() const;
  uint64_t key_count() const;
  bool empty() const;

  /// An ordered view of every key with a version at or below `lsn` (QuiescedLsn() or the end). Cost: sorts what was added
  /// since the last view; shared with later views. Never stops writers.
  std::shared_ptr<const SortedView> NewView(uint64_t lsn);

  const char* data() const { return data_; }
  const IndexHeader& index() const { return *index_; }

 private:
  struct Views;
  IndexHeader* index_;
  std::atomic<uint64_t>* slots_;
  char* data_;
  io::MappedFile* stored_;
  std::unique_ptr<Views> views_;
};

}  // namespace quire::lsm
