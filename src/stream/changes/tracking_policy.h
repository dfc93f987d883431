/// Chooses, step by step, how the changes of an object are found: by what each way would cost, from
/// what was measured and from how much changed of late.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    an object belongs to one thread
#pragma once

#include <cstdint>

#include "stream/changes/change_probe.h"

namespace quire::stream {

/// kWhole: nothing tracks, all is stored. kHash: all blocks are hashed. kPages: writes to pages are
/// noted, and the blocks of those pages hashed.
enum class Method : uint8_t { kWhole, kHash, kPages };

/// The properties of an object.
struct TrackedSize {
  uint64_t bytes;
  uint64_t pages;           ///< that can be watched
  uint64_t first_store_ns;  ///< to a watched page; 0: pages cannot be watched
};

class TrackingPolicy {
 public:
  explicit TrackingPolicy(const TrackedSize& size);

  /// The measurements.
  void StoredWhole(uint64_t ns);
  void Hashed(uint64_t bytes, uint64_t ns);
  void Scanned(uint64_t ns);
  /// The changed part in the step that ends, according to method(); in kWhole, according to a
  /// probe.
  void Saw(const ChangedShares& shares);
  /// Pages cannot be watched any more.
  void LosePages() { size_.first_store_ns = 0; }

  /// For the next step. One call per step.
  Method Choose();
  Method method() const { return method_; }
  /// Whether the next step is one that a probe should look at: nothing tracks it.
  bool ProbeDue() const { return method_ == Method::kWhole && steps_to_probe_ == 0; }

 private:
  void RareProbes();
  double WholeNs() const;
  double HashNs() const;
  double CostNs(Method method) const;
  bool IsAllowed(Method method) const;
  Method Cheapest() const;

  TrackedSize size_;
  Method method_ = Method::kWhole;
  ChangedShares shares_ = {1, 1, 1};
  double written_in_vain_ = 0;  // share of pages that were written to and kept their bytes
  // Before the first measurement: the order of magnitude of usual machines.
  double store_ns_per_byte_ = 0.12;
  double hash_ns_per_byte_ = 0.1;
  double scan_ns_;
  uint32_t probe_interval_ = 1;  // [steps]
  uint32_t steps_to_probe_ = 0;
  uint32_t tracked_steps_ = 0;  // since nothing tracked last
};

}  // namespace quire::stream
