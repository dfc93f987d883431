#include "stream/store/part.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/core/check.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "stream/index/log_contents.h"
#include "stream/log/delta.h"

namespace quire::stream {
uint64_t CommitBytes(std::span<const PendingVersion> items) {
  uint64_t bytes = kRecordBytes;
  for (const PendingVersion& item : items) {
    for (const Slice piece : item.pieces) bytes += AlignUp(piece.size(), kRecordBytes);
    bytes += EntryBytes(item.entry.key.size(), item.entry.shape.extents.size());
  }
  return bytes;
}

int FindVersion(const std::vector<VersionRef>& refs, uint64_t version) {
  if (refs.empty()) return -1;
  if (version == 0) return 0;
  const auto newer = [](const VersionRef& ref, uint64_t number) { return ref.version > number; };
  const auto at = std::lower_bound(refs.begin(), refs.end(), version, newer);
  const bool found = at != refs.end() && at->version == version;
  return found ? static_cast<int>(at - refs.begin()) : -1;
}

int VersionAt(const std::vector<VersionRef>& refs, uint64_t snapshot, bool kept) {
  for (size_t i = 0; i < refs.size(); ++i) {
    if (snapshot != 0 && refs[i].snapshot > snapshot) continue;
    const bool sure = i == 0 || kept || refs[i].snapshot == snapshot ||
                      refs[i - 1].version == refs[i].version + 1;
    return sure ? static_cast<int>(i) : -1;
  }
  return -1;
}

Result<std::vector<VersionEntry>> ChainOf(const LogHeap& heap, const std::vector<VersionRef>& refs,
                                          size_t which) {
  std::vector<VersionEntry> chain;
  for (size_t i = which; i < refs.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(VersionEntry entry, heap.EntryAt(refs[i].entry));
    const bool fits = entry.version == refs[i].version &&
                      (chain.empty() || (entry.bytes == chain.front().bytes &&
                                         entry.version + 1 == chain.back().version));
    if (!fits) break;
    chain.push_back(std::move(entry));
    if (!chain.back().delta) return chain;
  }
  return Status(Code::kCorruption, "version " + std::to_string(refs[which].version) +
                                       " of an object in " + heap.path() +
                                       " lacks one that it rests upon");
}

Status Assemble(const LogHeap& heap, const std::vector<VersionEntry>& chain, char* to) {
  for (size_t i = chain.size(); i > 0; --i) {
    const VersionEntry& entry = chain[i - 1];
    QUIRE_RETURN_IF_ERROR(heap.CheckReadable(entry.data, entry.stored));
    QUIRE_RETURN_IF_ERROR(Apply(entry, heap.At(entry.data), to).WithContext(heap.path()));
  }
  return CheckContent(chain.front(), to).WithContext(heap.path());
}

// Appends the entries, notes their positions in places_, and stores the record, which commits them.
void Part::EndCommit(RecordKind kind, uint64_t snapshot, uint64_t unix_time_ns,
                     const std::vector<PendingVersion>& items, std::list<LiveCommit>* fresh) {
  const Position at = heap_->begin();
  places_.clear();
  for (const PendingVersion& item : items) places_.push_back(heap_->AppendEntry(item.entry));
  heap_->Commit(kind, snapshot, unix_time_ns);
  gate_->SetTail(heap_->tail());
  AddLive(at, items, fresh);
}

// Allocates all memory that a commit needs, before anything is stored.
std::list<Part::LiveCommit> Part::NewLive(size_t entries) {
  std::list<LiveCommit> fresh(1);
  fresh.front().entries.reserve(entries);
  places_.reserve(entries);
  if (options_.deltas != StreamDeltas::kOff) newest_.resize(index_->slots());
  return fresh;
}

void Part::AddLive(Position at, const std::vector<PendingVersion>& items,
                   std::list<LiveCommit>* fresh) {
  LiveCommit& commit = fresh->front();
  commit.at = at;
  commit.bytes = heap_->tail() - at;
  for (size_t i = 0; i < items.size(); ++i) {
    const VersionEntry& entry = items[i].entry;
    commit.entries.push_back({items[i].slot, entry.version, places_[i], SizesOf(entry)});
    NoteWhole(commit.entries.back());
  }
  live_.splice(live_.end(), *fresh);
}

void Part::NoteWhole(const LiveEntry& entry) {
  if (entry.slot >= newest_.size() || entry.version < newest_[entry.slot].version) return;
  newest_bytes_ += entry.sizes.whole - newest_[entry.slot].bytes;
  newest_[entry.slot] = {entry.version, entry.sizes.whole};
}

void Part::FillLive(const LogContents& found) {
  newest_bytes_ = 0;
  newest_.clear();
  if (options_.deltas != StreamDeltas::kOff) newest_.resize(index_->slots());
  for (const FoundCommit& commit : found.commits) {
    LiveCommit& live = live_.emplace_back();
    live.at = commit.at;
    live.bytes = commit.bytes;
    for (const FoundCommit::FoundEntry& entry : commit.entries) {
      const Result<uint32_t> slot = index_->Find(*entry.key);
      if (!slot.ok()) continue;
      live.entries.push_back({*slot, entry.version, entry.at, entry.sizes});
      NoteWhole(live.entries.back());
    }
  }
}

Status Part::Commit(std::vector<PendingVersion>* items, uint64_t snapshot) {
  const uint64_t bytes = CommitBytes(*items);
  // Every step that can fail for lack of room or memory comes before the record.
  QUIRE_RETURN_IF_ERROR(MakeRoom(bytes, *items, items->size()));
  std::list<LiveCommit> fresh = NewLive(items->size());
  QUIRE_RETURN_IF_ERROR(heap_->Begin(bytes));
  const uint64_t now_ns = io::UnixTimeNs();
  for (PendingVersion& item : *items) {
    item.entry.data = heap_->cursor();
    item.entry.snapshot = snapshot;
    item.entry.unix_time_ns = now_ns;
    item.entry.stored = 0;
    uint64_t hash = DataSeed();
    for (const Slice piece : item.pieces) {
      hash = heap_->Append(piece, hash);
      item.entry.stored +=
          item.pieces.size() == 1 ? piece.size() : AlignUp(piece.size(), kRecordBytes);
    }
    item.entry.checksum = hash;
  }
  base::SyncPoint("stream.commit.before_record");
  EndCommit(RecordKind::kCommit, snapshot, now_ns, *items, &fresh);
  base::SyncPoint("stream.commit.before_index");
  for (size_t i = 0; i < items->size(); ++i) {
    const PendingVersion& item = (*items)[i];
    index_->FetchAhead(*items, i);
    QUIRE_RETURN_IF_ERROR(index_->Add(item.slot, RefOf(item.entry, places_[i])));
  }
  base::SyncPoint("stream.commit.before_publish");
  snapshot_ = snapshot;
  gate_->Publish(snapshot);
  base::SyncPoint("stream.commit.after_publish");
  return Status();
}

Result<Reservation> Part::Reserve(const VersionEntry& entry) {
  has_reserved_ = false;
  if (entry.bytes > heap_->identity().capacity) return Full(entry.bytes, "and it is too large");
  const uint64_t bytes = kRecordBytes + AlignUp(entry.bytes, kRecordBytes) +
                         EntryBytes(entry.key.size(), entry.shape.extents.size());
  QUIRE_RETURN_IF_ERROR(MakeRoom(bytes, {}, 1));
  Result<uint32_t> slot = SlotOf(entry.key);
  if (slot.status().code() == Code::kNoSpace) {
    QUIRE_RETURN_IF_ERROR(ForgetObjects());
    slot = SlotOf(entry.key);
  }
  QUIRE_ASSIGN_OR_RETURN(reserved_[0].slot, std::move(slot));
  QUIRE_RETURN_IF_ERROR(heap_->Begin(bytes));
  reserved_[0].entry = entry;
  reserved_[0].entry.data = heap_->cursor();
  reserved_[0].entry.stored = entry.bytes;
  has_reserved_ = true;
  base::SyncPoint("stream.mirror.reserved");
  return Reservation{heap_->RoomFor(entry.bytes), reserved_[0].entry.data};
}

Status Part::CommitReserved(uint64_t hash) {
  if (!has_reserved_) return Status(Code::kInvalidArgument, "nothing was reserved");
  has_reserved_ = false;
  std::list<LiveCommit> fresh = NewLive(1);
  VersionEntry& entry = reserved_[0].entry;
  heap_->Filled(entry.data, entry.stored);
  entry.checksum = hash;
  EndCommit(RecordKind::kCommit, entry.snapshot, entry.unix_time_ns, reserved_, &fresh);
  base::SyncPoint("stream.mirror.before_index");
  const VersionRef ref = RefOf(entry, places_[0]);
  if (!index_->Move(reserved_[0].slot, ref)) {
    QUIRE_RETURN_IF_ERROR(index_->Add(reserved_[0].slot, ref));
  }
  base::SyncPoint("stream.mirror.before_publish");
  snapshot_ = std::max(snapshot_, entry.snapshot);
  gate_->Publish(snapshot_);
  return Status();
}

Result<VersionEntry> Part::EntryAt(Slice key, uint64_t snapshot) const {
  if (snapshot > snapshot_) return Status(Code::kNotFound, "there is no such snapshot yet");
  QUIRE_ASSIGN_OR_RETURN(const uint32_t object, index_->Find(key));
  std::vector<VersionRef> refs;
  QUIRE_RETURN_IF_ERROR(index_->Versions(object, &refs));
  const std::vector<uint64_t>& kept = heap_->head().kept;
  const int which =
      VersionAt(refs, snapshot, std::binary_search(kept.begin(), kept.end(), snapshot));
  if (which < 0) return Status(Code::kNotFound);
  return heap_->EntryAt(refs[static_cast<size_t>(which)].entry);
}

// An object that was created later rightly has no version in the snapshot. An object that has lost
// versions may have had one.
Status Part::WhetherWhole(uint64_t snapshot) const {
  bool whole = snapshot != 0 && snapshot <= snapshot_;
  Status unknown;
  std::vector<VersionRef> refs;
  index_->EachObject([&](uint32_t object, Slice key) {
    if (!whole || !index_->Versions(object, &refs).ok() || refs.empty()) return;
    const bool later = refs.back().version == 1 && refs.back().snapshot > snapshot;
    const Status found = later ? Status() : EntryAt(key, snapshot).status();
    whole = found.ok();
    const bool lost = found.code() == Code::kNotFound || found.code() == Code::kCorruption;
    if (!whole && !lost) unknown = found;
  });
  QUIRE_RETURN_IF_ERROR(unknown);
  if (whole) return Status();
  return Status(Code::kNotFound, "snapshot " + std::to_string(snapshot) +
                                     " is not there, or parts of it have been collected");
}

Status Part::Read(Slice key, uint64_t version, char* to) const {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t object, index_->Find(key));
  std::vector<VersionRef> refs;
  QUIRE_RETURN_IF_ERROR(index_->Versions(object, &refs));
  const int which = FindVersion(refs, version);
  if (which < 0) return Status(Code::kNotFound);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<VersionEntry> chain,
                         ChainOf(*heap_, refs, static_cast<size_t>(which)));
  return Assemble(*heap_, chain, to);
}

}  // namespace quire::stream
