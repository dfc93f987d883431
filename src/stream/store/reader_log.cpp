#include "stream/store/reader_log.h"

#include <algorithm>
#include <utility>

#include "base/threads/fences.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "stream/index/log_contents.h"
#include "stream/store/local_reader.h"
#include "stream/store/tending.h"

namespace quire::stream {
namespace {

// The longest time that a writer may take to open: it reads the log's bytes if the machine was
// rebooted.
constexpr uint64_t kOpenTimeoutNs = 60'000'000'000;
constexpr uint64_t kSightPauseNs = 2'000'000;
constexpr uint32_t kRoot = 0;
// The header of an index, which is read before the index is attached.
constexpr uint64_t kIndexLooked = 4096;

// A reader maps the files that it reads, and any user who may write to them can end the program. It
// trusts the owner of the given place, and no other user.
Status CheckOwner(io::FileSystem& fs, const PartName& name) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t trusted, fs.SoleWriter(name.place));
  for (const std::string& path :
       {name.directory(), StoreRoot::PathIn(name.directory()), name.path("log"), name.path("gate"),
        name.path("index"), name.path("log") + ".lock"}) {
    const auto owner = fs.SoleWriter(path);
    if (owner.status().code() == Code::kNotFound) continue;  // opening it reports this
    QUIRE_RETURN_IF_ERROR(owner.status());
    if (*owner == trusted || *owner == kRoot) continue;
    return Status(Code::kInvalidArgument, path + " belongs to user " + std::to_string(*owner) +
                                              ", but " + name.place + " to user " +
                                              std::to_string(trusted) +
                                              ": it is not read; ask the owner of the place");
  }
  return Status();
}

// Returns whether the index cannot be made in the store, but perhaps in this program's memory.
bool Hinders(Code code) {
  return code == Code::kReadOnly || code == Code::kIo || code == Code::kNoSpace ||
         code == Code::kOutOfMemory;
}

}  // namespace

class SightOpener {
 public:
  SightOpener(io::FileSystem& fs, const PartName& name) : fs_(fs), name_(name) {}

  // Opens the log with the index that the gate names. Returns kBusy if there is none yet, or if it
  // is being replaced.
  Result<std::shared_ptr<const ReaderLog>> Shared(std::shared_ptr<Gate> gate) {
    auto reader_log = std::make_shared<ReaderLog>();
    reader_log->gate_ = std::move(gate);
    reader_log->index_number_ = reader_log->gate_->index_number();
    base::SyncPoint("stream.reader_log.numbered");
    QUIRE_ASSIGN_OR_RETURN(reader_log->heap_,
                           LogHeap::Open(fs_, name_.path("log"), io::MapMode::kRead));
    const uint64_t log_id = reader_log->heap_->identity().log_id;
    if (!reader_log->gate_->Describes(log_id, fs_.BootId())) return Status(Code::kBusy);
    const std::string path = name_.path("index");
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, fs_.Open(path, io::FileOpenMode::kRead));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
    base::SyncPoint("stream.reader_log.index_opened");
    Result<std::unique_ptr<io::MappedFile>> map = fs_.Map(path, bytes, io::MapMode::kRead);
    // The name may belong to a smaller index by now.
    if (map.status().code() == Code::kCorruption) return Status(Code::kBusy);
    QUIRE_ASSIGN_OR_RETURN(reader_log->index_map_, std::move(map));
    // Only the header: an index has room for many more versions than there are.
    QUIRE_RETURN_IF_ERROR(reader_log->index_map_->MakeReadable(0, std::min(bytes, kIndexLooked)));
    Result<Index> index =
        Index::Attach(reader_log->index_map_->data(), bytes, log_id, reader_log->index_number_);
    if (!index.ok()) return Status(Code::kBusy);
    reader_log->index_ = std::make_unique<Index>(*std::move(index));
    return std::shared_ptr<const ReaderLog>(std::move(reader_log));
  }

  // Opens the part with the index of the program that writes or wrote it. Returns kBusy if the
  // caller must retry.
  Result<std::shared_ptr<const ReaderLog>> Open(Access access) {
    QUIRE_ASSIGN_OR_RETURN(const bool there, fs_.Exists(name_.path("log")));
    if (!there) {
      return Status(Code::kNotFound, "no store " + name_.store + " at " + name_.place +
                                         ": no writer has created it yet (rank " +
                                         std::to_string(name_.rank) + ")");
    }
    const bool looks = access == Access::kLook;
    QUIRE_ASSIGN_OR_RETURN(
        const std::shared_ptr<Gate> gate,
        GateIfThere(looks ? io::MapMode::kRead : io::MapMode::kReadWrite, looks));
    if (gate != nullptr && gate->state() != GateState::kNone && WriterAsTold(*gate)) {
      Result<std::shared_ptr<const ReaderLog>> reader_log = Shared(gate);
      const bool replaced = reader_log.status().code() == Code::kBusy ||
                            reader_log.status().code() == Code::kNotFound;
      if (!replaced) return reader_log;
    }
    if (looks) return Alone(gate.get());
    const Status recovered = RecoverIndex(fs_, name_.place, name_.store, name_.rank);
    if (recovered.ok() || recovered.code() == Code::kBusy) return Status(Code::kBusy);
    return Hinders(recovered.code()) ? Open(Access::kLook) : recovered;
  }

 private:
  // Returns null if there is no valid gate yet. If the gate cannot be opened, this is an error only
  // if `needed`.
  Result<std::shared_ptr<Gate>> GateIfThere(io::MapMode mode, bool needed) {
    Result<std::unique_ptr<Gate>> gate = Gate::Open(fs_, name_.path("gate"), mode);
    if (gate.ok()) return std::shared_ptr<Gate>(*std::move(gate));
    const Code code = gate.status().code();
    const bool absent = code == Code::kNotFound || code == Code::kCorruption;
    if (absent || !needed) return std::shared_ptr<Gate>();
    return gate.status();
  }

  Result<bool> Written() {
    QUIRE_ASSIGN_OR_RETURN(const std::string holder, fs_.LockHolder(name_.path("log") + ".lock"));
    return !holder.empty();
  }

  bool WriterAsTold(const Gate& gate) {
    if (gate.state() != GateState::kWriting) return true;
    const Result<bool> written = Written();
    return written.ok() && *written;
  }

  // Opens a log that no program writes, with an index of this reader alone. `gate` (null: none) may
  // know how far the log goes. Returns kBusy if a writer has come.
  Result<std::shared_ptr<const ReaderLog>> Alone(const Gate* gate) {
    QUIRE_ASSIGN_OR_RETURN(const bool written, Written());
    if (written) return Status(Code::kBusy);
    auto reader_log = std::make_shared<ReaderLog>();
    QUIRE_ASSIGN_OR_RETURN(reader_log->heap_,
                           LogHeap::Open(fs_, name_.path("log"), io::MapMode::kRead));
    const Status walked = Walk(gate, reader_log.get());
    base::SyncPoint("stream.reader_log.walked");
    // A writer that opened the log during the walk looks like damage.
    QUIRE_ASSIGN_OR_RETURN(const bool written_now, Written());
    if (written_now || !reader_log->current()) return Status(Code::kBusy);
    QUIRE_RETURN_IF_ERROR(walked);
    return std::shared_ptr<const ReaderLog>(std::move(reader_log));
  }

  // Walks the log as a writer does that opens it.
  Status Walk(const Gate* gate, ReaderLog* reader_log) {
    LogHeap* const heap = reader_log->heap_.get();
    const uint64_t log_id = heap->identity().log_id;
    WalkEnd end;
    const HowToRead how = HowToReadDuring(fs_.BootId(), *heap);
    QUIRE_ASSIGN_OR_RETURN(const LogContents contents, ReadContents(heap, how, &end));
    const bool described = gate != nullptr && gate->Describes(log_id, fs_.BootId());
    QUIRE_RETURN_IF_ERROR(CheckEnd(*heap, end, described ? gate->tail() : 0, !how.any_order));
    const IndexSizes sizes = SizesFor(contents, 1, heap->identity().capacity);
    const uint64_t bytes = Index::BytesFor(sizes);
    QUIRE_ASSIGN_OR_RETURN(reader_log->own_index_, io::AllocatePages(bytes));
    Index::Format(reader_log->own_index_.data(), sizes, log_id, 1);
    QUIRE_ASSIGN_OR_RETURN(Index index,
                           Index::Attach(reader_log->own_index_.data(), bytes, log_id, 1));
    reader_log->index_ = std::make_unique<Index>(std::move(index));
    reader_log->snapshot_ = contents.snapshot;
    return FillIndex(contents, reader_log->index_.get());
  }

  io::FileSystem& fs_;
  const PartName& name_;
};

GateState ReaderLog::state() const {
  if (gate_ != nullptr) return gate_->state();
  return heap_->head().finished ? GateState::kFinished : GateState::kEnded;
}

// A log that no program writes does not change until a writer opens it, which stores a head.
bool ReaderLog::current() const {
  if (gate_ == nullptr) {
    const Result<Head> head = heap_->ReadHead();
    return head.ok() && head->sequence == heap_->head().sequence;
  }
  return gate_->index_number() == index_number_ && gate_->Holds(heap_->identity().log_id);
}

// The writer publishes a new head in the gate before it overwrites the bytes below it.
bool ReaderLog::Untouched(Position from) const {
  base::LoadFence();
  if (gate_ == nullptr) return current();
  return gate_->Holds(heap_->identity().log_id) && gate_->head() <= from;
}

Result<std::shared_ptr<const ReaderLog>> ReaderLog::Renew(io::FileSystem& fs,
                                                          const PartName& name) const {
  if (!pinned()) return OpenReaderLog(fs, name, Access::kLook);
  const uint64_t deadline = io::RealClock().NowNs() + kOpenTimeoutNs;
  while (true) {
    Result<std::shared_ptr<const ReaderLog>> reader_log = SightOpener(fs, name).Shared(gate_);
    const bool again = reader_log.status().code() == Code::kBusy;
    if (!again || io::RealClock().NowNs() >= deadline) return reader_log;
    io::RealClock().SleepNs(kSightPauseNs);
  }
}

bool ReaderLog::Kept(uint64_t snapshot) const {
  const Result<Head> head = heap_->ReadHead();
  return head.ok() && std::binary_search(head->kept.begin(), head->kept.end(), snapshot);
}

Result<std::shared_ptr<const ReaderLog>> OpenReaderLog(io::FileSystem& fs, const PartName& name,
                                                       Access access) {
  QUIRE_RETURN_IF_ERROR(CheckPartName(name));
  QUIRE_RETURN_IF_ERROR(CheckOwner(fs, name));
  const uint64_t deadline = io::RealClock().NowNs() + kOpenTimeoutNs;
  while (true) {
    Result<std::shared_ptr<const ReaderLog>> reader_log = SightOpener(fs, name).Open(access);
    const bool again = !reader_log.ok() && reader_log.status().code() == Code::kBusy;
    if (!again) return reader_log;
    if (io::RealClock().NowNs() >= deadline) {
      return Status(Code::kBusy, name.path("log") + " is being opened by a writer");
    }
    io::RealClock().SleepNs(kSightPauseNs);
  }
}

}  // namespace quire::stream
