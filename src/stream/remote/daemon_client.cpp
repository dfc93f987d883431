#include "stream/remote/daemon_client.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/core/scope_exit.h"
#include "base/threads/fork_generation.h"
#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "io/ipc/sealed_memory.h"
#include "io/ipc/socket.h"
#include "io/paths/process.h"

namespace quire::stream {
namespace {

constexpr uint64_t kDaemonPauseNs = 1'000'000;  // if many readers connect to a daemon at once
constexpr uint64_t kDaemonLookNs = 5'000'000;

// Returns the absolute path of the file that an environment variable names; empty if it is not set.
// A path that cannot be resolved fails when it is used.
std::string FileOf(const char* variable) {
  const std::string path = io::Environment(variable).value_or("");
  if (path.empty()) return path;
  Result<std::string> whole = io::AbsolutePath(path);
  return whole.ok() ? *std::move(whole) : path;
}

}  // namespace

struct DaemonClient::Link {
  explicit Link(io::Socket connected) : line(std::move(connected)) {}

  io::Socket line;
  const uint32_t generation = base::ForkGeneration();  // a forked child must connect again
  std::unique_ptr<QueueClient> queue;
};

DaemonClient::DaemonClient(std::string place)
    : place_(std::move(place)), program_(FileOf(kDaemonVariable)), token_(FileOf(kTokenVariable)) {}

DaemonClient::~DaemonClient() = default;

Result<std::string> DaemonClient::Call(const Request& request, uint64_t deadline_ns,
                                       const OnArrival& on_arrival) {
  QUIRE_ASSIGN_OR_RETURN(const auto link, TheLink(deadline_ns));
  Result<std::string> body = link->queue->Call(EncodeRequest(request), deadline_ns, on_arrival);
  if (!body.ok() && link->line.PeerGone()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (link_ == link) link_.reset();
  }
  return body;
}

// One thread connects, with its own deadline; the others wait for it, each up to its own deadline.
Result<std::shared_ptr<DaemonClient::Link>> DaemonClient::TheLink(uint64_t deadline_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    const bool ours = link_ && link_->generation == base::ForkGeneration();
    if (ours && !link_->line.PeerGone()) return link_;
    if (!connecting_) break;
    const uint64_t now_ns = io::RealClock().NowNs();
    if (now_ns >= deadline_ns) {
      return Status(Code::kTimedOut, "the daemon in " + place_ +
                                         " has not yet taken the connection of another thread");
    }
    connected_.wait_for(lock, std::chrono::nanoseconds(deadline_ns - now_ns));
  }
  link_.reset();
  connecting_ = true;
  const base::ScopeExit over([this] {  // with `mutex_` locked
    connecting_ = false;
    connected_.notify_all();
  });
  lock.unlock();
  auto link = base::OrOutOfMemory([&] { return ConnectOrStart(deadline_ns); });
  lock.lock();
  if (had_link_ && link.status().code() == Code::kNotFound) {
    return Status(Code::kPeerFailed, "the daemon of " + place_ + " has gone");
  }
  QUIRE_RETURN_IF_ERROR(link.status());
  link_ = *link;
  had_link_ = true;
  return link_;
}

Result<std::shared_ptr<DaemonClient::Link>> DaemonClient::ConnectOrStart(
    uint64_t deadline_ns) const {
  auto link = Connect(deadline_ns);
  if (link.status().code() != Code::kNotFound) return link;
  QUIRE_RETURN_IF_ERROR(StartDaemon(deadline_ns));
  return ConnectToStarted(deadline_ns);
}

Result<std::shared_ptr<DaemonClient::Link>> DaemonClient::Connect(uint64_t deadline_ns) const {
  Result<io::Socket> connected = io::Socket::ConnectLocal(place_, kDaemonSocket);
  while (connected.status().code() == Code::kBusy && io::RealClock().NowNs() < deadline_ns) {
    io::RealClock().SleepNs(kDaemonPauseNs);
    connected = io::Socket::ConnectLocal(place_, kDaemonSocket);
  }
  if (connected.status().code() == Code::kBusy) {
    return Status(Code::kTimedOut, "the daemon in " + place_ +
                                       " takes no connection: it is stopped, or has no time");
  }
  QUIRE_ASSIGN_OR_RETURN(io::Socket socket, std::move(connected));
  QUIRE_ASSIGN_OR_RETURN(const uint32_t user, socket.PeerUser());
  if (user != io::UserId()) {
    return Status(Code::kInvalidArgument,
                  "the daemon in " + place_ + " is another user's; choose a place of your own");
  }
  const auto link = std::make_shared<Link>(std::move(socket));
  auto fd = link->line.ReceiveDescriptor(deadline_ns);
  if (fd.status().code() == Code::kBusy) {
    return Status(Code::kBusy, "the daemon of " + place_ + " has as many readers as it takes");
  }
  if (!fd.ok()) return fd.status().WithContext("the daemon in " + place_);
  const Status other_version(
      Code::kUnsupported,
      "the daemon in " + place_ + " is of another version; stop it: quire-streamd --stop");
  auto mapped = io::SealedMemory::Map(*std::move(fd), sizeof(QueueLayout));
  if (mapped.status().code() == Code::kCorruption) return other_version;  // of another size
  QUIRE_ASSIGN_OR_RETURN(auto memory, std::move(mapped));
  const auto* const layout = reinterpret_cast<const QueueLayout*>(memory->data());
  if (layout->magic != kQueueMagic || layout->slot_count != kQueueSlots) return other_version;
  io::Socket& bell = link->line;
  link->queue = std::make_unique<QueueClient>(
      std::move(memory), [&bell] { return bell.WriteSome(Slice("!", 1)).status(); },
      [&bell] { return bell.PeerGone(); });
  return link;
}

// Connects to the started daemon, or to one that another reader started first: that one holds the
// place's lock, and is about to listen.
Result<std::shared_ptr<DaemonClient::Link>> DaemonClient::ConnectToStarted(
    uint64_t deadline_ns) const {
  for (;;) {
    const auto holder = io::PosixFileSystem().LockHolder(place_ + "/" + kDaemonLock);
    auto link = Connect(deadline_ns);
    const bool starts = link.status().code() == Code::kNotFound && holder.ok() && !holder->empty();
    if (!starts || io::RealClock().NowNs() >= deadline_ns) return link;
    io::RealClock().SleepNs(kDaemonLookNs);
  }
}

Status DaemonClient::StartDaemon(uint64_t deadline_ns) const {
  std::string program = program_;
  // A daemon that is started without a metadata service would know no parts.
  if (program.empty() && io::Environment(kMetadataVariable)) {
    program = io::FindProgram(kDaemonProgram);
  }
  if (program.empty()) {
    return Status(Code::kNotFound, "no quire-streamd serves " + place_);
  }
  std::vector<std::string> arguments = {"--place", place_, "--detach"};
  if (!token_.empty()) arguments.insert(arguments.end(), {"--token", token_});
  const Status started = io::StartDetached(program, arguments, deadline_ns);
  // Another reader may have started a daemon first.
  return started.code() == Code::kPeerFailed ? Status() : started;
}

}  // namespace quire::stream
