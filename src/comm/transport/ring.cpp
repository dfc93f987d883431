#include "comm/transport/ring.h"

#include <string>

#include "base/text/coding.h"

namespace quire::comm {
namespace {

constexpr uint32_t kSkipMark = UINT32_MAX;  // in place of a record's size: go on at the beginning

uint64_t RecordBytes(uint64_t size) {
  return (kRingRecordHeaderBytes + size + 7) / 8 * 8;
}

// A single load, so that the checked value is the used one, even if the other process changes it.
uint32_t LoadOnce(const char* from) {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(from), __ATOMIC_RELAXED);
}

Status DamagedRing(const std::string& what, uint64_t position) {
  return Status(Code::kCorruption,
                "the shared ring is damaged: " + what + " at position " + std::to_string(position));
}

}  // namespace

bool RingWriter::RefreshHead() {
  // Pairs with the reader's Pop: either it sees that room is wanted, or this thread sees its new
  // head.
  const uint64_t head = control_->head.load(std::memory_order_seq_cst);
  damaged_ = head < head_seen_ || head > tail_;
  if (!damaged_) head_seen_ = head;
  return !damaged_;
}

Result<char*> RingWriter::TryReserve(uint64_t record_bytes) {
  if (damaged_) return DamagedRing("its reader", head_seen_);
  const uint64_t needed = RecordBytes(record_bytes);
  const uint64_t place = tail_ & (size_ - 1);
  const uint64_t skipped = needed > size_ - place ? size_ - place : 0;
  if (skipped + needed > size_ - (tail_ - head_seen_)) {
    if (!RefreshHead()) return DamagedRing("its reader", head_seen_);
    if (skipped + needed > size_ - (tail_ - head_seen_)) return nullptr;
  }
  if (skipped != 0) base::StoreLe<uint32_t>(data_ + place, kSkipMark);
  char* const record = data_ + (skipped != 0 ? 0 : place);
  base::StoreLe<uint32_t>(record, static_cast<uint32_t>(record_bytes));
  reserved_end_ = tail_ + skipped + needed;
  return record + kRingRecordHeaderBytes;
}

Result<char*> RingWriter::Reserve(uint64_t record_bytes) {
  const Result<char*> record = TryReserve(record_bytes);
  if (!record.ok() || *record != nullptr) return record;
  control_->room_wanted.store(1, std::memory_order_seq_cst);
  return TryReserve(record_bytes);
}

void RingWriter::Publish() {
  tail_ = reserved_end_;
  control_->tail.store(tail_, std::memory_order_release);
}

Result<Slice> RingReader::Front() {
  if (head_ == tail_seen_) {
    const uint64_t tail = control_->tail.load(std::memory_order_acquire);
    if (head_ == tail) return Slice();
    if (tail < head_ || tail - head_ > size_ || tail % 8 != 0)
      return DamagedRing("its writer", tail);
    tail_seen_ = tail;
  }
  uint64_t place = head_ & (size_ - 1);
  uint64_t position = head_;
  uint64_t record_bytes = LoadOnce(data_ + place);
  if (record_bytes == kSkipMark) {
    position += size_ - place;
    place = 0;
    if (position >= tail_seen_) return DamagedRing("a skip", head_);
    record_bytes = LoadOnce(data_);
  }
  const uint64_t needed = RecordBytes(record_bytes);
  if (needed > tail_seen_ - position || needed > size_ - place) {
    return DamagedRing("a record of " + std::to_string(record_bytes) + " bytes", position);
  }
  front_end_ = position + needed;
  return Slice(data_ + place + kRingRecordHeaderBytes, record_bytes);
}

bool RingReader::Pop() {
  head_ = front_end_;
  control_->head.store(head_, std::memory_order_seq_cst);
  // Does not wake a writer for the room of one record, because it would find the ring full again.
  if (control_->room_wanted.load(std::memory_order_seq_cst) == 0) return false;
  const uint64_t tail = control_->tail.load(std::memory_order_relaxed);
  if (tail - head_ > size_ / 2) return false;
  return control_->room_wanted.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace quire::comm
