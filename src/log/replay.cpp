// Replay of a log segment.
#include <algorithm>
#include <limits>

#include "base/coding.h"
#include "log/segment.h"

namespace quire::log {
namespace {

// Checksums of what turns out to be no record may cost so many times the segment's bytes in all.
// Honest segments stay below 2; without a bound, crafted ones would take the square.
constexpr uint64_t kFutileFactorMax = 256;

class Replayer {
 public:
  Replayer(const char* data, const SegmentHeader& header, uint64_t boot_id, const std::string& path,
           const std::function<Status(uint64_t, const char*)>& take)
      : data_(data),
        header_(header),
        path_(path),
        take_(take),
        same_boot_(header.boot_id == boot_id),
        complete_(Limit(CompleteMark(data, header.generation))),
        promised_(Limit(DurableMark(data, header.generation))),
        end_(header.capacity),
        futile_bytes_max_(header.capacity * kFutileFactorMax) {
    if (!same_boot_) return;
    promised_ = std::max(promised_, complete_);
    const uint64_t closed = ClosedMark(data, header.generation);
    if (closed >= promised_ && closed < end_) end_ = closed;
  }

  Result<ReplayReport> Run() {
    uint64_t at = kSegmentHeaderBytes;
    while (at < end_) {
      uint64_t size = 0;
      Status status = TakeAt(at, &size);
      if (status.ok() && size == 0) {
        if (at < promised_) return Damage(at);
        if (!same_boot_) break;
        size = SkipAt(at);
      }
      if (status.ok() && futile_bytes_ > futile_bytes_max_) status = Overlapping(at);
      QUIRE_RETURN_IF_ERROR(status);
      at += size;
    }
    if (!same_boot_ && complete_ > report_.end) {
      report_.holes = 1;
      report_.hole_bytes = complete_ - report_.end;
    }
    return report_;
  }

 private:
  // A mark beyond the segment is none of ours.
  uint64_t Limit(uint64_t mark) const {
    return mark <= header_.capacity ? mark : kSegmentHeaderBytes;
  }

  bool Valid(uint64_t at, uint64_t end, uint64_t* size) {
    if (!PlausibleRecord(data_, at, end, size)) return false;
    const char* record = data_ + at;
    if (HeaderAt(record)->checksum == RecordChecksum(record, header_.generation, at)) return true;
    futile_bytes_ += *size;
    return false;
  }

  // Hands over what begins at `at`, a record or a whole batch; *size is its size, 0: nothing there.
  Status TakeAt(uint64_t at, uint64_t* size) {
    *size = 0;
    uint64_t record_bytes = 0;
    if (!Valid(at, header_.capacity, &record_bytes)) return Status();
    const RecordHeader& record = *HeaderAt(data_ + at);
    if (record.type == RecordType::kBatchBegin) return TakeBatch(at, record_bytes, size);
    if (record.batch != 0) return Status();  // a member whose batch is not whole
    *size = record_bytes;
    return Take(at, record_bytes);
  }

  Status TakeBatch(uint64_t begin, uint64_t begin_bytes, uint64_t* size) {
    const Slice value = ValueOf(data_ + begin);
    const auto count = base::LoadLe<uint32_t>(value.data());
    const auto bytes = base::LoadLe<uint32_t>(value.data() + 4);
    const uint64_t first = begin + begin_bytes;
    if (bytes > header_.capacity - first) return Status();
    const uint64_t end = first + bytes;
    uint64_t at = first;
    for (uint32_t i = 0; i < count; ++i) {
      uint64_t member_bytes = 0;
      if (!Valid(at, end, &member_bytes)) return Status();
      if (uint64_t{HeaderAt(data_ + at)->batch} * 8 != at - begin) return Status();
      at += member_bytes;
    }
    if (at != end) return Status();
    *size = end - begin;
    for (at = begin; at < end; at += SizeOf(data_ + at)) {
      QUIRE_RETURN_IF_ERROR(Take(at, SizeOf(data_ + at)));
    }
    return Status();
  }

  Status Take(uint64_t at, uint64_t size) {
    if (at != expected_) {
      ++report_.holes;
      report_.hole_bytes += at - expected_;
    }
    expected_ = at + size;
    report_.end = expected_;
    if (HeaderAt(data_ + at)->type != RecordType::kBatchBegin) ++report_.records;
    return take_(at, data_ + at);
  }

  // How far to go on from a place where nothing can be taken.
  uint64_t SkipAt(uint64_t at) {
    uint64_t size = 0;
    if (!PlausibleRecord(data_, at, header_.capacity, &size)) return 8;
    const RecordHeader& record = *HeaderAt(data_ + at);
    const bool lone_member = record.batch != 0 && Valid(at, header_.capacity, &size);
    return lone_member ? size : 8;
  }

  Status Damage(uint64_t at) const {
    return Status(Code::kCorruption, path_ + ": the record at offset " + std::to_string(at) +
                                         " is damaged; the log is whole up to there and was "
                                         "promised up to offset " +
                                         std::to_string(promised_));
  }
  Status Overlapping(uint64_t at) const {
    return Status(Code::kCorruption, path_ + ": no record can be told from its surroundings at "
                                             "offset " + std::to_string(at));
  }

  const char* data_;
  const SegmentHeader& header_;
  const std::string& path_;
  const std::function<Status(uint64_t, const char*)>& take_;
  bool same_boot_;
  uint64_t complete_;
  uint64_t promised_;
  uint64_t end_;  // behind it there is nothing
  uint64_t futile_bytes_max_;
  uint64_t futile_bytes_ = 0;
  uint64_t expected_ = kSegmentHeaderBytes;
  ReplayReport report_;
};

}  // namespace

Result<ReplayReport> Replay(
    const char* data, const SegmentHeader& header, uint64_t boot_id, const std::string& path,
    const std::function<Status(uint64_t offset, const char* record)>& take) {
  return Replayer(data, header, boot_id, path, take).Run();
}

}  // namespace quire::log
