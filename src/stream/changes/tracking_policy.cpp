#include "stream/changes/tracking_policy.h"

#include <algorithm>

namespace quire::stream {
namespace {

// If a larger share of the blocks changed, a whole version is stored: it is read faster, and ends a
// chain of deltas.
constexpr double kWholeShare = 0.5;
// The cost of storing scattered blocks and their list, relative to the same bytes in one piece.
constexpr double kScatter = 1.5;
// A method replaces another one only if its cost is below this share: measurements vary.
constexpr double kGain = 0.85;
// The weight of the newest measurement against all before it.
constexpr double kNew = 0.5;
constexpr uint32_t kProbeIntervalMax = 64;
// After this number of tracked steps, the decision to begin was right.
constexpr uint32_t kTrackedStepsEnough = 8;
// The share that remains of the known cost of pages that were written to in vain, after each step
// that cannot measure it.
constexpr double kForget = 0.97;
// The estimated time of a scan before one was measured: a call, and a walk over the page table.
constexpr double kScanCallNs = 2000;
constexpr double kScanPageNs = 10;

double UsualScanNs(uint64_t pages) {
  return kScanCallNs + kScanPageNs * static_cast<double>(pages);
}

double Mix(double before, double now) {
  return before + kNew * (now - before);
}

// Mixes times. A single step in which other programs had the processor must not change the choice.
double MixTime(double before, double now) {
  return Mix(before, std::min(now, 2 * before));
}

}  // namespace

TrackingPolicy::TrackingPolicy(const TrackedSize& size)
    : size_(size), scan_ns_(UsualScanNs(size.pages)) {}

void TrackingPolicy::StoredWhole(uint64_t ns) {
  if (ns == 0) return;
  const double per_byte = static_cast<double>(ns) / static_cast<double>(size_.bytes);
  store_ns_per_byte_ = MixTime(store_ns_per_byte_, per_byte);
}

void TrackingPolicy::Hashed(uint64_t bytes, uint64_t ns) {
  constexpr uint64_t kEnoughBytes = 1 << 14;  // fewer would measure the clock
  if (bytes < kEnoughBytes) return;
  const double per_byte = static_cast<double>(ns) / static_cast<double>(bytes);
  hash_ns_per_byte_ = MixTime(hash_ns_per_byte_, per_byte);
}

void TrackingPolicy::Scanned(uint64_t ns) {
  scan_ns_ = MixTime(scan_ns_, static_cast<double>(ns));
}

void TrackingPolicy::Saw(const ChangedShares& shares) {
  ChangedShares seen = shares;
  if (method_ == Method::kPages) {
    written_in_vain_ = shares.written - shares.pages;
  } else {
    // A value that is not measured now loses weight with each step.
    written_in_vain_ *= kForget;
    scan_ns_ = Mix(scan_ns_, UsualScanNs(size_.pages));
    seen.written = std::min(1.0, shares.pages + written_in_vain_);
  }
  if (method_ == Method::kWhole) {
    shares_ = seen;
    RareProbes();
  } else {
    shares_ = {Mix(shares_.blocks, seen.blocks), Mix(shares_.pages, seen.pages),
               Mix(shares_.written, seen.written)};
  }
}

// Each probe that finds no reason to track makes the next one rarer.
void TrackingPolicy::RareProbes() {
  steps_to_probe_ = probe_interval_;
  probe_interval_ = std::min(2 * probe_interval_, kProbeIntervalMax);
}

double TrackingPolicy::WholeNs() const {
  return static_cast<double>(size_.bytes) * store_ns_per_byte_;
}

double TrackingPolicy::HashNs() const {
  return static_cast<double>(size_.bytes) * hash_ns_per_byte_;
}

double TrackingPolicy::CostNs(Method method) const {
  if (method == Method::kWhole) return WholeNs();
  const double delta_ns = kScatter * shares_.blocks * WholeNs();
  if (method == Method::kHash) return delta_ns + HashNs();
  const auto pages = static_cast<double>(size_.pages);
  const double faults_ns = shares_.written * pages * static_cast<double>(size_.first_store_ns);
  return delta_ns + scan_ns_ + faults_ns + shares_.written * HashNs();
}

bool TrackingPolicy::IsAllowed(Method method) const {
  if (method == Method::kWhole) return true;
  return shares_.blocks <= kWholeShare && (method == Method::kHash || size_.first_store_ns != 0);
}

Method TrackingPolicy::Cheapest() const {
  Method cheapest = Method::kWhole;
  for (const Method method : {Method::kHash, Method::kPages}) {
    if (IsAllowed(method) && CostNs(method) < CostNs(cheapest)) cheapest = method;
  }
  return cheapest;
}

Method TrackingPolicy::Choose() {
  const Method before = method_;
  const Method cheapest = Cheapest();
  const double enough = CostNs(before) * (cheapest == Method::kWhole ? 1 : kGain);
  if (!IsAllowed(before) || CostNs(cheapest) < enough) method_ = cheapest;
  if (method_ != Method::kWhole) {
    if (++tracked_steps_ == kTrackedStepsEnough) probe_interval_ = 1;
  } else if (before != Method::kWhole) {
    tracked_steps_ = 0;
    RareProbes();
  } else if (steps_to_probe_ > 0) {
    --steps_to_probe_;
  }
  return method_;
}

}  // namespace quire::stream
