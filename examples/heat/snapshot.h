// One snapshot of all ranks, as who watches sees it: put together from their streams, and compared
// with what each rank said of it.
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

/// Snapshot `number` of all ranks' streams.
///
/// Errors   kNotFound    A rank has it no longer.
///          kCorruption  It is not whole: a rank's cells are not those of its state, ranks are of
///                       different steps, or a halo is not what the neighbour has.
Result<Assembled> Assemble(const Readers& ranks, uint64_t number);

}  // namespace quire::heat
