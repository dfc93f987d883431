// Replay of a log segment.
#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "base/text/coding.h"
#include "log/segment.h"

namespace quire::log {
namespace {

// Checksums of bytes that turn out to be no record may cost this many times the segment's bytes in
// all, and in a small segment this many bytes. Honest segments stay below 2 times; without a bound,
// crafted ones would cost the square.
constexpr uint64_t kFutileFactorMax = 256;
constexpr uint64_t kFutileBytes = uint64_t{1} << 30;

constexpr uint64_t kAnyBytes = std::numeric_limits<uint64_t>::max();
// After a place with that many futile bytes, replay looks only for records of at most a page until
// it finds one; after this many such places, it does so for good.
constexpr uint64_t kUnclearRecordBytesMax = 4096;
constexpr int kUnclearPlacesMax = 8;

// So much is made readable at a time: a small log brings in little, a large one makes few calls.
constexpr uint64_t kReadableBytesMin = uint64_t{64} << 10;
constexpr uint64_t kReadableBytesMax = uint64_t{2} << 20;

class Replayer {
 public:
  Replayer(const SegmentBytes& bytes, const SegmentHeader& header, const std::string& path,
           const std::function<Status(uint64_t, const char*)>& take)
      : bytes_(bytes),
        data_(bytes.data),
        header_(header),
        path_(path),
        take_(take),
        readable_end_(bytes.make_readable ? kSegmentHeaderBytes : header.capacity),
        complete_(Limit(CompleteMark(data_, header.generation))),
        promised_(Limit(DurableMark(data_, header.generation))),
        reserved_(Limit(ReservedMark(data_, header.generation))),
        end_(header.capacity),
        futile_bytes_max_(std::max(header.capacity * kFutileFactorMax, kFutileBytes)) {}

  Result<ReplayReport> InSameBoot() {
    promised_ = std::max(promised_, complete_);
    const uint64_t closed = ClosedMark(data_, header_.generation);
    if (closed >= promised_ && closed < end_) end_ = closed;
    if (KnowsReserved()) end_ = std::min(end_, reserved_);
    QUIRE_RETURN_IF_ERROR(Walk());
    return report_;
  }

  // Replays all that can be found, whatever was promised.
  Result<ReplayReport> ForRepair() {
    promised_ = complete_ = reserved_ = kSegmentHeaderBytes;
    goes_on_where_unclear_ = true;
    QUIRE_RETURN_IF_ERROR(Walk());
    CountTorn(unclear_at_);
    return report_;
  }

  // Looks first where the log ends, and hands over what lies before.
  Result<ReplayReport> InOtherBoot(uint64_t complete_end) {
    complete_ = std::max({complete_, Limit(complete_end),
                          Limit(ClosedMark(data_, header_.generation))});
    looking_ = goes_on_where_unclear_ = true;
    QUIRE_RETURN_IF_ERROR(Walk());
    const uint64_t known_end = std::max({report_.end, complete_, unclear_at_});
    end_ = std::min(end_, torn_at_);
    if (report_.end < complete_) end_ = std::min(end_, report_.end);
    looking_ = false;
    futile_bytes_ = 0;
    record_bytes_max_ = kAnyBytes;
    unclear_places_ = 0;
    report_ = ReplayReport();
    expected_ = kSegmentHeaderBytes;
    QUIRE_RETURN_IF_ERROR(Walk());
    if (end_ < header_.capacity || unclear_at_ != 0) CountTorn(known_end);
    return report_;
  }

 private:
  struct Hole {
    uint64_t begin;
    uint64_t end;
  };

  // Walks the records up to end_.
  Status Walk() {
    uint64_t at = kSegmentHeaderBytes;
    while (at < end_) {
      uint64_t size = 0;
      Status status = TakeAt(at, &size);
      if (status.ok()) status = unreadable_;
      if (status.ok() && size == 0) {
        if (at < promised_) return Damage(at);
        size = SkipAt(at);
      }
      if (status.ok() && futile_bytes_ > futile_bytes_max_) {
        // Behind the mark lies nothing that was finished before the header page was last written.
        if (KnowsReserved() && at >= std::max({reserved_, promised_, complete_})) return Status();
        if (!goes_on_where_unclear_) return Overlapping(at);
        GoOnFrom(at);
      }
      QUIRE_RETURN_IF_ERROR(status);
      at += size;
    }
    return Status();
  }

  // Looks only for small records until one is found: records of other writers are found as well as
  // possible in bounded time.
  void GoOnFrom(uint64_t at) {
    unclear_at_ = at;
    ++unclear_places_;
    record_bytes_max_ = kUnclearRecordBytesMax;
    futile_bytes_ = 0;
  }

  // Counts the bytes from the last record to `known_end` as lost.
  void CountTorn(uint64_t known_end) {
    if (known_end <= report_.end) return;
    ++report_.holes;
    report_.torn_bytes = known_end - report_.end;
    report_.hole_bytes += report_.torn_bytes;
  }

  // A mark beyond the segment is invalid.
  uint64_t Limit(uint64_t mark) const {
    return mark <= header_.capacity ? mark : kSegmentHeaderBytes;
  }

  // A segment of an earlier version has no such mark; nor is one below what is complete the last.
  bool KnowsReserved() const {
    return reserved_ > kSegmentHeaderBytes && reserved_ >= std::max(promised_, complete_);
  }
  // Returns the latest end of a record that begins at `at`.
  uint64_t EndOfAny(uint64_t at, uint64_t end) const {
    return KnowsReserved() && at < reserved_ ? std::min(end, reserved_) : end;
  }

  // Whether [at, end) can be looked at. If it cannot, Walk ends.
  bool Readable(uint64_t end) {
    if (end <= readable_end_) [[likely]] return true;
    if (!unreadable_.ok()) return false;
    const uint64_t piece = std::clamp(readable_end_ / 4, kReadableBytesMin, kReadableBytesMax);
    const uint64_t next = std::max(end, std::min(readable_end_ + piece, end_));
    unreadable_ = bytes_.make_readable(readable_end_, next - readable_end_);
    if (unreadable_.ok()) readable_end_ = next;
    return unreadable_.ok();
  }

  // PlausibleRecord, of which every byte can be looked at.
  bool Plausible(uint64_t at, uint64_t end, uint64_t* size) {
    end = EndOfAny(at, end);
    return Readable(std::min(end, at + sizeof(RecordHeader))) &&
           PlausibleRecord(data_, at, end, size) && Readable(at + *size);
  }

  bool Valid(uint64_t at, uint64_t end, uint64_t* size) {
    if (!Plausible(at, end, size) || *size > record_bytes_max_) return false;
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
    if (BatchDistance(record) != 0) return Status();  // a member whose batch is not whole
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
      if (uint64_t{BatchDistance(*HeaderAt(data_ + at))} * 8 != at - begin) return Status();
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
      if (looking_) NoteHole({expected_, at});
    }
    expected_ = at + size;
    report_.end = expected_;
    if (unclear_places_ < kUnclearPlacesMax) record_bytes_max_ = kAnyBytes;
    if (looking_) {
      NotePredecessor(at);
      return Status();
    }
    if (HeaderAt(data_ + at)->type != RecordType::kBatchBegin) ++report_.records;
    return take_(at, data_ + at);
  }

  // Below complete_ every record was finished.
  void NoteHole(const Hole& hole) {
    holes_.push_back(hole);
    if (hole.begin < complete_) torn_at_ = std::min(torn_at_, hole.begin);
  }

  // Notes that the predecessor of the record at `at` was finished: if it lies in a hole, the
  // storage lost it.
  void NotePredecessor(uint64_t at) {
    const uint64_t distance = uint64_t{PredecessorDistance(*HeaderAt(data_ + at))} * 8;
    if (distance == 0 || holes_.empty()) return;
    const uint64_t predecessor = at - distance;
    const auto after = std::upper_bound(
        holes_.begin(), holes_.end(), predecessor,
        [](uint64_t offset, const Hole& hole) { return offset < hole.begin; });
    if (after == holes_.begin() || predecessor >= std::prev(after)->end) return;
    torn_at_ = std::min(torn_at_, std::prev(after)->begin);
  }

  // Returns how far to skip from a place where no record can be taken.
  uint64_t SkipAt(uint64_t at) {
    uint64_t size = 0;
    if (!Plausible(at, header_.capacity, &size)) return 8;
    const RecordHeader& record = *HeaderAt(data_ + at);
    const uint64_t seal = BegunSeal(size, header_.generation, at);
    if (seal != 0 && record.checksum == seal) return size;
    const bool lone_member = BatchDistance(record) != 0 && Valid(at, header_.capacity, &size);
    return lone_member ? size : 8;
  }

  Status Damage(uint64_t at) const {
    return Status(Code::kCorruption, path_ + ": the record at offset " + std::to_string(at) +
                                         " is damaged; the log is whole up to there and was "
                                         "promised up to offset " +
                                         std::to_string(promised_) +
                                         "; `quire repair` keeps what is whole and lists the rest");
  }
  Status Overlapping(uint64_t at) const {
    return Status(Code::kCorruption, path_ + ": records that overlap cannot be distinguished at "
                                             "offset " + std::to_string(at));
  }

  const SegmentBytes& bytes_;
  const char* const data_;
  const SegmentHeader& header_;
  const std::string& path_;
  const std::function<Status(uint64_t, const char*)>& take_;
  uint64_t readable_end_;
  Status unreadable_;
  bool looking_ = false;  // for the end, handing over nothing
  bool goes_on_where_unclear_ = false;
  uint64_t unclear_at_ = 0;  // the last place at which too much looked like a record; 0: none
  int unclear_places_ = 0;
  uint64_t record_bytes_max_ = kAnyBytes;  // larger records are not looked at
  uint64_t torn_at_ = std::numeric_limits<uint64_t>::max();  // begin of the first hole that ends it
  std::vector<Hole> holes_;
  uint64_t complete_;
  uint64_t promised_;
  uint64_t reserved_;
  uint64_t end_;  // nothing is behind it
  uint64_t futile_bytes_max_;
  uint64_t futile_bytes_ = 0;
  uint64_t expected_ = kSegmentHeaderBytes;
  ReplayReport report_;
};

}  // namespace

Result<ReplayReport> Replay(const SegmentBytes& bytes, const SegmentHeader& header,
                            uint64_t boot_id, const std::string& path,
                            const std::function<Status(uint64_t offset, const char* record)>& take,
                            uint64_t complete_end) {
  Replayer replayer(bytes, header, path, take);
  return header.boot_id == boot_id ? replayer.InSameBoot() : replayer.InOtherBoot(complete_end);
}

Result<ReplayReport> ReplayForRepair(
    const SegmentBytes& bytes, const SegmentHeader& header, const std::string& path,
    const std::function<Status(uint64_t offset, const char* record)>& take) {
  return Replayer(bytes, header, path, take).ForRepair();
}

}  // namespace quire::log
