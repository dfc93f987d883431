#include "comm/transport/ring.h"

#include <string>

#include "base/coding.h"

namespace quire::comm {
namespace {

constexpr uint32_t kSkipMark = UINT32_MAX;  // in place of a record's size: go on at the beginning

uint64_t RecordBytes(uint64_t size) {
  return (kRingRecordHeaderBytes + size + 7) / 8 * 8;
}

Status Damaged(const std::string& what, uint64_t position) {
  return Status(Code::kCorruption,
                "the shared ring is damaged: " + what + " at position " + std::to_string(position));
}

}  // namespace

bool RingWriter::RefreshHead() {
  // Against the reader's Pop: it sees that room is wanted, or this thread sees the room it made.
  head_seen_ = control_->head.load(std::memory_order_seq_cst);
  return head_seen_ <= tail_ && tail_ - head_seen_ <= size_;
}

Result<char*> RingWriter::TryReserve(uint64_t record_bytes) {
  const uint64_t needed = RecordBytes(record_bytes);
  const uint64_t place = tail_ & (size_ - 1);
  const uint64_t skipped = needed > size_ - place ? size_ - place : 0;
  if (skipped + needed > size_ - (tail_ - head_seen_)) {
    if (!RefreshHead()) return Damaged("its reader", head_seen_);
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
    tail_seen_ = control_->tail.load(std::memory_order_acquire);
    if (head_ == tail_seen_) return Slice();
    if (tail_seen_ < head_ || tail_seen_ - head_ > size_ || tail_seen_ % 8 != 0) {
      return Damaged("its writer", tail_seen_);
    }
  }
  uint64_t place = head_ & (size_ - 1);
  uint64_t position = head_;
  if (base::LoadLe<uint32_t>(data_ + place) == kSkipMark) {
    position += size_ - place;
    place = 0;
    if (position >= tail_seen_) return Damaged("a skip", head_);
  }
  const uint64_t record_bytes = base::LoadLe<uint32_t>(data_ + place);
  const uint64_t needed = RecordBytes(record_bytes);
  if (needed > tail_seen_ - position || needed > size_ - place) {
    return Damaged("a record of " + std::to_string(record_bytes) + " bytes", position);
  }
  front_end_ = position + needed;
  return Slice(data_ + place + kRingRecordHeaderBytes, record_bytes);
}

bool RingReader::Pop() {
  head_ = front_end_;
  control_->head.store(head_, std::memory_order_seq_cst);
  // A writer is not woken for the room of one record, only to find the ring full again.
  if (control_->room_wanted.load(std::memory_order_seq_cst) == 0) return false;
  const uint64_t tail = control_->tail.load(std::memory_order_relaxed);
  if (tail - head_ > size_ / 2) return false;
  return control_->room_wanted.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace quire::comm
