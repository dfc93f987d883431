#include "lsm/memtable/memtable.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

#include "base/core/check.h"
#include "base/core/log_sink.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/fences.h"
#include "base/threads/sync_point.h"
#include "engine/writer.h"
#include "log/room.h"
#include "lsm/memtable/memtable_views.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSegmentBytesPerSlot = 64;
// The keys are summed up each time a stripe has taken so many; until then, each may overshoot.
constexpr uint64_t kKeysPerCheck = 64;
// Enough that the slots above the 80 % take the overshoot, with some hundred threads on top.
constexpr uint64_t kSlotsMin = 8192;
static_assert(kSlotsMin / 5 > kKeysPerCheck * log::SegmentTail::kStripes + 500);
// For an index without writers: with the header these slots take a page.
constexpr uint64_t kAdoptedSlotsMin = 256;
static_assert(sizeof(IndexHeader) + kAdoptedSlotsMin * sizeof(IndexSlot) <= kPageBytes);
// After so many reservations in a row, a thread counts as the only writer.
constexpr uint32_t kStreak = 4;
constexpr uint64_t kBytesPerBatchKey = 80;  // 64 bytes a slot, 80 % of the slots
constexpr uint64_t kBatchBeginBytes = log::RecordSize(1, sizeof(log::BatchExtent));
constexpr size_t kLinkAhead = 8;
constexpr uint64_t kPresentBytesMin = 128 << 10;
// The log's mark is so far ahead of the records: a replay searches no more than that in vain.
constexpr uint64_t kReservedAhead = 8 << 10;
constexpr uint64_t kPresentBytesMax = 2 << 20;
// A writer that dies between its reservation and its seal leaves whatever an earlier use stored
// there. In less than this a replay finds out in bounded time what is a record and what is not;
// larger pieces are sealed first.
constexpr uint64_t kSealedFirstBytesMin = 1 << 10;

constexpr uint64_t SlotWord(uint64_t hash, uint32_t record) {
  return (hash & ~uint64_t{0xFFFFFFFF}) | record;
}
constexpr uint32_t RecordOf(uint64_t word) { return static_cast<uint32_t>(word); }
constexpr bool SameTag(uint64_t word, uint64_t hash) { return ((word ^ hash) >> 32) == 0; }
constexpr uint32_t Units(uint64_t offset) { return static_cast<uint32_t>(offset / 8); }

uint64_t KeyCountMax(uint64_t slots) { return slots / 5 * 4; }

uint64_t BytesOfIndex(uint64_t slots) {
  const uint64_t bytes = sizeof(IndexHeader) + slots * sizeof(IndexSlot);
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// This thread's last reservation, and how many it made in a row without another thread's between.
struct Streak {
  uint64_t generation = 0;
  uint64_t end = 0;
  uint32_t length = 0;
};
constinit thread_local Streak streak;

// True if the MemTable that had this index stored no record: each slot that it might have taken
// came after a reservation, or (in an adoption) before the count of keys.
bool NothingIndexed(const log::SegmentTail& tail) {
  const uint64_t end = tail.tail.load(std::memory_order_relaxed) & log::SegmentTail::kOffset;
  return end == log::kSegmentHeaderBytes && tail.Keys() == 0;
}

uint64_t NextNumber() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

uint64_t IndexSlots(uint64_t segment_bytes) {
  return std::bit_ceil(std::max(segment_bytes / kSegmentBytesPerSlot, kSlotsMin));
}

uint64_t IndexBytes(uint64_t segment_bytes) {
  return BytesOfIndex(IndexSlots(segment_bytes));
}

bool IndexIsUnused(const char* index) {
  const auto* const header = reinterpret_cast<const IndexHeader*>(index);
  return header->generation.load(std::memory_order_relaxed) == 0;
}

MemTable::MemTable(char* index, char* segment_data, uint64_t segment_bytes, uint64_t generation,
                   uint64_t base_lsn, io::MappedFile* stored)
    : index_(reinterpret_cast<IndexHeader*>(index)),
      slots_(reinterpret_cast<IndexSlot*>(index + sizeof(IndexHeader))),
      data_(segment_data),
      mask_(IndexSlots(segment_bytes) - 1),
      key_count_max_(KeyCountMax(mask_ + 1)),
      segment_bytes_(segment_bytes),
      generation_(generation),
      number_(NextNumber()),
      base_lsn_(base_lsn),
      stored_(stored),
      reserved_mark_(stored == nullptr ? segment_bytes : log::kSegmentHeaderBytes),
      present_end_(stored == nullptr ? segment_bytes : 0),
      views_(std::make_unique<Views>()) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(index) % alignof(IndexHeader) == 0);
  QUIRE_CHECK(generation != 0 && segment_bytes / 8 <= std::numeric_limits<uint32_t>::max());
  // A neighbour may be reading the slot's earlier use: it must find the generation gone before it
  // can find anything else changed (peer_memtable.cpp has the other half).
  const bool zero = IndexIsUnused(index) || NothingIndexed(index_->tail);
  index_->generation.store(0, std::memory_order_relaxed);
  base::PublishFence();
  new (index_) IndexHeader();
  // Zeros would only bring its pages into memory, which a small database never uses.
  if (!zero) std::memset(static_cast<void*>(slots_), 0, (mask_ + 1) * sizeof(IndexSlot));
  index_->base_lsn.store(base_lsn, std::memory_order_relaxed);
  index_->generation.store(generation, std::memory_order_release);
}

MemTable::~MemTable() = default;

bool MemTable::Add(const engine::WriteOp& op, uint64_t hash, uint64_t* lsn) {
  index_->tail.PrepareToReserve();
  const bool range_delete = op.type == log::RecordType::kRangeDelete;
  IndexSlot& slot = slots_[hash & mask_];
  __builtin_prefetch(&slot, 1);
  if (range_delete && TooManyRangeDeletes()) {
    CloseForWriters();
    return false;
  }
  const uint64_t size = log::RecordSize(op.key.size(), op.value.size());
  const uint64_t predecessor = LastFinished();
  const uint64_t offset = Reserve(size);
  if (offset == log::kNoRoom) return false;
  base::SyncPoint("lsm.record.unsealed");
  const uint64_t seal = MarkBegun(offset, size);
  MakePresent(offset + size);
  base::SyncPoint("lsm.record.reserved");
  char* const record = data_ + offset;
  log::EncodeRecord(record, op.type, op.key, op.value, 0, seal);
  NamePredecessor(offset, predecessor);
  // By now the slot has arrived; if the key is there already, its record will be compared.
  __builtin_prefetch(RecordAt(RecordOf(slot.load(std::memory_order_relaxed))));
  log::HeaderAt(record)->checksum = log::RecordChecksum(record, generation_, offset);
  if (stored_ != nullptr) stored_->Stored(offset, size);
  if (range_delete) {
    LinkRangeDelete(offset);
  } else if (LinkKey(offset, op.key, hash)) {
    CountKey();
  }
  base::SyncPoint("lsm.record.linked");
  Finish(offset, size, offset);
  if (lsn != nullptr) *lsn = base_lsn_ + offset;
  return true;
}

// Small pieces: log::Reserve, after the log's mark was moved and more room was set aside if that is
// needed.
uint64_t MemTable::Reserve(uint64_t size) {
  if (size >= kSealedFirstBytesMin) return ReserveSealed(size);
  while (true) {
    const uint64_t mark = reserved_mark_.load(std::memory_order_acquire);
    const uint64_t offset = log::Reserve(index_->tail, segment_bytes_, size, mark);
    if (offset != log::kMoreRoom) [[likely]] return offset;
    if (!MoveMark(size) && !TakeRoom(size)) return log::kNoRoom;
  }
}

// The log's mark covers the piece only once that is sealed: below the mark a replay has to find out
// what everything is. The pages are made present first, since others wait during the pause.
uint64_t MemTable::ReserveSealed(uint64_t size) {
  while (true) {
    const uint64_t room = stored_ == nullptr ? segment_bytes_ : stored_->room();
    MakePresent(std::min(room, log::kSegmentHeaderBytes + data_bytes() + size));
    const uint64_t offset = log::ReservePaused(index_->tail, segment_bytes_, size, room);
    if (offset == log::kNoRoom) return offset;
    if (offset == log::kMoreRoom) {
      if (!TakeRoom(size)) return log::kNoRoom;
      continue;
    }
    MarkBegun(offset, size);
    RaiseMark(offset + size);
    log::EndPause(index_->tail, size);
    return offset;
  }
}

// Returns false if there is no room, and no writer will get any here.
bool MemTable::TakeRoom(uint64_t size) {
  const Status grown = GrowRoom(size);
  if (grown.ok()) return true;
  if (base::LogEnabled()) base::Log(LogLevel::kWarning, grown.ToString());
  HaveNoRoom(grown);
  return false;
}

// Returns false if there is no room for this many bytes.
bool MemTable::MoveMark(uint64_t size) {
  const uint64_t end = log::kSegmentHeaderBytes + data_bytes() + size;
  if (end > stored_->room()) return false;
  RaiseMark(end);
  return true;
}

// Raises the mark to a place behind `end`, which is within the room.
void MemTable::RaiseMark(uint64_t end) {
  if (end <= reserved_mark_.load(std::memory_order_acquire)) return;
  const std::lock_guard<std::mutex> lock(room_mutex_);
  const uint64_t mark = std::min(stored_->room(), end + kReservedAhead);
  if (mark <= reserved_mark_.load(std::memory_order_relaxed)) return;
  log::MarkReserved(data_, generation_, mark);
  reserved_mark_.store(mark, std::memory_order_release);
}

// If the MemTable contains something, it is full: the next one replaces it, and its contents go
// into a table. An empty one stays open: a record for which it cannot get room would go through all
// MemTables for ever, while smaller ones find room here.
void MemTable::HaveNoRoom(const Status& why) {
  if (!empty()) return CloseForWriters();
  const std::lock_guard<std::mutex> lock(room_mutex_);
  room_failure_ = why;
}

Status MemTable::RoomFailure() const {
  if (!empty() || closed()) return Status();
  const std::lock_guard<std::mutex> lock(room_mutex_);
  return room_failure_;
}

Status MemTable::GrowRoom(uint64_t size) {
  const uint64_t end = log::kSegmentHeaderBytes + data_bytes() + size;
  return log::GrowRoom(*stored_, std::min(end, segment_bytes_), segment_bytes_);
}

// Makes the pages below `end` present, and some more, where that was not done: in one call a page
// costs a third of what its fault would. Each piece once, by the writer that comes to it first. The
// pieces grow with what was stored, so that little is made present that is never stored to: such
// pages are written out all the same.
void MemTable::MakePresentTo(uint64_t end) {
  uint64_t begin = present_end_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    if (end <= begin) return;
    const uint64_t piece = std::clamp(begin / 4, kPresentBytesMin, kPresentBytesMax);
    next = std::min({segment_bytes_, stored_->room(), std::max(end, begin + piece)});
  } while (!present_end_.compare_exchange_weak(begin, next, std::memory_order_relaxed));
  stored_->Prefault(begin, next - begin);
}

void MemTable::CloseForWriters() {
  index_->tail.tail.fetch_or(log::SegmentTail::kClosed, std::memory_order_acq_rel);
}

bool MemTable::TooManyRangeDeletes() const {
  return index_->range_delete_count.load(std::memory_order_relaxed) >= kRangeDeletesMax;
}

// A slot was taken. Closes the table, for those who come later, where the slots become scarce.
void MemTable::CountKey() {
  const uint64_t keys =
      index_->tail.OwnStripe().keys.fetch_add(1, std::memory_order_relaxed) + 1;
  if (keys % kKeysPerCheck == 0 && key_count() >= key_count_max_) CloseForWriters();
}

// Takes the slots for the keys of a batch, which may bring many at once, before it is stored.
bool MemTable::TakeKeys(uint64_t keys) {
  std::atomic<uint64_t>& own = index_->tail.OwnStripe().keys;
  own.fetch_add(keys, std::memory_order_relaxed);
  if (key_count() <= key_count_max_) return true;
  own.fetch_sub(keys, std::memory_order_relaxed);
  return false;
}

// Finishes a reservation. A thread that is the only writer also notes how far the log is complete;
// with several writers, the cache line of that note would be one more for which they compete.
void MemTable::Finish(uint64_t offset, uint64_t size, uint64_t last) {
  engine::ThisWriter().LastIn(number_) = {number_, last};
  log::SegmentTail::Stripe& stripe = index_->tail.OwnStripe();
  stripe.last.store(last, std::memory_order_release);
  stripe.finished.fetch_add(size, std::memory_order_release);
  Streak& own = streak;
  const bool first = offset == log::kSegmentHeaderBytes;
  const bool follows = own.generation == generation_ && own.end == offset;
  own.length = first ? kStreak : follows ? own.length + 1 : 0;
  own.generation = generation_;
  own.end = offset + size;
  if (own.length < kStreak) return;
  const uint64_t end = log::EndIfComplete(index_->tail);
  if (end != 0) log::MarkComplete(data_, generation_, end);
}

uint64_t MemTable::BatchBytes(const std::vector<engine::WriteOp>& ops, bool atomic) {
  uint64_t bytes = 0;
  for (const engine::WriteOp& op : ops) bytes += log::RecordSize(op.key.size(), op.value.size());
  if (atomic) {
    if (bytes > std::numeric_limits<uint32_t>::max()) return std::numeric_limits<uint64_t>::max();
    bytes += kBatchBeginBytes;
  }
  return std::max(bytes, ops.size() * kBytesPerBatchKey);
}

bool MemTable::AddBatch(const std::vector<engine::WriteOp>& ops, bool atomic, uint64_t* last_lsn) {
  uint64_t keys = 0;
  uint64_t bytes = atomic ? kBatchBeginBytes : 0;
  for (const engine::WriteOp& op : ops) {
    bytes += log::RecordSize(op.key.size(), op.value.size());
    if (op.type != log::RecordType::kRangeDelete) ++keys;
  }
  if ((keys != ops.size() && TooManyRangeDeletes()) || !TakeKeys(keys)) {
    CloseForWriters();
    return false;
  }
  std::atomic<uint64_t>& own_keys = index_->tail.OwnStripe().keys;
  const uint64_t predecessor = LastFinished();
  const uint64_t offset = Reserve(bytes);
  if (offset == log::kNoRoom) {
    own_keys.fetch_sub(keys, std::memory_order_relaxed);
    return false;
  }
  MarkBegun(offset, bytes);
  MakePresent(offset + bytes);
  const uint64_t last = WriteRecords(offset, offset + bytes, ops, atomic, predecessor);
  if (stored_ != nullptr) stored_->Stored(offset, bytes);
  const uint64_t new_keys = LinkRecords(offset + (atomic ? kBatchBeginBytes : 0), ops);
  if (atomic) log::HeaderAt(data_ + offset)->prev.store(1, std::memory_order_release);
  own_keys.fetch_sub(keys - new_keys, std::memory_order_relaxed);
  Finish(offset, bytes, atomic ? offset : last);
  if (last_lsn != nullptr) *last_lsn = base_lsn_ + last;
  return true;
}

// The last record that this writer has finished, or one of another writer; 0: none is known.
uint64_t MemTable::LastFinished() const {
  const engine::Writer::Record& mine = engine::ThisWriter().LastIn(number_);
  if (mine.table == number_) [[likely]] return mine.offset;
  const uint64_t own = index_->tail.OwnStripe().last.load(std::memory_order_acquire);
  if (own != 0) return own;
  uint64_t newest = 0;
  for (const log::SegmentTail::Stripe& stripe : index_->tail.stripes) {
    newest = std::max(newest, stripe.last.load(std::memory_order_acquire));
  }
  return newest;
}

// Seals a piece, and returns its seal: if the writer dies from here on, a replay skips the whole
// piece.
uint64_t MemTable::MarkBegun(uint64_t offset, uint64_t size) {
  const uint64_t seal = log::BegunSeal(size, generation_, offset);
  if (seal != 0) log::EncodeBegun(data_ + offset, size, seal);
  return seal;
}

void MemTable::NamePredecessor(uint64_t offset, uint64_t predecessor) {
  if (predecessor != 0) log::SetPredecessor(data_ + offset, Units(offset - predecessor));
}

void MemTable::WriteRecord(uint64_t offset, const engine::WriteOp& op, uint32_t batch,
                           uint64_t predecessor) {
  char* const record = data_ + offset;
  // A member of a batch lies in a piece that was marked as a whole.
  const uint64_t size = log::RecordSize(op.key.size(), op.value.size());
  const uint64_t seal = batch == 0 ? log::BegunSeal(size, generation_, offset) : 0;
  log::EncodeRecord(record, op.type, op.key, op.value, batch, seal);
  NamePredecessor(offset, predecessor);
  log::HeaderAt(record)->checksum = log::RecordChecksum(record, generation_, offset);
}

// Writes the records of a batch, up to `end`; the offset of the last. Those of one that is not
// atomic are finished one after the other: before each, what follows it is marked.
uint64_t MemTable::WriteRecords(uint64_t offset, uint64_t end,
                                const std::vector<engine::WriteOp>& ops, bool atomic,
                                uint64_t predecessor) {
  uint64_t at = offset + (atomic ? kBatchBeginBytes : 0);
  uint64_t last = atomic ? 0 : predecessor;
  for (const engine::WriteOp& op : ops) {
    const uint64_t next = at + log::RecordSize(op.key.size(), op.value.size());
    if (!atomic) MarkBegun(next, end - next);
    WriteRecord(at, op, atomic ? Units(at - offset) : 0, atomic ? 0 : last);
    last = at;
    at = next;
  }
  if (!atomic) return last;
  char extent[sizeof(log::BatchExtent)];
  base::StoreLe(extent, static_cast<uint32_t>(ops.size()));
  base::StoreLe(extent + 4, static_cast<uint32_t>(at - offset - kBatchBeginBytes));
  WriteRecord(offset, {log::RecordType::kBatchBegin, Slice("\0", 1), Slice(extent, sizeof extent)},
              0, predecessor);
  return last;
}

// Indexes the records of a batch, the first of which is at `offset`. Returns how many keys were
// new.
uint64_t MemTable::LinkRecords(uint64_t offset, const std::vector<engine::WriteOp>& ops) {
  uint64_t new_keys = 0;
  uint64_t hashes[kLinkAhead];
  for (size_t begin = 0; begin < ops.size(); begin += kLinkAhead) {
    const size_t end = std::min(begin + kLinkAhead, ops.size());
    for (size_t i = begin; i < end; ++i) {
      hashes[i - begin] = base::HashKey(ops[i].key);
      __builtin_prefetch(&slots_[hashes[i - begin] & mask_], 1);
    }
    for (size_t i = begin; i < end; ++i) {
      const engine::WriteOp& op = ops[i];
      if (op.type == log::RecordType::kRangeDelete) {
        LinkRangeDelete(offset);
      } else if (LinkKey(offset, op.key, hashes[i - begin])) {
        ++new_keys;
      }
      offset += log::RecordSize(op.key.size(), op.value.size());
    }
  }
  return new_keys;
}

// Adds the record at `offset` to the index; returns true if its key had no slot yet.
bool MemTable::LinkKey(uint64_t offset, Slice key, uint64_t hash) {
  const uint32_t mine = Units(offset);
  for (uint64_t probe = 0;; ++probe) {
    QUIRE_CHECK(probe <= mask_);  // a fifth of the slots stays free
    IndexSlot& slot = slots_[(hash + probe) & mask_];
    uint64_t word = slot.load(std::memory_order_acquire);
    if (word == 0 && slot.compare_exchange_strong(word, SlotWord(hash, mine),
                                                  std::memory_order_acq_rel,
                                                  std::memory_order_acquire)) {
      return true;
    }
    if (SameTag(word, hash) && log::KeyOf(RecordAt(RecordOf(word))) == key) {
      LinkVersion(slot, word, mine);
      return false;
    }
  }
}

// Makes `mine` the newest version in `slot` (which says `word`), or one further down where a writer
// with a later position was quicker.
void MemTable::LinkVersion(IndexSlot& slot, uint64_t word, uint32_t mine) {
  while (RecordOf(word) < mine) {
    log::HeaderAt(RecordAt(mine))->prev.store(RecordOf(word), std::memory_order_relaxed);
    if (slot.compare_exchange_weak(word, SlotWord(word, mine), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return;
    }
  }
  LinkBehind(RecordOf(word), mine);
}

// Hangs `mine` into the chain that begins at `newer`, where its position belongs.
void MemTable::LinkBehind(uint32_t newer, uint32_t mine) {
  while (true) {
    std::atomic<uint32_t>& link = log::HeaderAt(RecordAt(newer))->prev;
    uint32_t older = link.load(std::memory_order_acquire);
    if (older > mine) {
      newer = older;
      continue;
    }
    log::HeaderAt(RecordAt(mine))->prev.store(older, std::memory_order_relaxed);
    if (link.compare_exchange_weak(older, mine, std::memory_order_acq_rel,
                                   std::memory_order_relaxed)) {
      return;
    }
  }
}

void MemTable::LinkRangeDelete(uint64_t offset) {
  const uint32_t mine = Units(offset);
  std::atomic<uint32_t>& head = index_->range_delete_head;
  uint32_t newest = head.load(std::memory_order_acquire);
  bool linked = false;
  while (newest < mine && !linked) {
    log::HeaderAt(RecordAt(mine))->prev.store(newest, std::memory_order_relaxed);
    linked = head.compare_exchange_weak(newest, mine, std::memory_order_acq_rel,
                                        std::memory_order_acquire);
  }
  if (!linked) LinkBehind(newest, mine);
  index_->range_delete_count.fetch_add(1, std::memory_order_release);
}

// Whether the batch that the record belongs to, if any, is whole.
bool MemTable::Visible(uint32_t record) const {
  const uint32_t batch = log::BatchDistance(*log::HeaderAt(RecordAt(record)));
  return batch == 0 ||
         log::HeaderAt(RecordAt(record - batch))->prev.load(std::memory_order_acquire) != 0;
}

// The newest version of `key`, complete or in a batch under way; 0: the key has no slot.
uint32_t MemTable::FindNewest(Slice key, uint64_t hash) const {
  for (uint64_t probe = 0; probe <= mask_; ++probe) {
    const uint64_t word = slots_[(hash + probe) & mask_].load(std::memory_order_acquire);
    if (word == 0) return 0;
    if (SameTag(word, hash) && log::KeyOf(RecordAt(RecordOf(word))) == key) return RecordOf(word);
  }
  return 0;
}

table::LookupResult MemTable::Get(Slice key, uint64_t hash, uint64_t snapshot) const {
  table::LookupResult found;
  if (snapshot < base_lsn_) return found;
  // Tombstones first: looked at after the version, one of a batch that became visible in between
  // would hide an older version which that batch replaces.
  const uint64_t tombstone = CoveringTombstone(key, snapshot);
  const uint64_t limit = snapshot - base_lsn_;
  uint32_t record = FindNewest(key, hash);
  while (record != 0 && (uint64_t{record} * 8 > limit || !Visible(record))) {
    record = log::HeaderAt(RecordAt(record))->prev.load(std::memory_order_acquire);
  }
  if (record != 0) found.lsn = base_lsn_ + uint64_t{record} * 8;
  if (found.lsn < tombstone) {
    found.state = table::KeyState::kDeleted;
    found.lsn = tombstone;
  } else if (record != 0) {
    found.state = table::StateOf(log::HeaderAt(RecordAt(record))->type);
    found.value = log::ValueOf(RecordAt(record));
  }
  return found;
}

uint64_t MemTable::CoveringTombstone(Slice key, uint64_t snapshot) const {
  if (snapshot < base_lsn_) return 0;
  const uint64_t limit = snapshot - base_lsn_;
  uint32_t record = index_->range_delete_head.load(std::memory_order_acquire);
  while (record != 0) {
    const char* at = RecordAt(record);
    if (uint64_t{record} * 8 <= limit && log::KeyOf(at) <= key && key < log::ValueOf(at) &&
        Visible(record)) {
      return base_lsn_ + uint64_t{record} * 8;
    }
    record = log::HeaderAt(at)->prev.load(std::memory_order_acquire);
  }
  return 0;
}

Status MemTable::Adopt(uint64_t offset) {
  adopted_ = true;
  char* const record = data_ + offset;
  log::RecordHeader* const header = log::HeaderAt(record);
  if (header->type == log::RecordType::kBatchBegin) {
    header->prev.store(1, std::memory_order_relaxed);  // replay gives whole batches only
    return Status();
  }
  header->prev.store(0, std::memory_order_relaxed);
  if (header->type == log::RecordType::kRangeDelete) {
    LinkRangeDelete(offset);
    return Status();
  }
  std::atomic<uint64_t>& own_keys = index_->tail.OwnStripe().keys;
  const uint64_t keys = own_keys.load(std::memory_order_relaxed);
  if (keys >= mask_) {
    return Status(Code::kCorruption, "the log segment has more than " + std::to_string(keys) +
                                         " keys, which no MemTable of " +
                                         std::to_string(segment_bytes_) + " bytes takes");
  }
  const Slice key = log::KeyOf(record);
  if (LinkKey(offset, key, base::HashKey(key))) {
    own_keys.store(keys + 1, std::memory_order_relaxed);
  }
  return Status();
}

void MemTable::FinishAdoption(uint64_t end) {
  adopted_ = true;
  index_->tail.OwnStripe().finished.store(end - log::kSegmentHeaderBytes,
                                          std::memory_order_relaxed);
  index_->tail.tail.store(end | log::SegmentTail::kClosed, std::memory_order_release);
}

// Returns the number of slots: a fifth of them is free, if the index has so many.
uint64_t MemTable::AdoptedSlots() const {
  const uint64_t keys = key_count();
  return std::min(mask_ + 1, std::bit_ceil(std::max(keys + keys / 4 + 1, kAdoptedSlotsMin)));
}

uint64_t MemTable::AdoptedIndexBytes() const { return BytesOfIndex(AdoptedSlots()); }

void MemTable::MoveIndex(char* index) {
  const uint64_t mask = AdoptedSlots() - 1;
  auto* const header = new (index) IndexHeader();
  auto* const slots = reinterpret_cast<IndexSlot*>(index + sizeof(IndexHeader));
  constexpr auto kRelaxed = std::memory_order_relaxed;
  header->generation.store(generation_, kRelaxed);
  header->base_lsn.store(base_lsn_, kRelaxed);
  header->range_delete_head.store(index_->range_delete_head.load(kRelaxed), kRelaxed);
  header->range_delete_count.store(index_->range_delete_count.load(kRelaxed), kRelaxed);
  header->tail.OwnStripe().finished.store(index_->tail.Finished(), kRelaxed);
  header->tail.OwnStripe().keys.store(key_count(), kRelaxed);
  header->tail.tail.store(index_->tail.tail.load(kRelaxed), kRelaxed);
  for (uint64_t slot = 0; slot <= mask_; ++slot) {
    const uint64_t word = slots_[slot].load(kRelaxed);
    if (word == 0) continue;
    uint64_t at = base::HashKey(log::KeyOf(RecordAt(RecordOf(word)))) & mask;
    while (slots[at].load(kRelaxed) != 0) at = (at + 1) & mask;
    slots[at].store(word, kRelaxed);
  }
  segment_bytes_ = log::kSegmentHeaderBytes + data_bytes();
  index_ = header;
  slots_ = slots;
  mask_ = mask;
}

uint64_t MemTable::Close() {
  const uint64_t end = log::CloseAndDrain(index_->tail);
  if (adopted_) return end;
  log::MarkComplete(data_, generation_, end);
  log::MarkClosed(data_, generation_, end);
  return end;
}

bool MemTable::closed() const {
  return (index_->tail.tail.load(std::memory_order_acquire) & log::SegmentTail::kClosed) != 0;
}

uint64_t MemTable::QuiescedLsn() {
  const std::lock_guard<std::mutex> lock(views_->mutex);
  return base_lsn_ + log::Quiesce(index_->tail) - 1;
}

uint64_t MemTable::data_bytes() const {
  const uint64_t word = index_->tail.tail.load(std::memory_order_acquire);
  return (word & log::SegmentTail::kOffset) - log::kSegmentHeaderBytes;
}

}  // namespace quire::lsm
