// Parts whose pairs have moved, and which then cannot be removed: they cost room until the database
// is closed, and fail nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kv/database/persistence_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::moved_parts_test {
namespace {

constexpr int kKeys = 30;
constexpr char kOldParts[] = "/repository/db/gen-1";

std::string KeyOf(int i) {
  return "key " + std::to_string(i);
}

// Three ranks write, two have what they wrote.
class MovedParts : public testing::Test {
 protected:
  MovedParts() {
    for (int rank = 0; rank < 3; ++rank) faults_.push_back(io::NewFaultFileSystem(*disk_));
    Run(3, [](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      for (int i = rank; i < kKeys; i += 3) ASSERT_OK((*db)->Put(KeyOf(i), "value"));
      ASSERT_OK((*db)->Close());
    });
  }

  void Run(int size, const SimCluster::Program& program) {
    SimCluster::Options options;
    options.rank_count = size;
    options.seed = ++seed_;
    options.file_system = [this](int rank) { return faults_[static_cast<size_t>(rank)].get(); };
    SimCluster(options).Run(program);
  }

  // On each rank: rank 1 can neither lock nor remove a file of the older parts.
  void FailRemoval(int rank, Context& context, uint64_t count) {
    io::FaultFileSystem& fs = *faults_[static_cast<size_t>(rank)];
    if (rank == 1) {
      fs.OnlyBelow(kOldParts);
      fs.FailAt(io::kFaultUnlink | io::kFaultWritable, 1, count, Code::kIo);
    }
    ASSERT_OK(context.Barrier());
  }

  static void ExpectAll(Database& db) {
    for (int i = 0; i < kKeys; ++i) EXPECT_EQ(SimCluster::ValueOf(db, KeyOf(i)), "value");
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  std::vector<std::unique_ptr<io::FaultFileSystem>> faults_;
  uint64_t seed_ = 0;
};

class MovedPartsWalked : public MovedParts, public testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(Ways, MovedPartsWalked, testing::Values(false, true),
                         [](const auto& walk) { return walk.param ? "ByARank" : "ByNobody"; });

// While one rank still walks over the parts, all ranks must take the same steps.
TEST_P(MovedPartsWalked, PartsThatCannotBeRemovedFailNoCheckpointAndGoAtClose) {
  Run(2, [this](int rank, Context& context) {
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    std::unique_ptr<LocalIterator> walk;
    if (GetParam() && rank == 0) {
      walk = (*db)->NewLocalIterator();
      walk->SeekToFirst();
    }
    FailRemoval(rank, context, UINT64_MAX);
    for (int round = 0; round < 3; ++round) {
      ASSERT_OK((*db)->Put("new " + std::to_string(rank), "value"));
      ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
    }
    EXPECT_TRUE(*disk_->Exists(kOldParts));
    ExpectAll(**db);
    walk.reset();
    ASSERT_OK(context.Barrier());
    EXPECT_GT(faults_[1]->failures(), 0u);
    ASSERT_OK(context.Barrier());
    FailRemoval(rank, context, 0);
    ASSERT_OK((*db)->Close());
    EXPECT_FALSE(*disk_->Exists(kOldParts));
    db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    ExpectAll(**db);
    ASSERT_OK((*db)->Close());
  });
}

TEST_F(MovedParts, PartsThatCannotBeRemovedFailNoOpenAndGoWithTheNextOne) {
  const DatabaseOptions options = Existing(/*redistribute=*/true);
  Run(2, [&](int rank, Context& context) {
    FailRemoval(rank, context, UINT64_MAX);
    auto db = context.Open("db", options);
    ASSERT_OK(db.status());
    ExpectAll(**db);
    ASSERT_OK((*db)->Close());
    EXPECT_TRUE(*disk_->Exists(kOldParts));
    ASSERT_OK(context.Barrier());
    FailRemoval(rank, context, 0);
    db = context.Open("db", options);
    ASSERT_OK(db.status());
    EXPECT_FALSE(*disk_->Exists(kOldParts));
    ExpectAll(**db);
    ASSERT_OK((*db)->Close());
  });
}

}  // namespace
}  // namespace quire::kv::moved_parts_test
