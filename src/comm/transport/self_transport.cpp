// The transport of a single rank: it has no frames to send or receive, but threads to wake.
#include <atomic>

#include "comm/transport/transport.h"
#include "io/ipc/shared_memory.h"

namespace quire::comm {
namespace {

class SelfTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool SharesMemory(int) const override { return true; }
  uint32_t frame_bytes_max(int) const override { return kFrameBytesMax; }
  Result<bool> TrySend(int destination, const FrameParts&) override {
    return Status(Code::kPeerFailed, "there is no rank " + std::to_string(destination));
  }
  int Poll(FrameSink&, int) override { return 0; }
  void CallerArrives() override {}
  void CallerLeaves() override {}

  bool Wait(Waiter who, uint64_t timeout_ns) override {
    std::atomic<uint32_t>& woken = woken_[who == Waiter::kHandler ? 0 : 1];
    if (woken.exchange(0, std::memory_order_acquire) != 0) return false;
    io::FutexWait(&woken, 0, timeout_ns);
    woken.exchange(0, std::memory_order_acquire);
    return false;
  }

  void Wake(Waiter who) override {
    std::atomic<uint32_t>& woken = woken_[who == Waiter::kHandler ? 0 : 1];
    if (woken.exchange(1, std::memory_order_release) == 0) io::FutexWake(&woken, 1);
  }

  uint64_t spin_ns() const override { return 0; }
  bool Alive(int) override { return true; }
  io::Clock& clock() override { return io::RealClock(); }
  bool AllowsThreads() const override { return true; }
  ProgressGroup* progress_group() const override { return nullptr; }
  Status CheckThread() const override { return Status(); }
  std::string Name() const override { return "self"; }

 private:
  std::atomic<uint32_t> woken_[2] = {0, 0};
};

}  // namespace

std::unique_ptr<Transport> NewSelfTransport() {
  return std::make_unique<SelfTransport>();
}

}  // namespace quire::comm
