#include "lsm/memtable.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <new>

#include "base/check.h"
#include "base/coding.h"
#include "base/hash.h"
#include "lsm/fences.h"
#include "lsm/memtable_views.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSegmentBytesPerSlot = 64;
// So that the slots above the 80 % hold one overshooting key of each thread, however many.
constexpr uint64_t kSlotsMin = 8192;
constexpr uint64_t kBytesPerBatchKey = 80;  // 64 bytes a slot, 80 % of the slots
constexpr uint64_t kBatchBeginBytes = log::RecordSize(1, sizeof(log::BatchExtent));
constexpr size_t kLinkAhead = 8;

constexpr uint64_t SlotWord(uint64_t hash, uint32_t record) {
  return (hash & ~uint64_t{0xFFFFFFFF}) | record;
}
constexpr uint32_t RecordOf(uint64_t word) { return static_cast<uint32_t>(word); }
constexpr bool SameTag(uint64_t word, uint64_t hash) { return ((word ^ hash) >> 32) == 0; }
constexpr uint32_t Units(uint64_t offset) { return static_cast<uint32_t>(offset / 8); }

uint64_t KeyCountMax(uint64_t slots) { return slots / 5 * 4; }

}  // namespace

uint64_t IndexSlots(uint64_t segment_bytes) {
  return std::bit_ceil(std::max(segment_bytes / kSegmentBytesPerSlot, kSlotsMin));
}

uint64_t IndexBytes(uint64_t segment_bytes) {
  const uint64_t bytes = sizeof(IndexHeader) + IndexSlots(segment_bytes) * sizeof(IndexSlot);
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
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
      base_lsn_(base_lsn),
      stored_(stored),
      views_(std::make_unique<Views>()) {
  QUIRE_CHECK(reinterpret_cast<uintptr_t>(index) % alignof(IndexHeader) == 0);
  QUIRE_CHECK(generation != 0 && segment_bytes / 8 <= std::numeric_limits<uint32_t>::max());
  // A neighbour may be reading the slot's earlier use: it must find the generation gone before it
  // can find anything else changed (peer_memtable.cpp has the other half).
  index_->generation.store(0, std::memory_order_relaxed);
  StoreFence();
  new (index_) IndexHeader();
  std::memset(static_cast<void*>(slots_), 0, (mask_ + 1) * sizeof(IndexSlot));
  index_->base_lsn.store(base_lsn, std::memory_order_relaxed);
  index_->generation.store(generation, std::memory_order_release);
}

MemTable::~MemTable() = default;

bool MemTable::Add(const WriteOp& op, uint64_t* lsn) {
  const bool range_delete = op.type == log::RecordType::kRangeDelete;
  const uint64_t hash = base::HashKey(op.key);
  IndexSlot& slot = slots_[hash & mask_];
  __builtin_prefetch(&slot, 1);
  if (CloseIfFull(1, range_delete ? 1 : 0)) return false;
  const uint64_t size = log::RecordSize(op.key.size(), op.value.size());
  const uint64_t offset = log::Reserve(index_->tail, segment_bytes_, size);
  if (offset == log::kNoRoom) return false;
  char* const record = data_ + offset;
  log::EncodeRecord(record, op.type, op.key, op.value, 0);
  // By now the slot has arrived; where the key is there already its record will be compared.
  __builtin_prefetch(RecordAt(RecordOf(slot.load(std::memory_order_relaxed))));
  log::HeaderAt(record)->checksum = log::RecordChecksum(record, generation_, offset);
  if (stored_ != nullptr) stored_->Stored(offset, size);
  if (range_delete) {
    LinkRangeDelete(offset);
  } else if (LinkKey(offset, op.key, hash)) {
    index_->key_count.fetch_add(1, std::memory_order_relaxed);
  }
  Finish(size);
  if (lsn != nullptr) *lsn = base_lsn_ + offset;
  return true;
}

// Looks before anything is reserved, so that no reservation stays unfilled. Threads that look at
// the same time may overshoot by one key each: the slots above the limit hold them.
bool MemTable::CloseIfFull(uint64_t keys, uint64_t range_deletes) {
  const bool full =
      index_->key_count.load(std::memory_order_relaxed) + keys > key_count_max_ ||
      (range_deletes != 0 &&
       index_->range_delete_count.load(std::memory_order_relaxed) >= kRangeDeletesMax);
  if (full) [[unlikely]] {
    index_->tail.tail.fetch_or(log::SegmentTail::kClosed, std::memory_order_acq_rel);
  }
  return full;
}

void MemTable::Finish(uint64_t size) {
  const uint64_t end = log::Complete(index_->tail, size);
  if (end != 0) log::MarkComplete(data_, generation_, end);
}

uint64_t MemTable::BatchBytes(const std::vector<WriteOp>& ops, bool atomic) {
  uint64_t bytes = 0;
  for (const WriteOp& op : ops) bytes += log::RecordSize(op.key.size(), op.value.size());
  if (atomic) {
    if (bytes > std::numeric_limits<uint32_t>::max()) return std::numeric_limits<uint64_t>::max();
    bytes += kBatchBeginBytes;
  }
  return std::max(bytes, ops.size() * kBytesPerBatchKey);
}

bool MemTable::AddBatch(const std::vector<WriteOp>& ops, bool atomic, uint64_t* last_lsn) {
  uint64_t keys = 0;
  uint64_t bytes = atomic ? kBatchBeginBytes : 0;
  for (const WriteOp& op : ops) {
    bytes += log::RecordSize(op.key.size(), op.value.size());
    if (op.type != log::RecordType::kRangeDelete) ++keys;
  }
  if (CloseIfFull(keys, ops.size() - keys)) return false;
  // A batch may bring many keys at once, so it takes their slots before its room in the segment.
  const uint64_t taken = index_->key_count.fetch_add(keys, std::memory_order_relaxed);
  if (taken + keys > key_count_max_) {
    index_->tail.tail.fetch_or(log::SegmentTail::kClosed, std::memory_order_acq_rel);
  }
  const uint64_t offset = log::Reserve(index_->tail, segment_bytes_, bytes);
  if (offset == log::kNoRoom) {
    index_->key_count.fetch_sub(keys, std::memory_order_relaxed);
    return false;
  }
  const uint64_t last = WriteRecords(offset, ops, atomic);
  if (stored_ != nullptr) stored_->Stored(offset, bytes);
  const uint64_t new_keys = LinkRecords(offset + (atomic ? kBatchBeginBytes : 0), ops);
  if (atomic) log::HeaderAt(data_ + offset)->prev.store(1, std::memory_order_release);
  index_->key_count.fetch_sub(keys - new_keys, std::memory_order_relaxed);
  Finish(bytes);
  if (last_lsn != nullptr) *last_lsn = base_lsn_ + last;
  return true;
}

void MemTable::WriteRecord(uint64_t offset, const WriteOp& op, uint32_t batch) {
  char* const record = data_ + offset;
  log::EncodeRecord(record, op.type, op.key, op.value, batch);
  log::HeaderAt(record)->checksum = log::RecordChecksum(record, generation_, offset);
}

// Writes the records of a batch; the offset of the last.
uint64_t MemTable::WriteRecords(uint64_t offset, const std::vector<WriteOp>& ops, bool atomic) {
  uint64_t at = offset + (atomic ? kBatchBeginBytes : 0);
  uint64_t last = at;
  for (const WriteOp& op : ops) {
    last = at;
    WriteRecord(at, op, atomic ? Units(at - offset) : 0);
    at += log::RecordSize(op.key.size(), op.value.size());
  }
  if (!atomic) return last;
  char extent[sizeof(log::BatchExtent)];
  base::StoreLe(extent, static_cast<uint32_t>(ops.size()));
  base::StoreLe(extent + 4, static_cast<uint32_t>(at - offset - kBatchBeginBytes));
  WriteRecord(offset, {log::RecordType::kBatchBegin, Slice("\0", 1), Slice(extent, sizeof extent)},
              0);
  return last;
}

// Indexes the records of a batch, the first of which lies at `offset`; how many keys were new.
uint64_t MemTable::LinkRecords(uint64_t offset, const std::vector<WriteOp>& ops) {
  uint64_t new_keys = 0;
  uint64_t hashes[kLinkAhead];
  for (size_t begin = 0; begin < ops.size(); begin += kLinkAhead) {
    const size_t end = std::min(begin + kLinkAhead, ops.size());
    for (size_t i = begin; i < end; ++i) {
      hashes[i - begin] = base::HashKey(ops[i].key);
      __builtin_prefetch(&slots_[hashes[i - begin] & mask_], 1);
    }
    for (size_t i = begin; i < end; ++i) {
      const WriteOp& op = ops[i];
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

// Hangs the record at `offset` into the index; true where its key had no slot yet.
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
  const uint32_t batch = log::HeaderAt(RecordAt(record))->batch;
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

Lookup MemTable::Get(Slice key, uint64_t hash, uint64_t snapshot) const {
  Lookup found;
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
    found.state = Lookup::State::kDeleted;
    found.lsn = tombstone;
  } else if (record != 0) {
    const log::RecordType type = log::HeaderAt(RecordAt(record))->type;
    found.state = type == log::RecordType::kDelete     ? Lookup::State::kDeleted
                  : type == log::RecordType::kValueRef ? Lookup::State::kValueRef
                                                       : Lookup::State::kValue;
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
  const uint64_t keys = index_->key_count.load(std::memory_order_relaxed);
  if (keys >= mask_) {
    return Status(Code::kCorruption, "the log segment has more than " + std::to_string(keys) +
                                         " keys, which no MemTable of " +
                                         std::to_string(segment_bytes_) + " bytes takes");
  }
  const Slice key = log::KeyOf(record);
  if (LinkKey(offset, key, base::HashKey(key))) {
    index_->key_count.store(keys + 1, std::memory_order_relaxed);
  }
  return Status();
}

void MemTable::FinishAdoption(uint64_t end) {
  adopted_ = true;
  index_->tail.completed.store(end, std::memory_order_relaxed);
  index_->tail.tail.store(end | log::SegmentTail::kClosed, std::memory_order_release);
}

uint64_t MemTable::Close() {
  const uint64_t end = log::CloseAndDrain(index_->tail);
  if (!adopted_) log::MarkComplete(data_, generation_, end);
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

uint64_t MemTable::key_count() const {
  return index_->key_count.load(std::memory_order_relaxed);
}

}  // namespace quire::lsm
