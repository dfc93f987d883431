/// MemTable: a hash index in node-shared memory over records in a log segment's mapping. A put is
/// one reservation, one copy, one checksum, one slot. Keys are sorted on demand (SortedView).
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, section 2.4 (MemTable); docs/decisions/0002-log-is-the-memtable.md
/// Threads    Add, AddBatch, Get, CoveringTombstone: any number of threads, lock-free. Close,
///            QuiescedLsn, NewView: any thread, serialized inside. Adopt to MoveIndex: one thread
///            only, with no other call. Other processes read through PeerReader (peer_reader.h),
///            never write.
/// Invariants a slot, once taken by a key, keeps that key; its versions are linked newest first by
///            LSN; a reader sees a version only when it is complete and, in a batch, when the whole
///            batch is; a closed MemTable stays closed; every reservation is filled, so that a live
///            segment has no hole below its tail once it is quiescent; at least a few slots stay
///            free, so that every search ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/hash/hash.h"
#include "engine/write_batch.h"
#include "log/record.h"
#include "log/segment.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/lookup_result.h"

namespace quire::lsm {

constexpr uint64_t kMaxLsn = UINT64_MAX;

/// A MemTable with so many range tombstones is full, because each lookup searches all of them.
constexpr uint32_t kRangeDeletesMax = 256;

/// The index's first bytes in shared memory; the slots follow.
struct alignas(64) IndexHeader {
  // Read by all threads, rarely written.
  std::atomic<uint64_t> generation;  ///< of the segment it belongs to; 0 while it is being recycled
  std::atomic<uint64_t> base_lsn;
  std::atomic<uint32_t> range_delete_head;  ///< offset/8 of the newest range tombstone; 0: none
  std::atomic<uint32_t> range_delete_count;
  log::SegmentTail tail;  ///< written by every writer; lines of its own; also counts the keys
};

/// One slot: the newest version's offset/8 (low half) and 32 bits of the key's hash (high half).
/// 0: free.
using IndexSlot = std::atomic<uint64_t>;

/// Returns the number of slots of the index of a segment of `segment_bytes`: a power of two.
uint64_t IndexSlots(uint64_t segment_bytes);
/// Returns the bytes of shared memory that the index takes: a multiple of the page size.
uint64_t IndexBytes(uint64_t segment_bytes);
/// Returns whether the memory of an index, zero at first, was never used by a MemTable.
bool IndexIsUnused(const char* index);

class SortedView;

class MemTable {
 public:
  /// Over `index` (IndexBytes, 64-byte aligned; unused, or zeroed here) and `segment_data`
  /// (segment_bytes, header page included), for a segment of that generation. Both outlive it.
  /// `stored` is notified of stores (simulation), and asked for room; may be null.
  MemTable(char* index, char* segment_data, uint64_t segment_bytes, uint64_t generation,
           uint64_t base_lsn, io::MappedFile* stored);
  ~MemTable();
  MemTable(const MemTable&) = delete;
  MemTable& operator=(const MemTable&) = delete;

  /// Appends and indexes one record. False: no room (segment or index). Then the MemTable is
  /// closed: rotate and retry. Or it is empty and open: RoomFailure() says why it cannot hold this
  /// record, nor any other. `lsn` (may be null) receives the record's LSN.
  [[nodiscard]] bool Add(const engine::WriteOp& op, uint64_t* lsn) {
    return Add(op, base::HashKey(op.key), lsn);
  }
  /// Adds a record whose key's hash is known.
  [[nodiscard]] bool Add(const engine::WriteOp& op, uint64_t hash, uint64_t* lsn);
  /// Adds several records, in order, one after another in the segment. `atomic`: readers and
  /// recovery see all or none. False: none was stored.
  [[nodiscard]] bool AddBatch(const std::vector<engine::WriteOp>& ops, bool atomic,
                              uint64_t* last_lsn);
  /// Returns the bytes that a batch takes. Compare them with segment_bytes -
  /// log::kSegmentHeaderBytes before adding it: a batch that is not larger fits an empty MemTable
  /// (the index's room is counted in).
  static uint64_t BatchBytes(const std::vector<engine::WriteOp>& ops, bool atomic);

  /// Returns the newest version at or below `snapshot`, range tombstones applied: kDeleted also
  /// hides versions in older sources.
  table::LookupResult Get(Slice key, uint64_t hash, uint64_t snapshot) const;
  /// Prefetches the slot at which Get begins its search.
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }
  /// Returns the LSN of the newest range tombstone at or below `snapshot` that covers `key`; 0:
  /// none.
  uint64_t CoveringTombstone(Slice key, uint64_t snapshot) const;

  /// Indexes a record that a dead process left at `offset`. Called for each record that Replay
  /// returns, in that order (a kBatchBegin too). Changes nothing in the segment but `prev`.
  /// kCorruption: more keys than a MemTable of this size ever holds.
  Status Adopt(uint64_t offset);
  /// Closes the MemTable after the last Adopt: the records end at `end`.
  void FinishAdoption(uint64_t end);
  /// Returns the bytes of an index for the present keys. After FinishAdoption.
  uint64_t AdoptedIndexBytes() const;
  /// Moves the index to `index`, so many zero bytes that begin at a page and outlive it. From here
  /// on the MemTable reads neither the earlier index nor anything behind the records.
  void MoveIndex(char* index);

  /// Makes every further Add fail; waits for those under way. Returns the end offset. Idempotent.
  uint64_t Close();
  bool closed() const;
  /// Returns why no room for a record could be reserved, while it is empty and open; else OK.
  Status RoomFailure() const;
  /// Returns an LSN that splits all writes into before (at or below) and after: those before are
  /// complete. Pauses writers for an instant, if any are under way.
  uint64_t QuiescedLsn();
  uint64_t base_lsn() const { return base_lsn_; }
  uint64_t generation() const { return generation_; }
  /// Returns the bytes of records so far.
  uint64_t data_bytes() const;
  /// Returns the number of distinct keys (while batches are under way: an upper bound).
  uint64_t key_count() const { return index_->tail.Keys(); }
  bool empty() const { return data_bytes() == 0; }

  /// Returns an ordered view of every key with a version at or below `lsn` (a QuiescedLsn(), or
  /// kMaxLsn: everything so far). Cost: sorts what was added since the last view; later views share
  /// the result. Does not stop writers.
  std::shared_ptr<const SortedView> NewView(uint64_t lsn);

  const char* data() const { return data_; }
  const IndexHeader& index() const { return *index_; }
  const IndexSlot* slots() const { return slots_; }
  uint64_t slot_count() const { return mask_ + 1; }
  uint64_t segment_bytes() const { return segment_bytes_; }
  /// Returns whether the records came by Adopt: holes may lie between them.
  bool adopted() const { return adopted_; }

 private:
  struct Views;

  void CloseForWriters();
  uint64_t Reserve(uint64_t size);
  uint64_t ReserveSealed(uint64_t size);
  bool TakeRoom(uint64_t size);
  bool MoveMark(uint64_t size);
  void RaiseMark(uint64_t end);
  Status GrowRoom(uint64_t size);
  void HaveNoRoom(const Status& why);
  bool TooManyRangeDeletes() const;
  void CountKey();
  bool TakeKeys(uint64_t keys);
  uint64_t LastFinished() const;
  void MakePresent(uint64_t end) {
    if (end > present_end_.load(std::memory_order_relaxed)) [[unlikely]] MakePresentTo(end);
  }
  void MakePresentTo(uint64_t end);
  uint64_t MarkBegun(uint64_t offset, uint64_t size);
  void NamePredecessor(uint64_t offset, uint64_t predecessor);
  void WriteRecord(uint64_t offset, const engine::WriteOp& op, uint32_t batch,
                   uint64_t predecessor);
  void Finish(uint64_t offset, uint64_t size, uint64_t last);
  bool LinkKey(uint64_t offset, Slice key, uint64_t hash);
  void LinkVersion(IndexSlot& slot, uint64_t word, uint32_t mine);
  void LinkBehind(uint32_t newer, uint32_t mine);
  void LinkRangeDelete(uint64_t offset);
  uint64_t WriteRecords(uint64_t offset, uint64_t end, const std::vector<engine::WriteOp>& ops,
                        bool atomic, uint64_t predecessor);
  uint64_t LinkRecords(uint64_t offset, const std::vector<engine::WriteOp>& ops);
  bool Visible(uint32_t record) const;
  uint64_t AdoptedSlots() const;
  uint32_t FindNewest(Slice key, uint64_t hash) const;

  const char* RecordAt(uint32_t record) const { return data_ + uint64_t{record} * 8; }
  char* RecordAt(uint32_t record) { return data_ + uint64_t{record} * 8; }

  IndexHeader* index_;
  IndexSlot* slots_;
  char* data_;
  uint64_t mask_;
  uint64_t key_count_max_;
  uint64_t segment_bytes_;
  uint64_t generation_;
  uint64_t number_;  // unique in this process
  uint64_t base_lsn_;
  io::MappedFile* stored_;
  std::atomic<uint64_t> reserved_mark_;  // the log says so far; of records without one: all
  std::atomic<uint64_t> present_end_;  // the pages below it were made present
  bool adopted_ = false;
  std::unique_ptr<Views> views_;
  mutable std::mutex room_mutex_;
  Status room_failure_;  // guarded by room_mutex_
};

}  // namespace quire::lsm
