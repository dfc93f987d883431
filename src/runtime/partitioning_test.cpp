#include "runtime/partitioning.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "base/hash/hash.h"
#include "tests/support/status_asserts.h"

namespace quire::runtime::partitioning_test {
namespace {

Result<int> OwnerOf(const Partitioning& partitioning, const std::string& key, int rank_count) {
  return partitioning.OwnerOf(key, base::HashKey(key), rank_count);
}

Partitioning By(const Partitioner& function) {
  const Result<Partitioning> made = Partitioning::Make(function, "by the test");
  EXPECT_OK(made.status());
  return *made;
}

TEST(Partitioning, GoesByTheHashUnlessAFunctionIsGiven) {
  for (const Partitioning& by_hash :
       {Partitioning(), *Partitioning::Make({}, ""), *Partitioning::Make({}, "hash")}) {
    EXPECT_TRUE(by_hash.by_hash());
    EXPECT_EQ(by_hash.name(), "hash");
    EXPECT_EQ(*OwnerOf(by_hash, "quire", 1000), base::OwnerOf(base::HashKey("quire"), 1000));
  }
  const Partitioning by_size = By([](Slice key, int) { return static_cast<int>(key.size()); });
  EXPECT_FALSE(by_size.by_hash());
  EXPECT_EQ(by_size.name(), "by the test");
  EXPECT_EQ(*OwnerOf(by_size, "quire", 1000), 5);
}

TEST(Partitioning, RefusesANameWithoutAFunctionAndAFunctionWithoutAName) {
  const Partitioner to_0 = [](Slice, int) { return 0; };
  EXPECT_CODE(Partitioning::Make({}, "by length").status(), Code::kInvalidArgument);
  EXPECT_CODE(Partitioning::Make(to_0, "").status(), Code::kInvalidArgument);
  EXPECT_CODE(Partitioning::Make(to_0, "hash").status(), Code::kInvalidArgument);
}

TEST(Partitioning, HasNoNameOfAFunctionThatIsGivenWithoutOne) {
  EXPECT_EQ(Partitioning(Partitioner()).name(), "hash");
  EXPECT_EQ(Partitioning([](Slice, int) { return 0; }).name(), "");
}

TEST(Partitioning, AWrongRankDiffersFromAThrownException) {
  const Partitioning beyond = By([](Slice, int rank_count) { return rank_count; });
  EXPECT_EQ(*beyond.AnswerFor("key", 0, 3), 3);
  EXPECT_CODE(OwnerOf(beyond, "key", 3).status(), Code::kInvalidArgument);
  const Partitioning throws = By([](Slice, int) -> int { throw std::runtime_error("no map"); });
  const Partitioning starves = By([](Slice, int) -> int { throw std::bad_alloc(); });
  EXPECT_CODE(starves.AnswerFor("key", 0, 3).status(), Code::kOutOfMemory);
  const Status thrown = throws.AnswerFor("key", 0, 3).status();
  EXPECT_CODE(thrown, Code::kInvalidArgument);
  EXPECT_NE(thrown.message().find("no map"), std::string::npos);
  EXPECT_CODE(Partitioning::NoSuchOwner(throws.Ask("key", 0, 3), 3), Code::kInvalidArgument);
}

// A base skips the parts that share no keys with its rank: a wrong "no" would lose pairs.
TEST(Partitioning, KnowsWhichRanksOfOtherCountsMayShareKeys) {
  const Partitioning by_hash;
  int apart = 0;
  for (int count = 1; count <= 7; ++count) {
    for (int other_count = 1; other_count <= 7; ++other_count) {
      for (int i = 0; i < 500; ++i) {
        const std::string key = "key " + std::to_string(i);
        EXPECT_TRUE(by_hash.MayShareKeys(*OwnerOf(by_hash, key, count), count,
                                         *OwnerOf(by_hash, key, other_count), other_count));
      }
      if (!by_hash.MayShareKeys(0, count, other_count - 1, other_count)) ++apart;
    }
  }
  EXPECT_GT(apart, 20);
  const Partitioning by_function = By([](Slice, int) { return 0; });
  EXPECT_TRUE(by_function.MayShareKeys(0, 7, 6, 7));
}

}  // namespace
}  // namespace quire::runtime::partitioning_test
