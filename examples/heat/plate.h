// A plate that is heated by a moving source, and how it is cut into one block of cells for each
// rank. Every cell's next temperature is one expression of five, so that a run's result is the same
// to the last bit on any number of ranks.
//
// The edge of the plate is cold: what lies outside has the temperature 0 for ever. The source goes
// round on an ellipse; where it is depends on the step alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace quire::heat {

/// [cells]
struct Plate {
  uint64_t height = 0;
  uint64_t width = 0;
  bool operator==(const Plate&) const = default;
};

/// How many blocks there are, one below the other and side by side. Ranks count along the rows.
struct Grid {
  uint32_t rows = 1;
  uint32_t columns = 1;
  uint32_t ranks() const { return rows * columns; }
  /// Steps from neighbour to neighbour between the two ranks that are farthest apart.
  uint32_t diameter() const { return rows + columns - 2; }
  bool operator==(const Grid&) const = default;
};

/// The cells of one rank. In memory a halo of one cell is around them: what the neighbours have.
struct Block {
  uint64_t first_row = 0;
  uint64_t first_column = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;

  /// From a cell to the one below it, in memory.
  uint64_t stride() const { return columns + 2; }
  /// In memory, with the halo.
  uint64_t cells() const { return (rows + 2) * stride(); }
  /// In memory. 0 and rows + 1 are the halo's rows, as 0 and columns + 1 are its columns.
  uint64_t At(uint64_t row, uint64_t column) const { return row * stride() + column; }
  bool operator==(const Block&) const = default;
};

/// The grid of `ranks` blocks that cuts the plate along the fewest cells. Nothing: however it were
/// cut, a block had no cells.
std::optional<Grid> GridOf(const Plate& plate, uint32_t ranks);

/// The block of a rank. The grid has at most as many rows and columns as the plate.
Block BlockOf(const Plate& plate, const Grid& grid, uint32_t rank);

/// [cells] A place on the plate.
struct Point {
  double row = 0;
  double column = 0;
  bool operator==(const Point&) const = default;
};
/// The middle of the source.
Point SourceAt(const Plate& plate, uint64_t step);

/// [seconds] One step.
constexpr double kStepSeconds = 0.2;

/// Computes one block, in place.
class Stepper {
 public:
  Stepper(const Plate& plate, const Block& block)
      : plate_(plate), block_(block), above_(block.stride()), here_(block.stride()) {}

  /// From step - 1, of which the halo is there, to `step`. The halo is as before.
  void Step(uint64_t step, double* field);

 private:
  void Diffuse(double* field);
  void Heat(uint64_t step, double* field) const;

  Plate plate_;
  Block block_;
  std::vector<double> above_;  // the row above, as it was
  std::vector<double> here_;   // the row that is being computed, as it was
};

}  // namespace quire::heat
