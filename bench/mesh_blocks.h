/// A simulation on an adaptive mesh, reduced to its output: blocks of cells, most of which do not
/// change while something moves through the others.
///
/// Layer      bench
/// Threads    one thread
/// Source     NVStream, HPDC18, section 7.2: miniAMR, "two moving spheres"
#pragma once

#include <cstdint>
#include <vector>

#include "store_ways.h"

namespace quire::bench {

struct MeshShape {
  uint32_t blocks = 400;
  uint32_t edge = 32;    ///< cells along each edge of a block, each a double
  uint32_t sweeps = 20;  ///< of the stencil over a changing block, in each step
};

/// Computes in variables, one for each block.
class MeshBlocks {
 public:
  explicit MeshBlocks(const MeshShape& shape);
  const Variables& variables() const { return variables_; }

  /// Computes a step: recomputes `changed_percent` of the blocks, half of them around each of two
  /// places that move by a block from step to step. All their cells change.
  void Step(uint64_t step, double changed_percent);

 private:
  void Compute(uint32_t block, double source);
  void Sweep(const double* from, double* to, double source) const;

  const MeshShape shape_;
  const uint64_t cells_;
  Variables variables_;
  std::vector<double> scratch_;
};

}  // namespace quire::bench
