#include <algorithm>
#include <string>
#include <utility>

#include "base/core/log_sink.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "stream/index/log_contents.h"
#include "stream/store/part.h"

namespace quire::stream {
namespace {

constexpr uint64_t kLockPauseNs = 1'000'000;
constexpr uint64_t kWriterTimeoutNs = 500'000'000;  // for a writer that may just have died
constexpr uint64_t kTendingTimeoutNs = 60'000'000'000;
constexpr char kTends[] = ", which only tends it";

// `busy` names the holder. A program that runs releases the part within milliseconds.
Status NotGivenWay(const Status& busy) {
  return Status(busy.code(), busy.message() + ". It did not give way within " +
                                 std::to_string(kTendingTimeoutNs / 1'000'000'000) +
                                 " s: if it is stopped (SIGSTOP), continue it (kill -CONT PID)");
}

}  // namespace

bool OnlyTends(const std::string& holder) {
  return holder.ends_with(kTends);
}

Status CheckPartName(const PartName& name) {
  if (name.place.empty()) return Status(Code::kInvalidArgument, "the place of a stream is empty");
  return io::CheckName(name.store).WithContext("the name of a stream");
}

Status CheckSamePart(io::FileSystem& fs, const PartName& name, uint64_t log_id) {
  const Result<Identity> now = LogHeap::IdentityAt(fs, name.path("log"));
  const bool removed = now.status().code() == Code::kNotFound;
  if (!removed) QUIRE_RETURN_IF_ERROR(now.status());
  if (!removed && now->log_id == log_id) return Status();
  return Status(Code::kPeerFailed, "the store at " + name.directory() +
                                       " was removed or moved since this program opened it: open "
                                       "it again");
}

Result<std::unique_ptr<Part>> Part::Open(io::FileSystem& fs, const PartName& name,
                                         const StreamOptions& options, bool create) {
  QUIRE_RETURN_IF_ERROR(CheckPartName(name));
  std::unique_ptr<Part> part(new Part(fs, name));
  QUIRE_RETURN_IF_ERROR(part->Open(&options, create));
  part->Keep();
  return part;
}

Result<std::unique_ptr<Part>> Part::OpenExisting(io::FileSystem& fs, const PartName& name) {
  QUIRE_RETURN_IF_ERROR(CheckPartName(name));
  std::unique_ptr<Part> part(new Part(fs, name));
  QUIRE_RETURN_IF_ERROR(part->Open(nullptr, false));
  part->Keep();
  return part;
}

// Returns whether the holder of the lock writes. A program that only tends the part records this in
// the lock, because the gate of a dead writer still says that it writes; such a program is asked to
// release the part.
bool Part::HeldByWriter() const {
  const Result<std::string> holder = fs_.LockHolder(lock_path());
  const Result<std::unique_ptr<Gate>> gate = Gate::Open(fs_, name_.path("gate"));
  if (holder.ok() && OnlyTends(*holder)) {
    if (gate.ok()) (*gate)->Ask();
    return false;
  }
  return gate.ok() && (*gate)->state() == GateState::kWriting;
}

// A reader that rebuilds the index of a dead writer, or the daemon, tends the part: a program that
// wants to write waits until it releases the part. Tending programs wait for no other.
Status Part::Lock() {
  const std::string holder = io::ProcessDescription() + (writing_ ? "" : kTends);
  const uint64_t begin_ns = io::RealClock().NowNs();
  while (true) {
    auto lock = made_files_.Lock(fs_, lock_path(), holder);
    if (lock.ok()) lock_ = std::move(lock).value();
    if (lock.ok() || lock.status().code() != Code::kBusy || !writing_) return lock.status();
    const bool tended = !HeldByWriter();
    const uint64_t timeout_ns = tended ? kTendingTimeoutNs : kWriterTimeoutNs;
    if (io::RealClock().NowNs() - begin_ns >= timeout_ns) {
      return tended ? NotGivenWay(lock.status()) : lock.status();
    }
    io::RealClock().SleepNs(kLockPauseNs);
  }
}

Status Part::Open(const StreamOptions* options, bool create) {
  writing_ = options != nullptr;
  QUIRE_RETURN_IF_ERROR(create ? Prepare(*options) : LockExisting());
  base::SyncPoint("stream.lock.after");
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs_.Exists(name_.path("log")));
  if (create && !there) {
    Identity identity;
    identity.log_id = io::RandomU64();
    identity.capacity = AlignUp(options->log_bytes, kPageBytes);
    identity.rank = name_.rank;
    identity.store = name_.store;
    Head head;
    head.sequence = 1;
    head.synced = 1;
    head.boot_id = fs_.BootId();
    made_files_.AddFile(fs_, name_.path("log"));
    QUIRE_RETURN_IF_ERROR(LogHeap::Create(fs_, name_.path("log"), identity, head));
  } else if (create) {
    // The program that made the files may have died before their names were durable.
    QUIRE_RETURN_IF_ERROR(fs_.SyncDirectory(name_.directory()));
  }
  QUIRE_ASSIGN_OR_RETURN(heap_, LogHeap::Open(fs_, name_.path("log"), io::MapMode::kReadWrite));
  const Head& had = heap_->head();
  if (options != nullptr) {
    options_ = *options;
  } else {
    options_.keep_versions = had.keep_versions;
    options_.keep_ms = had.keep_ms;
  }
  QUIRE_RETURN_IF_ERROR(made_files_.AddFileIfAbsent(fs_, name_.path("gate")));
  QUIRE_RETURN_IF_ERROR(made_files_.AddFileIfAbsent(fs_, name_.path("index")));
  QUIRE_ASSIGN_OR_RETURN(gate_, Gate::Create(fs_, name_.path("gate")));
  asked_ = gate_->asked();
  finished_ = !writing_ && had.finished;
  // If the writer died, the gate must say that no program writes until there is a new index. If the
  // writer ended, the gate and the earlier index stay right until there is a new index, and also if
  // none can be made.
  if (!writing_ && !EndTold()) gate_->SetState(GateState::kNone);
  QUIRE_RETURN_IF_ERROR(Recover());
  // A writer pays for the pages at once, and not one by one during its steps. Not on a file system,
  // which would write all of them out.
  if (writing_ && heap_->memory().in_memory()) heap_->memory().Prefault();
  return Status();
}

bool Part::EndTold() const {
  const GateState state = gate_->state();
  const bool ended = state == GateState::kFinished || state == GateState::kEnded;
  return ended && gate_->Describes(heap_->identity().log_id, fs_.BootId());
}

Status Part::LockExisting() {
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs_.Exists(name_.path("log")));
  return there ? Lock() : Status(Code::kNotFound);
}

Status Part::Prepare(const StreamOptions& options) {
  if (options.log_bytes < kPageBytes) {
    return Status(Code::kInvalidArgument, "stream_log_bytes is too small");
  }
  const Status locked = io::AgainIfTakenBack([&]() -> Status {
    QUIRE_RETURN_IF_ERROR(made_directories_.MakeDirectory(fs_, name_.place));
    QUIRE_RETURN_IF_ERROR(made_directories_.MakeDirectory(fs_, name_.directory()));
    return Lock();
  });
  return locked.ok() ? root_.Make() : locked;
}

void Part::Keep() {
  made_directories_.Keep();
  root_.Keep();
  made_files_.Keep();
}

// Returns kBusy if an owner waits for the part, which this program only tends.
Status Part::GiveWay() const {
  const bool gives_way = !writing_ && gate_->asked() != asked_;
  return gives_way ? Status(Code::kBusy, "a program wants to write " + heap_->path()) : Status();
}

Status Part::Recover() {
  const uint64_t boot_id = fs_.BootId();
  const bool same_boot = heap_->head().boot_id == boot_id;
  WalkEnd end;
  HowToRead how = HowToReadDuring(boot_id, *heap_);
  how.go_on = [this] { return GiveWay(); };
  QUIRE_ASSIGN_OR_RETURN(const LogContents found, ReadContents(heap_.get(), how, &end));
  // A whole record was stored after all that belongs to it, unless the power failed and the pages
  // were written in any order.
  const bool described = gate_->Describes(heap_->identity().log_id, boot_id);
  QUIRE_RETURN_IF_ERROR(CheckEnd(*heap_, end, described ? gate_->tail() : 0, !how.any_order));
  if (!same_boot) QUIRE_RETURN_IF_ERROR(EraseLost(end));
  snapshot_ = found.snapshot;
  largest_commit_ = found.largest_commit;
  gate_->Assign(heap_->identity().log_id, boot_id);
  Head head = heap_->head();
  head.boot_id = boot_id;
  head.keep_versions = options_.keep_versions;
  head.keep_ms = options_.keep_ms;
  head.finished = finished_;
  // If a kept snapshot was lost with the power, the next snapshot of its number is another one.
  std::erase_if(head.kept, [&](uint64_t kept) { return kept > snapshot_; });
  QUIRE_RETURN_IF_ERROR(MakeIndex(found));
  FillLive(found);
  // Last, so that a refused opening leaves the log's policy and end as they were.
  QUIRE_RETURN_IF_ERROR(heap_->WriteHead(std::move(head)));
  Announce();
  return Status();
}

// Erases the records behind the end that a loss of power left, and logs what was lost.
Status Part::EraseLost(const WalkEnd& end) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t lost, heap_->EraseBehindTail());
  if (lost != 0 || heap_->fell_back() || !end.status.ok()) {
    base::Log(LogLevel::kWarning, heap_->path() +
                                      ": what was not synced before the power failed "
                                      "was lost behind position " +
                                      std::to_string(end.at));
  }
  return Status();
}

Status Part::MakeIndex(const LogContents& found) {
  const IndexSizes sizes = SizesFor(found, options_.objects_max, heap_->identity().capacity);
  const std::string path = name_.path("index");
  const std::string temporary = path + ".tmp";
  const uint64_t bytes = Index::BytesFor(sizes);
  const uint32_t number = gate_->index_number() + 1;
  QUIRE_ASSIGN_OR_RETURN(const bool left_over, fs_.Exists(temporary));
  if (left_over) QUIRE_RETURN_IF_ERROR(fs_.Unlink(temporary));
  // If there is no room for the whole index, its file is removed.
  io::MadePaths made;
  made.AddFile(fs_, temporary);
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                         fs_.Open(temporary, io::FileOpenMode::kCreate));
  QUIRE_RETURN_IF_ERROR(file->Allocate(bytes));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::MappedFile> map,
                         fs_.Map(temporary, bytes, io::MapMode::kReadWrite));
  Index::Format(map->data(), sizes, heap_->identity().log_id, number);
  QUIRE_ASSIGN_OR_RETURN(Index index,
                         Index::Attach(map->data(), bytes, heap_->identity().log_id, number));
  QUIRE_RETURN_IF_ERROR(FillIndex(found, &index));
  auto filled = std::make_unique<Index>(std::move(index));
  base::SyncPoint("stream.index.before_rename");
  QUIRE_RETURN_IF_ERROR(fs_.Rename(temporary, path));
  made.Keep();
  // Up to here the earlier index counts, if there is one. From here on nothing fails.
  index_ = std::move(filled);
  index_map_ = std::move(map);
  base::SyncPoint("stream.index.before_number");
  gate_->SetIndexNumber(number);
  return Status();
}

// Rebuilds the index with only the objects of the newest commits, about half of those for which it
// has room: until then, keys stay in an index even without versions.
Status Part::ForgetObjects() {
  SlotSet newest;
  Position to = heap_->tail();
  for (auto commit = live_.rbegin(); commit != live_.rend(); ++commit) {
    for (const LiveEntry& entry : commit->entries) newest.insert(entry.slot);
    if (newest.size() > options_.objects_max / 2) break;
    to = commit->at;
  }
  QUIRE_RETURN_IF_ERROR(MoveHead(to));
  LogContents found;
  std::vector<std::pair<uint32_t, const std::string*>> stay;
  std::vector<VersionRef> refs;
  index_->EachObject([&](uint32_t object, Slice key) {
    if (!index_->Versions(object, &refs).ok() || refs.empty()) return;
    const auto known = found.objects.try_emplace(std::string(key)).first;
    for (const VersionRef& ref : refs) known->second[ref.version] = ref;
    found.version_count += refs.size();
    found.key_bytes += key.size();
    stay.emplace_back(object, &known->first);
  });
  constexpr uint32_t kForgotten = UINT32_MAX;
  std::vector<uint32_t> slots(index_->slots(), kForgotten);  // new slots, by old slot
  QUIRE_RETURN_IF_ERROR(MakeIndex(found));
  // Nothing fails from here on, so that `live_` and the index use the same slots.
  for (const auto& [before, key] : stay) {
    const Result<uint32_t> now = index_->Find(*key);
    if (now.ok()) slots[before] = *now;
  }
  for (LiveCommit& commit : live_) {
    std::erase_if(commit.entries,
                  [&](const LiveEntry& one) { return slots[one.slot] == kForgotten; });
    for (LiveEntry& entry : commit.entries) entry.slot = slots[entry.slot];
  }
  return Status();
}

void Part::Announce() {
  base::SyncPoint("stream.open.before_news");
  gate_->SetHead(heap_->head().head);
  gate_->SetTail(heap_->tail());
  gate_->Publish(snapshot_);
  const GateState tended = finished_ ? GateState::kFinished : GateState::kEnded;
  gate_->SetState(writing_ ? GateState::kWriting : tended);
  announced_ = true;
}

Status Part::Finish() {
  QUIRE_RETURN_IF_ERROR(heap_->Sync());
  Head head = heap_->head();
  head.finished = true;
  QUIRE_RETURN_IF_ERROR(heap_->WriteHead(std::move(head)));
  finished_ = true;
  base::SyncPoint("stream.finish.before_state");
  gate_->SetState(GateState::kFinished);
  return Status();
}

// A forked child does not own its parent's part. After an opening that failed there is no end to
// announce: readers would take what the gate contained before as complete.
Part::~Part() {
  if (own() && announced_ && !finished_) gate_->SetState(GateState::kEnded);
}

}  // namespace quire::stream
