#include "plate.h"

#include <algorithm>
#include <cmath>

namespace quire::heat {
namespace {

constexpr double kPi = 3.141592653589793;
constexpr double kDiffusion = 0.2;  // share that goes to each neighbour in a step; below 1/4
constexpr double kPower = 10;       // what the middle of the source adds in a step
constexpr uint64_t kStepsOfARound = 500;

double SourceRadius(const Plate& plate) {
  return std::max(1.0, static_cast<double>(std::min(plate.height, plate.width)) / 24);
}

// The cells [first, first + count) that are less than `radius` away from `middle`.
struct Range {
  uint64_t begin;
  uint64_t end;
};
Range Near(double middle, double radius, uint64_t first, uint64_t count) {
  const auto bound = [&](double place) {
    const double inside =
        std::clamp(place, static_cast<double>(first), static_cast<double>(first + count));
    return static_cast<uint64_t>(inside);
  };
  return {bound(std::floor(middle - radius)), bound(std::ceil(middle + radius) + 1)};
}

}  // namespace

std::optional<Grid> GridOf(const Plate& plate, uint32_t ranks) {
  const auto cut_cells = [&](const Grid& grid) {
    return (grid.rows - 1) * plate.width + (grid.columns - 1) * plate.height;
  };
  std::optional<Grid> best;
  for (uint32_t rows = 1; rows <= ranks; ++rows) {
    const Grid grid = {rows, ranks / rows};
    if (grid.ranks() != ranks || rows > plate.height || grid.columns > plate.width) continue;
    if (!best.has_value() || cut_cells(grid) < cut_cells(*best)) best = grid;
  }
  return best;
}

Block BlockOf(const Plate& plate, const Grid& grid, uint32_t rank) {
  const uint64_t row = rank / grid.columns;
  const uint64_t column = rank % grid.columns;
  Block block;
  block.first_row = plate.height * row / grid.rows;
  block.first_column = plate.width * column / grid.columns;
  block.rows = plate.height * (row + 1) / grid.rows - block.first_row;
  block.columns = plate.width * (column + 1) / grid.columns - block.first_column;
  return block;
}

Point SourceAt(const Plate& plate, uint64_t step) {
  const double share = static_cast<double>(step % kStepsOfARound) / kStepsOfARound;
  const double angle = 2 * kPi * share;
  return {static_cast<double>(plate.height) * (0.5 + 0.3 * std::sin(angle)),
          static_cast<double>(plate.width) * (0.5 + 0.35 * std::cos(angle))};
}

void Stepper::Step(uint64_t step, double* field) {
  Diffuse(field);
  Heat(step, field);
}

void Stepper::Diffuse(double* field) {
  const uint64_t stride = block_.stride();
  std::copy_n(field, stride, above_.begin());
  for (uint64_t row = 1; row <= block_.rows; ++row) {
    double* const next = field + block_.At(row, 0);
    const double* const below = next + stride;
    std::copy_n(next, stride, here_.begin());
    const double* const above = above_.data();
    const double* const here = here_.data();
    for (uint64_t column = 1; column <= block_.columns; ++column) {
      const double around = (above[column] + below[column]) + (here[column - 1] + here[column + 1]);
      next[column] = here[column] + kDiffusion * (around - 4 * here[column]);
    }
    above_.swap(here_);
  }
}

void Stepper::Heat(uint64_t step, double* field) const {
  const Point source = SourceAt(plate_, step);
  const double radius = SourceRadius(plate_);
  const Range rows = Near(source.row, radius, block_.first_row, block_.rows);
  const Range columns = Near(source.column, radius, block_.first_column, block_.columns);
  for (uint64_t row = rows.begin; row < rows.end; ++row) {
    for (uint64_t column = columns.begin; column < columns.end; ++column) {
      // A cell's middle.
      const double down = static_cast<double>(row) + 0.5 - source.row;
      const double right = static_cast<double>(column) + 0.5 - source.column;
      const double share = 1 - (down * down + right * right) / (radius * radius);
      if (share <= 0) continue;
      field[block_.At(row - block_.first_row + 1, column - block_.first_column + 1)] +=
          kPower * share;
    }
  }
}

}  // namespace quire::heat
