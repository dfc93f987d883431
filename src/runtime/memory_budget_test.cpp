#include "runtime/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quire/option_table.h"
#include "runtime/memory_plan.h"

namespace quire::runtime::memory_budget_test {
namespace {

using testing::HasSubstr;

TEST(MemoryBudget, DefaultsShrinkUntilTheyTakeHalfOfWhatIsLeft) {
  MemoryBudget budget(256ull << 20);
  DatabaseOptions options;
  const Result<MemoryShare> share = budget.Take(&options, 4);
  ASSERT_TRUE(share.ok()) << share.status().ToString();
  EXPECT_LE(share->bytes(), 128ull << 20);
  EXPECT_LT(options.storage.memtable_bytes, DatabaseOptions().storage.memtable_bytes);
  EXPECT_EQ(share->bytes(), PlanFor(options, 4).total());
  DatabaseOptions second;
  const Result<MemoryShare> other = budget.Take(&second, 4);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(budget.planned_bytes(), share->bytes() + other->bytes());
  EXPECT_LE(second.storage.memtable_bytes, options.storage.memtable_bytes);
  EXPECT_LE(budget.planned_bytes(), budget.limit_bytes());
}

TEST(MemoryBudget, AnExplicitSizeIsKeptOrRefused) {
  MemoryBudget budget(256ull << 20);
  DatabaseOptions options;
  options.storage.memtable_bytes = 32ull << 20;
  const Result<MemoryShare> share = budget.Take(&options, 1);
  ASSERT_TRUE(share.ok());
  EXPECT_EQ(options.storage.memtable_bytes, 32ull << 20);
  DatabaseOptions large;
  large.storage.memtable_bytes = 1ull << 30;
  const Result<MemoryShare> refused = budget.Take(&large, 1);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("memory_bytes"));
}

TEST(MemoryBudget, APercentageShrinksWhatWasGivenToo) {
  MemoryBudget budget(256ull << 20);
  std::vector<MemoryShare> shares;
  for (const int percent : {50, 10}) {
    DatabaseOptions options;
    options.storage.memtable_bytes = 16ull << 30;
    options.local_cache_bytes = 1ull << 30;
    options.memory_percent_max = percent;
    const uint64_t left = budget.limit_bytes() - budget.planned_bytes();
    Result<MemoryShare> share = budget.Take(&options, 4);
    ASSERT_TRUE(share.ok()) << share.status().ToString();
    EXPECT_LE(share->bytes(), left / 100 * static_cast<uint64_t>(percent));
    EXPECT_GT(share->bytes(), left / 400 * static_cast<uint64_t>(percent)) << "no more than needed";
    EXPECT_TRUE(OptionTable::Check(options).ok());
    shares.push_back(std::move(*share));
  }
}

TEST(MemoryBudget, AFewPerCentLeaveRoomForManyDatabases) {
  MemoryBudget budget(256ull << 20);
  std::vector<MemoryShare> shares;
  for (int i = 0; i < 256; ++i) {
    DatabaseOptions options;
    options.memory_percent_max = 1;
    Result<MemoryShare> share = budget.Take(&options, 4);
    ASSERT_TRUE(share.ok()) << i;
    shares.push_back(std::move(*share));
    EXPECT_TRUE(OptionTable::Check(options).ok());
  }
}

TEST(MemoryBudget, PlentyLeavesDefaultsAlone) {
  MemoryBudget budget(8ull << 30);
  DatabaseOptions options;
  Result<MemoryShare> share = budget.Take(&options, 4);
  ASSERT_TRUE(share.ok());
  EXPECT_EQ(options.storage.memtable_bytes, DatabaseOptions().storage.memtable_bytes);
  EXPECT_GT(budget.planned_bytes(), 0u);
  *share = {};
  EXPECT_EQ(budget.planned_bytes(), 0u);
}

TEST(MemoryBudget, DatasetsTakeOfTheSame) {
  MemoryBudget budget(256ull << 20);
  DatasetOptions options;
  options.in_flight_bytes = 2ull << 20;
  Result<MemoryShare> share = budget.Take(&options, 4);
  ASSERT_TRUE(share.ok()) << share.status().ToString();
  EXPECT_LE(share->bytes(), 128ull << 20);
  EXPECT_GT(share->bytes(), 32ull << 20) << "no less than needed";
  EXPECT_EQ(budget.planned_bytes(), PlanFor(options, 4).total());
  EXPECT_EQ(options.in_flight_bytes, 2ull << 20) << "given";
  EXPECT_TRUE(OptionTable::Check(options).ok());
  DatasetOptions large;
  large.partition_bytes = 100ull << 20;
  const Result<MemoryShare> refused = budget.Take(&large, 4);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("partition 350 MiB"));
  EXPECT_THAT(refused.status().message(), HasSubstr("memory_bytes"));
}

// Others of the job may have set more aside: all decide alike.
TEST(MemoryBudget, MemoryThatOtherRanksReservedCounts) {
  MemoryBudget ours(256ull << 20);
  MemoryBudget theirs(256ull << 20);
  DatasetOptions dataset;
  const Result<MemoryShare> held = theirs.Take(&dataset, 2);
  ASSERT_TRUE(held.ok());
  const uint64_t planned = theirs.planned_bytes();
  DatabaseOptions options;
  DatabaseOptions same;
  const Result<MemoryShare> share = ours.Take(&options, 2, planned);
  const Result<MemoryShare> other = theirs.Take(&same, 2, planned);
  ASSERT_TRUE(share.ok() && other.ok());
  EXPECT_EQ(share->bytes(), other->bytes());
  EXPECT_EQ(options.storage.memtable_bytes, same.storage.memtable_bytes);
  EXPECT_EQ(ours.planned_bytes(), share->bytes());
}

TEST(MemoryPlan, ADatasetsPlanFollowsItsFormatAndTheNumberOfRanks) {
  DatasetOptions options;
  options.table_bytes = 100;
  options.partition_bytes = 1000;
  options.batch_bytes = 10;
  options.in_flight_bytes = 7;
  EXPECT_EQ(PlanFor(options, 4).total(), 200u + 3500u + 47u);
  EXPECT_EQ(PlanFor(options, 4096).messages, 2 * (64 * 10u + 7u));
  options.format = DatasetFormat::kBase;
  EXPECT_EQ(PlanFor(options, 4).total(), 2000u + 47u);
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
}  // namespace quire::runtime::memory_budget_test
