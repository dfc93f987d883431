/// Counts the writes of this rank that are under way, so that a change of mode can wait for those
/// that were admitted before it.
///
/// Layer      kv
/// Threads    any; Begin and End of one write on one thread
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace quire::kv {

class WritesUnderWay {
 public:
  /// Before the write asks whether it may go on. Sequentially consistent with the gate: either the
  /// write sees the gate closed, or None() sees the write.
  void Begin() { Mine().begun.fetch_add(1); }
  void End() { Mine().ended.fetch_add(1); }
  /// True: none was under way at one moment of this call.
  bool None() const {
    // Ended before begun: where the sums are equal, they were equal in between, stripe by stripe.
    uint64_t ended = 0;
    for (const Stripe& stripe : stripes_) ended += stripe.ended.load();
    uint64_t begun = 0;
    for (const Stripe& stripe : stripes_) begun += stripe.begun.load();
    return begun == ended;
  }

 private:
  static constexpr size_t kStripeCount = 8;
  struct alignas(64) Stripe {
    std::atomic<uint64_t> begun{0};
    std::atomic<uint64_t> ended{0};
  };
  Stripe& Mine() {
    static thread_local const size_t index =
        std::hash<std::thread::id>()(std::this_thread::get_id()) % kStripeCount;
    return stripes_[index];
  }

  std::array<Stripe, kStripeCount> stripes_;
};

}  // namespace quire::kv
