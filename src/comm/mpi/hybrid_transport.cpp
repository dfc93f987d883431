#include "comm/mpi/hybrid_transport.h"

#include <algorithm>
#include <utility>

namespace quire::comm {
namespace {

class HybridTransport final : public Transport {
 public:
  HybridTransport(std::unique_ptr<Transport> shm, std::unique_ptr<MpiTransport> mpi)
      : shm_(std::move(shm)), mpi_(std::move(mpi)) {}

  int rank() const override { return mpi_->rank(); }
  int size() const override { return mpi_->size(); }
  bool SharesMemory(int rank) const override { return shm_->SharesMemory(rank); }
  uint32_t frame_bytes_max(int destination) const override {
    return To(destination).frame_bytes_max(destination);
  }
  Result<bool> TrySend(int destination, const FrameParts& frame) override {
    return To(destination).TrySend(destination, frame);
  }
  int Poll(FrameSink& sink, int frames_max) override {
    const int count = shm_->Poll(sink, frames_max);
    return count + mpi_->Poll(sink, std::max(1, frames_max - count));
  }
  void CallerArrives() override {
    mpi_->CallerArrives();
    shm_->CallerArrives();
  }
  void CallerLeaves() override {
    mpi_->CallerLeaves();
    shm_->CallerLeaves();
  }
  // A neighbour ends this sleep; frames that arrive through MPI are found after it.
  bool Wait(Waiter who, uint64_t timeout_ns) override {
    if (mpi_->Pending()) return true;
    return shm_->Wait(who, std::min(timeout_ns, mpi_->SleepNs(who)));
  }
  void Wake(Waiter who) override { shm_->Wake(who); }
  uint64_t spin_ns() const override { return shm_->spin_ns(); }
  bool Alive(int rank) override { return To(rank).Alive(rank); }
  io::Clock& clock() override { return mpi_->clock(); }
  bool AllowsThreads() const override { return mpi_->AllowsThreads(); }
  ProgressGroup* progress_group() const override { return mpi_->progress_group(); }
  Status CheckThread() const override { return mpi_->CheckThread(); }
  std::string Name() const override { return "shm+mpi"; }

 private:
  Transport& To(int rank) const {
    if (shm_->SharesMemory(rank)) return *shm_;
    return *mpi_;
  }

  const std::unique_ptr<Transport> shm_;
  const std::unique_ptr<MpiTransport> mpi_;
};

}  // namespace

std::unique_ptr<Transport> NewHybridTransport(std::unique_ptr<Transport> shm,
                                              std::unique_ptr<MpiTransport> mpi) {
  return std::make_unique<HybridTransport>(std::move(shm), std::move(mpi));
}

}  // namespace quire::comm
