/// The fixed pool of log segments and MemTable indexes, and the handle of one use of a slot.
///
/// Layer      lsm
/// Source     docs/decisions/0002-log-is-the-memtable.md: segments are recycled, never grown
/// Encoding   docs/format/segment.md
/// Threads    MemTablePool: any. PooledMemTable: the MemTable's own rules; SyncHeader and SyncTo
///            one thread at a time.
/// Invariants a slot belongs to at most one handle; base LSNs rise in the order in which handles
///            are prepared, and two handles' LSN ranges never overlap.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "io/files/page_memory.h"
#include "log/segment.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/shared_region.h"
#include "lsm/vlog/held_directory.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::lsm {

class MemTablePool;

/// A MemTable and the segment that contains its records. The slot is free again when the last
/// reference is dropped: Versions and iterators hold references, so that nothing they can reach is
/// recycled.
class PooledMemTable {
 public:
  ~PooledMemTable();
  PooledMemTable(const PooledMemTable&) = delete;
  PooledMemTable& operator=(const PooledMemTable&) = delete;

  /// Copies the log segment in the file `path`, with an empty index, to be adopted: outside of any
  /// pool. The file is only read, and only as far as a replay of Bytes() goes. Errors as of
  /// log::ReadSegmentHeader.
  static Result<std::shared_ptr<PooledMemTable>> Copy(io::FileSystem& fs, const std::string& path);

  MemTable& table() const { return *table_; }
  const log::SegmentHeader& header() const { return header_; }
  /// Returns its slot in the pool; -1: outside of the pool, where neighbours do not see it.
  int pool_slot() const { return pool_slot_; }
  /// Returns the number in its segment's name.
  uint64_t file_number() const { return header_.id; }
  uint64_t generation() const { return header_.generation; }
  uint64_t base_lsn() const { return header_.base_lsn; }
  /// Returns the LSN behind its last record, once the MemTable is closed.
  uint64_t end_lsn() const { return end_lsn_.load(std::memory_order_acquire); }
  /// Returns the bytes of separated values to which records here refer.
  uint64_t value_bytes() const { return value_bytes_.load(std::memory_order_relaxed); }
  /// Adds the bytes of a value. Returns true for the one call with which they reach `bytes_max`.
  bool AddValueBytes(uint64_t bytes, uint64_t bytes_max) {
    const uint64_t before = value_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return before < bytes_max && before + bytes >= bytes_max;
  }
  /// Closes the MemTable for writers and waits for those under way.
  void Close();
  /// Returns the bytes that a replay reads, for a MemTable to be adopted.
  log::SegmentBytes Bytes();
  /// Closes an adopted MemTable, whose records end at offset `end`. A copy keeps the memory of its
  /// records, and of an index for their keys; nothing else of it can be read any more.
  void FinishAdoption(uint64_t end);
  /// Notes that its records are in a table that the manifest names: its segment is not needed.
  void SetFlushed() { flushed_.store(true, std::memory_order_release); }
  /// Begins the use of the segment as the one after (previous_generation, previous_end_lsn) in the
  /// log's chain.
  void Activate(uint64_t previous_generation, uint64_t previous_end_lsn);
  /// Makes the segment's header durable (P2), so that the manifest may require it. Only the first
  /// call has an effect.
  Status SyncHeader();
  /// Makes records below offset `end` durable (P2). Does nothing with the log off.
  Status SyncTo(uint64_t end);
  bool header_durable() const { return header_durable_.load(std::memory_order_acquire); }

 private:
  friend class MemTablePool;
  PooledMemTable() = default;
  Status MakeReadable(uint64_t end);
  void KeepOnlyAdopted(uint64_t end);

  std::shared_ptr<MemTablePool> pool_;  // null: adopted from elsewhere, nothing to return
  int pool_slot_ = -1;
  bool adopted_ = false;  // its file may have released its room when it was closed
  log::SegmentHeader header_;
  std::unique_ptr<log::Segment> segment_;     // null: the log is off
  io::PageMemory own_index_;                  // outside of the pool
  io::PageMemory own_records_;                // outside of the pool: a copy, or with the log off
  std::unique_ptr<io::File> copied_file_;     // until the copy is adopted
  uint64_t copied_end_ = 0;                   // the end of what was read of the file
  std::unique_ptr<MemTable> table_;
  std::atomic<uint64_t> end_lsn_{0};
  std::atomic<bool> flushed_{false};
  std::atomic<uint64_t> value_bytes_{0};
  std::atomic<bool> header_durable_{false};
  uint64_t synced_end_ = 0;
};

/// The configuration of a pool.
struct PoolConfig {
  io::FileSystem* fs = nullptr;
  std::string directory;
  StorageOptions options;
  bool share_memory = false;
  uint64_t owner_epoch = 0;
  CheckHeldFn check_held = AlwaysHeld;
  /// Log segments that the opener found. It has synced their directory since.
  std::vector<uint64_t> found;
};

class MemTablePool : public std::enable_shared_from_this<MemTablePool> {
 public:
  /// Makes an empty pool and the region with its indexes. If there is no room, the region is not
  /// shared, which is logged. Errors: kOutOfMemory, kIo.
  static Result<std::shared_ptr<MemTablePool>> Create(const PoolConfig& config);

  /// Returns a fresh MemTable in a free slot: creates its file if there is none, and zeroes its
  /// index. The MemTable is outside of the pool if there is no shared memory for the slot, which is
  /// logged. Null: no slot is free. `index_pages`: whether a new index gets its pages at once or as
  /// keys are added.
  ///
  /// Errors  kNoSpace, kIo; kBusy: a file is needed, and the directory belongs to another opener.
  /// Cost    milliseconds; for the background.
  enum class IndexPages { kNow, kAsUsed };
  Result<std::shared_ptr<PooledMemTable>> Prepare(IndexPages index_pages = IndexPages::kNow);
  /// Returns one outside of the pool, for when iterators pin all of the pool. Neighbours cannot
  /// read it, and its file is removed after its flush. Null: there are too many of these already.
  Result<std::shared_ptr<PooledMemTable>> PrepareOutside();
  /// Returns whether an iterator may pin the present MemTables. Called when the iterator holds
  /// them: if it releases them on false, iterators never take the last MemTable from the writers.
  bool MayPin() const;
  /// Returns whether RemoveStray has something to do.
  bool HasStray() const;
  /// Removes the files of segments outside of the pool that are not needed any more.
  Status RemoveStray();
  /// Removes the files of free slots, for a database that is closed, with all records in tables.
  /// Keeps file number `kept`, which the manifest may list, and releases its room.
  Status FreeFiles(uint64_t kept);
  /// Adopts the segment `segment` that a dead process left, with an empty index: in its own slot if
  /// it fits this pool, else with an index on the heap.
  Result<std::shared_ptr<PooledMemTable>> Adopt(std::unique_ptr<log::Segment> segment);
  /// Raises the LSNs of segments prepared from now on to at least `lsn`.
  void RaiseNextLsn(uint64_t lsn);
  bool HasFreeSlot() const;
  /// Returns how many MemTables of this pool can exist at once.
  size_t live_max() const;
  /// Sets `freed`, which runs (on any thread, under no lock of the database) when a slot becomes
  /// free. Empty: no callback.
  void OnFree(std::function<void()> freed);
  SharedRegion& region() { return *region_; }
  const SharedRegion& region() const { return *region_; }
  /// Returns the bytes of all slots that were ever used, and of the indexes.
  uint64_t segment_file_bytes() const;

 private:
  friend class PooledMemTable;
  struct Slot {
    bool taken = false;
    // mapped since its first use; null while a handle has it
    std::unique_ptr<log::Segment> segment;
    bool exists = false;
    // its file, if there is one, is this opener's: it was there when the database was opened
    bool found = false;
  };
  explicit MemTablePool(const PoolConfig& config) : config_(config) {}
  uint64_t TakeBaseLsn();
  uint64_t TakeOutsideNumber();
  log::SegmentHeader HeaderFor(uint64_t number, uint64_t base_lsn) const;
  std::string PathOf(uint64_t number) const;
  Result<std::unique_ptr<log::Segment>> CreateSegment(const log::SegmentHeader& header,
                                                      log::Segment::Origin origin);
  void ReturnOutside(uint64_t number, bool needed);
  int TakeFreeSlot(std::unique_ptr<log::Segment>* segment, uint64_t* base_lsn);
  void Return(int pool_slot, std::unique_ptr<log::Segment> segment, bool exists);
  bool HasMemory(int pool_slot);
  Result<std::shared_ptr<PooledMemTable>> PrepareSlot(int pool_slot,
                                                      std::unique_ptr<log::Segment>& segment,
                                                      uint64_t base_lsn);

  const PoolConfig config_;
  std::unique_ptr<SharedRegion> region_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;             // guarded by mutex_
  uint64_t next_lsn_ = 0;               // guarded by mutex_
  std::set<uint64_t> outside_;          // guarded by mutex_: numbers in use, and those in stray_
  std::vector<uint64_t> stray_;         // guarded by mutex_: files to be removed
  std::function<void()> freed_;         // guarded by mutex_
};

}  // namespace quire::lsm
