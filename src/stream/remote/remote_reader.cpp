#include "stream/remote/remote_reader.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/core/program_call.h"
#include "base/text/units.h"
#include "io/files/machine.h"
#include "stream/remote/arriving_copy.h"
#include "stream/remote/daemon_client.h"
#include "stream/remote/request.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"

namespace quire::stream {
namespace {

constexpr uint64_t kMsMax = uint64_t{1} << 40;
// If many versions are read at once, a fetched one may be collected before it is read.
constexpr int kRemoteAttempts = 4;

uint64_t DeadlineIn(uint64_t ms) {
  return io::RealClock().NowNs() + std::min(ms, kMsMax) * base::kNsPerMs;
}

// Deletes a view into the mirror, and then releases the reader on which it rests.
struct EndWithReader {
  std::shared_ptr<StreamReader> reader;
  void operator()(StreamView* view) const { std::default_delete<StreamView>()(view); }
};

// The versions whose bytes in the mirror were found damaged, until they are fetched again. Any
// thread may call it.
class DamagedVersions {
 public:
  void Add(const std::string& key, uint64_t version) {
    const std::lock_guard<std::mutex> lock(mutex_);
    versions_.emplace(key, version);
  }
  bool Contain(const std::string& key, uint64_t version) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return versions_.contains({key, version});
  }
  void Remove(const std::string& key, uint64_t version) {
    const std::lock_guard<std::mutex> lock(mutex_);
    versions_.erase({key, version});
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<std::string, uint64_t>> versions_;
};

// A view into the mirror, which keeps the mirror's reader alive. It reports the version as it is at
// its source.
class RemoteView : public StreamView {
 public:
  RemoteView(std::shared_ptr<StreamReader> reader, std::unique_ptr<StreamView> view,
             StreamVersion version, std::function<void()> on_damage)
      : view_(view.release(), EndWithReader{std::move(reader)}),
        version_(std::move(version)),
        on_damage_(std::move(on_damage)) {}

  Slice bytes() const override { return view_->bytes(); }
  const StreamVersion& version() const override { return version_; }
  bool in_place() const override { return view_->in_place(); }
  Status Verify() const override {
    Status verified = view_->Verify();
    if (verified.code() == Code::kCorruption) on_damage_();
    return verified;
  }

 private:
  const std::unique_ptr<StreamView, EndWithReader> view_;
  const StreamVersion version_;
  const std::function<void()> on_damage_;
};

// Returns a view of the wanted version in the mirror. If a store was removed and recreated, the
// mirror may still contain another version of this number.
Result<std::unique_ptr<StreamView>> MirroredView(StreamReader& mirror, Slice key,
                                                 const StreamVersion& told) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<StreamView> view, mirror.View(key, told.version));
  const bool same = view->version().unix_time_ns == told.unix_time_ns;
  if (same && view->bytes().size() == told.bytes) return view;
  return Status(Code::kNotFound,
                "the mirror has no such version " + std::to_string(told.version) + " of an object");
}

struct Wanted {
  Slice key;
  uint64_t number;
  bool at_snapshot;
};

class RemoteReader : public StreamReader {
 public:
  RemoteReader(io::FileSystem& fs, const std::string& place, StorePart part, uint64_t timeout_ms)
      : fs_(fs), place_(place), part_(std::move(part)), timeout_ms_(timeout_ms), daemon_(place) {}

  Result<StateBody> State() {
    QUIRE_ASSIGN_OR_RETURN(const std::string body, Ask(Asked(RequestOperation::kState)));
    return DecodeState(body);
  }

  Result<std::vector<std::string>> Objects() override;
  Result<std::vector<StreamVersion>> Versions(Slice key) override;
  Result<uint64_t> LastSnapshot() override {
    QUIRE_ASSIGN_OR_RETURN(const StateBody state, State());
    return state.last_snapshot;
  }
  Result<bool> Finished() override {
    QUIRE_ASSIGN_OR_RETURN(const StateBody state, State());
    return state.finished;
  }
  Status Get(Slice key, uint64_t version, const BufferAllocator& allocate) override {
    return GetWanted({key, version, false}, allocate);
  }
  Status GetAt(Slice key, uint64_t snapshot, const BufferAllocator& allocate) override {
    return GetWanted({key, snapshot, true}, allocate);
  }
  Result<std::unique_ptr<StreamView>> View(Slice key, uint64_t version) override {
    return ViewWanted({key, version, false});
  }
  Result<std::unique_ptr<StreamView>> ViewAt(Slice key, uint64_t snapshot) override {
    return ViewWanted({key, snapshot, true});
  }
  Result<uint64_t> Wait(uint64_t after, uint64_t timeout_ms) override;

 private:
  using Mirrored = std::shared_ptr<StreamReader>;
  using Use = std::function<Status(const Mirrored& mirror, const FetchBody& fetched)>;

  Request Asked(RequestOperation operation) const {
    Request request;
    request.operation = operation;
    request.part = part_;
    return request;
  }
  // Returns kNotFound at once for a key that no object can have: it might not even fit into a
  // request.
  Result<Request> Asked(RequestOperation operation, Slice key) const {
    if (key.empty() || key.size() > kKeyBytesMax) {
      return Status(Code::kNotFound, "no object has a key of " + std::to_string(key.size()) +
                                         " bytes; keys have 1 to " + std::to_string(kKeyBytesMax));
    }
    Request request = Asked(operation);
    request.key = key;
    return request;
  }
  Result<std::string> Ask(const Request& request, const OnArrival& on_arrival = {}) {
    QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("the stream reader"));
    return daemon_.Call(request, DeadlineIn(timeout_ms_), on_arrival);
  }
  Status GetWanted(const Wanted& wanted, const BufferAllocator& allocate);
  Result<std::unique_ptr<StreamView>> ViewWanted(const Wanted& wanted);
  Status ReadFetched(const Wanted& wanted, const OnArrival& on_arrival, const Use& use);
  Result<Mirrored> TheMirror();
  void ForgetMirror(const Mirrored& mirror);

  io::FileSystem& fs_;
  const std::string place_;
  const StorePart part_;
  const uint64_t timeout_ms_;
  DaemonClient daemon_;
  const std::shared_ptr<DamagedVersions> damaged_ = std::make_shared<DamagedVersions>();
  std::mutex mutex_;
  Mirrored mirror_;
};

Result<std::vector<std::string>> RemoteReader::Objects() {
  std::vector<std::string> all;
  for (bool more = true; more;) {
    Request request = Asked(RequestOperation::kObjects);
    if (!all.empty()) request.key = all.back();
    QUIRE_ASSIGN_OR_RETURN(const std::string body, Ask(request));
    QUIRE_ASSIGN_OR_RETURN(ObjectsBody some, DecodeObjects(body));
    if (some.more && (some.keys.empty() || some.keys.back() <= request.key)) {
      return Status(Code::kCorruption,
                    "invalid answer of quire-streamd: an empty list of objects "
                    "that is marked incomplete");
    }
    more = some.more;
    std::move(some.keys.begin(), some.keys.end(), std::back_inserter(all));
  }
  return all;
}

Result<std::vector<StreamVersion>> RemoteReader::Versions(Slice key) {
  std::vector<StreamVersion> all;
  for (bool more = true; more;) {
    QUIRE_ASSIGN_OR_RETURN(Request request, Asked(RequestOperation::kVersions, key));
    if (!all.empty()) request.number = all.back().version;
    QUIRE_ASSIGN_OR_RETURN(const std::string body, Ask(request));
    QUIRE_ASSIGN_OR_RETURN(VersionsBody some, DecodeVersions(body));
    const bool further =
        !some.versions.empty() && (all.empty() || some.versions.back().version < request.number);
    if (some.more && !further) {
      return Status(Code::kCorruption,
                    "invalid answer of quire-streamd: an empty list of versions "
                    "that is marked incomplete");
    }
    more = some.more;
    std::move(some.versions.begin(), some.versions.end(), std::back_inserter(all));
  }
  return all;
}

Result<RemoteReader::Mirrored> RemoteReader::TheMirror() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (mirror_) return mirror_;
  QUIRE_ASSIGN_OR_RETURN(auto reader,
                         OpenLocalReader(fs_, MirrorPlace(place_), part_.store, part_.rank));
  mirror_ = std::move(reader);
  return mirror_;
}

void RemoteReader::ForgetMirror(const Mirrored& mirror) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (mirror_ == mirror) mirror_.reset();
}

Status RemoteReader::ReadFetched(const Wanted& wanted, const OnArrival& on_arrival,
                                 const Use& use) {
  Status status;
  // A version that is known to be damaged is requested again.
  const bool known =
      !wanted.at_snapshot && damaged_->Contain(std::string(wanted.key), wanted.number);
  uint64_t damaged = known ? wanted.number : 0;
  for (int attempt = 0; attempt < kRemoteAttempts; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(Request request, Asked(RequestOperation::kFetch, wanted.key));
    request.number = wanted.number;
    request.at_snapshot = wanted.at_snapshot;
    request.have = damaged;
    QUIRE_ASSIGN_OR_RETURN(const std::string body, Ask(request, on_arrival));
    QUIRE_ASSIGN_OR_RETURN(const FetchBody fetched, DecodeFetch(body));
    const uint64_t version = fetched.version.version;
    if (version == damaged) damaged_->Remove(request.key, version);
    damaged = damaged_->Contain(request.key, version) ? version : 0;
    if (damaged != 0) {
      status = Status(Code::kCorruption, "version " + std::to_string(version) +
                                             " in the mirror of " + part_.store + " is damaged");
      continue;
    }
    auto mirror = TheMirror();
    status = mirror.ok() ? use(*mirror, fetched) : mirror.status();
    if (status.ok()) return status;
    const bool lost = status.code() == Code::kCorruption || status.code() == Code::kIo;
    if (!lost && status.code() != Code::kNotFound) return status;
    if (lost) {
      damaged_->Add(request.key, version);
      damaged = version;
    }
    if (mirror.ok()) ForgetMirror(*mirror);  // the daemon may have recreated it
  }
  return status;
}

Status RemoteReader::GetWanted(const Wanted& wanted, const BufferAllocator& allocate) {
  ArrivingCopy copy([this] { return TheMirror(); }, allocate);
  const auto on_arrival = [&copy](const Arrival& arrival) { copy.Arrive(arrival); };
  return ReadFetched(wanted, on_arrival, [&](const Mirrored& mirror, const FetchBody& fetched) {
    if (copy.Finish(fetched)) return Status();
    QUIRE_ASSIGN_OR_RETURN(const auto held, MirroredView(*mirror, wanted.key, fetched.version));
    return mirror->Get(wanted.key, fetched.version.version, allocate);
  });
}

Result<std::unique_ptr<StreamView>> RemoteReader::ViewWanted(const Wanted& wanted) {
  std::unique_ptr<StreamView> made;
  QUIRE_RETURN_IF_ERROR(
      ReadFetched(wanted, {}, [&](const Mirrored& mirror, const FetchBody& fetched) -> Status {
        QUIRE_ASSIGN_OR_RETURN(auto view, MirroredView(*mirror, wanted.key, fetched.version));
        const auto on_damage = [damaged = damaged_, key = std::string(wanted.key),
                                version = fetched.version.version] { damaged->Add(key, version); };
        made = std::make_unique<RemoteView>(mirror, std::move(view), fetched.version, on_damage);
        return Status();
      }));
  return made;
}

Result<uint64_t> RemoteReader::Wait(uint64_t after, uint64_t timeout_ms) {
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("the stream reader"));
  const uint64_t deadline = DeadlineIn(timeout_ms);
  for (;;) {
    const uint64_t now = io::RealClock().NowNs();
    const uint64_t left_ms = deadline > now ? (deadline - now) / base::kNsPerMs : 0;
    Request request = Asked(RequestOperation::kWait);
    request.number = after;
    request.timeout_ms = std::min(left_ms, kWaitMsMax);
    // Adds the time that the answer needs to arrive.
    auto body =
        daemon_.Call(request, DeadlineIn(request.timeout_ms + std::min(timeout_ms_, kMsMax)));
    if (body.ok()) return DecodeNumber(*body);
    const bool over = left_ms <= kWaitMsMax || io::RealClock().NowNs() >= deadline;
    if (body.status().code() != Code::kTimedOut || over) return body.status();
  }
}

}  // namespace

Result<std::unique_ptr<StreamReader>> OpenRemoteReader(io::FileSystem& fs, const std::string& place,
                                                       const std::string& name, uint32_t rank,
                                                       const StreamReaderOptions& options) {
  QUIRE_RETURN_IF_ERROR(io::CheckName(name));
  auto reader =
      std::make_unique<RemoteReader>(fs, place, StorePart{name, rank}, options.timeout_ms);
  QUIRE_RETURN_IF_ERROR(reader->State().status());
  return std::unique_ptr<StreamReader>(std::move(reader));
}

Result<std::unique_ptr<StreamReader>> OpenReader(io::FileSystem& fs, const std::string& place,
                                                 const std::string& name, uint32_t rank,
                                                 const StreamReaderOptions& options) {
  auto local = OpenLocalReader(fs, place, name, rank);
  if (local.status().code() != Code::kNotFound || !options.remote) return local;
  auto remote = OpenRemoteReader(fs, place, name, rank, options);
  if (remote.ok() || remote.status().code() != Code::kNotFound) return remote;
  const std::string& why = remote.status().message();
  return Status(Code::kNotFound, local.status().message() + ", or it is on another node and " +
                                     (why.empty() ? "no quire-streamd knows of it" : why));
}

}  // namespace quire::stream
