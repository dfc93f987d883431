#include "comm/sim/sim_transport.h"

#include <thread>
#include <vector>

#include "comm/sim/sim_network.h"

namespace quire::comm {
namespace {

class SimClock final : public io::Clock {
 public:
  SimClock(SimCore* core, int rank) : core_(core), rank_(rank) {}
  uint64_t NowNs() override { return core_->NowNs(); }
  void SleepNs(uint64_t ns) override { core_->SleepNs(rank_, ns); }

 private:
  SimCore* const core_;
  const int rank_;
};

class SimTransport final : public Transport {
 public:
  SimTransport(SimCore* core, int rank) : core_(core), rank_(rank), clock_(core, rank) {}
  ~SimTransport() override { core_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return core_->options().rank_count; }
  bool SharesMemory(int) const override { return core_->options().share_memory; }
  uint32_t frame_bytes_max(int) const override { return kFrameBytesMax; }
  Result<bool> TrySend(int destination, const FrameParts& frame) override {
    return core_->TrySend(rank_, destination, frame);
  }
  int Poll(FrameSink& sink, int frames_max) override {
    return core_->Poll(rank_, sink, frames_max);
  }
  void CallerArrives() override {}
  void CallerLeaves() override {}
  bool Wait(Waiter who, uint64_t timeout_ns) override {
    core_->Wait(rank_, who, timeout_ns);
    return false;
  }
  void Wake(Waiter who) override { core_->Wake(rank_, who); }
  uint64_t spin_ns() const override { return 0; }
  bool Alive(int rank) override { return core_->Alive(rank_, rank); }
  io::Clock& clock() override { return clock_; }
  bool AllowsThreads() const override { return !core_->options().deterministic; }
  ProgressGroup* progress_group() const override { return nullptr; }
  Status CheckThread() const override { return Status(); }
  std::string Name() const override { return "sim"; }

 private:
  SimCore* const core_;
  const int rank_;
  SimClock clock_;
};

}  // namespace

std::unique_ptr<SimNetwork> SimNetwork::Create(const Options& options) {
  return std::make_unique<SimCore>(options);
}

void SimCore::RunRank(int rank,
                      const std::function<void(int, std::unique_ptr<Transport>)>& program) {
  if (options_.deterministic) {
    Lock lock(mutex_);
    RankOf(rank).changed.wait(lock, [&] { return turn_ == rank; });
  }
  program(rank, std::make_unique<SimTransport>(this, rank));
  Lock lock(mutex_);
  RankOf(rank).state = State::kFinished;
  if (options_.deterministic) GiveTurn(lock, rank);
}

void SimCore::Run(const std::function<void(int, std::unique_ptr<Transport>)>& program) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options_.rank_count; ++rank) {
    threads.emplace_back([this, rank, &program] { RunRank(rank, program); });
  }
  if (options_.deterministic) {
    const Lock lock(mutex_);
    turn_ = PickNext();
    RankOf(turn_).changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace quire::comm
