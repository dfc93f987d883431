#include "tools/quire-streamd/daemon.h"

#include <algorithm>
#include <utility>

#include "base/core/log_sink.h"
#include "base/text/units.h"
#include "io/files/machine.h"

namespace quire::streamd {
namespace {

using stream::Request;
using stream::RequestOperation;
using stream::StorePart;

// A part that no daemon has registered for this time counts as absent.
constexpr uint64_t kTtlMs = 15'000;
constexpr uint64_t kRegisterNs = 3000 * base::kNsPerMs;
// [ns] Added to the reader's deadline, for an answer for which it no longer waits.
constexpr uint64_t kReaderNsMax = 600'000 * base::kNsPerMs;
// [ns] For reporting that another daemon did not answer, before the asking daemon gives up.
constexpr uint64_t kTellNsMax = 100 * base::kNsPerMs;

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

uint64_t DeadlineToTell(uint64_t deadline_ns) {
  const uint64_t now = io::RealClock().NowNs();
  const uint64_t left = std::min(deadline_ns > now ? deadline_ns - now : 0, kReaderNsMax);
  return now + left - std::min(left / 10, kTellNsMax);
}

std::string Answer(const Result<std::string>& body) {
  return body.ok() ? stream::EncodeAnswer(Status(), *body)
                   : stream::EncodeAnswer(body.status(), {});
}

std::string AnswerTo(const Result<uint64_t>& newest) {
  return Answer(newest.ok() ? Result<std::string>(stream::EncodeNumber(*newest))
                            : Result<std::string>(newest.status()));
}

}  // namespace

Daemon::Daemon(const DaemonOptions& options, const Token& token, Streams streams)
    : options_(options),
      streams_(std::move(streams)),
      peers_(token),
      local_(streams_.open_part),
      remote_(peers_,
              [this] {
                RemoteOptions remote = streams_.remote;
                remote.lookup = [this](const StorePart& part, uint64_t deadline_ns) {
                  return Lookup(part, deadline_ns);
                };
                return remote;
              }()),
      for_readers_(options.threads_max),
      for_peers_(options.threads_max),
      reader_waits_(
          options.threads_max,
          [this](const Waits::Question& question, uint64_t timeout_ms, uint64_t deadline_ns) {
            return AskOwner(question, timeout_ms, deadline_ns);
          }),
      peer_waits_(options.threads_max, [this](const Waits::Question& question, uint64_t timeout_ms,
                                              uint64_t /*deadline_ns*/) {
        return local_.Wait(question.part, question.after, timeout_ms);
      }) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::Open(const DaemonOptions& options, const Token& token,
                                             Streams streams) {
  if (!options.metadata.empty()) {
    QUIRE_RETURN_IF_ERROR(
        io::SplitAddress(options.metadata).status().WithContext("the metadata service"));
  }
  std::unique_ptr<Daemon> daemon(new Daemon(options, token, std::move(streams)));
  QUIRE_ASSIGN_OR_RETURN(daemon->listener_, ConnectionListener::Open(options.listen, options.place,
                                                                     token, options.limits));
  // The daemon registers its own parts here, and no connection shows on which host it is.
  if (options.metadata_here && daemon->AdvertisedAddress().starts_with(":")) {
    return Status(Code::kInvalidArgument, "the metadata service listens at " + options.listen +
                                              ", which is no host's address: say by which host "
                                              "others reach it (--advertise HOST)");
  }
  return daemon;
}

Status Daemon::Run(const io::FileDescriptor* signals) {
  ListenerEvents events;
  events.on_request = [this](uint64_t id, std::shared_ptr<Channel> channel) {
    for_peers_.Run([this, id, channel = std::move(channel)] { OnRequest(id, channel); });
  };
  events.on_bell = [this](std::shared_ptr<stream::QueueServer> queue) { OnBell(queue); };
  events.on_tick = [this] { OnTick(); };
  return listener_->Run(events, signals);
}

bool Daemon::Finish(uint64_t timeout_ms) {
  const uint64_t deadline = In(timeout_ms * base::kNsPerMs);
  const auto left_ms = [deadline] {
    const uint64_t now = io::RealClock().NowNs();
    return deadline > now ? (deadline - now) / base::kNsPerMs : 0;
  };
  bool ended = reader_waits_.Stop(left_ms());
  ended = peer_waits_.Stop(left_ms()) && ended;
  ended = for_readers_.Stop(left_ms()) && ended;
  ended = for_peers_.Stop(left_ms()) && ended;
  ended = upkeep_.Stop(left_ms()) && ended;
  std::vector<stream::RegisteredPart> parts;
  {
    const std::unique_lock<std::mutex> lock(tick_mutex_, std::try_to_lock);
    if (lock.owns_lock()) parts = registered_;
  }
  // If the service does not receive this, it forgets the parts after a while.
  if (!parts.empty()) (void)Register(parts, 0).ok();
  return ended;
}

void Daemon::OnRequest(uint64_t id, const std::shared_ptr<Channel>& channel) {
  std::optional<OpenWait> wait;
  const Status status = Serve(*channel, &wait);
  if (wait) return Await(*wait, id, channel);
  EndRequest(id, status);
}

void Daemon::EndRequest(uint64_t id, const Status& status) {
  listener_->Resume(id, status.ok());
  if (!status.ok() && status.code() != Code::kPeerFailed) {
    closed_.Warn("a connection was closed: " + status.ToString(), io::RealClock().NowNs());
  }
}

// Sending may take its time, so the threads that serve daemons do it.
void Daemon::Await(const OpenWait& wait, uint64_t id, const std::shared_ptr<Channel>& channel) {
  const auto tell = [this, id, channel, number = wait.id](const Result<uint64_t>& newest) {
    for_peers_.Run([this, id, channel, number, answer = AnswerTo(newest)] {
      EndRequest(id, channel->Send(TcpFrameKind::kAnswer, number, answer, In(kFrameNs)));
    });
  };
  const uint64_t until = In(wait.request.timeout_ms * base::kNsPerMs);
  peer_waits_.Add({wait.request.part, wait.request.number}, {until, until, tell});
}

Status Daemon::ServePeer(Channel& channel) {
  std::optional<OpenWait> wait;
  const Status status = Serve(channel, &wait);
  if (!wait) return status;
  const Request& request = wait->request;
  const auto newest = local_.Wait(request.part, request.number, request.timeout_ms);
  return channel.Send(TcpFrameKind::kAnswer, wait->id, AnswerTo(newest), In(kFrameNs));
}

// Leaves a wait to the caller.
Status Daemon::Serve(Channel& channel, std::optional<OpenWait>* wait) {
  QUIRE_ASSIGN_OR_RETURN(const FrameHead head, channel.ReceiveHead(In(kFrameNs)));
  if (head.kind != TcpFrameKind::kRequest) {
    return Status(Code::kCorruption, "another daemon sent what is no request");
  }
  std::string encoded(head.size, '\0');
  QUIRE_RETURN_IF_ERROR(channel.ReceivePayload(head, encoded.data(), In(kFrameNs)));
  QUIRE_ASSIGN_OR_RETURN(Request request, stream::DecodeRequest(encoded));
  switch (request.operation) {
    case RequestOperation::kRegister:
    case RequestOperation::kLookup:
      return ServeMetadata(request, head.id, channel);
    case RequestOperation::kWait:
      wait->emplace(OpenWait{std::move(request), head.id});
      return Status();
    default:
      return local_.Serve(request, head.id, channel);
  }
}

Status Daemon::ServeMetadata(const Request& request, uint64_t id, Channel& channel) {
  Result<std::string> body = std::string();
  if (!options_.metadata_here) {
    body = Status(Code::kUnsupported, "the daemon at " + address() + " is no metadata service");
  } else if (request.operation == RequestOperation::kLookup) {
    body = registry_.Lookup(request.part, io::RealClock().NowNs());
  } else {
    std::string address = request.address;
    if (address.starts_with(":")) {
      QUIRE_ASSIGN_OR_RETURN(const std::string host, channel.socket().PeerHost());
      address = host + address;
    }
    const Status status =
        registry_.Register(request.parts, address, io::RealClock().NowNs(), request.number);
    if (!status.ok()) body = status;
  }
  return channel.Send(TcpFrameKind::kAnswer, id, Answer(body), In(kFrameNs));
}

void Daemon::OnBell(const std::shared_ptr<stream::QueueServer>& queue) {
  for (const auto& asked : queue->Take()) {
    for_readers_.Run([this, queue, asked] { ServeReader(queue, asked); });
  }
}

void Daemon::ServeReader(const std::shared_ptr<stream::QueueServer>& queue,
                         const stream::QueueServer::Asked& asked) {
  const auto request = stream::DecodeRequest(asked.request);
  if (!request.ok()) return queue->Answer(asked.slot, Answer(request.status()));
  const uint64_t deadline = DeadlineToTell(asked.deadline_ns);
  if (request->operation == RequestOperation::kWait) {
    const auto tell = [queue, slot = asked.slot](const Result<uint64_t>& newest) {
      queue->Answer(slot, AnswerTo(newest));
    };
    const uint64_t until = std::min(In(request->timeout_ms * base::kNsPerMs), deadline);
    return reader_waits_.Add({request->part, request->number}, {until, deadline, tell});
  }
  const auto tell = [&](const stream::Arrival& arrival) { queue->Tell(asked.slot, arrival); };
  queue->Answer(asked.slot, Answer(remote_.Serve(*request, deadline, tell)));
}

Result<uint64_t> Daemon::AskOwner(const Waits::Question& question, uint64_t timeout_ms,
                                  uint64_t deadline_ns) {
  Request request;
  request.operation = RequestOperation::kWait;
  request.part = question.part;
  request.number = question.after;
  request.timeout_ms = timeout_ms;
  QUIRE_ASSIGN_OR_RETURN(const std::string body, remote_.Serve(request, deadline_ns, {}));
  return stream::DecodeNumber(body);
}

void Daemon::OnTick() {
  if (ticking_.exchange(true)) return upkeep_.Rouse();
  upkeep_.Run([this] {
    Tick();
    ticking_.store(false);
  });
}

void Daemon::Tick() {
  const std::lock_guard<std::mutex> lock(tick_mutex_);
  closed_.Tell(io::RealClock().NowNs());
  local_.Refresh();
  const std::vector<StorePart> parts = streams_.parts();
  registered_ = streams_.registrations(parts);
  const Status status = Register(registered_, kTtlMs);
  if (!status.ok() && !told_failure_) {
    base::Log(LogLevel::kWarning,
              "the metadata service does not know of this place: " + status.ToString());
  }
  told_failure_ = !status.ok();
  TendIfDue(parts);
}

// Runs on a thread of its own: to tend a large part may take longer than registrations last.
void Daemon::TendIfDue(const std::vector<StorePart>& parts) {
  const uint64_t now = io::RealClock().NowNs();
  if (tended_ns_ != 0 && now < tended_ns_ + options_.tend_ms * base::kNsPerMs) return;
  if (tends_.exchange(true)) return;
  tended_ns_ = now;
  upkeep_.Run([this, due = schedule_.Due(parts, streams_.written)] {
    Tend(due);
    tends_.store(false);
  });
}

void Daemon::Tend(const std::vector<StorePart>& due) {
  for (const StorePart& part : due) {
    if (upkeep_.stopping()) return;
    streams_.tend(part);
  }
}

std::string Daemon::AdvertisedAddress() const {
  const auto parts = io::SplitAddress(listener_->address());
  if (!parts.ok()) return listener_->address();
  if (!options_.advertise.empty()) return options_.advertise + ":" + parts->second;
  const bool any = parts->first == "0.0.0.0" || parts->first == "::";
  return any ? ":" + parts->second : listener_->address();
}

Status Daemon::Register(const std::vector<stream::RegisteredPart>& parts, uint64_t ttl_ms) {
  Request request;
  request.operation = RequestOperation::kRegister;
  request.address = AdvertisedAddress();
  request.number = ttl_ms;
  const Request empty = request;
  uint64_t bytes = 0;
  const uint64_t deadline = In(kRegisterNs);
  for (const stream::RegisteredPart& part : parts) {
    bytes += stream::EncodedPartBytes(part);
    if (bytes > stream::kRequestBytesMax / 2) {
      QUIRE_RETURN_IF_ERROR(RegisterSome(std::exchange(request, empty), deadline));
      bytes = stream::EncodedPartBytes(part);
    }
    request.parts.push_back(part);
  }
  return request.parts.empty() ? Status() : RegisterSome(std::move(request), deadline);
}

Status Daemon::RegisterSome(Request request, uint64_t deadline_ns) {
  if (options_.metadata_here) {
    return registry_.Register(request.parts, request.address, io::RealClock().NowNs(),
                              request.number);
  }
  if (options_.metadata.empty()) return Status();
  return peers_.Call(options_.metadata, request, deadline_ns).status();
}

Result<std::string> Daemon::Lookup(const StorePart& part, uint64_t deadline_ns) {
  Result<std::string> found = Status(Code::kNotFound, "the daemon knows of no metadata service");
  if (options_.metadata_here) {
    found = registry_.Lookup(part, io::RealClock().NowNs());
  } else if (!options_.metadata.empty()) {
    Request request;
    request.operation = RequestOperation::kLookup;
    request.part = part;
    found = peers_.Call(options_.metadata, request, deadline_ns);
  }
  // The part is not on this node: the reader has looked for it here.
  if (found.ok() && *found == AdvertisedAddress()) return Status(Code::kNotFound);
  return found;
}

}  // namespace quire::streamd
