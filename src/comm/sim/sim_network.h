/// The state behind SimNetwork: the queues of frames, the rank whose turn it is, and virtual time.
///
/// Layer      comm (tests only; internal)
/// Threads    any; one mutex over everything
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "comm/sim/sim_transport.h"

namespace quire::comm {

class SimCore final : public SimNetwork {
 public:
  explicit SimCore(const Options& options);

  void Run(const std::function<void(int, std::unique_ptr<Transport>)>& program) override;
  void Kill(int rank) override;
  void KillAfter(int rank, uint64_t calls) override;
  bool Killed(int rank) const override;
  void Stop(int rank, uint64_t ns) override;
  void StopAfter(int rank, uint64_t calls, uint64_t ns) override;
  void Damage(int source, int destination) override;

  const Options& options() const { return options_; }

  // The interface for the ranks' transports and clocks.
  Result<bool> TrySend(int rank, int destination, const FrameParts& parts);
  int Poll(int rank, FrameSink& sink, int frames_max);
  void Wait(int rank, Waiter who, uint64_t timeout_ns);
  void Wake(int rank, Waiter who);
  bool Alive(int rank, int peer);
  void Leave(int rank);
  uint64_t NowNs();
  void SleepNs(int rank, uint64_t ns);

 private:
  using Lock = std::unique_lock<std::mutex>;

  struct Frame {
    uint64_t arrives_ns;
    std::string bytes;
  };
  /// From one rank to another.
  struct Path {
    std::deque<Frame> frames;
    uint64_t sent_count = 0;
    uint64_t received_count = 0;
    uint64_t last_arrival_ns = 0;
    bool room_wanted = false;
    bool room_came = false;
    bool damage_next = false;
    bool failure_told = false;
  };
  enum class State { kRunnable, kWaiting, kFinished };
  struct Rank {
    State state = State::kRunnable;
    bool sleeps_through = false;  ///< SleepNs: nothing but time ends it
    uint64_t wait_end_ns = 0;
    uint64_t stopped_until_ns = 0;
    bool woken[2] = {false, false};
    bool killed = false;
    bool dying = false;  ///< sends nothing any more; its end is not known yet
    bool gone = false;  ///< killed, or left
    uint64_t gone_known_ns = 0;
    uint64_t calls_left = UINT64_MAX;  ///< before it dies
    uint64_t calls_to_stop = UINT64_MAX;
    uint64_t stop_ns = 0;
    std::condition_variable changed;
  };

  Path& PathOf(int source, int destination);
  Rank& RankOf(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  void RunRank(int rank, const std::function<void(int, std::unique_ptr<Transport>)>& program);
  void EnterCall(Lock& lock, int rank);
  void GiveTurn(Lock& lock, int rank);
  int PickNext();
  std::vector<int> able_;  ///< PickNext's
  bool MayRun(const Rank& rank, int number);
  bool HasEvent(int rank);
  uint64_t NextEventNs(int rank);
  uint64_t TimeLocked();
  bool GoneKnown(int peer);
  void MarkGone(int rank, bool killed);
  void KillLocked(Lock& lock, int rank);
  Status WhyGone(int rank);
  void WaitFree(Lock& lock, int rank, Waiter who, uint64_t timeout_ns);
  bool DeliverOne(Lock& lock, int rank, int source, FrameSink& sink);
  int DeliverFailures(Lock& lock, int rank, FrameSink& sink);
  int DeliverRoom(Lock& lock, int rank, FrameSink& sink);

  const Options options_;
  mutable std::mutex mutex_;
  base::Random random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Path> paths_;
  uint64_t now_ns_ = 1'000'000'000;
  int turn_ = -1;
};

}  // namespace quire::comm
