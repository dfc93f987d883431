// What lies in the stream beside the field: which step it is of, and what the field of that step
// must be, so that whoever reads it can tell whether it is whole.
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

/// What can be said of cells without their halo. Of blocks that make up the plate the combination
/// is that of the plate: `hash` is the same however it was cut.
struct Summary {
  double minimum = 0;
  double maximum = 0;
  double heat = 0;  ///< the sum
  uint64_t hottest_row = 0;
  uint64_t hottest_column = 0;
  uint64_t hash = 0;  ///< of all cells and where they are
  bool operator==(const Summary&) const = default;
};
Summary Summarize(const Plate& plate, const Block& block, const double* field);
/// Of the blocks of all ranks, in the order of their ranks.
Summary Combine(const std::vector<Summary>& parts);

/// One rank's at one step. Programs on machines of the same kind write and read it: its bytes are
/// as they are in memory.
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

/// Nothing: the bytes are no state.
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
