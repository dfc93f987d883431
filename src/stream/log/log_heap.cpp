#include "stream/log/log_heap.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/core/check.h"
#include "base/core/out_of_memory.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/sync_point.h"
#include "stream/log/delta.h"

namespace quire::stream {
namespace {

std::string Sizes(uint64_t needed, uint64_t free) {
  return std::to_string(needed) + " bytes are needed and " + std::to_string(free) + " are free";
}

// Returns whether the sizes of an entry are possible. Those of a whole version follow from its
// stored bytes. A delta may be far smaller than its object, even packed; ChainOf compares its size
// with the whole version on which it rests.
bool HasPossibleSizes(const VersionEntry& entry) {
  if (entry.delta) return true;
  constexpr uint64_t kPackedAtMost = 256;  // bytes that LZ4 packs into one
  return entry.packed ? entry.bytes / kPackedAtMost <= entry.stored : entry.stored == entry.bytes;
}

Status DamagedAt(const std::string& path, Position at, const std::string& what) {
  return Status(Code::kCorruption, what + ", at position " + std::to_string(at) + " of " + path);
}

Result<Identity> IdentityIn(io::File* file) {
  std::string page(kPageBytes, '\0');
  QUIRE_RETURN_IF_ERROR(file->ReadAt(0, page.size(), page.data()));
  return DecodeIdentity(page, file->path());
}

Result<Head> HeadIn(Slice header, uint64_t slot, uint64_t log_id) {
  return DecodeHead(header.substr((1 + slot) * kPageBytes, kPageBytes), log_id);
}

// Returns the head with the largest sequence; its sequence is 0 if no head is whole. Sets `torn` if
// a used slot is not whole: the slot may be under change, and may have contained a newer head.
Head NewestHead(Slice header, uint64_t log_id, bool* torn) {
  Head newest;
  *torn = false;
  for (uint64_t slot = 0; slot < kHeadSlots; ++slot) {
    Result<Head> head = HeadIn(header, slot, log_id);
    const bool used = base::LoadLe<uint64_t>(header.data() + (1 + slot) * kPageBytes) != 0;
    *torn = *torn || (used && !head.ok());
    if (head.ok() && head->sequence > newest.sequence) newest = *std::move(head);
  }
  return newest;
}

// Returns whether two heads agree in everything that only heads contain.
bool SaysTheSame(const Head& head, const Head& other) {
  return head.kept == other.kept && head.finished == other.finished &&
         head.keep_versions == other.keep_versions && head.keep_ms == other.keep_ms &&
         head.boot_id == other.boot_id;
}

}  // namespace

Status LogHeap::Create(io::FileSystem& fs, const std::string& path, const Identity& identity,
                       const Head& head) {
  const std::string temporary = path + ".tmp";
  QUIRE_ASSIGN_OR_RETURN(const bool left_over, fs.Exists(temporary));
  if (left_over) QUIRE_RETURN_IF_ERROR(fs.Unlink(temporary));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                         fs.Open(temporary, io::FileOpenMode::kCreate));
  Status status = file->Allocate(kLogHeaderBytes + identity.capacity);
  if (status.ok()) status = file->WriteAt(0, EncodeIdentity(identity));
  const std::string page = EncodeHead(head, identity.log_id);
  if (status.ok()) status = file->WriteAt(kPageBytes, page);
  if (status.ok()) status = file->Sync();
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) {
    const Status unlinked = fs.Unlink(temporary);
    return unlinked.ok() ? status : status.WithContext("cannot remove " + temporary);
  }
  return fs.SyncDirectory(io::DirectoryOf(path));
}

LogHeap::LogHeap(Identity identity, std::unique_ptr<io::MappedFile> map)
    : identity_(std::move(identity)), memory_(std::move(map)) {}

Result<Identity> LogHeap::IdentityAt(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs.Open(path, io::FileOpenMode::kRead));
  return IdentityIn(file.get());
}

Result<std::unique_ptr<LogHeap>> LogHeap::Open(io::FileSystem& fs, const std::string& path,
                                               io::MapMode mode) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, fs.Open(path, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(Identity identity, IdentityIn(file.get()));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size < kLogHeaderBytes || size - kLogHeaderBytes < identity.capacity) {
    return Status(Code::kCorruption, path + " ends before the log does");
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::MappedFile> map,
                         fs.Map(path, kLogHeaderBytes + identity.capacity, mode));
  std::unique_ptr<LogHeap> heap(new LogHeap(std::move(identity), std::move(map)));
  QUIRE_RETURN_IF_ERROR(heap->memory_.TouchReadable(0, kLogHeaderBytes));
  QUIRE_ASSIGN_OR_RETURN(heap->head_, heap->ReadHead());
  heap->position_of_ = heap->head_.sequence;
  heap->tail_ = heap->head_.head;
  for (uint64_t slot = 0; slot < kHeadSlots; ++slot) {
    const Slice header(heap->memory_.data(), kLogHeaderBytes);
    const Result<Head> head = HeadIn(header, slot, heap->identity_.log_id);
    heap->slots_[slot] = head.ok() ? head->sequence : 0;
  }
  return heap;
}

// A writer may overwrite the newest head before its slot is read here, after the slot of its
// successor was read. A slot is then torn, and all slots are read again.
Result<Head> LogHeap::ReadHead() const {
  constexpr int kLooks = 20;
  Head newest;
  bool torn = true;
  for (int look = 0; torn && look < kLooks; ++look) {
    newest = NewestHead(Slice(memory_.data(), kLogHeaderBytes), identity_.log_id, &torn);
  }
  if (newest.sequence != 0) return newest;
  return Status(Code::kCorruption, "all heads of " + path() + " are damaged");
}

Result<Record> LogHeap::RecordAt(Position at) const {
  QUIRE_RETURN_IF_ERROR(CheckReadable(at, kRecordBytes));
  return DecodeRecord(Slice(At(at), kRecordBytes), identity_.log_id, at);
}

// Returns kCorruption if the record's commit would cross the end of the file, or reach beyond the
// head: no such commit was ever written.
Result<Record> LogHeap::CheckedRecord(Position at) const {
  QUIRE_ASSIGN_OR_RETURN(Record record, RecordAt(at));
  const uint64_t room = std::min(RestOf(at), head_.head + identity_.capacity - at);
  const bool skips = record.kind == RecordKind::kSkip;
  if (record.bytes > room || (skips && record.bytes != RestOf(at))) {
    return DamagedAt(path(), at, "a commit gives impossible sizes");
  }
  return record;
}

Result<VersionEntry> LogHeap::EntryAt(Position at) const {
  uint64_t bytes = std::min(RestOf(at), kRecordBytes);
  QUIRE_RETURN_IF_ERROR(CheckReadable(at, bytes));
  if (bytes == kRecordBytes) {
    const uint64_t bytes_max = std::min(RestOf(at), kEntryBytesMax);
    bytes = std::clamp<uint64_t>(base::LoadLe<uint32_t>(At(at)), kRecordBytes, bytes_max);
    QUIRE_RETURN_IF_ERROR(CheckReadable(at, bytes));
  }
  Result<VersionEntry> entry = DecodeEntry(Slice(At(at), bytes), identity_.log_id, at);
  if (!entry.ok()) return DamagedAt(path(), at, "an entry is damaged");
  if (entry->stored > RestOf(entry->data) || !HasPossibleSizes(*entry)) {
    return DamagedAt(path(), at, "an entry gives impossible sizes");
  }
  return entry;
}

// A loss of power may leave a commit's record over the entries of another commit, which was lost
// earlier at the same position. These entries and their data verify, too; only the record's hash
// shows it.
Result<std::vector<VersionEntry>> LogHeap::EntriesOf(Position at, const Record& record) const {
  std::vector<VersionEntry> entries;
  Position next = at + record.directory;
  uint64_t hash = 0;
  for (uint32_t i = 0; i < record.entry_count; ++i) {
    if (next - at >= record.bytes) return DamagedAt(path(), at, "a commit lacks entries");
    QUIRE_ASSIGN_OR_RETURN(VersionEntry entry, EntryAt(next));
    const bool inside = entry.data >= at + kRecordBytes && entry.data <= at + record.directory &&
                        entry.stored <= at + record.directory - entry.data;
    if (!inside) return DamagedAt(path(), next, "an entry gives impossible sizes");
    hash = DirectoryHash(Slice(At(next), entry.encoded), hash);
    next += entry.encoded;
    entries.push_back(std::move(entry));
  }
  if (record.directory_hash != 0 && record.directory_hash != hash) {
    return DamagedAt(path(), at, "a commit has entries of another one");
  }
  return entries;
}

Status LogHeap::CheckData(const VersionEntry& entry) const {
  QUIRE_RETURN_IF_ERROR(CheckReadable(entry.data, entry.stored));
  return CheckStored(entry, At(entry.data)).WithContext(path());
}

Result<WalkEnd> LogHeap::Walk(bool check_data, const VisitCommit& visit) {
  Position at = head_.head;
  WalkEnd end;
  while (at - head_.head < identity_.capacity) {
    const Result<Record> record = CheckedRecord(at);
    if (!record.ok() && record.status().code() != Code::kCorruption) return record.status();
    if (!record.ok()) break;
    Result<std::vector<VersionEntry>> entries = EntriesOf(at, *record);
    end.status = entries.status();
    for (size_t i = 0; check_data && end.status.ok() && i < entries->size(); ++i) {
      end.status = CheckData((*entries)[i]);
    }
    if (!end.status.ok() && end.status.code() != Code::kCorruption) return end.status;
    if (!end.status.ok()) break;
    QUIRE_RETURN_IF_ERROR(visit(at, *record, *entries));
    at += record->bytes;
  }
  end.at = at;
  tail_ = at;
  found_end_ = at;
  return end;
}

// Takes only the positions from the older head; in all else the newest head is right.
bool LogHeap::FallBack() {
  const Slice header(memory_.data(), kLogHeaderBytes);
  Head older;
  for (uint64_t slot = 0; slot < kHeadSlots; ++slot) {
    Result<Head> head = HeadIn(header, slot, identity_.log_id);
    const bool before = head.ok() && head->sequence < position_of_;
    if (before && head->sequence > older.sequence) older = *std::move(head);
  }
  const bool found = older.sequence != 0;
  head_.head = found ? older.head : head_.relies_on;
  head_.relies_on = found ? older.relies_on : head_.relies_on;
  position_of_ = older.sequence;
  tail_ = head_.head;
  return found;
}

Result<uint64_t> LogHeap::EraseBehindTail() {
  const std::string erased_line = EncodeErased();
  const Position end = head_.head + identity_.capacity;
  uint64_t records = 0;
  bool erased = false;
  for (Position at = tail_; at < end; at += kRecordBytes) {
    const uint64_t page_rest = kPageBytes - OffsetOf(at) % kPageBytes;
    if (at == tail_ || page_rest == kPageBytes) {
      QUIRE_RETURN_IF_ERROR(CheckReadable(at, std::min(page_rest, end - at)));
    }
    if (!MayBeRecord(At(at)) && !IsErased(At(at))) continue;
    // Erases records of later laps, too: before the loss of power the head may have been laps
    // further, and their positions come again.
    if (RecordAt(at).ok()) ++records;
    memory_.Store(OffsetOf(at), erased_line);
    erased = true;
  }
  memory_.Fence();
  if (erased) QUIRE_RETURN_IF_ERROR(SyncRange(tail_, end));
  return records;
}

uint64_t LogHeap::Needs(uint64_t bytes) const {
  const uint64_t rest = RestOf(tail_);
  return rest < bytes ? rest + bytes : bytes;
}

void LogHeap::Skip(uint64_t bytes) {
  Record record;
  record.kind = RecordKind::kSkip;
  record.bytes = bytes;
  record.directory = bytes;
  memory_.Store(OffsetOf(tail_), EncodeRecord(record, identity_.log_id, tail_));
  memory_.Fence();
  base::SyncPoint("stream.skip.recorded");
  tail_ += bytes;
}

Status LogHeap::Begin(uint64_t bytes) {
  const uint64_t needed = Needs(bytes);
  if (needed > free_bytes()) return Status(Code::kNoSpace, Sizes(needed, free_bytes()));
  if (needed != bytes) Skip(RestOf(tail_));
  begin_ = tail_;
  limit_ = tail_ + bytes;
  cursor_ = begin_ + kRecordBytes;
  directory_ = 0;
  entry_count_ = 0;
  directory_hash_ = 0;
  return Status();
}

uint64_t LogHeap::Append(Slice bytes, uint64_t seed) {
  const Position at = cursor_;
  cursor_ += AlignUp(bytes.size(), kRecordBytes);
  QUIRE_CHECK(cursor_ <= limit_);
  return memory_.StoreHashed(OffsetOf(at), bytes, seed);
}

char* LogHeap::RoomFor(uint64_t bytes) {
  const Position at = cursor_;
  cursor_ += AlignUp(bytes, kRecordBytes);
  QUIRE_CHECK(cursor_ <= limit_);
  return memory_.room(OffsetOf(at));
}

void LogHeap::Filled(Position at, uint64_t bytes) {
  memory_.Filled(OffsetOf(at), bytes);
}

Position LogHeap::AppendEntry(const VersionEntry& entry) {
  const Position at = cursor_;
  if (entry_count_++ == 0) directory_ = at;
  char bytes[kEntryBytesMax];
  const uint64_t size = EncodeEntry(entry, identity_.log_id, at, bytes);
  cursor_ += size;
  QUIRE_CHECK(cursor_ <= limit_);
  directory_hash_ = DirectoryHash(Slice(bytes, size), directory_hash_);
  memory_.Store(OffsetOf(at), Slice(bytes, size));
  return at;
}

void LogHeap::Commit(RecordKind kind, uint64_t snapshot, uint64_t unix_time_ns) {
  Record record;
  record.kind = kind;
  record.bytes = cursor_ - begin_;
  record.directory = (entry_count_ == 0 ? cursor_ : directory_) - begin_;
  record.snapshot = snapshot;
  record.unix_time_ns = unix_time_ns;
  record.entry_count = entry_count_;
  record.directory_hash = directory_hash_;
  memory_.Fence();
  memory_.Store(OffsetOf(begin_), EncodeRecord(record, identity_.log_id, begin_));
  memory_.Fence();
  base::SyncPoint("stream.commit.recorded");
  tail_ = cursor_;
}

Status LogHeap::WriteHead(Head head) {
  // Bytes below the new head may be overwritten from now on: the bytes that replace them must be as
  // durable as they were.
  const bool promised = head_.durable != 0 && !persistent();
  if (promised && head.head != head_.head && head.durable < tail_) {
    QUIRE_RETURN_IF_ERROR(SyncRange(head.durable, tail_));
    head.durable = tail_;
  }
  // If nothing was synced, the device may store this head, and lose the bytes that replace those
  // below it.
  if (head.head != head_.head) head.relies_on = tail_;
  if (head.durable != 0) head.relies_on = 0;
  // A page that is damaged later looks like one that was being written when the power failed: the
  // head before it counts then. So both heads must contain what only heads contain.
  if (SaysTheSame(head, head_)) return StoreHead(ReadyHead(std::move(head)));
  const uint64_t newest = head_.sequence;
  ReadyHead former(head_), former_again(head_), first(head), second(std::move(head));
  const Status stored = base::OrOutOfMemory([&] {
    const Status status = StoreHead(std::move(first));
    return status.ok() ? StoreHead(std::move(second)) : status;
  });
  if (stored.ok() || head_.sequence == newest) return stored;
  // Stores the former head twice, so that neither slot contains the refused head. A device that
  // failed to sync is not synced again.
  StorePage(std::move(former));
  StorePage(std::move(former_again));
  return stored;
}

// A loss of power may not leave a head that could not be synced. Then the bytes below it are not
// free: the head before needs them.
Status LogHeap::StoreHead(ReadyHead ready) {
  const bool sync = ready.head.durable != 0 && !persistent();
  const Position head_before = head_.head;
  QUIRE_RETURN_IF_ERROR(SyncFoundHead());
  const uint64_t offset = StorePage(std::move(ready));
  if (!sync) return Status();
  const Status synced = SyncBytes(offset, kPageBytes);
  if (synced.ok()) {
    head_.synced = head_.sequence;  // the next head stores this
  } else {
    head_.head = head_before;
  }
  return synced;
}

// Stores the next head, and returns its offset in the file.
uint64_t LogHeap::StorePage(ReadyHead ready) {
  Head& head = ready.head;
  head.sequence = head_.sequence + 1;
  head.synced = head_.synced;
  const uint64_t slot = FreeHeadSlot();
  const uint64_t offset = (1 + slot) * kPageBytes;
  base::SyncPoint("stream.head.before_store");
  memory_.Store(offset, EncodeHead(head, identity_.log_id, std::move(ready.page)));
  memory_.Fence();
  base::SyncPoint("stream.head.stored");
  slots_[slot] = head.sequence;
  position_of_ = head.sequence;
  head_ = std::move(head);
  return offset;
}

// A head does not say whether the program that stored it last had synced it before it died; that
// sync may have failed. Until it is synced, FreeHeadSlot would protect an older head and return the
// slot of the one between them, which was synced.
Status LogHeap::SyncFoundHead() {
  if (head_.durable == 0 || persistent() || head_.synced == head_.sequence) return Status();
  QUIRE_RETURN_IF_ERROR(memory_.StoreAgain(kPageBytes, kLogHeaderBytes - kPageBytes));
  QUIRE_RETURN_IF_ERROR(SyncBytes(kPageBytes, kLogHeaderBytes - kPageBytes));
  head_.synced = head_.sequence;
  return Status();
}

// Returns the slot of the oldest head, except the last synced one, which a loss of power leaves. It
// is never the newest head, which the death of the program leaves.
uint64_t LogHeap::FreeHeadSlot() const {
  uint64_t oldest = kHeadSlots;
  for (uint64_t slot = 0; slot < kHeadSlots; ++slot) {
    if (slots_[slot] == head_.synced) continue;
    if (oldest == kHeadSlots || slots_[slot] < slots_[oldest]) oldest = slot;
  }
  QUIRE_CHECK(oldest != kHeadSlots);
  return oldest;
}

// If the system cannot write pages, it forgets that they are dirty: a second sync would return OK.
Status LogHeap::SyncBytes(uint64_t offset, uint64_t size) {
  base::SyncPoint("stream.sync.before");
  if (sync_status_.ok()) sync_status_ = memory_.Sync(offset, size);
  base::SyncPoint("stream.sync.after");
  return sync_status_;
}

// Stores found bytes again, so that they are dirty. Bytes below the durable mark were synced by the
// program that wrote the mark. For bytes above it, the sync of an earlier program, or a write by
// the system, may have failed.
Status LogHeap::StoreFoundAgain(Position from, Position to) {
  to = std::min(to, found_end_);
  if (from >= to) return Status();
  const uint64_t first = std::min(to - from, RestOf(from));
  QUIRE_RETURN_IF_ERROR(memory_.StoreAgain(OffsetOf(from), first));
  return memory_.StoreAgain(kLogHeaderBytes, to - from - first);
}

Status LogHeap::SyncRange(Position from, Position to) {
  from = std::max(from, head_.head);
  if (from >= to) return Status();
  QUIRE_RETURN_IF_ERROR(StoreFoundAgain(from, to));
  const uint64_t first = std::min(to - from, RestOf(from));
  QUIRE_RETURN_IF_ERROR(SyncBytes(OffsetOf(from), first));
  if (first == to - from) return Status();
  return SyncBytes(kLogHeaderBytes, to - from - first);
}

Status LogHeap::Sync() {
  QUIRE_RETURN_IF_ERROR(sync_status_);
  QUIRE_RETURN_IF_ERROR(SyncRange(head_.durable, tail_));
  if (head_.durable == tail_) return Status();
  Head head = head_;
  head.durable = tail_;
  return WriteHead(std::move(head));
}

}  // namespace quire::stream
