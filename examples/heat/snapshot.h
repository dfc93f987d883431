// One snapshot of all ranks as the viewer sees it: assembled from their streams, and compared with
// the state that each rank stored.
#pragma once

#include <memory>
#include <vector>

#include "quire/stream.h"
#include "state.h"

namespace quire::heat {

/// One for each rank.
using Readers = std::vector<std::unique_ptr<StreamReader>>;

/// The plate at one step.
struct Assembled {
  State state;                ///< of rank 0, but the summary is of the plate
  std::vector<double> field;  ///< row by row
};

/// Assembles snapshot `number` of all ranks' streams.
///
/// Errors   kNotFound    A rank's stream no longer contains it.
///          kCorruption  It is inconsistent: a rank's cells do not match its state, ranks have
///                       different steps, or a halo differs from the neighbour's cells.
Result<Assembled> Assemble(const Readers& ranks, uint64_t number);

}  // namespace quire::heat
