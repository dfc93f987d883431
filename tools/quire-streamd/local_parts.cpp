#include "tools/quire-streamd/local_parts.h"

#include <algorithm>
#include <utility>

#include "io/files/machine.h"
#include "stream/store/listing.h"
#include "stream/store/local_reader.h"

namespace quire::streamd {
namespace {

using stream::EncodeAnswer;
using stream::Request;
using stream::RequestOperation;
using stream::StorePart;

uint64_t FrameDeadline() {
  return io::RealClock().NowNs() + kFrameNs;
}

Result<std::unique_ptr<StreamView>> ViewOf(StreamReader& reader, const Request& request) {
  return request.at_snapshot ? reader.ViewAt(request.key, request.number)
                             : reader.View(request.key, request.number);
}

}  // namespace

Pace PaceOf(uint64_t bytes) {
  return {kFrameNs, FrameDeadline() + bytes * kFetchNsPerByte};
}

Status LocalParts::Serve(const Request& request, uint64_t id, Channel& channel) {
  if (request.operation == RequestOperation::kFetch) return ServeFetch(request, id, channel);
  const auto body = BodyOf(request);
  return channel.Send(TcpFrameKind::kAnswer, id,
                      EncodeAnswer(body.status(), body.ok() ? Slice(*body) : Slice()),
                      FrameDeadline());
}

Result<std::string> LocalParts::BodyOf(const Request& request) {
  const auto reader = ReaderOf(request.part);
  auto body = reader.ok() ? BodyFrom(**reader, request) : reader.status();
  if (!body.ok()) Forget(request.part);
  return body;
}

Result<std::string> LocalParts::BodyFrom(StreamReader& reader, const Request& request) {
  switch (request.operation) {
    case RequestOperation::kState: {
      stream::StateBody state;
      QUIRE_ASSIGN_OR_RETURN(state.last_snapshot, reader.LastSnapshot());
      QUIRE_ASSIGN_OR_RETURN(state.finished, reader.Finished());
      return stream::EncodeState(state);
    }
    case RequestOperation::kObjects:
      return ObjectsBehind(reader, request);
    case RequestOperation::kVersions:
      return VersionsBelow(reader, request);
    default:
      return Status(Code::kUnsupported, "a reader does not do that");
  }
}

Result<std::string> LocalParts::ObjectsBehind(StreamReader& reader, const Request& request) {
  const std::string& key = request.key;
  const auto list = [&reader]() -> Result<std::vector<std::string>> {
    QUIRE_ASSIGN_OR_RETURN(auto keys, reader.Objects());
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  QUIRE_ASSIGN_OR_RETURN(const auto keys, objects_.Get(request.part, key.empty(), list));
  const auto begin =
      key.empty() ? keys->begin() : std::upper_bound(keys->begin(), keys->end(), key);
  bool more = false;
  std::string body = stream::EncodeObjects({begin, keys->end()}, &more);
  if (more) objects_.Keep(request.part, keys);
  return body;
}

Result<std::string> LocalParts::VersionsBelow(StreamReader& reader, const Request& request) {
  const bool all = request.number == 0;
  const std::pair<StorePart, std::string> name(request.part, request.key);
  const auto list = [&] { return reader.Versions(request.key); };
  QUIRE_ASSIGN_OR_RETURN(const auto versions, versions_.Get(name, all, list));
  const auto below = [&](const StreamVersion& one) { return all || one.version < request.number; };
  const auto begin = std::find_if(versions->begin(), versions->end(), below);  // newest first
  bool more = false;
  std::string body = stream::EncodeVersions({begin, versions->end()}, &more);
  if (more) versions_.Keep(name, versions);
  return body;
}

Result<uint64_t> LocalParts::Wait(const StorePart& part, uint64_t after, uint64_t timeout_ms) {
  const auto reader = ReaderOf(part);
  const auto newest = reader.ok() ? (*reader)->Wait(after, timeout_ms) : reader.status();
  if (!newest.ok() && newest.status().code() != Code::kTimedOut) Forget(part);
  return newest;
}

// Forgets a reader that cannot return the view. `reader` has to outlive the view.
Result<std::unique_ptr<StreamView>> LocalParts::ViewAsked(const Request& request,
                                                          std::shared_ptr<StreamReader>* reader) {
  auto kept = ReaderOf(request.part);
  auto view = kept.ok() ? ViewOf(**kept, request) : kept.status();
  if (view.ok()) {
    *reader = *std::move(kept);
  } else {
    Forget(request.part);
  }
  return view;
}

Status LocalParts::ServeFetch(const Request& request, uint64_t id, Channel& channel) {
  std::shared_ptr<StreamReader> reader;
  auto view = ViewAsked(request, &reader);
  // The stored reader may be of a store that was removed and recreated since.
  if (view.status().code() == Code::kPeerFailed) view = ViewAsked(request, &reader);
  if (!view.ok()) {
    return channel.Send(TcpFrameKind::kAnswer, id, EncodeAnswer(view.status(), {}),
                        FrameDeadline());
  }
  stream::FetchBody body;
  body.version = (*view)->version();
  body.version.bytes = (*view)->bytes().size();
  const bool known =
      body.version.version == request.have && body.version.unix_time_ns == request.have_time_ns;
  // The hash is that of the log, so that the receiver finds damage that the bytes have here.
  if (!known) body.hash = stream::HashOf(**view);
  QUIRE_RETURN_IF_ERROR(channel.Send(TcpFrameKind::kAnswer, id,
                                     EncodeAnswer(Status(), stream::EncodeFetch(body)),
                                     FrameDeadline()));
  if (known) return Status();
  return channel.SendBytes((*view)->bytes(), PaceOf(body.version.bytes))
      .WithContext("version " + std::to_string(body.version.version) + " of an object in " +
                   request.part.store + "/" + std::to_string(request.part.rank));
}

Result<std::shared_ptr<StreamReader>> LocalParts::ReaderOf(const StorePart& part) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = readers_.find(part); found != readers_.end()) return found->second;
  }
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<StreamReader> reader, open_(part));
  const std::lock_guard<std::mutex> lock(mutex_);
  readers_[part] = reader;
  return reader;
}

void LocalParts::Forget(const StorePart& part) {
  std::shared_ptr<StreamReader> last;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = readers_.find(part); found != readers_.end()) {
    last = std::move(found->second);
    readers_.erase(found);
  }
}

void LocalParts::Refresh() {
  std::map<StorePart, std::shared_ptr<StreamReader>> old;
  const std::lock_guard<std::mutex> lock(mutex_);
  old.swap(readers_);
  objects_.DropUnused();
  versions_.DropUnused();
}

std::vector<StorePart> PartsAt(io::FileSystem& fs, const std::string& place) {
  std::vector<StorePart> parts;
  const auto stores = stream::ListStores(fs, place);
  if (!stores.ok()) return parts;
  for (const std::string& store : *stores) {
    const auto ranks = stream::ListRanks(fs, place, store);
    if (!ranks.ok()) continue;  // it goes at this moment
    for (const uint32_t rank : *ranks) parts.push_back({store, rank});
  }
  return parts;
}

}  // namespace quire::streamd
