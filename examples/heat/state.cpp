#include "state.h"

#include <bit>

namespace quire::heat {
namespace {

// The hash depends on each bit of both arguments.
uint64_t HashOf(double value, uint64_t place) {
  uint64_t hash = std::bit_cast<uint64_t>(value) + (place + 1) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 31)) * 0xd6e8feb86659fd93;
  hash = (hash ^ (hash >> 29)) * 0xd6e8feb86659fd93;
  return hash ^ (hash >> 32);
}

// Returns whether `one` is reported rather than `other`: of equally hot cells the first, row by
// row.
bool IsHotter(const Summary& one, const Summary& other) {
  if (one.maximum != other.maximum) return one.maximum > other.maximum;
  if (one.hottest_row != other.hottest_row) return one.hottest_row < other.hottest_row;
  return one.hottest_column < other.hottest_column;
}

void SetHottest(const Summary& from, Summary* to) {
  to->maximum = from.maximum;
  to->hottest_row = from.hottest_row;
  to->hottest_column = from.hottest_column;
}

}  // namespace

Summary Summarize(const Plate& plate, const Block& block, const double* field) {
  Summary summary;
  summary.minimum = summary.maximum = field[block.At(1, 1)];
  summary.hottest_row = block.first_row;
  summary.hottest_column = block.first_column;
  for (uint64_t row = 0; row < block.rows; ++row) {
    const double* const cells = field + block.At(row + 1, 1);
    const uint64_t first = (block.first_row + row) * plate.width + block.first_column;
    for (uint64_t column = 0; column < block.columns; ++column) {
      const double value = cells[column];
      summary.heat += value;
      summary.hash += HashOf(value, first + column);
      if (value < summary.minimum) summary.minimum = value;
      if (value > summary.maximum) {
        SetHottest({.maximum = value,
                    .hottest_row = block.first_row + row,
                    .hottest_column = block.first_column + column},
                   &summary);
      }
    }
  }
  return summary;
}

Summary Combine(const std::vector<Summary>& parts) {
  Summary all = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    const Summary& part = parts[i];
    if (part.minimum < all.minimum) all.minimum = part.minimum;
    if (IsHotter(part, all)) SetHottest(part, &all);
    all.heat += part.heat;
    all.hash += part.hash;
  }
  return all;
}

}  // namespace quire::heat
