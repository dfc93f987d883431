// A plate that is cut into blocks is compared with one that is computed as a whole, in the plainest
// way.
#include "plate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "picture.h"
#include "state.h"

namespace quire::heat {
namespace {

// The whole plate, with one row and column of cold around it: no halos, and two fields.
std::vector<double> SlowPlate(const Plate& plate, uint64_t steps) {
  const uint64_t stride = plate.width + 2;
  std::vector<double> field((plate.height + 2) * stride);
  // The heat of the source is computed in a block that is the whole plate and was cold before.
  Block whole = {.rows = plate.height, .columns = plate.width};
  for (uint64_t step = 1; step <= steps; ++step) {
    std::vector<double> next = field;
    std::vector<double> added(field.size());
    Stepper(plate, whole).Step(step, added.data());
    for (uint64_t i = 1; i <= plate.height; ++i) {
      for (uint64_t j = 1; j <= plate.width; ++j) {
        const uint64_t at = i * stride + j;
        const double around =
            (field[at - stride] + field[at + stride]) + (field[at - 1] + field[at + 1]);
        next[at] = field[at] + 0.2 * (around - 4 * field[at]);
        next[at] += added[at];
      }
    }
    field = next;
  }
  return field;
}

// Blocks that hand each other their halos.
class CutPlate {
 public:
  CutPlate(const Plate& plate, const Grid& grid) : plate_(plate), grid_(grid) {
    for (uint32_t rank = 0; rank < grid.ranks(); ++rank) {
      blocks_.push_back(BlockOf(plate, grid, rank));
      fields_.emplace_back(blocks_.back().cells());
    }
  }

  void Run(uint64_t steps) {
    for (uint64_t step = 1; step <= steps; ++step) {
      for (size_t i = 0; i < blocks_.size(); ++i) {
        Stepper(plate_, blocks_[i]).Step(step, fields_[i].data());
      }
      ExchangeHalos();
    }
  }

  // With the cold around it.
  std::vector<double> Whole() const {
    std::vector<double> whole((plate_.height + 2) * (plate_.width + 2));
    for (size_t i = 0; i < blocks_.size(); ++i) {
      for (uint64_t row = 1; row <= blocks_[i].rows; ++row) {
        for (uint64_t column = 1; column <= blocks_[i].columns; ++column) {
          whole[(blocks_[i].first_row + row) * (plate_.width + 2) + blocks_[i].first_column +
                column] = fields_[i][blocks_[i].At(row, column)];
        }
      }
    }
    return whole;
  }

  Summary Summed() const {
    std::vector<Summary> parts;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      parts.push_back(Summarize(plate_, blocks_[i], fields_[i].data()));
    }
    return Combine(parts);
  }

 private:
  void ExchangeHalos() {
    const std::vector<double> whole = Whole();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      for (uint64_t row = 0; row <= block.rows + 1; ++row) {
        for (uint64_t column = 0; column <= block.columns + 1; ++column) {
          fields_[i][block.At(row, column)] =
              whole[(block.first_row + row) * (plate_.width + 2) + block.first_column + column];
        }
      }
    }
  }

  Plate plate_;
  Grid grid_;
  std::vector<Block> blocks_;
  std::vector<std::vector<double>> fields_;
};

TEST(Plate, IsTheSameToTheLastBitHoweverItIsCut) {
  const Plate plates[] = {{1, 1}, {5, 7}, {31, 18}, {40, 64}};
  for (const Plate& plate : plates) {
    const std::vector<double> expected = SlowPlate(plate, 60);
    for (const Grid& grid : {Grid{1, 1}, Grid{2, 1}, Grid{1, 3}, Grid{2, 2}, Grid{5, 7}}) {
      if (grid.rows > plate.height || grid.columns > plate.width) continue;
      CutPlate cut(plate, grid);
      cut.Run(60);
      EXPECT_EQ(cut.Whole(), expected) << plate.height << " x " << plate.width << " cut in "
                                       << grid.rows << " x " << grid.columns;
    }
  }
}

TEST(Plate, IsCutAlongTheFewestCells) {
  EXPECT_EQ(GridOf({100, 100}, 4), (Grid{2, 2}));
  EXPECT_EQ(GridOf({100, 90}, 3), (Grid{3, 1}));
  EXPECT_EQ(GridOf({90, 100}, 3), (Grid{1, 3}));
  EXPECT_EQ(GridOf({100, 20}, 4), (Grid{4, 1}));
  EXPECT_EQ(GridOf({1, 5}, 4), (Grid{1, 4}));
  EXPECT_EQ(GridOf({2, 1}, 4), std::nullopt);
  EXPECT_EQ(GridOf({3, 3}, 4), (Grid{2, 2}));
  EXPECT_EQ(GridOf({2, 3}, 5), std::nullopt);
}

TEST(Plate, BlocksCoverEachCellOnce) {
  const Plate plate = {13, 10};
  for (const Grid& grid : {Grid{1, 1}, Grid{13, 10}, Grid{3, 4}, Grid{7, 1}}) {
    std::vector<int> covered(plate.height * plate.width);
    for (uint32_t rank = 0; rank < grid.ranks(); ++rank) {
      const Block block = BlockOf(plate, grid, rank);
      for (uint64_t row = 0; row < block.rows; ++row) {
        for (uint64_t column = 0; column < block.columns; ++column) {
          ++covered[(block.first_row + row) * plate.width + block.first_column + column];
        }
      }
    }
    EXPECT_THAT(covered, testing::Each(1));
  }
}

TEST(Plate, HeatSpreadsOneCellInAStepAndLeavesOnlyOverTheEdge) {
  const Plate plate = {101, 101};
  const Block block = BlockOf(plate, {}, 0);
  std::vector<double> field(block.cells());
  field[block.At(51, 51)] = 1;
  std::vector<double> source(block.cells());
  Stepper stepper(plate, block);
  for (uint64_t step = 1; step <= 20; ++step) {
    stepper.Step(step, field.data());
    stepper.Step(step, source.data());  // what came from the source, for the equation is linear
  }
  double sum = 0;
  for (size_t i = 0; i < field.size(); ++i) sum += field[i] - source[i];
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_NE(field[block.At(71, 51)], source[block.At(71, 51)]);
  EXPECT_EQ(field[block.At(72, 51)], source[block.At(72, 51)]);
}

TEST(Summary, TheSummaryOfTheBlocksEqualsThatOfThePlate) {
  const Plate plate = {31, 18};
  CutPlate whole(plate, {1, 1});
  whole.Run(40);
  const Summary expected = whole.Summed();
  for (const Grid& grid : {Grid{2, 2}, Grid{3, 1}, Grid{1, 4}}) {
    CutPlate cut(plate, grid);
    cut.Run(40);
    Summary summary = cut.Summed();
    EXPECT_NEAR(summary.heat, expected.heat, 1e-9 * expected.heat);
    summary.heat = expected.heat;  // its rounding depends on the order
    EXPECT_EQ(summary, expected);
  }
}

TEST(Summary, NamesTheHottestCell) {
  const Plate plate = {3, 4};
  const Block block = BlockOf(plate, {}, 0);
  std::vector<double> field(block.cells());
  field[block.At(2, 3)] = 5;
  field[block.At(3, 1)] = 5;  // as hot, but later
  field[block.At(1, 1)] = -2;
  field[block.At(0, 0)] = 99;  // the halo does not count
  const Summary summary = Summarize(plate, block, field.data());
  EXPECT_EQ(summary.hottest_row, 1u);
  EXPECT_EQ(summary.hottest_column, 2u);
  EXPECT_EQ(summary.maximum, 5);
  EXPECT_EQ(summary.minimum, -2);
  EXPECT_EQ(summary.heat, 8);
}

TEST(Summary, TheHashDependsOnEachCellAndItsPlace) {
  const Plate plate = {3, 4};
  const Block block = BlockOf(plate, {}, 0);
  const std::vector<double> cold(block.cells());
  const uint64_t of_cold = Summarize(plate, block, cold.data()).hash;
  std::vector<uint64_t> hashes = {of_cold};
  for (uint64_t row = 1; row <= 3; ++row) {
    for (uint64_t column = 1; column <= 4; ++column) {
      std::vector<double> field = cold;
      field[block.At(row, column)] = 1;
      hashes.push_back(Summarize(plate, block, field.data()).hash);
    }
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::unique(hashes.begin(), hashes.end()), hashes.end());
}

TEST(State, IsTakenFromItsBytesOnly) {
  State state;
  state.plate = {10, 20};
  state.grid = {2, 2};
  state.step = 7;
  std::string bytes(reinterpret_cast<const char*>(&state), sizeof state);
  ASSERT_TRUE(StateFrom(bytes).has_value());
  EXPECT_EQ(StateFrom(bytes)->step, 7u);
  EXPECT_FALSE(StateFrom(bytes.substr(1)).has_value());
  bytes[0] ^= 1;
  EXPECT_FALSE(StateFrom(bytes).has_value());
  state.grid = {0, 2};
  bytes.assign(reinterpret_cast<const char*>(&state), sizeof state);
  EXPECT_FALSE(StateFrom(bytes).has_value());
}

TEST(Picture, GoesFromBlackOverRedAndYellowToWhite) {
  EXPECT_EQ(ColourOf(0), (Pixel{0, 0, 0}));
  EXPECT_EQ(ColourOf(1.0 / 3), (Pixel{255, 0, 0}));
  EXPECT_EQ(ColourOf(2.0 / 3), (Pixel{255, 255, 0}));
  EXPECT_EQ(ColourOf(1), (Pixel{255, 255, 255}));
  EXPECT_EQ(ColourOf(-1), (Pixel{0, 0, 0}));
}

}  // namespace
}  // namespace quire::heat
