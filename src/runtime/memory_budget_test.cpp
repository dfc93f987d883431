#include "runtime/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quire/option_table.h"

namespace quire::runtime {
namespace {

using testing::HasSubstr;

TEST(MemoryBudget, DefaultsShrinkUntilTheyTakeHalfOfWhatIsLeft) {
  MemoryBudget budget(256ull << 20);
  DatabaseOptions options;
  const Result<MemoryPlan> plan = budget.Take(&options, 4);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_LE(plan->total(), 128ull << 20);
  EXPECT_LT(options.storage.memtable_bytes, DatabaseOptions().storage.memtable_bytes);
  EXPECT_EQ(plan->total(), PlanFor(options, 4).total());
  DatabaseOptions second;
  ASSERT_TRUE(budget.Take(&second, 4).ok());
  EXPECT_LE(second.storage.memtable_bytes, options.storage.memtable_bytes);
  EXPECT_LE(budget.planned_bytes(), budget.limit_bytes());
}

TEST(MemoryBudget, WhatWasGivenIsKeptOrRefused) {
  MemoryBudget budget(256ull << 20);
  DatabaseOptions options;
  options.storage.memtable_bytes = 32ull << 20;
  ASSERT_TRUE(budget.Take(&options, 1).ok());
  EXPECT_EQ(options.storage.memtable_bytes, 32ull << 20);
  DatabaseOptions large;
  large.storage.memtable_bytes = 1ull << 30;
  const Result<MemoryPlan> refused = budget.Take(&large, 1);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("memory_bytes"));
}

TEST(MemoryBudget, APercentageShrinksWhatWasGivenToo) {
  MemoryBudget budget(256ull << 20);
  for (const int percent : {50, 10}) {
    DatabaseOptions options;
    options.storage.memtable_bytes = 16ull << 30;
    options.local_cache_bytes = 1ull << 30;
    options.memory_percent_max = percent;
    const uint64_t left = budget.limit_bytes() - budget.planned_bytes();
    const Result<MemoryPlan> plan = budget.Take(&options, 4);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_LE(plan->total(), left / 100 * static_cast<uint64_t>(percent));
    EXPECT_GT(plan->total(), left / 400 * static_cast<uint64_t>(percent)) << "no more than needed";
    EXPECT_TRUE(OptionTable::Check(options).ok());
  }
}

TEST(MemoryBudget, AFewPerCentLeaveRoomForManyDatabases) {
  MemoryBudget budget(256ull << 20);
  for (int i = 0; i < 256; ++i) {
    DatabaseOptions options;
    options.memory_percent_max = 1;
    ASSERT_TRUE(budget.Take(&options, 4).ok()) << i;
    EXPECT_TRUE(OptionTable::Check(options).ok());
  }
}

TEST(MemoryBudget, PlentyLeavesDefaultsAlone) {
  MemoryBudget budget(8ull << 30);
  DatabaseOptions options;
  const Result<MemoryPlan> plan = budget.Take(&options, 4);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(options.storage.memtable_bytes, DatabaseOptions().storage.memtable_bytes);
  budget.Give(*plan);
  EXPECT_EQ(budget.planned_bytes(), 0u);
}

TEST(MemoryBudget, TheDefaultIsAQuarterOfTheMachineSharedByTheRanksOfTheNode) {
  EXPECT_EQ(MemoryBudget::DefaultLimit(1000, 1), 250u);
  EXPECT_EQ(MemoryBudget::DefaultLimit(16'000'000'000'000, 64), 62'500'000'000u);
  EXPECT_EQ(MemoryBudget::DefaultLimit(1000, 0), 250u)
      << "nobody is counted: at least this rank";
  EXPECT_EQ(MemoryBudget::DefaultLimit(7, 4), 0u);
}

TEST(MemoryBudget, TheLimitIsTheLeastOverAllRanksUnlessGiven) {
  // Three ranks share node 7, one has node 8 alone; one of the three is in a smaller group.
  const std::vector<RankMemory> ranks = {
      {7, 24'000}, {8, 9'000}, {7, 12'000}, {7, 24'000}};
  EXPECT_EQ(MemoryBudget::LimitOver(ranks, 0), 1'000u);
  EXPECT_EQ(MemoryBudget::LimitOver({{7, 24'000}, {8, 3'600}, {7, 24'000}}, 0), 900u);
  EXPECT_EQ(MemoryBudget::LimitOver({{7, 24'000}}, 0), 6'000u);
  EXPECT_EQ(MemoryBudget::LimitOver(ranks, 5'000), 5'000u);
}

}  // namespace
}  // namespace quire::runtime
