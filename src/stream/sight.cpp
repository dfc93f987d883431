#include "stream/sight.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "io/machine.h"
#include "stream/log_contents.h"
#include "stream/streams.h"

namespace quire::stream {
namespace {

// As long as a writer may take to open: the bytes of a log are read where the machine was started
// anew.
constexpr uint64_t kOpenTimeoutNs = 60'000'000'000;
constexpr uint64_t kPauseNs = 2'000'000;
constexpr uint32_t kRoot = 0;

// A reader maps what it reads: whoever may write to it can end the program. It trusts the owner of
// the place that it was given, and nobody else.
Status CheckOwner(io::FileSystem& fs, const PartName& name) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t trusted, fs.SoleWriter(name.place));
  for (const std::string& path : {name.directory(), name.path("log"), name.path("gate"),
                                  name.path("index"), name.path("log") + ".lock"}) {
    const auto owner = fs.SoleWriter(path);
    if (owner.status().code() == Code::kNotFound) continue;  // who opens it tells
    QUIRE_RETURN_IF_ERROR(owner.status());
    if (*owner == trusted || *owner == kRoot) continue;
    return Status(Code::kInvalidArgument, path + " belongs to user " + std::to_string(*owner) +
                                              ", but " + name.place + " to user " +
                                              std::to_string(trusted) +
                                              ": it is not read; ask the owner of the place");
  }
  return Status();
}

}  // namespace

class SightOpener {
 public:
  SightOpener(io::FileSystem& fs, const PartName& name) : fs_(fs), name_(name) {}

  // One with the index that the gate speaks of. kBusy: there is none yet, or it is replaced this
  // moment.
  Result<std::shared_ptr<const Sight>> Shared(std::shared_ptr<Gate> gate) {
    auto sight = std::make_shared<Sight>();
    sight->gate_ = std::move(gate);
    sight->index_number_ = sight->gate_->index_number();
    QUIRE_ASSIGN_OR_RETURN(sight->heap_, LogHeap::Open(fs_, name_.path("log"), io::MapMode::kRead));
    const uint64_t log_id = sight->heap_->identity().log_id;
    if (!sight->gate_->Describes(log_id, fs_.BootId())) return Status(Code::kBusy);
    const std::string path = name_.path("index");
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, fs_.Open(path, io::OpenMode::kRead));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
    QUIRE_ASSIGN_OR_RETURN(sight->index_map_, fs_.Map(path, bytes, io::MapMode::kRead));
    Result<Index> index =
        Index::Attach(sight->index_map_->data(), bytes, log_id, sight->index_number_);
    if (!index.ok()) return Status(Code::kBusy);
    sight->index_ = std::make_unique<Index>(*std::move(index));
    return std::shared_ptr<const Sight>(std::move(sight));
  }

  // One of this reader alone, of a log that nobody writes: in a place that it cannot write to, it
  // can tell no pin. `gate`: the reader's own.
  Result<std::shared_ptr<const Sight>> Alone(std::shared_ptr<Gate> gate) {
    QUIRE_RETURN_IF_ERROR(NobodyWrites());
    Result<std::shared_ptr<const Sight>> sight = Walked(std::move(gate));
    // A writer that comes amid the walk looks like damage.
    if (!sight.ok()) QUIRE_RETURN_IF_ERROR(NobodyWrites());
    return sight;
  }

  // The part as it is: with the index of who writes or wrote it, made anew where he died.
  Result<std::shared_ptr<const Sight>> Open() {
    QUIRE_ASSIGN_OR_RETURN(const bool there, fs_.Exists(name_.path("log")));
    if (!there) return Status(Code::kNotFound, "there is no " + name_.path("log"));
    Result<std::unique_ptr<Gate>> gate = Gate::Open(fs_, name_.path("gate"));
    if (gate.ok() && (*gate)->state() != GateState::kNone && WriterAsTold(**gate)) {
      Result<std::shared_ptr<const Sight>> sight = Shared(*std::move(gate));
      const bool replaced =
          sight.status().code() == Code::kBusy || sight.status().code() == Code::kNotFound;
      if (!replaced) return sight;
    }
    const Status recovered = RecoverIndex(fs_, name_.place, name_.store, name_.rank);
    if (recovered.ok() || recovered.code() == Code::kBusy) return Status(Code::kBusy);
    const bool read_only = recovered.code() == Code::kReadOnly || recovered.code() == Code::kIo;
    return read_only ? Alone(Gate::Private()) : recovered;
  }

 private:
  Status NobodyWrites() {
    QUIRE_ASSIGN_OR_RETURN(const std::string holder, fs_.LockHolder(name_.path("log") + ".lock"));
    if (holder.empty()) return Status();
    return Status(Code::kReadOnly, name_.path("log") + " is being written (" + holder +
                                       "), and this program cannot write to its directory, as a "
                                       "reader beside a writer must: read it when the writer has "
                                       "ended");
  }

  // The log is walked, with all its bytes.
  Result<std::shared_ptr<const Sight>> Walked(std::shared_ptr<Gate> gate) {
    auto sight = std::make_shared<Sight>();
    sight->gate_ = std::move(gate);
    QUIRE_ASSIGN_OR_RETURN(sight->heap_, LogHeap::Open(fs_, name_.path("log"), io::MapMode::kRead));
    WalkEnd end;
    QUIRE_ASSIGN_OR_RETURN(const LogContents contents,
                           ReadContents(sight->heap_.get(), true, &end));
    // As Part::JudgeEnd: what was not synced may be lost with the power, and is no damage.
    const bool ordered = sight->heap_->head().boot_id == fs_.BootId();
    if (end.at < sight->heap_->head().durable || (ordered && !end.status.ok())) {
      return Status(Code::kCorruption,
                    name_.path("log") + " is damaged at position " + std::to_string(end.at));
    }
    const IndexSizes sizes = SizesFor(contents, 1, sight->heap_->identity().capacity);
    const uint64_t bytes = Index::BytesFor(sizes);
    QUIRE_ASSIGN_OR_RETURN(sight->own_index_, io::AllocatePages(bytes));
    const uint64_t log_id = sight->heap_->identity().log_id;
    Index::Format(sight->own_index_.data(), sizes, log_id, 1);
    QUIRE_ASSIGN_OR_RETURN(Index index, Index::Attach(sight->own_index_.data(), bytes, log_id, 1));
    sight->index_ = std::make_unique<Index>(std::move(index));
    QUIRE_RETURN_IF_ERROR(FillIndex(contents, sight->index_.get()));
    sight->shared_ = false;
    sight->gate_->Assign(log_id, fs_.BootId());
    sight->gate_->SetHead(sight->heap_->head().head);
    sight->gate_->Publish(contents.snapshot);
    sight->gate_->SetState(sight->heap_->head().finished ? GateState::kFinished
                                                         : GateState::kEnded);
    return std::shared_ptr<const Sight>(std::move(sight));
  }

  bool WriterAsTold(const Gate& gate) {
    if (gate.state() != GateState::kWriting) return true;
    const Result<std::string> holder = fs_.LockHolder(name_.path("log") + ".lock");
    return holder.ok() && !holder->empty();
  }

  io::FileSystem& fs_;
  const PartName& name_;
};

// A log that is only read is as it was until a writer opens it, and so stores a head.
bool Sight::current() const {
  if (!shared_) {
    std::atomic_thread_fence(std::memory_order_acquire);  // what was read before was read before
    const Result<Head> head = heap_->ReadHead();
    return head.ok() && head->sequence == heap_->head().sequence;
  }
  return gate_->index_number() == index_number_ && gate_->Holds(heap_->identity().log_id);
}

Result<std::shared_ptr<const Sight>> Sight::Renew(io::FileSystem& fs, const PartName& name) const {
  if (!shared_) return SightOpener(fs, name).Alone(gate_);
  const uint64_t deadline = io::RealClock().NowNs() + kOpenTimeoutNs;
  while (true) {
    Result<std::shared_ptr<const Sight>> sight = SightOpener(fs, name).Shared(gate_);
    const bool again = sight.status().code() == Code::kBusy;
    if (!again || io::RealClock().NowNs() >= deadline) return sight;
    io::RealClock().SleepNs(kPauseNs);
  }
}

bool Sight::Kept(uint64_t snapshot) const {
  const Result<Head> head = heap_->ReadHead();
  return head.ok() && std::binary_search(head->kept.begin(), head->kept.end(), snapshot);
}

Result<std::shared_ptr<const Sight>> OpenSight(io::FileSystem& fs, const PartName& name) {
  QUIRE_RETURN_IF_ERROR(CheckPartName(name));
  QUIRE_RETURN_IF_ERROR(CheckOwner(fs, name));
  const uint64_t deadline = io::RealClock().NowNs() + kOpenTimeoutNs;
  while (true) {
    Result<std::shared_ptr<const Sight>> sight = SightOpener(fs, name).Open();
    const bool again = !sight.ok() && sight.status().code() == Code::kBusy;
    if (!again) return sight;
    if (io::RealClock().NowNs() >= deadline) {
      return Status(Code::kBusy, name.path("log") + " is being opened by a writer");
    }
    io::RealClock().SleepNs(kPauseNs);
  }
}

}  // namespace quire::stream
