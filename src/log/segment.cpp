#include "log/segment.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "io/files/machine.h"

namespace quire::log {
namespace {

constexpr uint64_t kMagic = 0x4745534552495551;  // "QUIRESEG"
// Version 2: records name their predecessors.
constexpr uint32_t kVersion = 2;

// The header page: two copies of the header, two watermarks and the completion mark, each in a
// sector of its own, so that a torn write reaches one of them.
constexpr uint64_t kCopyAt[2] = {0, 2048};
constexpr uint64_t kCopyBytes = 96;
constexpr uint64_t kWatermarkAt[2] = {512, 1024};
constexpr uint64_t kWatermarkBytes = 24;
constexpr uint64_t kCompleteMarkAt = 1536;
constexpr uint64_t kClosedMarkAt = 1544;
constexpr uint64_t kReservedMarkAt = 1552;
// Distinguish the marks, so that none is ever taken for another.
constexpr uint64_t kClosedMarkSalt = 0x71C6A7D3E58B92F1;
constexpr uint64_t kReservedMarkSalt = 0xB4E91F5C0D27A683;

constexpr uint64_t kMarkFactor = 0x9E3779B97F4A7C15;
constexpr int kSpinsBeforeYield = 64;
constexpr int kSpinsBeforeSleep = 4096;
constexpr uint64_t kSleepNs = 100'000;

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits for a few instructions of other threads; yields the core if one of them lost its own. A
// thread that waits for a page of its value (a mapped file of the program on a slow device) takes
// longer: then this thread sleeps.
template <typename Predicate>
void SpinUntil(Predicate predicate) {
  for (int spins = 0; !predicate(); ++spins) {
    if (spins < kSpinsBeforeYield) {
      Relax();
    } else if (spins < kSpinsBeforeSleep) {
      std::this_thread::yield();
    } else {
      io::RealClock().SleepNs(kSleepNs);
    }
  }
}

void EncodeCopy(const SegmentHeader& header, char* to) {
  base::StoreLe(to, kMagic);
  base::StoreLe(to + 8, kVersion);
  base::StoreLe(to + 12, header.kind);
  base::StoreLe(to + 16, header.generation);
  base::StoreLe(to + 24, header.id);
  base::StoreLe(to + 32, header.base_lsn);
  base::StoreLe(to + 40, header.capacity);
  base::StoreLe(to + 48, header.boot_id);
  base::StoreLe(to + 56, header.previous_generation);
  base::StoreLe(to + 64, header.previous_end_lsn);
  base::StoreLe(to + 72, header.owner_epoch);
  base::StoreLe<uint64_t>(to + 80, 0);
  base::StoreLe(to + 88,
                base::Checksum(Slice(to, 88), base::ChecksumSeed(base::ChecksumKind::kLogHeader,
                                                                 header.generation, 0)));
}

bool DecodeCopy(const char* from, SegmentHeader* header) {
  header->kind = base::LoadLe<SegmentKind>(from + 12);
  header->generation = base::LoadLe<uint64_t>(from + 16);
  header->id = base::LoadLe<uint64_t>(from + 24);
  header->base_lsn = base::LoadLe<uint64_t>(from + 32);
  header->capacity = base::LoadLe<uint64_t>(from + 40);
  header->boot_id = base::LoadLe<uint64_t>(from + 48);
  header->previous_generation = base::LoadLe<uint64_t>(from + 56);
  header->previous_end_lsn = base::LoadLe<uint64_t>(from + 64);
  header->owner_epoch = base::LoadLe<uint64_t>(from + 72);
  const uint64_t checksum =
      base::Checksum(Slice(from, 88), base::ChecksumSeed(base::ChecksumKind::kLogHeader,
                                                         header->generation, 0));
  const auto version = base::LoadLe<uint32_t>(from + 8);
  return base::LoadLe<uint64_t>(from) == kMagic && version >= 1 && version <= kVersion &&
         base::LoadLe<uint64_t>(from + 88) == checksum && header->generation != 0 &&
         header->capacity >= kSegmentHeaderBytes && header->capacity % 8 == 0 &&
         (header->kind == SegmentKind::kLog || header->kind == SegmentKind::kValue);
}

bool SaysNewerVersion(const char* copy) {
  return base::LoadLe<uint64_t>(copy) == kMagic && base::LoadLe<uint32_t>(copy + 8) > kVersion;
}

bool AllZero(Slice bytes) { return bytes.find_first_not_of('\0') == Slice::npos; }

uint64_t WatermarkChecksum(const char* at, uint64_t generation, uint64_t offset) {
  return base::Checksum(
      Slice(at, 16),
      base::ChecksumSeed(base::ChecksumKind::kLogHeader, generation, offset));
}

// Reads the watermark slot at kWatermarkAt[slot]; false if it is damaged or of an earlier use.
bool ReadWatermark(const char* data, uint64_t generation, int slot, uint64_t* sequence,
                   uint64_t* end) {
  const char* at = data + kWatermarkAt[slot];
  if (base::LoadLe<uint64_t>(at + 16) != WatermarkChecksum(at, generation, kWatermarkAt[slot])) {
    return false;
  }
  *sequence = base::LoadLe<uint64_t>(at);
  *end = base::LoadLe<uint64_t>(at + 8);
  return *end >= kSegmentHeaderBytes;
}

// The slot with the newest valid watermark, or -1; its contents.
int NewestWatermark(const char* data, uint64_t generation, uint64_t* sequence, uint64_t* end) {
  int newest = -1;
  *sequence = 0;
  *end = kSegmentHeaderBytes;
  for (int slot = 0; slot < 2; ++slot) {
    uint64_t slot_sequence = 0;
    uint64_t slot_end = 0;
    if (!ReadWatermark(data, generation, slot, &slot_sequence, &slot_end)) continue;
    if (newest >= 0 && slot_sequence < *sequence) continue;
    newest = slot;
    *sequence = slot_sequence;
    *end = slot_end;
  }
  return newest;
}

uint64_t EncodeMark(uint64_t generation, uint64_t end) {
  const uint64_t units = end / 8;
  uint64_t mixed = (generation ^ units) * kMarkFactor;
  mixed = (mixed ^ (mixed >> 32)) * kMarkFactor;
  return (mixed & ~uint64_t{0xFFFFFFFF}) | units;
}

void StoreMark(char* at, uint64_t seed, uint64_t end) {
  const std::atomic_ref<uint64_t> mark(*reinterpret_cast<uint64_t*>(at));
  mark.store(EncodeMark(seed, end), std::memory_order_release);
}

// 0: there is none.
uint64_t LoadMark(const char* at, uint64_t seed) {
  const auto word = base::LoadLe<uint64_t>(at);
  const uint64_t end = (word & 0xFFFFFFFF) * 8;
  return word == EncodeMark(seed, end) && end >= kSegmentHeaderBytes ? end : 0;
}

// The file of the segment; one of another size gives way to a new one.
Result<std::unique_ptr<io::File>> OpenFile(io::FileSystem& fs, const std::string& path,
                                           uint64_t capacity, Segment::Origin origin) {
  if (origin == Segment::Origin::kFound) {
    Result<std::unique_ptr<io::File>> file = fs.Open(path, io::FileOpenMode::kReadWrite);
    if (file.ok()) {
      QUIRE_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
      if (size == 0 || size == capacity) return file;
      QUIRE_RETURN_IF_ERROR(fs.Unlink(path));
    } else if (file.status().code() != Code::kNotFound) {
      return file;
    }
  }
  return fs.Open(path, io::FileOpenMode::kCreate);
}

// Sets aside the first `room` bytes. Returns whether the file is new.
Result<bool> PrepareFile(io::FileSystem& fs, const std::string& path, uint64_t capacity,
                         uint64_t room, Segment::Origin origin) {
  QUIRE_ASSIGN_OR_RETURN(auto file, OpenFile(fs, path, capacity, origin));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  Status status = file->Allocate(room);
  if (status.ok() && room < capacity && size != capacity) status = file->Truncate(capacity);
  if (!status.ok() && size != capacity) {
    file.reset();
    // A file without its room is of no use; what was reported is why there is none.
    (void)fs.Unlink(path);
  }
  QUIRE_RETURN_IF_ERROR(status);
  return size != capacity;
}

}  // namespace

void EncodeSegmentHeader(const SegmentHeader& header, char* page) {
  std::memset(page, 0, kSegmentHeaderBytes);
  for (uint64_t at : kCopyAt) EncodeCopy(header, page + at);
}

namespace {

// Waits until a pause ends, and returns the tail after it.
uint64_t Unpaused(const SegmentTail& tail) {
  uint64_t word = 0;
  SpinUntil([&] {
    word = tail.tail.load(std::memory_order_acquire);
    return (word & SegmentTail::kPaused) == 0;
  });
  return word;
}

// Reserves [word, word + size): the tail becomes word + added, unless another thread was faster.
uint64_t ReserveAdding(SegmentTail& tail, uint64_t capacity, uint64_t size, uint64_t room,
                       uint64_t added) {
  uint64_t word = tail.tail.load(std::memory_order_relaxed);
  while (true) {
    if ((word & (SegmentTail::kClosed | SegmentTail::kPaused)) != 0) [[unlikely]] {
      if ((word & SegmentTail::kClosed) != 0) return kNoRoom;
      word = Unpaused(tail);
      continue;
    }
    const bool fits = size <= capacity && word <= capacity - size;
    if (fits && word + size > room) [[unlikely]] return kMoreRoom;
    const uint64_t wanted = fits ? word + added : word | SegmentTail::kClosed;
    if (tail.tail.compare_exchange_weak(word, wanted, std::memory_order_acq_rel,
                                        std::memory_order_relaxed)) {
      return fits ? word : kNoRoom;
    }
  }
}

}  // namespace

uint64_t Reserve(SegmentTail& tail, uint64_t capacity, uint64_t size, uint64_t room) {
  return ReserveAdding(tail, capacity, size, room, size);
}

uint64_t ReservePaused(SegmentTail& tail, uint64_t capacity, uint64_t size, uint64_t room) {
  return ReserveAdding(tail, capacity, size, room, SegmentTail::kPaused);
}

size_t SegmentTail::ThreadStripe() {
  static std::atomic<size_t> next{0};
  thread_local const size_t stripe = next.fetch_add(1, std::memory_order_relaxed) % kStripes;
  return stripe;
}

uint64_t SegmentTail::Finished() const {
  uint64_t sum = 0;
  for (const Stripe& stripe : stripes) sum += stripe.finished.load(std::memory_order_acquire);
  return sum;
}

uint64_t SegmentTail::Keys() const {
  uint64_t sum = 0;
  for (const Stripe& stripe : stripes) sum += stripe.keys.load(std::memory_order_relaxed);
  return sum;
}

uint64_t EndIfComplete(const SegmentTail& tail) {
  // The finished bytes were summed up first and never exceed the reserved ones: if they are equal,
  // they were equal at the moment the tail was read.
  const uint64_t finished = kSegmentHeaderBytes + tail.Finished();
  const uint64_t word = tail.tail.load(std::memory_order_acquire);
  return (word & SegmentTail::kOffset) == finished ? finished : 0;
}

uint64_t CloseAndDrain(SegmentTail& tail) {
  tail.tail.fetch_or(SegmentTail::kClosed, std::memory_order_acq_rel);
  const uint64_t end = Unpaused(tail) & SegmentTail::kOffset;
  SpinUntil([&] { return kSegmentHeaderBytes + tail.Finished() == end; });
  return end;
}

uint64_t Quiesce(SegmentTail& tail) {
  const uint64_t complete = EndIfComplete(tail);
  if (complete != 0) return complete;
  uint64_t word = Unpaused(tail);
  while (!tail.tail.compare_exchange_weak(word, word | SegmentTail::kPaused,
                                          std::memory_order_acq_rel, std::memory_order_relaxed)) {
    word = Unpaused(tail);
  }
  const uint64_t end = word & SegmentTail::kOffset;
  SpinUntil([&] { return kSegmentHeaderBytes + tail.Finished() == end; });
  tail.tail.fetch_and(~SegmentTail::kPaused, std::memory_order_acq_rel);
  return end;
}

void MarkComplete(char* data, uint64_t generation, uint64_t end) {
  const std::atomic_ref<uint64_t> mark(*reinterpret_cast<uint64_t*>(data + kCompleteMarkAt));
  mark.store(EncodeMark(generation, end), std::memory_order_relaxed);
}

uint64_t CompleteMark(const char* data, uint64_t generation) {
  const auto word = base::LoadLe<uint64_t>(data + kCompleteMarkAt);
  const uint64_t end = (word & 0xFFFFFFFF) * 8;
  const bool valid = word == EncodeMark(generation, end) && end >= kSegmentHeaderBytes;
  return valid ? end : kSegmentHeaderBytes;
}

void MarkClosed(char* data, uint64_t generation, uint64_t end) {
  StoreMark(data + kClosedMarkAt, generation ^ kClosedMarkSalt, end);
}

uint64_t ClosedMark(const char* data, uint64_t generation) {
  return LoadMark(data + kClosedMarkAt, generation ^ kClosedMarkSalt);
}

void MarkReserved(char* data, uint64_t generation, uint64_t end) {
  StoreMark(data + kReservedMarkAt, generation ^ kReservedMarkSalt, end);
}

uint64_t ReservedMark(const char* data, uint64_t generation) {
  return LoadMark(data + kReservedMarkAt, generation ^ kReservedMarkSalt);
}

uint64_t DurableMark(const char* data, uint64_t generation) {
  uint64_t sequence = 0;
  uint64_t end = 0;
  NewestWatermark(data, generation, &sequence, &end);
  return end;
}

Result<std::unique_ptr<Segment>> Segment::Create(io::FileSystem& fs, const std::string& path,
                                                 const SegmentHeader& header, Origin origin,
                                                 bool named) {
  QUIRE_CHECK(header.generation != 0 && header.capacity >= kSegmentHeaderBytes &&
              header.capacity % 8 == 0);
  const uint64_t room = std::min(kFirstRoomBytes, header.capacity);
  QUIRE_ASSIGN_OR_RETURN(const bool is_new, PrepareFile(fs, path, header.capacity, room, origin));
  std::unique_ptr<Segment> segment(new Segment);
  QUIRE_ASSIGN_OR_RETURN(segment->map_, fs.Map(path, header.capacity, io::MapMode::kReadWrite));
  // Again, as a mapping does it: a reader may have had the file read ahead meanwhile.
  segment->map_->LimitRoom(kSegmentHeaderBytes);
  const Status first = segment->map_->GrowRoom(room);
  if (!first.ok()) {
    segment.reset();
    if (is_new) (void)fs.Unlink(path);  // as in PrepareFile
    return first;
  }
  segment->Recycle(header);
  if (named && is_new) QUIRE_RETURN_IF_ERROR(fs.SyncDirectory(io::DirectoryOf(path)));
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::Open(io::FileSystem& fs, const std::string& path) {
  std::unique_ptr<Segment> segment(new Segment);
  QUIRE_ASSIGN_OR_RETURN(segment->header_, ReadSegmentHeader(fs, path));
  QUIRE_ASSIGN_OR_RETURN(segment->map_,
                         fs.Map(path, segment->header_.capacity, io::MapMode::kReadWrite));
  QUIRE_RETURN_IF_ERROR(segment->map_->MakeReadable(0, kSegmentHeaderBytes));
  segment->found_ = true;
  return segment;
}

// The copies are written one after the other: at any moment one of them is whole, the old or the
// new. The marks need not be cleared: they are seeded by the generation.
void Segment::Recycle(const SegmentHeader& header) {
  QUIRE_CHECK(header.capacity == map_->size());
  header_ = header;
  found_ = false;
  for (uint64_t at : kCopyAt) {
    EncodeCopy(header_, map_->data() + at);
    map_->Stored(at, kCopyBytes);
  }
}

// Stores again, because pages that the dead process could not sync count as written.
Status Segment::StoreFoundAgain(uint64_t begin, uint64_t end) {
  return found_ && begin < end ? map_->StoreAgain(begin, end - begin) : Status();
}

Status Segment::SyncHeader() {
  QUIRE_RETURN_IF_ERROR(sync_failure_);
  QUIRE_RETURN_IF_ERROR(StoreFoundAgain(0, kSegmentHeaderBytes));
  return SyncOnce(kSegmentHeaderBytes);
}

// Syncs once. After a failed sync the system takes the pages for written, and would report success
// the next time.
Status Segment::SyncOnce(uint64_t end) {
  const Status synced = map_->Sync(0, end);
  if (synced.code() == Code::kIo) sync_failure_ = synced;
  return synced;
}

// Everything below the watermark was durable when the watermark was stored, but not the header
// beside it.
Status Segment::Sync(uint64_t end) {
  QUIRE_RETURN_IF_ERROR(sync_failure_);
  uint64_t sequence = 0;
  uint64_t durable = 0;
  const int newest = NewestWatermark(map_->data(), header_.generation, &sequence, &durable);
  QUIRE_RETURN_IF_ERROR(StoreFoundAgain(0, kSegmentHeaderBytes));
  QUIRE_RETURN_IF_ERROR(StoreFoundAgain(durable, end));
  QUIRE_RETURN_IF_ERROR(SyncOnce(end));
  const int slot = newest == 0 ? 1 : 0;
  char* at = map_->data() + kWatermarkAt[slot];
  base::StoreLe(at, sequence + 1);
  base::StoreLe(at + 8, end);
  base::StoreLe(at + 16, WatermarkChecksum(at, header_.generation, kWatermarkAt[slot]));
  map_->Stored(kWatermarkAt[slot], kWatermarkBytes);
  return Status();
}

Result<SegmentHeader> ReadSegmentHeader(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(auto file, fs.Open(path, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size == 0) return Status(Code::kNotFound);
  if (size < kSegmentHeaderBytes) {
    return Status(Code::kCorruption, path + " has " + std::to_string(size) +
                                         " bytes, less than a segment's header; it was truncated");
  }
  std::string page(kSegmentHeaderBytes, '\0');
  QUIRE_RETURN_IF_ERROR(file->ReadAt(0, page.size(), page.data()));
  SegmentHeader header;
  // The first copy is written first: if it is whole it is the newest.
  for (uint64_t at : kCopyAt) {
    if (!DecodeCopy(page.data() + at, &header)) continue;
    // A sealed value segment was cut off behind its last record.
    if (size >= header.capacity || header.kind == SegmentKind::kValue) return header;
    return Status(Code::kCorruption, path + " ends at offset " + std::to_string(size) +
                                         "; its header says " + std::to_string(header.capacity) +
                                         ": it was truncated");
  }
  for (uint64_t at : kCopyAt) {
    if (SaysNewerVersion(page.data() + at)) {
      return Status(Code::kUnsupported,
                    path + " has segment format version " +
                        std::to_string(base::LoadLe<uint32_t>(page.data() + at + 8)) +
                        "; this build reads " + std::to_string(kVersion) + ": use a newer Quire");
    }
  }
  // A new file whose creator died in the first copy: nothing was ever promised in it.
  if (AllZero(Slice(page).substr(kCopyAt[1], kCopyBytes))) return Status(Code::kNotFound);
  return Status(Code::kCorruption, path + ": both copies of the segment's header are damaged");
}

}  // namespace quire::log
