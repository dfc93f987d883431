// The reclamation of a log's room: the head moves over unneeded commits; needed ones in its way are
// appended again.
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "base/core/check.h"
#include "base/core/out_of_memory.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "stream/index/log_contents.h"
#include "stream/log/delta.h"
#include "stream/store/part.h"

namespace quire::stream {
namespace {

constexpr size_t kPieceCommits = 1024;
constexpr int kPlansMax = 8;  // plans of moves for one commit; a new one if versions age out

// Returns the largest size of a commit in which all items are whole.
uint64_t WholeBytes(const std::vector<PendingVersion>& items) {
  uint64_t bytes = kRecordBytes;
  for (const PendingVersion& item : items) bytes += SizesOf(item.entry).whole;
  return bytes;
}

}  // namespace

// Finds which of an object's versions, newest first, the policy keeps, including those on which
// kept deltas rest. Behind the last needed version `refs` may contain only the next older one.
// `superseded`: a whole version is about to follow. An older version never counts as younger than a
// newer one: if the clock was set back, the times of earlier versions lie in the future for long.
Status Part::Needed(uint32_t slot, bool superseded, std::vector<VersionRef>* refs,
                    std::vector<bool>* needed) const {
  const uint64_t now_ns = options_.keep_ms == 0 ? 0 : io::UnixTimeNs();
  const std::vector<uint64_t>& kept = planned_kept_ ? *planned_kept_ : heap_->head().kept;
  const size_t newer = superseded ? 1 : 0;
  uint64_t time_ns = now_ns;
  const auto is_last = [&](const VersionRef& ref) {
    const size_t i = refs->size() - 1;
    const uint64_t until = i == 0 ? UINT64_MAX : (*refs)[i - 1].snapshot;
    const auto at = std::lower_bound(kept.begin(), kept.end(), ref.snapshot);
    time_ns = std::min(time_ns, ref.unix_time_ns);
    const bool young = time_ns + options_.keep_ms * 1'000'000 > now_ns;
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
    QUIRE_RETURN_IF_ERROR(part_.Needed(entry.slot, superseded_.contains(entry.slot), &object.refs,
                                       &object.needed));
  }
  const int which = FindVersion(object.refs, entry.version);
  const auto at = static_cast<size_t>(which);
  *needed = which >= 0 && object.refs[at].entry == entry.at && object.needed[at];
  return Status();
}

bool Part::Policy::EndsInDelta(const LiveEntry& entry) const {
  const auto object = objects_.find(entry.slot);
  if (object == objects_.end() || superseded_.contains(entry.slot)) return false;
  const VersionRef& newest = object->second.refs.front();
  return newest.delta && newest.version == entry.version;
}

// Returns the position of the first commit that is needed; an earlier one, if moving the head there
// makes room for `bytes`.
Result<Position> Part::FirstNeeded(uint64_t bytes) const {
  Policy policy(*this);
  base::SyncPoint("stream.collect.before_look");
  for (const LiveCommit& commit : live_) {
    QUIRE_RETURN_IF_ERROR(GiveWay());
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

// Returns the entries at the head that are needed, and have not been moved elsewhere yet.
Result<std::vector<VersionEntry>> Part::NeededOfHead(const Record& record) const {
  const LiveCommit& commit = live_.front();
  QUIRE_ASSIGN_OR_RETURN(std::vector<VersionEntry> entries, heap_->EntriesOf(commit.at, record));
  std::vector<VersionEntry> needed;
  Policy policy(*this);
  auto live = commit.entries.begin();
  Position at = commit.at + record.directory;
  for (VersionEntry& entry : entries) {
    const Position here = std::exchange(at, at + entry.encoded);
    if (live == commit.entries.end() || live->at != here) continue;
    bool stays = false;
    QUIRE_RETURN_IF_ERROR(policy.Look(*live++, &stays));
    if (stays) needed.push_back(std::move(entry));
  }
  return needed;
}

// Returns OK if the reader that had the slot is gone, and clears the slot. Only the holder of the
// slot's lock clears it, because a new reader may take the slot at any time. If the store was
// moved, its lock files moved with it.
Status Part::ClearIfDead(uint32_t slot) const {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock,
                         fs_.Lock(name_.pin_path(slot), io::ProcessDescription()));
  QUIRE_RETURN_IF_ERROR(CheckSamePart(fs_, name_, heap_->identity().log_id));
  gate_->Pin(slot, kNoPin);
  return Status();
}

// Returns the lowest pin of a reader that lives, or that may live: then `doubt` says why this is
// unknown for the reader with the lowest pin.
Position Part::LowestPin(Status* doubt) const {
  Position lowest = kNoPin;
  for (uint32_t slot = 0; slot < gate_->pin_slots(); ++slot) {
    const Position at = gate_->pin(slot);
    if (at >= lowest) continue;
    const Status died = ClearIfDead(slot);
    if (died.ok()) continue;
    lowest = at;
    if (doubt != nullptr) *doubt = died.code() == Code::kBusy ? Status() : died;
  }
  return lowest;
}

std::string Part::HeldText() const {
  Status doubt;
  LowestPin(&doubt);
  if (doubt.ok()) return "a reader holds what could go";
  return "a reader holds what could go, and whether it lives is not known: " + doubt.ToString();
}

// Returns the end of the commits from the head on that are wholly below `pin` and begin below `to`.
Position Part::EndBelow(Position pin, Position to) const {
  for (const LiveCommit& commit : live_) {
    if (commit.at >= to) break;
    if (commit.at + commit.bytes > pin) return commit.at;
  }
  return to;
}

// Publishes the new head first, and then reads the pins. A reader pins first and then reads the
// head, so that one of the two sees the other.
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

// Removes the versions below `to`, and those that rest on them: none of them is needed, because a
// needed one would make the versions below it needed.
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

Status Part::CollectInPieces() {
  QUIRE_ASSIGN_OR_RETURN(const Position to, FirstNeeded(UINT64_MAX / 2));
  do {
    QUIRE_RETURN_IF_ERROR(GiveWay());
    const auto behind = live_.size() > kPieceCommits ? std::next(live_.begin(), kPieceCommits)
                                                     : live_.end();
    QUIRE_RETURN_IF_ERROR(MoveHead(behind == live_.end() ? to : std::min(to, behind->at)));
  } while (heap_->head().head < to && !pinned_);
  return Status();
}

Status Part::CollectFor(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(const Position to, FirstNeeded(bytes));
  return MoveHead(to);
}

// Does not collect at each commit, because each collection writes the head. If nothing could go, it
// retries only after the log has grown some more.
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

// Appends the needed versions of the head's commit again, with the numbers that they have; then the
// head can move over it. If the file ends between them it makes two commits, so that little of the
// file's end stays unused.
Status Part::RelocateHead(HeadMove* move) {
  *move = HeadMove::kAgedOut;
  if (live_.empty()) return Status();
  const LiveCommit& commit = live_.front();
  base::SyncPoint("stream.relocate.before_pins");
  if (LowestPin() < commit.at + commit.bytes) {
    pinned_ = true;
    *move = HeadMove::kStays;
    return Status();
  }
  QUIRE_ASSIGN_OR_RETURN(const Record record, heap_->RecordAt(commit.at));
  QUIRE_ASSIGN_OR_RETURN(std::vector<VersionEntry> needed, NeededOfHead(record));
  if (needed.empty()) return Collect();
  const auto stored = [](const VersionEntry& entry) { return SizesOf(entry).stored; };
  const size_t first = FillFileEnd(needed, heap_->rest_of_file(), stored);
  const auto split = needed.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<NeededEntry> last;
  for (auto at = first == needed.size() ? needed.begin() : split; at != needed.end(); ++at) {
    last.push_back({stored(*at)});
  }
  const uint64_t skipped = first == needed.size() ? 0 : heap_->rest_of_file();
  const uint64_t bytes = skipped + CommitOf(last);
  *move = HeadMove::kStays;
  if (bytes > heap_->free_bytes()) return Status();
  for (const auto& [begin, end] : {std::pair(needed.begin(), split), {split, needed.end()}}) {
    if (begin != end) QUIRE_RETURN_IF_ERROR(AppendAgain({begin, end}, record.unix_time_ns));
  }
  *move = HeadMove::kMoved;
  base::SyncPoint("stream.relocate.after_index");
  return Collect();
}

Status Part::AppendAgain(std::vector<VersionEntry> entries, uint64_t unix_time_ns) {
  std::vector<PendingVersion> items(entries.size());
  std::list<LiveCommit> fresh = NewLive(items.size());
  uint64_t bytes = kRecordBytes;
  for (const VersionEntry& entry : entries) bytes += SizesOf(entry).stored;
  QUIRE_RETURN_IF_ERROR(heap_->Begin(bytes));
  for (size_t i = 0; i < entries.size(); ++i) {
    VersionEntry& entry = items[i].entry = std::move(entries[i]);
    QUIRE_ASSIGN_OR_RETURN(items[i].slot, index_->Find(entry.key));
    const char* const from = heap_->At(entry.data);
    QUIRE_RETURN_IF_ERROR(heap_->CheckReadable(entry.data, entry.stored));
    QUIRE_RETURN_IF_ERROR(CheckStored(entry, from).WithContext(heap_->path()));
    entry.data = heap_->cursor();
    heap_->Append(Slice(from, entry.stored), 0);
    relocated_bytes_ += entry.stored;
  }
  EndCommit(RecordKind::kRelocation, 0, unix_time_ns, items, &fresh);
  base::SyncPoint("stream.relocate.before_index");
  for (size_t i = 0; i < items.size(); ++i) {
    QUIRE_CHECK(index_->Move(items[i].slot, RefOf(items[i].entry, places_[i])));
  }
  return Status();
}

Status Part::Full(uint64_t bytes, const std::string& why) const {
  return Status(Code::kNoSpace, heap_->path() + " has no room for " + std::to_string(bytes) +
                                    " bytes: of " + std::to_string(heap_->identity().capacity) +
                                    " are " + std::to_string(heap_->live_bytes()) + " in use, " +
                                    why +
                                    "; give a larger stream_log_bytes, or keep fewer versions");
}

bool Part::RoomFor(uint64_t bytes, uint64_t spare) const {
  return heap_->Needs(bytes) + spare <= heap_->free_bytes();
}

// Kept versions that come to stand at the head must be appended again while there is room for them
// (room_plan.h). No commit takes that room, even while a reader stops the head.
Status Part::MakeRoom(uint64_t bytes, const std::vector<PendingVersion>& items, uint64_t versions) {
  pinned_ = false;
  if (bytes > heap_->identity().capacity) return Full(bytes, "and a commit lies in one piece");
  largest_commit_ = std::max({largest_commit_, bytes, WholeBytes(items)});
  if (index_->free_versions() < versions) QUIRE_RETURN_IF_ERROR(MakeIndexRoom(versions));
  if (index_->free_versions() < versions) {
    return Full(bytes, "the index has no room for more versions");
  }
  // There is room for the largest commit, wherever it falls, so that no further check is needed.
  if (RoomFor(bytes, 2 * largest_commit_)) return Status();
  // If nothing is kept (a cache), collects only what `bytes` need; else collects all that can go.
  QUIRE_RETURN_IF_ERROR(options_.keep_versions == 0 ? CollectFor(bytes) : Collect());
  bool fits = false;
  QUIRE_RETURN_IF_ERROR(MoveWhatIsKept(bytes, items, &fits));
  if (heap_->live_bytes() == 0 && !RoomFor(bytes, 0)) {
    heap_->SkipRest();  // the log is empty, but nothing large fits before the file's end
    gate_->SetTail(heap_->tail());
    QUIRE_RETURN_IF_ERROR(Collect());
  }
  base::SyncPoint("stream.room.before_pins");
  pinned_ = pinned_ || LowestPin() < heap_->tail();
  if (fits && RoomFor(bytes, 0)) return Status();
  return Full(bytes,
              "and " + (pinned_ ? HeldText() : "what is kept lies in the way"));
}

// A kept version at the head also keeps all those behind it in the index, so it is moved.
Status Part::MakeIndexRoom(uint64_t versions) {
  QUIRE_RETURN_IF_ERROR(Collect());
  for (const Position lap = heap_->tail();
       index_->free_versions() < versions && heap_->head().head < lap;) {
    const Position before = heap_->head().head;
    HeadMove move = HeadMove::kStays;
    QUIRE_RETURN_IF_ERROR(RelocateHead(&move));
    if (move == HeadMove::kStays || heap_->head().head == before) break;
  }
  return Status();
}

// Returns the size of a snapshot of all objects, whole, after `items` were stored.
uint64_t Part::WholeSnapshotBytes(const std::vector<PendingVersion>& items) const {
  uint64_t bytes = newest_bytes_ + WholeBytes(items);
  for (const PendingVersion& item : items) {
    if (item.slot < newest_.size()) bytes -= newest_[item.slot].bytes;
  }
  return bytes;
}

bool Part::LeavesRoom(const std::vector<PendingVersion>& items) {
  const uint64_t bytes = CommitBytes(items);
  const uint64_t largest = std::max(largest_commit_, WholeSnapshotBytes(items));
  if (RoomFor(bytes, 2 * largest)) return true;
  if (!Collect().ok()) return false;
  if (RoomFor(bytes, 2 * largest)) return true;
  const Result<RoomQuestion> question = AskFor(bytes, items);
  return question.ok() && MovesFor(*question).has_value();
}

// Describes the log as it is, and as it is after `items` were stored.
Result<RoomQuestion> Part::AskFor(uint64_t bytes, const std::vector<PendingVersion>& items) const {
  RoomQuestion question;
  question.capacity = heap_->identity().capacity;
  question.head = heap_->head().head;
  question.tail = heap_->tail();
  question.put_stays = options_.keep_versions != 0;
  SlotSet superseded;
  bool deltas = false;
  for (const PendingVersion& item : items) {
    if (!item.entry.delta) superseded.insert(item.slot);
    deltas = deltas || item.entry.delta;
    question.put.push_back({CommitBytes({&item, 1}) - kRecordBytes});
  }
  // If the bytes of a version are filled in later, only the total size is known.
  if (items.empty() && bytes != 0) question.put.push_back({bytes - kRecordBytes});
  // Deltas are stored only if a snapshot of whole versions can follow them as one commit. Whole
  // versions can be put again in any log that is large enough for them.
  if (deltas) question.reserve = WholeSnapshotBytes(items);
  Policy now(*this);
  Policy after(*this, std::move(superseded));
  for (auto at = live_.begin(); at != live_.end(); ++at) {
    const LiveCommit& commit = *at;
    // Includes the rest of the file if that was skipped.
    const Position end = std::next(at) == live_.end() ? heap_->tail() : std::next(at)->at;
    const Position begin = question.pieces.empty() ? question.head : commit.at;
    LogPiece piece;
    piece.bytes = end - begin;
    uint64_t of_deltas = 0;
    for (const LiveEntry& entry : commit.entries) {
      bool needed = false;
      QUIRE_RETURN_IF_ERROR(now.Look(entry, &needed));
      if (!needed) continue;
      QUIRE_RETURN_IF_ERROR(after.Look(entry, &needed));
      piece.needed.push_back({entry.sizes.stored, needed});
      if (!needed) continue;
      if (after.EndsInDelta(entry)) of_deltas += entry.sizes.whole;
    }
    if (of_deltas != 0) question.reserve = std::max(question.reserve, kRecordBytes + of_deltas);
    if (!piece.needed.empty() || question.pieces.empty()) {
      question.pieces.push_back(std::move(piece));
    } else {
      question.pieces.back().bytes += piece.bytes;
    }
  }
  return question;
}

// Moves kept versions from the head to the tail, until there is room for `bytes`, and after that to
// move what is kept for ever. A version that a reader holds stays. If versions age out meanwhile,
// the plan does not fit the log any more, and a new one is made.
Status Part::MoveWhatIsKept(uint64_t bytes, const std::vector<PendingVersion>& items, bool* fits) {
  *fits = false;
  HeadMove last = HeadMove::kAgedOut;
  for (int plans = 0; last == HeadMove::kAgedOut && plans < kPlansMax; ++plans) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<uint64_t> moves, PlanMoves(bytes, items));
    if (!moves) return Status();
    last = HeadMove::kMoved;
    for (uint64_t i = 0; last == HeadMove::kMoved && i < *moves; ++i) {
      QUIRE_RETURN_IF_ERROR(RelocateHead(&last));
    }
  }
  *fits = last == HeadMove::kMoved;
  return Status();
}

Result<std::optional<uint64_t>> Part::PlanMoves(uint64_t bytes,
                                                const std::vector<PendingVersion>& items) {
  QUIRE_ASSIGN_OR_RETURN(const RoomQuestion question, AskFor(bytes, items));
  largest_commit_ = std::max(bytes, question.reserve);
  for (const LogPiece& piece : question.pieces) {
    largest_commit_ = std::max(largest_commit_, CommitOf(piece.needed));
  }
  return MovesFor(question);
}

Status Part::SetKept(std::vector<uint64_t> kept) {
  Head head = heap_->head();
  head.kept = std::move(kept);
  look_again_ = 0;
  base::SyncPoint("stream.keep.before_head");
  return heap_->WriteHead(std::move(head));
}

// Keeps one more snapshot, if as much room to move the head remains as a commit must leave. This is
// checked, and kept versions are moved, before anything is stored, so that a program that finds the
// snapshot kept has room to go on. If it cannot be kept, also for want of memory, it is released
// again: no program would release it.
Status Part::KeepAlso(uint64_t snapshot) {
  std::vector<uint64_t> before = heap_->head().kept;
  bool fits = false;
  const Status stored = base::OrOutOfMemory([&]() -> Status {
    std::vector<uint64_t> kept = before;
    kept.insert(std::lower_bound(kept.begin(), kept.end(), snapshot), snapshot);
    planned_kept_ = kept;
    pinned_ = false;
    fits = RoomFor(0, 2 * largest_commit_);
    if (!fits) QUIRE_RETURN_IF_ERROR(MoveWhatIsKept(0, {}, &fits));
    if (!fits) return Status();
    QUIRE_RETURN_IF_ERROR(SetKept(std::move(kept)));
    base::SyncPoint("stream.keep.stored");
    return Status();
  });
  planned_kept_.reset();
  if (stored.ok() && fits) return Status();
  if (heap_->head().kept != before) QUIRE_RETURN_IF_ERROR(SetKept(std::move(before)));
  QUIRE_RETURN_IF_ERROR(stored);
  return Status(Code::kNoSpace, heap_->path() + " has no room to keep snapshot " +
                                    std::to_string(snapshot) +
                                    " beside what is kept" + (pinned_ ? ": " + HeldText() : "") +
                                    "; give a larger stream_log_bytes, or keep fewer versions");
}

}  // namespace quire::stream
