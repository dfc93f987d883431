// Calls of the parallel database beside pairs: updates that answer, flushes, agreement, the list of
// databases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::beside_pairs_test {
namespace {

using testing::HasSubstr;

using Program = std::function<void(int rank, Context& context, Database& db)>;

// The parameter: ranks with disks of their own ask each other by messages alone.
class BesidePairs : public testing::TestWithParam<bool> {
 protected:
  static SimCluster::Options Ranks(int count) {
    SimCluster::Options options;
    options.rank_count = count;
    options.own_disks = GetParam();
    return options;
  }
  static void RunDatabase(int count, const Program& program) {
    SimCluster cluster(Ranks(count));
    cluster.RunDatabase(SimCluster::SmallDatabase(), program);
  }
};

INSTANTIATE_TEST_SUITE_P(OwnDisks, BesidePairs, testing::Bool());

// Adds the argument, a number in text; an argument of "drop" writes nothing, "fail" fails.
Status AddNumber(Slice, const Slice* present, Slice argument, std::string* updated) {
  if (argument == "drop") return Status(Code::kNotFound);
  if (argument == "fail") return Status(Code::kInvalidArgument, "told to fail");
  const long before = present == nullptr ? 0 : std::stol(std::string(*present));
  *updated = std::to_string(before + std::stol(std::string(argument)));
  return Status();
}

// Adds the argument, and answers what the value was before.
Status AddAndAnswer(Slice key, const Slice* present, Slice argument, std::string* updated,
                    std::string* answer) {
  *answer = present == nullptr ? "none" : std::string(*present);
  return AddNumber(key, present, argument, updated);
}

TEST_P(BesidePairs, AnUpdateThatAnswersIsWaitedFor) {
  for (const Consistency consistency : {Consistency::kRelaxed, Consistency::kSequential}) {
    RunDatabase(3, [consistency](int rank, Context& context, Database& db) {
      ASSERT_OK(db.RegisterAnsweringUpdate(1, AddAndAnswer));
      ASSERT_OK(db.RegisterUpdate(2, AddNumber));
      ASSERT_OK(db.SetConsistency(consistency));
      for (int owner = 0; owner < 3; ++owner) {
        const std::string key = SimCluster::KeyOwnedBy(db, owner, "of " + std::to_string(rank));
        std::string answer = "stale";
        ASSERT_OK(db.UpdateAndAnswer(key, 1, "5", &answer));
        EXPECT_EQ(answer, "none");
        ASSERT_OK(db.Update(key, 1, "1"));
        ASSERT_OK(db.UpdateAndAnswer(key, 1, "drop", &answer));
        EXPECT_EQ(answer, "6") << "behind what was staged";
        ASSERT_OK(db.UpdateAndAnswer(key, 2, "1", &answer));
        EXPECT_EQ(answer, "");
        EXPECT_EQ(SimCluster::ValueOf(db, key), "7");
        EXPECT_THAT(db.UpdateAndAnswer(key, 1, "fail", &answer).message(),
                    HasSubstr("told to fail"));
        EXPECT_CODE(db.UpdateAndAnswer(key, 9, "", &answer), Code::kInvalidArgument);
        EXPECT_CODE(db.UpdateAndAnswer("", 1, "", &answer), Code::kInvalidArgument);
      }
      EXPECT_CODE(db.RegisterAnsweringUpdate(1, {}), Code::kInvalidArgument);
      ASSERT_OK(db.Protect(Protection::kReadOnly));
      std::string answer;
      EXPECT_CODE(db.UpdateAndAnswer("k", 1, "1", &answer), Code::kReadOnly);
      ASSERT_OK(context.Barrier());
    });
  }
}

TEST_P(BesidePairs, AFlushPutsWhatThisRankOwnsIntoTables) {
  RunDatabase(2, [](int rank, Context& context, Database& db) {
    const std::string key = SimCluster::KeyOwnedBy(db, rank);
    ASSERT_OK(db.Put(key, "v"));
    const uint64_t before = db.GetStatistics()["tables"];
    if (rank == 0) ASSERT_OK(db.Flush());
    EXPECT_EQ(db.GetStatistics()["tables"], before + (rank == 0 ? 1 : 0));
    ASSERT_OK(context.Barrier());
  });
}

TEST_P(BesidePairs, AllRanksAgreeOnAFailureOfOne) {
  SimCluster cluster(Ranks(3));
  cluster.Run([](int rank, Context& context) {
    ASSERT_OK(context.Agree(Status()));
    const Status agreed = context.Agree(rank == 1 ? Status(Code::kNoSpace, "no room") : Status());
    EXPECT_CODE(agreed, Code::kNoSpace);
    EXPECT_THAT(agreed.message(), testing::AllOf(HasSubstr("rank 1"), HasSubstr("no room")));
  });
}

TEST_P(BesidePairs, ListsTheDatabasesOfTheRepository) {
  SimCluster cluster(Ranks(2));
  cluster.Run([&](int rank, Context& context) {
    const auto names = [&context] {
      const auto listed = context.ListDatabases();
      EXPECT_TRUE(listed.ok()) << listed.status().ToString();
      return listed.ok() ? *listed : std::vector<std::string>{"(none)"};
    };
    EXPECT_THAT(names(), testing::ElementsAre());
    ASSERT_OK(cluster.disk(rank).MakeDirectory("/repository/no-database"));
    for (const char* name : {"b", "a"}) {
      auto db = context.Open(name, SimCluster::SmallDatabase());
      ASSERT_TRUE(db.ok()) << db.status().ToString();
      ASSERT_OK((*db)->Close());
    }
    EXPECT_THAT(names(), testing::ElementsAre("a", "b"));
    ASSERT_OK(context.Destroy("a"));
    EXPECT_THAT(names(), testing::ElementsAre("b"));
  });
}

}  // namespace
}  // namespace quire::kv::beside_pairs_test
