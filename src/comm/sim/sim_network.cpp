#include "comm/sim/sim_network.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/core/check.h"
#include "comm/transport/frame.h"

namespace quire::comm {
namespace {

constexpr uint32_t kSession = 1;
constexpr uint64_t kTurnNsMax = 2000;
constexpr uint64_t kNever = UINT64_MAX;
// Far enough for any test, near enough for every clock.
constexpr uint64_t kRealWaitNsMax = 3'600'000'000'000;

Status KilledStatus() {
  return PeerGone("this rank was killed (simulated)");
}

}  // namespace

SimCore::SimCore(const Options& options) : options_(options), random_(options.seed) {
  const auto count = static_cast<size_t>(options.rank_count);
  for (size_t i = 0; i < count; ++i) ranks_.push_back(std::make_unique<Rank>());
  paths_.resize(count * count);
  able_.reserve(count);
}

SimCore::Path& SimCore::PathOf(int source, int destination) {
  return paths_[static_cast<size_t>(source) * ranks_.size() + static_cast<size_t>(destination)];
}

uint64_t SimCore::TimeLocked() {
  return options_.deterministic ? now_ns_ : io::RealClock().NowNs();
}

uint64_t SimCore::NowNs() {
  if (!options_.deterministic) return io::RealClock().NowNs();
  const Lock lock(mutex_);
  return TimeLocked();
}

bool SimCore::GoneKnown(int peer) {
  const Rank& rank = RankOf(peer);
  return rank.gone && TimeLocked() >= rank.gone_known_ns;
}

Status SimCore::WhyGone(int rank) {
  return PeerGone(RankOf(rank).killed ? "the process died" : "the process left");
}

// Returns the next time at which something happens for a waiting rank; at the latest its deadline.
uint64_t SimCore::NextEventNs(int rank) {
  const Rank& self = RankOf(rank);
  uint64_t next_ns = self.wait_end_ns;
  if (self.sleeps_through) return self.killed ? 0 : next_ns;
  if (self.killed || self.woken[0] || self.woken[1]) return 0;
  for (int peer = 0; peer < options_.rank_count; ++peer) {
    const Path& path = PathOf(peer, rank);
    if (PathOf(rank, peer).room_came) return 0;
    if (!path.frames.empty()) {
      next_ns = std::min(next_ns, path.frames.front().arrives_ns);
    } else if (RankOf(peer).gone && !path.failure_told) {
      next_ns = std::min(next_ns, RankOf(peer).gone_known_ns);
    }
  }
  return next_ns;
}

bool SimCore::MayRun(const Rank& rank, int number) {
  if (rank.state == State::kFinished || rank.stopped_until_ns > now_ns_) return false;
  return rank.state == State::kRunnable || NextEventNs(number) <= now_ns_;
}

// Chooses among the ranks that can continue; if none can, advances the time until one can.
int SimCore::PickNext() {
  for (;;) {
    std::vector<int>& able = able_;  // a member, so that a turn takes no memory
    able.clear();
    uint64_t next_ns = kNever;
    for (int i = 0; i < options_.rank_count; ++i) {
      const Rank& rank = RankOf(i);
      if (rank.state == State::kFinished) continue;
      if (MayRun(rank, i)) {
        able.push_back(i);
        continue;
      }
      const uint64_t event_ns = rank.state == State::kWaiting ? NextEventNs(i) : now_ns_;
      next_ns = std::min(next_ns, std::max(event_ns, rank.stopped_until_ns));
    }
    if (!able.empty()) return able[random_.Below(able.size())];
    if (next_ns == kNever) return -1;
    now_ns_ = std::max(now_ns_, next_ns);
  }
}

// In deterministic mode: lets another rank run, and sleeps until it is this thread's turn again.
void SimCore::GiveTurn(Lock& lock, int rank) {
  now_ns_ += 1 + random_.Below(kTurnNsMax);
  const int next = PickNext();
  turn_ = next;
  if (next == rank) return;
  if (next >= 0) RankOf(next).changed.notify_all();
  if (RankOf(rank).state == State::kFinished) return;
  RankOf(rank).changed.wait(lock, [&] { return turn_ == rank; });
}

// Begins every transport call of a rank.
void SimCore::EnterCall(Lock& lock, int rank) {
  Rank& self = RankOf(rank);
  if (self.calls_left != UINT64_MAX && !self.killed && self.calls_left-- == 0) {
    KillLocked(lock, rank);
  }
  if (self.calls_to_stop != UINT64_MAX && self.calls_to_stop-- == 0) {
    self.stopped_until_ns = TimeLocked() + self.stop_ns;
  }
  if (options_.deterministic) {
    QUIRE_CHECK(turn_ == rank);  // a second thread, or another rank's transport
    return GiveTurn(lock, rank);
  }
  while (!self.killed && self.stopped_until_ns > TimeLocked()) {
    self.changed.wait_for(lock, std::chrono::nanoseconds(self.stopped_until_ns - TimeLocked()));
  }
}

Result<bool> SimCore::TrySend(int rank, int destination, const FrameParts& parts) {
  Lock lock(mutex_);
  EnterCall(lock, rank);
  if (RankOf(rank).killed || RankOf(rank).dying) return KilledStatus();
  if (GoneKnown(destination)) return WhyGone(destination);
  if (RankOf(destination).gone) return true;  // no rank can notice the loss
  Path& path = PathOf(rank, destination);
  if (path.frames.size() >= static_cast<size_t>(options_.window_frames)) {
    path.room_wanted = true;
    return false;
  }
  // Takes all memory first: without memory the frame was not sent.
  std::string bytes(kFrameHeaderBytes + parts.size(), '\0');
  path.frames.push_back({0, {}});
  FrameHeader header;
  header.size = static_cast<uint32_t>(parts.size());
  header.session = kSession;
  header.sequence = path.sent_count++;
  JoinParts(parts, bytes.data() + kFrameHeaderBytes);
  SealFrame({rank, destination}, header, bytes.data());
  if (std::exchange(path.damage_next, false)) {
    bytes[random_.Below(bytes.size())] ^= static_cast<char>(1 << random_.Below(8));
  }
  const uint64_t delay_ns = options_.deterministic ? random_.Below(options_.delay_ns_max + 1) : 0;
  path.last_arrival_ns = std::max(path.last_arrival_ns, TimeLocked() + delay_ns);
  path.frames.back() = {path.last_arrival_ns, std::move(bytes)};
  RankOf(destination).changed.notify_all();
  return true;
}

bool SimCore::DeliverOne(Lock& lock, int rank, int source, FrameSink& sink) {
  Path& path = PathOf(source, rank);
  if (path.failure_told || path.frames.empty()) return false;
  if (path.frames.front().arrives_ns > TimeLocked()) return false;
  const std::string bytes = std::move(path.frames.front().bytes);
  path.frames.pop_front();
  if (std::exchange(path.room_wanted, false)) {
    path.room_came = true;
    RankOf(source).changed.notify_all();
  }
  const uint64_t sequence = path.received_count++;
  const Result<FrameHeader> header = DecodeFrameHeader(bytes);
  Status status = header.status();
  if (header.ok()) status = VerifyFrame({source, rank}, *header, bytes);
  if (status.ok() && header->sequence != sequence) {
    status = Status(Code::kCorruption, "received frame " + std::to_string(header->sequence) +
                                           " where " + std::to_string(sequence) + " was due");
  }
  if (!status.ok()) path.failure_told = true;
  lock.unlock();
  if (status.ok()) {
    sink.OnFrame(source, Slice(bytes).substr(kFrameHeaderBytes));
  } else {
    sink.OnPeerFailed(source, status);
  }
  lock.lock();
  return true;
}

int SimCore::DeliverFailures(Lock& lock, int rank, FrameSink& sink) {
  int count = 0;
  for (int peer = 0; peer < options_.rank_count; ++peer) {
    Path& path = PathOf(peer, rank);
    if (path.failure_told) continue;
    const bool killed = RankOf(rank).killed;
    if (!killed && (!GoneKnown(peer) || !path.frames.empty())) continue;
    const Status why = killed ? KilledStatus() : WhyGone(peer);
    path.failure_told = true;
    lock.unlock();
    sink.OnPeerFailed(peer, why);
    lock.lock();
    ++count;
  }
  return count;
}

int SimCore::DeliverRoom(Lock& lock, int rank, FrameSink& sink) {
  int count = 0;
  for (int peer = 0; peer < options_.rank_count; ++peer) {
    if (!std::exchange(PathOf(rank, peer).room_came, false)) continue;
    lock.unlock();
    sink.OnRoom(peer);
    lock.lock();
    ++count;
  }
  return count;
}

int SimCore::Poll(int rank, FrameSink& sink, int frames_max) {
  Lock lock(mutex_);
  EnterCall(lock, rank);
  int count = 0;
  if (!RankOf(rank).killed) {
    const auto first = static_cast<int>(random_.Below(static_cast<uint64_t>(options_.rank_count)));
    for (int i = 0; i < options_.rank_count; ++i) {
      const int source = (first + i) % options_.rank_count;
      while (count < frames_max && DeliverOne(lock, rank, source, sink)) ++count;
    }
    count += DeliverRoom(lock, rank, sink);
  }
  return count + DeliverFailures(lock, rank, sink);
}

void SimCore::WaitFree(Lock& lock, int rank, Waiter who, uint64_t timeout_ns) {
  Rank& self = RankOf(rank);
  bool& woken = self.woken[static_cast<int>(who)];
  self.wait_end_ns = kNever;
  self.changed.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, kRealWaitNsMax)), [&] {
    if (woken || self.killed) return true;
    for (int peer = 0; peer < options_.rank_count; ++peer) {
      const Path& path = PathOf(peer, rank);
      if (!path.failure_told && (!path.frames.empty() || RankOf(peer).gone)) return true;
      if (PathOf(rank, peer).room_came) return true;
    }
    return false;
  });
  woken = false;
}

void SimCore::Wait(int rank, Waiter who, uint64_t timeout_ns) {
  Lock lock(mutex_);
  if (!options_.deterministic) {
    EnterCall(lock, rank);
    return WaitFree(lock, rank, who, timeout_ns);
  }
  Rank& self = RankOf(rank);
  self.state = State::kWaiting;
  self.wait_end_ns = now_ns_ + std::min(timeout_ns, kNever - now_ns_);
  EnterCall(lock, rank);
  self.state = State::kRunnable;
  self.woken[0] = self.woken[1] = false;
}

void SimCore::SleepNs(int rank, uint64_t ns) {
  if (!options_.deterministic) return io::RealClock().SleepNs(ns);
  Lock lock(mutex_);
  Rank& self = RankOf(rank);
  self.state = State::kWaiting;
  self.sleeps_through = true;
  self.wait_end_ns = now_ns_ + ns;
  EnterCall(lock, rank);
  self.state = State::kRunnable;
  self.sleeps_through = false;
}

void SimCore::Wake(int rank, Waiter who) {
  const Lock lock(mutex_);
  RankOf(rank).woken[static_cast<int>(who)] = true;
  RankOf(rank).changed.notify_all();
}

bool SimCore::Alive(int rank, int peer) {
  const Lock lock(mutex_);
  return !RankOf(rank).killed && !GoneKnown(peer);
}

void SimCore::MarkGone(int rank, bool killed) {
  Rank& self = RankOf(rank);
  if (self.gone) return;
  self.gone = true;
  self.killed = killed;
  const uint64_t delay_ns = options_.deterministic ? random_.Below(options_.delay_ns_max + 1) : 0;
  self.gone_known_ns = TimeLocked() + delay_ns;
  for (int peer = 0; peer < options_.rank_count; ++peer) {
    Path& to_peer = PathOf(rank, peer);
    if (killed) to_peer.frames.resize(random_.Below(to_peer.frames.size() + 1));
    PathOf(peer, rank).frames.clear();
    if (std::exchange(PathOf(peer, rank).room_wanted, false)) PathOf(peer, rank).room_came = true;
    RankOf(peer).changed.notify_all();
  }
  self.changed.notify_all();
}

void SimCore::KillLocked(Lock& lock, int rank) {
  if (RankOf(rank).gone) return;
  if (options_.on_kill) {
    // The rank falls silent first: another of its threads must not send answers for writes that its
    // files no longer take.
    RankOf(rank).dying = true;
    lock.unlock();
    options_.on_kill(rank);
    lock.lock();
  }
  MarkGone(rank, true);
}

void SimCore::Kill(int rank) {
  Lock lock(mutex_);
  KillLocked(lock, rank);
}

void SimCore::KillAfter(int rank, uint64_t calls) {
  const Lock lock(mutex_);
  RankOf(rank).calls_left = calls;
}

bool SimCore::Killed(int rank) const {
  const Lock lock(mutex_);
  return ranks_[static_cast<size_t>(rank)]->killed;
}

void SimCore::Stop(int rank, uint64_t ns) {
  const Lock lock(mutex_);
  RankOf(rank).stopped_until_ns = TimeLocked() + ns;
}

void SimCore::StopAfter(int rank, uint64_t calls, uint64_t ns) {
  const Lock lock(mutex_);
  RankOf(rank).calls_to_stop = calls;
  RankOf(rank).stop_ns = ns;
}

void SimCore::Damage(int source, int destination) {
  const Lock lock(mutex_);
  PathOf(source, destination).damage_next = true;
}

void SimCore::Leave(int rank) {
  const Lock lock(mutex_);
  MarkGone(rank, false);
}

}  // namespace quire::comm
