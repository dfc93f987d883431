/// Estimates from a sample how much of an untracked object changes in a step: hashes of some pages,
/// in places that differ from step to step.
///
/// Layer      stream
/// Threads    an object belongs to one thread
#pragma once

#include <cstdint>
#include <vector>

namespace quire::stream {

/// Parts of an object, 0 to 1.
struct ChangedShares {
  double blocks;
  double pages;    ///< with a block that changed
  double written;  ///< pages that are known to be written to
};

class ChangeProbe {
 public:
  /// `memory` must outlive the probe and contain at least one block.
  ChangeProbe(const char* memory, uint64_t bytes, uint64_t page_bytes);

  /// Hashes a sample of the object.
  void Begin();
  bool begun() const { return !hashes_.empty(); }
  /// Returns how much of the sample has changed since Begin.
  ChangedShares End();
  /// Returns the bytes that Begin or End reads.
  uint64_t sample_bytes() const;

 private:
  std::vector<uint64_t> HashSample() const;

  const char* const memory_;
  const uint64_t bytes_;
  const uint64_t page_bytes_;
  const uint64_t page_count_;
  const uint64_t stride_;  // of pages, one is in the sample
  uint64_t begins_ = 0;
  std::vector<uint64_t> hashes_;
};

}  // namespace quire::stream
