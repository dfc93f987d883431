#include "lsm/memtable/peer_memtable.h"

#include <atomic>

#include "base/threads/fences.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kGenerationAt = 16;  // in a segment's header page
constexpr uint32_t kFirstRecord = log::kSegmentHeaderBytes / 8;

// One load, so that the checked value is the one that is used.
uint64_t Word(const char* at) {
  // atomic_ref wants a type that is not const; nothing is written.
  auto* word = reinterpret_cast<uint64_t*>(const_cast<char*>(at));
  return std::atomic_ref<uint64_t>(*word).load(std::memory_order_acquire);
}

}  // namespace

// The fields of a record's header as they were at one look; `key` and `value` lie in the segment.
struct PeerMemTable::Record {
  uint32_t prev;
  uint32_t batch;
  log::RecordType type;
  Slice key;
  Slice value;
};

// Reads a record's header; false if no record can lie there.
bool PeerMemTable::Load(uint32_t at, Record* record) const {
  const uint64_t offset = uint64_t{at} * 8;
  if (at < kFirstRecord || offset + sizeof(log::RecordHeader) > segment_bytes_) return false;
  const char* const header = data_ + offset;
  const uint64_t chain_and_value = Word(header + 8);
  const uint64_t rest = Word(header + 16);
  const uint64_t value_size = chain_and_value >> 32;
  const uint64_t key_size = (rest >> 32 & 0xFFFF) + 1;
  if (offset + log::RecordSize(key_size, value_size) > segment_bytes_) return false;
  record->prev = static_cast<uint32_t>(chain_and_value);
  const bool in_batch = (rest >> 56 & log::kPredecessorFlag) == 0;
  record->batch = in_batch ? static_cast<uint32_t>(rest) : 0;
  record->type = static_cast<log::RecordType>(rest >> 48 & 0xFF);
  record->key = Slice(header + sizeof(log::RecordHeader), key_size);
  record->value = Slice(header + sizeof(log::RecordHeader) + key_size, value_size);
  return true;
}

bool PeerMemTable::Visible(uint32_t at, const Record& record, bool* visible) const {
  *visible = true;
  if (record.batch == 0) return true;
  if (record.batch > at - kFirstRecord) return false;
  const char* const begin = data_ + uint64_t{at - record.batch} * 8;
  *visible = static_cast<uint32_t>(Word(begin + 8)) != 0;  // prev: the commit flag
  return true;
}

// The newest tombstone that covers `key`, 0: none. False: what was read cannot be.
bool PeerMemTable::FindTombstone(Slice key, uint32_t* found) const {
  *found = 0;
  uint32_t at = index_->range_delete_head.load(std::memory_order_acquire);
  while (at != 0) {
    Record record;
    bool visible = false;
    if (!Load(at, &record) || !Visible(at, record, &visible)) return false;
    if (visible && record.key <= key && key < record.value) {
      *found = at;
      return true;
    }
    if (record.prev >= at) return false;
    at = record.prev;
  }
  return true;
}

// The newest visible version of `key` and where it lies, 0: none. False: what was read cannot be.
bool PeerMemTable::FindVersion(Slice key, uint64_t hash, uint32_t* found, Record* record) const {
  *found = 0;
  for (uint64_t probe = 0; probe <= mask_; ++probe) {
    const uint64_t word = slots_[(hash + probe) & mask_].load(std::memory_order_acquire);
    if (word == 0) return true;
    if (((word ^ hash) >> 32) != 0) continue;
    auto at = static_cast<uint32_t>(word);
    if (!Load(at, record)) return false;
    if (record->key != key) continue;
    while (true) {
      bool visible = false;
      if (!Visible(at, *record, &visible)) return false;
      if (visible) {
        *found = at;
        return true;
      }
      if (record->prev >= at) return false;
      at = record->prev;
      if (at == 0) return true;
      if (!Load(at, record)) return false;
    }
  }
  return true;
}

std::optional<table::LookupResult> PeerMemTable::Find(Slice key, uint64_t hash) const {
  uint32_t tombstone = 0;
  uint32_t at = 0;
  Record record;
  // Tombstones first, for the reason that MemTable::Get gives.
  if (!FindTombstone(key, &tombstone) || !FindVersion(key, hash, &at, &record)) return std::nullopt;
  table::LookupResult found;
  if (at < tombstone) {
    found.state = table::KeyState::kDeleted;
  } else if (at != 0) {
    const bool reference = record.type == log::RecordType::kValueRef;
    const bool known = reference || record.type == log::RecordType::kPut ||
                       record.type == log::RecordType::kDelete;
    if (!known || (reference && record.value.size() != sizeof(log::ValueRef))) return std::nullopt;
    found.state = table::StateOf(record.type);
    found.value = record.value;
  }
  return found;
}

bool PeerMemTable::Unchanged() const {
  base::LoadFence();
  return index_->generation.load(std::memory_order_relaxed) == generation_ &&
         Word(data_ + kGenerationAt) == generation_;
}

}  // namespace quire::lsm
