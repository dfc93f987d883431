#include "stream/store/local_reader.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/core/program_call.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "stream/log/delta.h"
#include "stream/store/pins.h"
#include "stream/store/reader_log.h"
#include "stream/store/tending.h"

namespace quire::stream {
namespace {

constexpr int kOpenAttempts = 1000;
constexpr int kPatience = 20;  // attempts before the reader checks whether the writer lives
constexpr uint64_t kOpenPauseNs = 1'000'000;
constexpr uint64_t kSliceNs = 500'000'000;  // then the reader checks whether the writer lives

/// The requested version: by its number (0: the newest), or by a snapshot.
struct Which {
  uint64_t number = 0;
  bool of_snapshot = false;
};

// Returns the lowest position that is read for refs[at], back to the whole version on which it
// rests.
Position LowestOf(const std::vector<VersionRef>& refs, size_t at) {
  Position lowest = kNoPin;
  for (size_t i = at; i < refs.size(); ++i) {
    lowest = std::min(lowest, refs[i].data);
    if (!refs[i].delta) break;
  }
  return lowest;
}

bool Ended(GateState state) {
  return state == GateState::kFinished || state == GateState::kEnded;
}

Status ChangesAlways() {
  return Status(Code::kBusy, "the versions of the object change at every look: try again");
}

// A version that was found: its entries, back to the whole version. If the reader pins, `held` pins
// them.
struct FoundVersion {
  std::shared_ptr<const ReaderLog> reader_log;
  std::vector<VersionEntry> chain;
  Position lowest = 0;  // the lowest position of the log that is read for it
  Pins::Held held;

  const VersionEntry& entry() const { return chain.front(); }
  // The writer may overwrite bytes of the log that no pin holds.
  bool in_place() const { return reader_log->pinned() && !entry().delta && !entry().packed; }
};

class LocalView final : public HashedView {
 public:
  explicit LocalView(FoundVersion found)
      : found_(std::move(found)), version_(VersionOf(found_.entry())) {}

  Status Fill() {
    if (found_.in_place()) return Status();
    own_.resize(found_.entry().bytes);
    QUIRE_RETURN_IF_ERROR(Assemble(found_.reader_log->heap(), found_.chain, own_.data()));
    found_.held = Pins::Held();
    return Status();
  }

  Slice bytes() const override {
    if (!found_.in_place()) return own_;
    return Slice(found_.reader_log->heap().At(found_.entry().data), found_.entry().bytes);
  }
  const StreamVersion& version() const override { return version_; }
  bool in_place() const override { return found_.in_place(); }
  std::optional<uint64_t> hash() const override {
    const VersionEntry& entry = found_.entry();
    if (found_.in_place()) return entry.checksum;
    return entry.has_content_hash ? std::optional(entry.content_hash) : std::nullopt;
  }
  Status Verify() const override {
    if (!found_.in_place()) return Status();  // Fill has checked it
    const LogHeap& heap = found_.reader_log->heap();
    const VersionEntry& entry = found_.entry();
    QUIRE_RETURN_IF_ERROR(heap.CheckReadable(entry.data, entry.stored));
    return CheckStored(entry, bytes().data()).WithContext(heap.path());
  }

 private:
  FoundVersion found_;
  StreamVersion version_;
  std::string own_;
};

class LocalReader final : public StreamReader {
 public:
  LocalReader(io::FileSystem& fs, PartName name) : fs_(fs), name_(std::move(name)) {}

  Status Open(Access access) {
    QUIRE_ASSIGN_OR_RETURN(reader_log_, OpenReaderLog(fs_, name_, access));
    if (!reader_log_->pinned()) return Status();
    gate_ = reader_log_->gate();
    pins_ = std::make_unique<Pins>(fs_, name_, gate_.get());
    return Status();
  }

  Result<std::vector<std::string>> Objects() override;
  Result<std::vector<StreamVersion>> Versions(Slice key) override;
  Result<uint64_t> LastSnapshot() override;
  Status Get(Slice key, uint64_t version, const BufferAllocator& allocate) override {
    return Copy(key, {version, false}, allocate);
  }
  Status GetAt(Slice key, uint64_t snapshot, const BufferAllocator& allocate) override {
    return Copy(key, {snapshot, true}, allocate);
  }
  Result<std::unique_ptr<StreamView>> View(Slice key, uint64_t version) override {
    return Look(key, {version, false});
  }
  Result<std::unique_ptr<StreamView>> ViewAt(Slice key, uint64_t snapshot) override {
    return Look(key, {snapshot, true});
  }
  Result<uint64_t> Wait(uint64_t after, uint64_t timeout_ms) override;
  Result<bool> Finished() override {
    QUIRE_ASSIGN_OR_RETURN(const Told told, AsTold());
    return told.state == GateState::kFinished;
  }
  Result<std::shared_ptr<const char>> RoomAt(Position at, uint64_t bytes);

 private:
  // The writer's state and snapshot. The state is read first: after the end no snapshot follows.
  struct Told {
    std::shared_ptr<Gate> gate;  // null: no program writes
    GateState state;
    uint64_t snapshot;
  };
  Result<std::shared_ptr<const ReaderLog>> Now();
  Result<Told> AsTold();
  Result<uint64_t> SnapshotNow();
  Result<std::optional<Pins::Held>> HoldFrom(const ReaderLog& reader_log, Position from);
  bool Counts(const ReaderLog& reader_log, Position from) const;
  Status CheckNotRemoved();
  Result<std::vector<VersionRef>> Visible(const ReaderLog& reader_log, Slice key,
                                          const Index::Enough& enough = {});
  Result<std::vector<StreamVersion>> TryVersions(Slice key, bool* again);
  Result<FoundVersion> Find(Slice key, const Which& which);
  Result<FoundVersion> TryFind(Slice key, const Which& which, bool* again);
  Status Copy(Slice key, const Which& which, const BufferAllocator& allocate);
  Result<std::unique_ptr<StreamView>> Look(Slice key, const Which& which);
  template <typename Body>
  auto Again(const Body& look) -> decltype(look(nullptr));
  Result<bool> WriterDied();
  Result<bool> IndexAnew();
  Result<bool> WriterGone();
  Status LookAfterWriter();
  Status NoFurther(GateState state);

  io::FileSystem& fs_;
  PartName name_;
  std::shared_ptr<Gate> gate_;  // constant after Open; null: this reader only looks
  std::mutex mutex_;            // guards reader_log_
  std::shared_ptr<const ReaderLog> reader_log_;
  bool stale_ = false;          // the log's writer has died, and this reader only looks
  std::unique_ptr<Pins> pins_;  // null: this reader only looks
};

// Returns what `look` finds, and retries if the writer changed what it read. A writer that died
// during a collection has announced that versions go, but never removes them from the index. Until
// the index is rebuilt, they can neither be held nor reported as gone.
template <typename Body>
auto LocalReader::Again(const Body& look) -> decltype(look(nullptr)) {
  for (int attempt = 1;; ++attempt) {
    bool again = false;
    auto found = base::OrOutOfMemory([&] { return look(&again); });
    if (found.ok() || !again || attempt > kOpenAttempts) return found;
    if (attempt % kPatience != 0) {
      io::RealClock().SleepNs(kOpenPauseNs);
      continue;
    }
    const Status asked = base::OrOutOfMemory([&] { return WriterGone(); }).status();
    // If memory or descriptors are short, this is unknown: the writer may only be slow.
    if (asked.code() != Code::kOutOfMemory) QUIRE_RETURN_IF_ERROR(asked);
  }
}

// Returns the log as readers see it now, with another index if the writer has made one.
Result<std::shared_ptr<const ReaderLog>> LocalReader::Now() {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("the stream reader"));
  const std::lock_guard guard(mutex_);
  if (!stale_ && reader_log_->current()) return reader_log_;
  QUIRE_ASSIGN_OR_RETURN(reader_log_, reader_log_->Renew(fs_, name_));
  stale_ = false;
  return reader_log_;
}

Result<LocalReader::Told> LocalReader::AsTold() {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("the stream reader"));
  if (gate_ != nullptr) {
    const GateState state = gate_->state();
    return Told{gate_, state, gate_->snapshot()};
  }
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const ReaderLog> reader_log, Now());
  const GateState state = reader_log->state();
  return Told{reader_log->gate(), state, reader_log->snapshot()};
}

// Holds the log from `from` on. Returns nothing if those bytes were collected, or are about to be.
Result<std::optional<Pins::Held>> LocalReader::HoldFrom(const ReaderLog& reader_log,
                                                        Position from) {
  if (pins_ != nullptr) return pins_->Hold(from);
  return reader_log.Untouched(from) ? std::optional(Pins::Held()) : std::nullopt;
}

// Returns whether no bytes from `from` on were collected while they were read.
bool LocalReader::Counts(const ReaderLog& reader_log, Position from) const {
  return pins_ != nullptr || reader_log.Untouched(from);
}

// Returns all committed versions, up to the first that is `enough`. It reads the index before the
// gate's snapshot: a version that was collected meanwhile was replaced by one of a snapshot that
// the gate had by then. In the other order the newest version would be dropped as too new, and an
// older one that is kept would pass for it (docs/decisions/0014-reading-beside-a-writer.md).
Result<std::vector<VersionRef>> LocalReader::Visible(const ReaderLog& reader_log, Slice key,
                                                     const Index::Enough& enough) {
  base::SyncPoint("stream.read.before_index");
  QUIRE_ASSIGN_OR_RETURN(const uint32_t object, reader_log.index().Find(key));
  std::vector<VersionRef> refs;
  const Status read = reader_log.index().Versions(object, &refs, enough);
  if (read.code() == Code::kBusy) {
    // Amid a change: its writer is slow, or has died there.
    QUIRE_ASSIGN_OR_RETURN(const bool gone, WriterGone());
    if (gone) return Status(Code::kBusy);
  }
  QUIRE_RETURN_IF_ERROR(read);
  base::SyncPoint("stream.read.after_index");
  const uint64_t committed = reader_log.snapshot();
  std::erase_if(refs, [&](const VersionRef& ref) { return ref.snapshot > committed; });
  if (refs.empty()) return Status(Code::kNotFound);
  return refs;
}

Result<FoundVersion> LocalReader::TryFind(Slice key, const Which& which, bool* again) {
  *again = false;
  FoundVersion found;
  // Read before the index is chosen and read, which then has all versions of snapshots up to this
  // one.
  QUIRE_ASSIGN_OR_RETURN(const uint64_t snapshot, SnapshotNow());
  QUIRE_ASSIGN_OR_RETURN(found.reader_log, Now());
  base::SyncPoint("stream.read.after_sight");
  if (which.of_snapshot && which.number > snapshot) {
    return Status(Code::kNotFound, "there is no snapshot " + std::to_string(which.number) + " yet");
  }
  // Reads back to the whole version on which the requested one rests.
  const auto enough = [&](const VersionRef& ref) {
    const uint64_t number = which.of_snapshot ? ref.snapshot : ref.version;
    return !ref.delta && ref.snapshot <= snapshot && (which.number == 0 || number <= which.number);
  };
  Result<std::vector<VersionRef>> refs = Visible(*found.reader_log, key, enough);
  if (!refs.ok()) {
    *again = refs.status().code() == Code::kBusy;
    return refs.status();
  }
  int at = FindVersion(*refs, which.number);
  if (which.of_snapshot) {
    at = VersionAt(*refs, which.number, false);
    if (at < 0 && found.reader_log->Kept(which.number)) at = VersionAt(*refs, which.number, true);
  }
  if (at < 0) return Status(Code::kNotFound);
  found.lowest = LowestOf(*refs, static_cast<size_t>(at));
  base::SyncPoint("stream.read.before_pin");
  QUIRE_ASSIGN_OR_RETURN(std::optional<Pins::Held> held, HoldFrom(*found.reader_log, found.lowest));
  *again = !held;
  if (!held) return ChangesAlways();
  base::SyncPoint("stream.read.after_pin");
  found.held = *std::move(held);
  auto chain = ChainOf(found.reader_log->heap(), *refs, static_cast<size_t>(at));
  *again = !Counts(*found.reader_log, found.lowest);
  if (*again) return ChangesAlways();
  QUIRE_ASSIGN_OR_RETURN(found.chain, std::move(chain));
  return found;
}

Result<FoundVersion> LocalReader::Find(Slice key, const Which& which) {
  return Again([&](bool* again) { return TryFind(key, which, again); });
}

Status LocalReader::Copy(Slice key, const Which& which, const BufferAllocator& allocate) {
  for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(const FoundVersion found, Find(key, which));
    QUIRE_ASSIGN_OR_RETURN(char* const to, CallAllocator(allocate, found.entry().bytes));
    base::SyncPoint("stream.read.before_copy");
    const Status copied = Assemble(found.reader_log->heap(), found.chain, to);
    base::SyncPoint("stream.read.copied");
    if (Counts(*found.reader_log, found.lowest)) return copied;
  }
  return ChangesAlways();
}

Result<std::unique_ptr<StreamView>> LocalReader::Look(Slice key, const Which& which) {
  return Again([&](bool* again) -> Result<std::unique_ptr<StreamView>> {
    QUIRE_ASSIGN_OR_RETURN(FoundVersion found, TryFind(key, which, again));
    const std::shared_ptr<const ReaderLog> reader_log = found.reader_log;
    const Position lowest = found.lowest;
    auto view = std::make_unique<LocalView>(std::move(found));
    const Status filled = view->Fill();
    *again = !Counts(*reader_log, lowest);
    if (*again) return ChangesAlways();
    QUIRE_RETURN_IF_ERROR(filled);
    return std::unique_ptr<StreamView>(std::move(view));
  });
}

Result<std::shared_ptr<const char>> LocalReader::RoomAt(Position at, uint64_t bytes) {
  struct HeldRoom {
    std::shared_ptr<const ReaderLog> reader_log;
    Pins::Held held;
  };
  const auto room = std::make_shared<HeldRoom>();
  QUIRE_ASSIGN_OR_RETURN(room->reader_log, Now());
  if (pins_ == nullptr) {
    return Status(Code::kReadOnly, name_.directory() + " cannot be written to");
  }
  const LogHeap& heap = room->reader_log->heap();
  if (!heap.HasRoomAt(at, bytes)) {
    return Status(Code::kCorruption, heap.path() + " has no room of " + std::to_string(bytes) +
                                         " bytes at " + std::to_string(at));
  }
  QUIRE_ASSIGN_OR_RETURN(std::optional<Pins::Held> held, pins_->Hold(at));
  if (!held) return Status(Code::kNotFound, "the writer needed the room again");
  room->held = *std::move(held);
  QUIRE_RETURN_IF_ERROR(heap.CheckReadable(at, bytes));
  return std::shared_ptr<const char>(room, heap.At(at));
}

Result<std::vector<std::string>> LocalReader::Objects() {
  return Again([&](bool* again) -> Result<std::vector<std::string>> {
    QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const ReaderLog> reader_log, Now());
    std::vector<std::string> keys;
    for (std::string& key : reader_log->index().Keys()) {
      const Result<std::vector<VersionRef>> refs = Visible(*reader_log, key);
      *again = refs.status().code() == Code::kBusy;
      if (refs.ok()) keys.push_back(std::move(key));
      if (!refs.ok() && refs.status().code() != Code::kNotFound) return refs.status();
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  });
}

Result<std::vector<StreamVersion>> LocalReader::Versions(Slice key) {
  return Again([&](bool* again) { return TryVersions(key, again); });
}

Result<std::vector<StreamVersion>> LocalReader::TryVersions(Slice key, bool* again) {
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const ReaderLog> reader_log, Now());
  const Result<std::vector<VersionRef>> refs = Visible(*reader_log, key);
  *again = refs.status().code() == Code::kBusy;
  if (!refs.ok()) return refs.status();
  Position lowest = kNoPin;
  for (const VersionRef& ref : *refs) lowest = std::min(lowest, ref.data);
  QUIRE_ASSIGN_OR_RETURN(const std::optional<Pins::Held> held, HoldFrom(*reader_log, lowest));
  *again = !held;
  if (!held) return ChangesAlways();
  std::vector<StreamVersion> versions;
  for (const VersionRef& ref : *refs) {
    const Result<VersionEntry> entry = reader_log->heap().EntryAt(ref.entry);
    *again = !Counts(*reader_log, lowest);
    if (*again) return ChangesAlways();
    QUIRE_RETURN_IF_ERROR(entry.status());
    versions.push_back(VersionOf(*entry));
  }
  return versions;
}

Result<uint64_t> LocalReader::LastSnapshot() {
  QUIRE_RETURN_IF_ERROR(Now().status());
  return SnapshotNow();
}

Result<uint64_t> LocalReader::SnapshotNow() {
  if (gate_ != nullptr) return gate_->snapshot();
  QUIRE_ASSIGN_OR_RETURN(const Told told, AsTold());
  return told.snapshot;
}

// Fails if the log's name belongs to another store by now, which may have its own writer.
Status LocalReader::CheckNotRemoved() {
  uint64_t log_id = 0;
  {
    const std::lock_guard guard(mutex_);
    log_id = reader_log_->heap().identity().log_id;
  }
  return CheckSamePart(fs_, name_, log_id);
}

// Returns whether the program that announced itself as the writer no longer runs.
Result<bool> LocalReader::WriterDied() {
  QUIRE_ASSIGN_OR_RETURN(const Told told, AsTold());
  QUIRE_RETURN_IF_ERROR(CheckNotRemoved());
  if (Ended(told.state)) return false;
  QUIRE_ASSIGN_OR_RETURN(const std::string holder, fs_.LockHolder(name_.path("log") + ".lock"));
  return holder.empty();
}

// Rebuilds the index of a writer that died, because the last commit may be missing in it. If this
// reader only looks, it does so in its own memory. Returns false if another program opens the part
// at this moment.
Result<bool> LocalReader::IndexAnew() {
  if (pins_ == nullptr) {
    const std::lock_guard guard(mutex_);
    stale_ = true;
    return true;
  }
  const Status recovered = RecoverIndex(fs_, name_.place, name_.store, name_.rank);
  if (recovered.code() == Code::kBusy) return false;
  QUIRE_RETURN_IF_ERROR(recovered);
  return true;
}

Result<bool> LocalReader::WriterGone() {
  QUIRE_ASSIGN_OR_RETURN(const bool died, WriterDied());
  return died ? IndexAnew() : Result<bool>(false);
}

// Returns an error if there is nothing more to wait for.
Status LocalReader::LookAfterWriter() {
  const Result<bool> died = WriterDied();
  // A lack of descriptors or memory in this program says nothing about the writer.
  if (died.status().code() == Code::kOutOfMemory) return Status();
  QUIRE_RETURN_IF_ERROR(died.status());
  if (!*died) return Status();
  const Status made = IndexAnew().status();
  if (made.ok() || made.code() == Code::kCorruption) return made;
  return Status(Code::kPeerFailed, made.message());
}

// Returns why no further snapshot comes. It checks the store first, because the gate of a removed
// store reports its last state forever.
Status LocalReader::NoFurther(GateState state) {
  const Status same = CheckNotRemoved();
  if (!same.ok() && same.code() != Code::kOutOfMemory) return same;  // else unknown
  if (state == GateState::kFinished) return Status(Code::kNotFound, "the writer has finished");
  return Status(Code::kPeerFailed, "no program writes " + name_.path("log") +
                                       ", and its writer did not finish it");
}

Result<uint64_t> LocalReader::Wait(uint64_t after, uint64_t timeout_ms) {
  const uint64_t begin = io::RealClock().NowNs();
  const uint64_t timeout_ns = std::min(timeout_ms, UINT64_MAX / 2'000'000) * 1'000'000;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const Told told, AsTold());
    if (told.snapshot > after) return told.snapshot;
    if (Ended(told.state)) return NoFurther(told.state);
    const uint64_t waited = io::RealClock().NowNs() - begin;
    if (waited >= timeout_ns) {
      return Status(Code::kTimedOut, "no snapshot came after " + std::to_string(after));
    }
    told.gate->Wait(after, told.state, std::min(timeout_ns - waited, kSliceNs));
    if (told.gate->snapshot() > after) continue;
    QUIRE_RETURN_IF_ERROR(LookAfterWriter());
  }
}

}  // namespace

Result<char*> CallAllocator(const BufferAllocator& allocate, uint64_t bytes) {
  return base::CallProgram([] { return std::string("the buffer allocator"); },
                           [&]() -> Result<char*> {
                             if (char* const to = allocate(bytes)) return to;
                             return Status(Code::kOutOfMemory,
                                           "the program gave no memory for a version");
                           });
}

uint64_t HashOf(const StreamView& view) {
  const auto* const hashed = dynamic_cast<const HashedView*>(&view);
  const std::optional<uint64_t> known = hashed != nullptr ? hashed->hash() : std::nullopt;
  return known ? *known : DataHash(view.bytes());
}

Result<std::shared_ptr<const char>> RoomAt(StreamReader& reader, Position at, uint64_t bytes) {
  auto* const local = dynamic_cast<LocalReader*>(&reader);
  if (local == nullptr) return Status(Code::kUnsupported, "the log is not at this place");
  return local->RoomAt(at, bytes);
}

Result<uint64_t> LogIdAt(io::FileSystem& fs, const std::string& place, const std::string& name,
                         uint32_t rank) {
  const PartName part{place, name, rank};
  QUIRE_RETURN_IF_ERROR(CheckPartName(part));
  QUIRE_ASSIGN_OR_RETURN(const Identity identity, LogHeap::IdentityAt(fs, part.path("log")));
  return identity.log_id;
}

Result<std::unique_ptr<StreamReader>> OpenLocalReader(io::FileSystem& fs, const std::string& place,
                                                      const std::string& name, uint32_t rank,
                                                      Access access) {
  auto reader = std::make_unique<LocalReader>(fs, PartName{place, name, rank});
  QUIRE_RETURN_IF_ERROR(reader->Open(access));
  return std::unique_ptr<StreamReader>(std::move(reader));
}

}  // namespace quire::stream
