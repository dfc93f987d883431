/// Counts the writes of this rank that are under way, so that a change of mode can wait for those
/// that were admitted before it.
///
/// Layer      kv
/// Source     Linux, sleepable RCU: two sides, turned twice
/// Threads    any; Begin and End of one write on one thread; Turn on one thread at a time
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace quire::kv {

class WritesUnderWay {
 public:
  /// Counts a write, before it checks whether it is allowed. Sequentially consistent with what is
  /// allowed: either the write sees that it is no longer allowed, or None() of its side sees the
  /// write. Returns its side, for End().
  size_t Begin() {
    const size_t side = side_.load();
    Mine().begun[side].fetch_add(1);
    return side;
  }
  void End(size_t side) { Mine().ended[side].fetch_add(1); }
  /// Counts later writes on the other side, so that the earlier ones come to an end however many
  /// come. Returns the side of the earlier ones. After two turns, each with a wait for None(), all
  /// writes that began before the first turn are over, unless they saw that they are not allowed.
  size_t Turn() { return side_.exchange(1 - side_.load()); }
  /// Returns true if at one moment of this call no write of that side was under way.
  bool None(size_t side) const {
    // Ended before begun: if the sums are equal, they were equal in between, stripe by stripe.
    uint64_t ended = 0;
    for (const Stripe& stripe : stripes_) ended += stripe.ended[side].load();
    uint64_t begun = 0;
    for (const Stripe& stripe : stripes_) begun += stripe.begun[side].load();
    return begun == ended;
  }

 private:
  static constexpr size_t kStripeCount = 8;
  struct alignas(64) Stripe {
    std::array<std::atomic<uint64_t>, 2> begun{};
    std::array<std::atomic<uint64_t>, 2> ended{};
  };
  Stripe& Mine() {
    static thread_local const size_t index =
        std::hash<std::thread::id>()(std::this_thread::get_id()) % kStripeCount;
    return stripes_[index];
  }

  std::atomic<size_t> side_{0};
  std::array<Stripe, kStripeCount> stripes_;
};

}  // namespace quire::kv
