/// Chooses at every step how the changes of an object are found: estimates the cost of each way
/// from measurements and from how much changed recently.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    an object belongs to one thread
#pragma once

#include <cstdint>

#include "stream/changes/change_probe.h"

namespace quire::stream {

/// kWhole: changes are not tracked, and the whole object is stored. kHash: all blocks are hashed.
/// kPages: written pages are recorded, and their blocks are hashed.
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
  /// Records the changed part in the step that ends, as found by method(); in kWhole, by a probe.
  void Saw(const ChangedShares& shares);
  /// Records that pages cannot be watched any more.
  void LosePages() { size_.first_store_ns = 0; }

  /// Chooses the method of the next step. Must be called once per step.
  Method Choose();
  Method method() const { return method_; }
  /// Returns whether a probe should estimate the changes of the next step, because nothing tracks
  /// it.
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
