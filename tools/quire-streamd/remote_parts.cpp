#include "tools/quire-streamd/remote_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/files/machine.h"

namespace quire::streamd {
namespace {

// The limit for remembered names that readers have requested.
constexpr size_t kRemotesMax = 1 << 14;

// How often a reader is woken while a version arrives.
constexpr uint64_t kTellings = 16;

using stream::FetchBody;
using stream::Request;
using stream::RequestOperation;
using stream::StorePart;

// Returns the youngest version in the mirror that may be the requested one, or the newest. The
// versions of a recreated store have small numbers again.
const StreamVersion* Likely(const std::vector<StreamVersion>& versions, const Request& request) {
  const StreamVersion* likely = nullptr;
  for (const StreamVersion& version : versions) {
    const bool may_be =
        request.number == 0 || (request.at_snapshot ? version.snapshot <= request.number
                                                    : version.version == request.number);
    const bool younger = likely == nullptr || version.unix_time_ns > likely->unix_time_ns;
    if (may_be && younger) likely = &version;
  }
  return likely;
}

Result<stream::Reservation> RoomIn(stream::Mirror& mirror, const Request& request,
                                   const StreamVersion& version) {
  Result<stream::Reservation> room = mirror.Reserve(request.key, version);
  if (room.ok()) return room;
  return room.status().WithContext("this node's mirror of " + request.part.store + "/" +
                                   std::to_string(request.part.rank) +
                                   ", whose stream_log_bytes are the --mirror-bytes of its daemon");
}

}  // namespace

std::shared_ptr<RemoteParts::Remote> RemoteParts::RemoteOf(const StorePart& part) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (remotes_.size() >= kRemotesMax) {
    // Drops parts that no request uses at this moment, and of which nothing was fetched.
    std::erase_if(remotes_, [](const auto& known) {
      return known.second.use_count() == 1 && !known.second->mirror;
    });
  }
  auto& remote = remotes_[part];
  if (!remote) remote = std::make_shared<Remote>();
  return remote;
}

Result<std::string> RemoteParts::Serve(const Request& request, uint64_t deadline_ns,
                                       const stream::OnArrival& tell) {
  switch (request.operation) {
    case RequestOperation::kFetch:
      return Fetch(request, deadline_ns, tell);
    case RequestOperation::kState:
    case RequestOperation::kObjects:
    case RequestOperation::kVersions:
    case RequestOperation::kWait:
      break;
    default:
      return Status(Code::kInvalidArgument, "readers do not ask that");
  }
  std::string body;
  const auto remote = RemoteOf(request.part);
  QUIRE_RETURN_IF_ERROR(
      CallOwner(request, *remote, deadline_ns, [&](const std::string& address) -> Status {
        QUIRE_ASSIGN_OR_RETURN(body, peers_.Call(address, request, deadline_ns));
        return Status();
      }));
  return body;
}

// Calls the daemon at the known address. If that daemon is gone, or no longer has the part, looks
// the address up and calls again.
Status RemoteParts::CallOwner(const Request& request, Remote& remote, uint64_t deadline_ns,
                              const Call& call) {
  std::string known;
  {
    const std::lock_guard<std::mutex> lock(remote.address_mutex);
    known = remote.address;
  }
  Status status(Code::kNotFound);
  if (!known.empty()) {
    status = call(known);
    if (status.code() != Code::kPeerFailed && status.code() != Code::kNotFound) return status;
  }
  auto found = options_.lookup(request.part, deadline_ns);
  {
    const std::lock_guard<std::mutex> lock(remote.address_mutex);
    remote.address = found.ok() ? *found : "";
  }
  if (!known.empty() && (!found.ok() || *found == known)) return status;
  // A reader first requests the state. A reader that requests more has received it, so the part
  // existed: its daemon has gone, or has not registered again. A missing version is another matter.
  if (found.status().code() == Code::kNotFound && request.operation != RequestOperation::kState) {
    return Status(Code::kPeerFailed, "no daemon has registered the part at the moment");
  }
  QUIRE_RETURN_IF_ERROR(found.status());
  return call(*found);
}

// Recreates a mirror that was removed: the readers of this place look for it there.
Status RemoteParts::OpenMirror(const StorePart& part, Remote& remote) {
  if (remote.mirror) {
    QUIRE_ASSIGN_OR_RETURN(const bool removed, remote.mirror->Removed());
    if (removed) {
      remote.mirrored.reset();
      remote.mirror.reset();
    }
  }
  if (!remote.mirror) {
    QUIRE_ASSIGN_OR_RETURN(remote.mirror, options_.open_mirror(part));
  }
  if (!remote.mirrored) {
    QUIRE_ASSIGN_OR_RETURN(remote.mirrored, options_.open_mirrored(part));
  }
  return Status();
}

Result<std::string> RemoteParts::Fetch(const Request& request, uint64_t deadline_ns,
                                       const stream::OnArrival& tell) {
  const auto remote = RemoteOf(request.part);
  const uint64_t now = io::RealClock().NowNs();
  const std::chrono::nanoseconds left(deadline_ns > now ? deadline_ns - now : 0);
  const std::unique_lock<std::timed_mutex> lock(remote->mutex, left);
  if (!lock.owns_lock()) return Status(Code::kTimedOut, "others fetch from the same part");
  FetchBody fetched;
  QUIRE_RETURN_IF_ERROR(
      CallOwner(request, *remote, deadline_ns, [&](const std::string& address) -> Status {
        QUIRE_ASSIGN_OR_RETURN(fetched, FetchInto(*remote, address, request, deadline_ns, tell));
        return Status();
      }));
  return stream::EncodeFetch(fetched);
}

Result<FetchBody> RemoteParts::FetchInto(Remote& remote, const std::string& address,
                                         Request request, uint64_t deadline_ns,
                                         const stream::OnArrival& tell) {
  QUIRE_RETURN_IF_ERROR(OpenMirror(request.part, remote));
  std::vector<StreamVersion> known;
  if (auto versions = remote.mirrored->Versions(request.key); versions.ok()) {
    known = std::move(*versions);
  }
  const uint64_t damaged = std::exchange(request.have, 0);
  const StreamVersion* const likely = Likely(known, request);
  if (likely != nullptr && likely->version != damaged) {
    request.have = likely->version;
    request.have_time_ns = likely->unix_time_ns;
  }
  stream::Arrival arrival;
  Peers::Taker taker;
  taker.place = [&](const StreamVersion& version) -> Result<char*> {
    QUIRE_ASSIGN_OR_RETURN(const stream::Reservation room,
                           RoomIn(*remote.mirror, request, version));
    arrival = {room.at, version.bytes, 0};
    tell(arrival);
    return room.bytes;
  };
  taker.came = [&](uint64_t bytes) {
    if (bytes - arrival.arrived < arrival.bytes / kTellings) return;
    arrival.arrived = bytes;
    tell(arrival);
  };
  QUIRE_ASSIGN_OR_RETURN(const FetchBody body, peers_.Fetch(address, request, deadline_ns, taker));
  if (body.hash) QUIRE_RETURN_IF_ERROR(remote.mirror->Commit(*body.hash));
  return body;
}

}  // namespace quire::streamd
