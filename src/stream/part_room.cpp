// How a log's room comes back: the head moves over what is not needed, and what is needed and
// stands in its way is appended again.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/sync_point.h"
#include "io/machine.h"
#include "stream/delta.h"
#include "stream/log_contents.h"
#include "stream/part.h"

namespace quire::stream {

// Which of an object's versions, newest first, the policy keeps; with each what it rests upon. Of
// those behind the last that is needed only the first may be among `refs`.
// `superseded`: one more is about to come, which rests upon none.
Status Part::Needed(uint32_t slot, bool superseded, std::vector<VersionRef>* refs,
                    std::vector<bool>* needed) const {
  const uint64_t now_ns = options_.keep_ms == 0 ? 0 : io::UnixTimeNs();
  const std::vector<uint64_t>& kept = heap_->head().kept;
  const size_t newer = superseded ? 1 : 0;
  const auto is_last = [&](const VersionRef& ref) {
    const size_t i = refs->size() - 1;
    const uint64_t until = i == 0 ? UINT64_MAX : (*refs)[i - 1].snapshot;
    const auto at = std::lower_bound(kept.begin(), kept.end(), ref.snapshot);
    const bool young = ref.unix_time_ns + options_.keep_ms * 1'000'000 > now_ns;
    const bool stays = i + newer < options_.keep_versions || (options_.keep_ms != 0 && young) ||
                       (at != kept.end() && *at < until) ||
                       (i != 0 && (*needed)[i - 1] && (*refs)[i - 1].delta);
    needed->resize(i);
    needed->push_back(stays);
    return !stays && i + newer >= options_.keep_versions && kept.empty();
  };
  needed->clear();
  return index_->Versions(slot, refs, is_last);
}

Status Part::Policy::Look(const LiveEntry& entry, bool* needed) {
  Object& object = objects_[entry.slot];
  if (object.refs.empty()) {
    QUIRE_RETURN_IF_ERROR(part_.Needed(entry.slot, false, &object.refs, &object.needed));
  }
  const int which = FindVersion(object.refs, entry.version);
  const auto at = static_cast<size_t>(which);
  *needed = which >= 0 && object.refs[at].entry == entry.at && object.needed[at];
  return Status();
}

// The first commit that is needed, or behind which there is room for `bytes`.
Result<Position> Part::FirstNeeded(uint64_t bytes) const {
  Policy policy(*this);
  for (const LiveCommit& commit : live_) {
    const uint64_t gained = commit.at - heap_->head().head;
    if (heap_->free_bytes() + gained >= heap_->Needs(bytes)) return commit.at;
    for (const LiveEntry& entry : commit.entries) {
      bool needed = false;
      QUIRE_RETURN_IF_ERROR(policy.Look(entry, &needed));
      if (needed) return commit.at;
    }
  }
  return heap_->tail();
}

// The entries at the head that are needed, and do not lie elsewhere by now.
Result<std::vector<Entry>> Part::NeededOfHead(const Record& record) const {
  const LiveCommit& commit = live_.front();
  QUIRE_ASSIGN_OR_RETURN(std::vector<Entry> entries, heap_->EntriesOf(commit.at, record));
  std::vector<Entry> needed;
  Policy policy(*this);
  auto live = commit.entries.begin();
  Position at = commit.at + record.directory;
  for (Entry& entry : entries) {
    const Position here = std::exchange(at, at + entry.encoded);
    if (live == commit.entries.end() || live->at != here) continue;
    bool stays = false;
    QUIRE_RETURN_IF_ERROR(policy.Look(*live++, &stays));
    if (stays) needed.push_back(std::move(entry));
  }
  return needed;
}

// Of readers that live. A slot whose reader is gone is cleared by who has its lock: a new reader
// may come to it at any time.
Position Part::LowestPin() const {
  Position lowest = kNoPin;
  for (uint32_t slot = 0; slot < gate_->pin_slots(); ++slot) {
    const Position at = gate_->pin(slot);
    if (at >= lowest) continue;
    const Result<std::unique_ptr<io::FileLock>> dead =
        fs_.Lock(name_.pin_path(slot), io::ProcessDescription());
    if (dead.ok()) {
      gate_->Pin(slot, kNoPin);
    } else {
      lowest = at;
    }
  }
  return lowest;
}

// The commits from the head on that lie wholly below `pin`, and not above `to`.
Position Part::EndBelow(Position pin, Position to) const {
  for (const LiveCommit& commit : live_) {
    if (commit.at >= to) break;
    if (commit.at + commit.bytes > pin) return commit.at;
  }
  return to;
}

// The new head is told first, and then the pins are looked at: a reader that pins looks at the head
// afterwards, so that either sees the other.
Status Part::MoveHead(Position to) {
  const Position from = heap_->head().head;
  pinned_ = false;
  if (to == from) return Status();
  base::SyncPoint("stream.collect.before_head");
  gate_->SetHead(to);
  base::SyncPoint("stream.collect.after_head");
  const Status moved = base::OrOutOfMemory([&] {
    const Position pin = LowestPin();
    base::SyncPoint("stream.collect.after_pins");
    if (pin < to) {
      pinned_ = true;
      ++pinned_waits_;
      to = EndBelow(pin, to);
      gate_->SetHead(to);
    }
    return to == from ? Status() : LetGo(to);
  });
  if (!moved.ok()) gate_->SetHead(heap_->head().head);
  return moved;
}

Status Part::LetGo(Position to) {
  QUIRE_RETURN_IF_ERROR(DropBelow(to));
  base::SyncPoint("stream.collect.before_write");
  Head head = heap_->head();
  head.head = to;
  return heap_->WriteHead(std::move(head));
}

// With what lies below `to` goes what rests upon it: nobody needs that, or it would need this.
Status Part::DropBelow(Position to) {
  std::vector<bool> seen(index_->slots());
  std::vector<VersionRef> refs;
  for (const LiveCommit& commit : live_) {
    if (commit.at >= to) break;
    for (size_t i = 0; i < commit.entries.size(); ++i) {
      const LiveEntry& entry = commit.entries[i];
      index_->FetchAhead(commit.entries, i);
      if (seen[entry.slot]) continue;
      seen[entry.slot] = true;
      QUIRE_RETURN_IF_ERROR(index_->Versions(entry.slot, &refs));
      const size_t before = refs.size();
      KeepReadable(&refs, to);
      if (refs.size() == before) continue;
      index_->Retain(entry.slot, refs);
      collected_ += before - refs.size();
    }
  }
  while (!live_.empty() && live_.front().at < to) live_.pop_front();
  return Status();
}

Status Part::Collect() {
  return CollectFor(UINT64_MAX / 2);
}

Status Part::CollectFor(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(const Position to, FirstNeeded(bytes));
  return MoveHead(to);
}

// Not at each commit: each time the head is written anew. Where nothing could go it is not tried
// again before the log has grown some more.
Status Part::CollectAtThreshold() {
  const uint64_t capacity = heap_->identity().capacity;
  const bool filled = heap_->live_bytes() > capacity / 100 * options_.collect_percent;
  if (!filled || heap_->tail() < look_again_) return Status();
  const Position before = heap_->head().head;
  QUIRE_RETURN_IF_ERROR(Collect());
  const bool moved = heap_->head().head != before;
  look_again_ = heap_->tail() + capacity / (moved ? 64 : 16);
  return Status();
}

// Appends what is needed of the head's commit again, under the numbers that it has; then the head
// can move over it.
Status Part::RelocateHead(bool* moved) {
  *moved = false;
  if (live_.empty()) return Status();
  const LiveCommit& commit = live_.front();
  if (LowestPin() < commit.at + commit.bytes) return Status();
  QUIRE_ASSIGN_OR_RETURN(const Record record, heap_->RecordAt(commit.at));
  QUIRE_ASSIGN_OR_RETURN(std::vector<Entry> needed, NeededOfHead(record));
  uint64_t bytes = kRecordBytes;
  for (const Entry& entry : needed) {
    bytes += AlignUp(entry.stored, kRecordBytes) + entry.encoded;
  }
  if (needed.empty() || heap_->Needs(bytes) > heap_->free_bytes()) return Status();
  std::vector<Item> items(needed.size());
  std::list<LiveCommit> fresh = NewLive(items.size());
  QUIRE_RETURN_IF_ERROR(heap_->Begin(bytes));
  for (size_t i = 0; i < needed.size(); ++i) {
    Entry& entry = items[i].entry = std::move(needed[i]);
    QUIRE_ASSIGN_OR_RETURN(items[i].slot, index_->Find(entry.key));
    const char* const from = heap_->At(entry.data);
    QUIRE_RETURN_IF_ERROR(CheckStored(entry, from).WithContext(heap_->path()));
    entry.data = heap_->cursor();
    heap_->Append(Slice(from, entry.stored), 0);
    relocated_bytes_ += entry.stored;
  }
  EndCommit(RecordKind::kRelocation, 0, record.unix_time_ns, items, &fresh);
  base::SyncPoint("stream.relocate.before_index");
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_CHECK(index_->Move(items[i].slot, RefOf(items[i].entry, places_[i])));
  }
  *moved = true;
  base::SyncPoint("stream.relocate.after_index");
  return Collect();
}

// What is needed of each commit, were the objects in `superseded` stored once more.
Part::NeededSums Part::SumNeeded(const SlotSet& superseded) const {
  std::unordered_map<uint64_t, uint64_t> of_commit;
  std::vector<VersionRef> refs;
  std::vector<bool> needed;
  NeededSums sums;
  index_->EachObject([&](uint32_t object, Slice key) {
    if (!Needed(object, superseded.contains(object), &refs, &needed).ok()) return;
    for (size_t i = 0; i < refs.size(); ++i) {
      if (!needed[i]) continue;
      uint64_t& commit = of_commit[refs[i].snapshot];
      uint64_t bytes = commit == 0 ? kRecordBytes : 0;
      bytes += AlignUp(refs[i].stored, kRecordBytes) + EntryBytes(key.size(), kExtentsMax);
      sums.all += bytes;
      sums.largest = std::max(sums.largest, commit += bytes);
    }
  });
  return sums;
}

Status Part::Full(uint64_t bytes, const char* why) const {
  return Status(Code::kNoSpace, heap_->path() + " has no room for " + std::to_string(bytes) +
                                    " bytes: of " + std::to_string(heap_->identity().capacity) +
                                    " are " + std::to_string(heap_->live_bytes()) + " in use, " +
                                    why +
                                    "; give a larger stream_log_bytes, or keep fewer versions");
}

bool Part::RoomFor(uint64_t bytes, uint64_t spare) const {
  return heap_->Needs(bytes) + spare <= heap_->free_bytes();
}

// What is kept and comes to stand at the head must be appended again while there is room for it: so
// room is left for twice the largest commit of which something is kept (it lies in one piece).
Status Part::MakeRoom(uint64_t bytes, const std::vector<Item>& items, uint64_t versions) {
  pinned_ = false;
  if (bytes > heap_->identity().capacity) return Full(bytes, "and a commit lies in one piece");
  largest_commit_ = std::max(largest_commit_, bytes);
  if (index_->free_versions() < versions) QUIRE_RETURN_IF_ERROR(MakeIndexRoom(versions));
  if (index_->free_versions() < versions) {
    return Full(bytes, "the index has no room for more versions");
  }
  if (RoomFor(bytes, 2 * largest_commit_)) return Status();
  // What nobody keeps goes bit by bit, as a cache does; else all that can go goes at once.
  QUIRE_RETURN_IF_ERROR(options_.keep_versions == 0 ? CollectFor(bytes) : Collect());
  QUIRE_ASSIGN_OR_RETURN(const uint64_t reserve, MoveWhatIsKept(bytes, items));
  if (heap_->live_bytes() == 0 && !RoomFor(bytes, 0)) {
    heap_->SkipRest();  // the log is empty, and its tail lies where nothing large fits behind it
    gate_->SetTail(heap_->tail());
    QUIRE_RETURN_IF_ERROR(Collect());
  }
  // What is kept cannot be moved out of the way while a reader looks at it. Afterwards it takes the
  // room that is left for that: it must not have been used up meanwhile.
  pinned_ = pinned_ || LowestPin() < heap_->tail();
  if (RoomFor(bytes, pinned_ ? reserve : 0)) return Status();
  return Full(bytes,
              pinned_ ? "and a reader holds what could go" : "and what is kept lies in the way");
}

// What is kept and lies at the head keeps those behind it in the index.
Status Part::MakeIndexRoom(uint64_t versions) {
  QUIRE_RETURN_IF_ERROR(Collect());
  for (const Position lap = heap_->tail();
       index_->free_versions() < versions && heap_->head().head < lap;) {
    bool moved = false;
    QUIRE_RETURN_IF_ERROR(RelocateHead(&moved));
    if (!moved) break;
  }
  return Status();
}

// Whether there is room for a commit of `bytes`, and behind it for one of `whole`.
bool Part::RoomForBoth(uint64_t bytes, uint64_t whole) {
  const auto both = [&] {
    const uint64_t first = heap_->Needs(bytes);
    return first + heap_->NeedsBehind(first, whole) <= heap_->free_bytes();
  };
  return both() || (Collect().ok() && both());
}

// Moves what is kept from the head to the tail until there is room for `bytes`, and to move what is
// kept once more. Returns the room that is to be left where that could not be reached.
Result<uint64_t> Part::MoveWhatIsKept(uint64_t bytes, const std::vector<Item>& items) {
  const uint64_t capacity = heap_->identity().capacity;
  SlotSet superseded;
  for (const Item& item : items) {
    if (!item.entry.delta) superseded.insert(item.slot);
  }
  for (const Position lap = heap_->tail(); heap_->head().head < lap;) {
    const NeededSums sums = SumNeeded(superseded);
    const uint64_t spare = 2 * sums.largest;
    largest_commit_ = std::max(bytes, sums.largest);
    const bool reachable = sums.all + bytes + spare <= capacity;
    const bool enough = RoomFor(bytes, spare) || (RoomFor(bytes, 0) && !reachable);
    if (enough || sums.all + bytes > capacity) break;
    bool moved = false;
    QUIRE_RETURN_IF_ERROR(RelocateHead(&moved));
    if (!moved) return reachable ? spare : 0;
  }
  return 0;
}

Status Part::SetKept(std::vector<uint64_t> kept) {
  Head head = heap_->head();
  head.kept = std::move(kept);
  look_again_ = 0;
  return heap_->WriteHead(std::move(head));
}

}  // namespace quire::stream
