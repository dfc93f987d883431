#include "lsm/vlog/value_segment.h"

#include <algorithm>
#include <utility>

#include "base/core/check.h"
#include "base/core/scope_exit.h"
#include "base/threads/sync_point.h"
#include "io/memory/guarded_copy.h"
#include "log/room.h"
#include "lsm/vlog/value_files.h"

namespace quire::lsm {
namespace {

log::ValueRef MakeRef(const log::SegmentHeader& header, uint64_t offset, Slice key, Slice value) {
  log::ValueRef ref;
  ref.segment_id = header.id;
  ref.offset = offset;
  ref.checksum = log::ValueChecksum(value, header.id, offset);
  ref.value_size = static_cast<uint32_t>(value.size());
  ref.key_size = static_cast<uint32_t>(key.size());
  return ref;
}

}  // namespace

Result<std::unique_ptr<ValueSegment>> ValueSegment::Create(io::FileSystem& fs,
                                                           const std::string& path,
                                                           const log::SegmentHeader& header) {
  std::unique_ptr<ValueSegment> made(new ValueSegment(header));
  QUIRE_ASSIGN_OR_RETURN(made->segment_,
                         log::Segment::Create(fs, path, header, log::Segment::Origin::kNew));
  QUIRE_ASSIGN_OR_RETURN(made->file_, fs.Open(path, io::FileOpenMode::kReadWrite));
  made->file_bytes_.store(header.capacity, std::memory_order_release);
  made->touched_ = std::vector<std::atomic<bool>>((header.capacity - 1) / kTouchBytes + 1);
  return made;
}

Result<std::unique_ptr<ValueSegment>> ValueSegment::CreateAlone(io::FileSystem& fs,
                                                                const std::string& path,
                                                                log::SegmentHeader header,
                                                                Slice key, Slice value,
                                                                log::ValueRef* ref) {
  const uint64_t record_bytes = log::RecordSize(key.size(), value.size());
  header.capacity = log::kSegmentHeaderBytes + record_bytes;
  std::unique_ptr<ValueSegment> made(new ValueSegment(header));
  QUIRE_ASSIGN_OR_RETURN(made->file_, fs.Open(path, io::FileOpenMode::kCreate));
  Status status = made->file_->Allocate(header.capacity);
  if (status.ok()) {
    std::string page(log::kSegmentHeaderBytes, '\0');
    log::EncodeSegmentHeader(header, page.data());
    status = made->file_->WriteAt(0, page);
  }
  const uint64_t offset = log::Reserve(made->tail_, header.capacity, record_bytes);
  if (status.ok()) status = made->Store(offset, key, value, ref);
  if (!status.ok()) {
    made.reset();
    (void)fs.Unlink(path);  // what is reported is why the value could not be stored
    return status;
  }
  made->Close();
  made->file_bytes_.store(header.capacity, std::memory_order_release);
  return made;
}

uint64_t ValueSegment::Reserve(uint64_t record_bytes, Status* status) {
  while (true) {
    const uint64_t room = segment_->map().room();
    const uint64_t offset = log::Reserve(tail_, header_.capacity, record_bytes, room);
    if (offset != log::kMoreRoom) [[likely]] return offset;
    *status = GrowRoom(log::kSegmentHeaderBytes + this->record_bytes() + record_bytes);
    if (!status->ok()) return log::kNoRoom;
  }
}

// Other threads may have reserved meanwhile, or closed the segment: then nothing more is stored
// here, and the file may end at its last record or be gone.
Status ValueSegment::GrowRoom(uint64_t end) {
  base::SyncPoint("lsm.values.grow");
  const std::lock_guard<std::mutex> lock(room_mutex_);
  if (closed()) return Status();
  return log::GrowRoom(segment_->map(), std::min(end, header_.capacity), header_.capacity);
}

Status ValueSegment::Store(uint64_t offset, Slice key, Slice value, log::ValueRef* ref) {
  // Also if an allocation fails: otherwise Drain would wait for ever.
  const base::ScopeExit complete(
      [&] { log::Complete(tail_, log::RecordSize(key.size(), value.size())); });
  base::SyncPoint("lsm.values.store.before");
  if (segment_ == nullptr || value.size() >= kWriteCallBytesMin) {
    return StoreByCall(offset, key, value, ref);
  }
  StoreInMapping(offset, key, value, ref);
  return Status();
}

// Claims and touches the first piece, from `first_piece` on, that no thread has claimed. Skipped
// pieces are full of large values: no thread needs to return to them.
bool ValueSegment::TouchFrom(size_t first_piece) {
  size_t next = next_piece_.load(std::memory_order_relaxed);
  size_t piece = 0;
  do {
    piece = std::max(next, first_piece);
    if (piece >= touched_.size() || closed()) return false;
  } while (!next_piece_.compare_exchange_weak(next, piece + 1, std::memory_order_relaxed));
  for (; next < piece; ++next) touched_[next].store(true, std::memory_order_relaxed);
  // Pages without room of their own could meet a full device. A writer comes with its room, and the
  // background asks for it; without it the piece is left to the faults of its writers.
  const uint64_t begin = piece * kTouchBytes;
  const bool grown = begin < segment_->map().room() || GrowRoom(begin + kTouchBytes).ok();
  const uint64_t room = segment_->map().room();
  const bool has_room = grown && begin < room;
  if (has_room) segment_->map().Prefault(begin, std::min(room - begin, kTouchBytes));
  touched_[piece].store(true, std::memory_order_relaxed);
  return has_room;
}

// If another thread is still touching the record's pages, this one touches the next piece
// meanwhile: it will be needed soon. Pages that are not present by then are faulted in by the copy.
void ValueSegment::StoreInMapping(uint64_t offset, Slice key, Slice value, log::ValueRef* ref) {
  const uint64_t last = offset + log::RecordSize(key.size(), value.size()) - 1;
  if (!Touched(last)) [[unlikely]] TouchFrom(last / kTouchBytes);
  char* const record = segment_->data() + offset;
  log::EncodeRecord(record, log::RecordType::kPut, key, value, 0);
  *ref = MakeRef(header_, offset, key, value);
  log::HeaderAt(record)->checksum =
      log::ValueRecordChecksum(record, ref->checksum, header_.generation, offset);
  segment_->map().Stored(offset, log::RecordSize(key.size(), value.size()));
}

Status ValueSegment::StoreByCall(uint64_t offset, Slice key, Slice value, log::ValueRef* ref) {
  *ref = MakeRef(header_, offset, key, value);
  std::string head(sizeof(log::RecordHeader) + key.size(), '\0');
  log::EncodeHeader(head.data(), log::RecordType::kPut, key.size(), value.size(), 0);
  key.copy(head.data() + sizeof(log::RecordHeader), key.size());
  log::HeaderAt(head.data())->checksum =
      log::ValueRecordChecksum(head.data(), ref->checksum, header_.generation, offset);
  large_bytes_.fetch_add(log::RecordSize(key.size(), value.size()), std::memory_order_relaxed);
  QUIRE_RETURN_IF_ERROR(file_->WriteAt(offset, head));
  return file_->WriteAt(offset + head.size(), value);
}

bool ValueSegment::InMapping(const log::ValueRef& ref) const {
  const uint64_t begin = ValueOffset(ref);
  const bool inside = segment_ != nullptr && begin >= ref.offset && begin <= header_.capacity &&
                      ref.value_size <= header_.capacity - begin;
  return inside && ref.value_size < kWriteCallBytesMin && io::CanGuard();
}

bool ValueSegment::TryCopy(const log::ValueRef& ref, char* to) const {
  return segment_->map().TryCopy(ValueOffset(ref), ref.value_size, to);
}

bool ValueSegment::drained() const {
  return closed() && log::EndIfComplete(tail_) != 0;
}

Status ValueSegment::Finish() {
  QUIRE_CHECK(drained());
  const std::lock_guard<std::mutex> lock(room_mutex_);  // a late writer may still grow the room
  const uint64_t end = log::kSegmentHeaderBytes + record_bytes();
  if (end == file_bytes()) return Status();
  QUIRE_RETURN_IF_ERROR(file_->Truncate(end));
  file_bytes_.store(end, std::memory_order_release);
  return Status();
}

// The system takes the pages of a sync that failed for written, and would say OK of them the next
// time.
Status ValueSegment::Sync() {
  const uint64_t finished = tail_.Finished();
  if (finished == synced_bytes_) return Status();
  QUIRE_RETURN_IF_ERROR(sync_failure_);
  const Status synced = file_->Sync();
  if (synced.code() == Code::kIo) sync_failure_ = synced;
  QUIRE_RETURN_IF_ERROR(synced);
  synced_bytes_ = finished;
  return Status();
}

uint64_t ValueSegment::record_bytes() const {
  const uint64_t word = tail_.tail.load(std::memory_order_acquire);
  return (word & log::SegmentTail::kOffset) - log::kSegmentHeaderBytes;
}

bool ValueSegment::mostly_small() const {
  return large_bytes_.load(std::memory_order_relaxed) < record_bytes() / 2;
}

}  // namespace quire::lsm
