// A plate that is heated by a moving source, and its division into one block of cells for each
// rank. Every cell's next temperature is one expression of five, so that a run's result is the same
// to the last bit on any number of ranks.
//
// The edge of the plate is cold: outside, the temperature is always 0. The source moves on an
// ellipse; its place depends only on the step.
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

/// The number of rows and columns of blocks. Ranks are numbered along the rows.
struct Grid {
  uint32_t rows = 1;
  uint32_t columns = 1;
  uint32_t ranks() const { return rows * columns; }
  /// Returns the number of steps, from neighbour to neighbour, between the two most distant ranks.
  uint32_t diameter() const { return rows + columns - 2; }
  bool operator==(const Grid&) const = default;
};

/// The cells of one rank. In memory they are surrounded by a halo of one cell: copies of the
/// neighbours' cells.
struct Block {
  uint64_t first_row = 0;
  uint64_t first_column = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;

  /// Returns the distance in memory from a cell to the one below it.
  uint64_t stride() const { return columns + 2; }
  /// Returns the number of cells in memory, with the halo.
  uint64_t cells() const { return (rows + 2) * stride(); }
  /// Returns the index in memory. Rows 0 and rows + 1 and columns 0 and columns + 1 are the halo.
  uint64_t At(uint64_t row, uint64_t column) const { return row * stride() + column; }
  bool operator==(const Block&) const = default;
};

/// Returns the grid of `ranks` blocks that cuts the plate along the fewest cells; no value if in
/// every grid some block had no cells.
std::optional<Grid> GridOf(const Plate& plate, uint32_t ranks);

/// Returns the block of a rank. The grid must have at most as many rows and columns as the plate.
Block BlockOf(const Plate& plate, const Grid& grid, uint32_t rank);

/// [cells] A place on the plate.
struct Point {
  double row = 0;
  double column = 0;
  bool operator==(const Point&) const = default;
};
/// Returns the centre of the source.
Point SourceAt(const Plate& plate, uint64_t step);

/// [seconds] One step.
constexpr double kStepSeconds = 0.2;

/// Computes one block, in place.
class Stepper {
 public:
  Stepper(const Plate& plate, const Block& block)
      : plate_(plate), block_(block), above_(block.stride()), here_(block.stride()) {}

  /// Computes `step` from step - 1, whose halo must be filled. The halo is unchanged.
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
