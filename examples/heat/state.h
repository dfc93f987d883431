// The state in the stream beside the field: the step, and a summary of the field at this step, by
// which readers check that the field is complete.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "plate.h"

namespace quire::heat {

constexpr const char* kStore = "heat";
constexpr const char* kFieldKey = "field";  ///< temperatures of a block and its halo
constexpr const char* kStateKey = "state";  ///< a State

/// A summary of cells without their halo. The combination of the summaries of all blocks is that of
/// the plate: `hash` does not depend on the division into blocks.
struct Summary {
  double minimum = 0;
  double maximum = 0;
  double heat = 0;  ///< the sum
  uint64_t hottest_row = 0;
  uint64_t hottest_column = 0;
  uint64_t hash = 0;  ///< of all cells and their places
  bool operator==(const Summary&) const = default;
};
Summary Summarize(const Plate& plate, const Block& block, const double* field);
/// Combines the summaries of all blocks, in the order of their ranks.
Summary Combine(const std::vector<Summary>& parts);

/// The state of one rank at one step. It is stored as its bytes in memory, so programs on machines
/// of the same kind write and read it.
struct State {
  uint64_t format = kFormat;
  uint64_t step = 0;
  uint64_t every = 0;  ///< steps from one snapshot to the next
  double seconds = 0;  ///< of the simulated time
  Point source;
  Plate plate;
  Grid grid;
  Block block;
  Summary summary;

  static constexpr uint64_t kFormat = 0x3154414548;  // "HEAT1"
};

/// Decodes a state; no value if the bytes are no state.
inline std::optional<State> StateFrom(std::string_view bytes) {
  State state;
  if (bytes.size() != sizeof state) return std::nullopt;
  std::memcpy(&state, bytes.data(), sizeof state);
  if (state.format != State::kFormat) return std::nullopt;
  const Grid& grid = state.grid;
  if (grid.rows == 0 || grid.columns == 0 || grid.rows > state.plate.height ||
      grid.columns > state.plate.width) {
    return std::nullopt;
  }
  return state;
}

}  // namespace quire::heat
