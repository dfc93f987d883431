#include "stream/store/writer_object.h"

#include <utility>

#include "base/text/printable.h"
#include "stream/log/delta.h"

namespace quire::stream {

Result<std::unique_ptr<WriterObject>> WriterObject::New(std::string key, char* memory,
                                                        uint64_t bytes, const StreamShape& shape,
                                                        const StreamOptions& options) {
  std::unique_ptr<WriterObject> object(new WriterObject(std::move(key), bytes, shape, options));
  object->memory_ = memory;
  if (memory == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(object->own_, io::AllocatePages(bytes));
    object->memory_ = object->own_.data();
  }
  if (options.deltas != StreamDeltas::kOff) {
    QUIRE_ASSIGN_OR_RETURN(object->tracker_, Tracker::New(object->memory_, bytes, options.deltas,
                                                          options.audit_every != 0));
  }
  return object;
}

void WriterObject::MarkDirty(uint64_t offset, uint64_t bytes) {
  if (tracker_ != nullptr) tracker_->MarkDirty(offset, bytes);
}

void WriterObject::Whole(PendingVersion* item) {
  item->entry.delta = false;
  item->pieces.assign(1, Slice(memory_, bytes_));
}

// Returns false if a whole version takes no more room.
bool WriterObject::Delta(const Changes& changes, PendingVersion* item) {
  if (changes.all || DeltaBytes(changes.runs, bytes_) >= bytes_) return false;
  table_ = EncodeRuns(changes.runs);
  item->entry.delta = true;
  item->pieces.assign(1, table_);
  for (const BlockRun& run : changes.runs) {
    item->pieces.emplace_back(memory_ + run.first * kBlockBytes, RunBytes(run, bytes_));
  }
  return true;
}

Status WriterObject::Packed(PendingVersion* item) {
  QUIRE_ASSIGN_OR_RETURN(packed_, Pack(item->pieces));
  if (packed_.empty()) return Status();
  item->entry.packed = true;
  item->pieces.assign(1, packed_);
  return Status();
}

Status WriterObject::Prepare(uint64_t version, bool audit, PendingVersion* item) {
  item->slot = slot_;
  item->entry.key = key_;
  item->entry.shape = shape_;
  item->entry.version = version;
  item->entry.bytes = bytes_;
  item->entry.packed = false;
  item->entry.has_content_hash = false;
  item->entry.content_hash = 0;
  Changes changes;
  if (tracker_ != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(changes, tracker_->DetectChanges());
  }
  const bool rests = version > 1 && since_whole_ + 1 < options_.full_every;
  if (!rests || !Delta(changes, item)) Whole(item);
  prepared_delta_ = item->entry.delta;
  if (audit) {
    if (tracker_ != nullptr) {
      QUIRE_RETURN_IF_ERROR(tracker_->Audit().WithContext("object " + base::Printable(key_)));
    }
    item->entry.has_content_hash = true;
    item->entry.content_hash = DataHash(Slice(memory_, bytes_));
  }
  return options_.compression == Compression::kNone ? Status() : Packed(item);
}

Status WriterObject::PrepareWhole(PendingVersion* item) {
  Whole(item);
  prepared_delta_ = false;
  item->entry.packed = false;
  return options_.compression == Compression::kNone ? Status() : Packed(item);
}

void WriterObject::Stored(uint64_t store_ns) {
  since_whole_ = prepared_delta_ ? since_whole_ + 1 : 0;
  if (tracker_ != nullptr) tracker_->CommitChanges(prepared_delta_, store_ns);
}

}  // namespace quire::stream
