// A refused call leaves no new file on the disk of any rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/sim/sim_transport.h"
#include "kv/database/context.h"
#include "kv/protocol/descriptor.h"
#include "kv/generations/locked_database.h"
#include "kv/database/mounted_files_testing.h"
#include "kv/database/persistence_testing.h"
#include "kv/persistence/checkpoint_files.h"
#include "runtime/repository.h"
#include "tests/support/file_tree.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::refused_opens_test {
namespace {

using test::FileTree;

constexpr int kRanks = 2;
constexpr char kDirectory[] = "/repository/db";

// Two ranks on one disk, or on a disk of their own each; without the file of the lock, as a copy
// may be.
class RefusedOpens : public testing::TestWithParam<bool> {
 protected:
  static SimCluster::Options Ranks() {
    SimCluster::Options options;
    options.rank_count = kRanks;
    options.own_disks = GetParam();
    return options;
  }
  // Makes "db", and the checkpoint 1 of it.
  void MakeDatabase() {
    cluster_.RunDatabase(SimCluster::SmallDatabase(), [](int rank, Context&, Database& db) {
      ASSERT_OK(db.Put("key " + std::to_string(rank), "value"));
      if (!GetParam()) {
        ASSERT_OK(WaitFor(db.Checkpoint("/repository/checkpoints", {})));
      }
      ASSERT_OK(db.Close());
    });
    ASSERT_OK(cluster_.disk(0).Unlink(LockedDatabase::LockPath(kDirectory)));
  }
  void MakeForeignDirectory() {
    for (int rank = 0; rank < (GetParam() ? kRanks : 1); ++rank) {
      ASSERT_OK(cluster_.disk(rank).MakeDirectory("/repository"));
      ASSERT_OK(cluster_.disk(rank).MakeDirectory(kDirectory));
      ASSERT_OK(io::WriteFile(cluster_.disk(rank), std::string(kDirectory) + "/notes", "mine"));
    }
  }
  std::vector<std::vector<std::string>> Trees() {
    std::vector<std::vector<std::string>> trees;
    for (int rank = 0; rank < kRanks; ++rank) {
      trees.push_back(FileTree(cluster_.disk(rank), "/repository"));
    }
    return trees;
  }
  void ExpectRefused(const char* what, Code code, const std::function<Status(Context&)>& call) {
    cluster_.Run([](int, Context&) {});  // makes the repository
    const auto before = Trees();
    cluster_.Run([&](int, Context& context) {
      const Status status = call(context);
      EXPECT_EQ(status.code(), code) << what << ": " << status.ToString();
    });
    EXPECT_EQ(Trees(), before) << what;
  }
  void ExpectOpenRefused(const char* what, Code code, OpenMode mode,
                         const std::string& partitioner = {}) {
    ExpectRefused(what, code, [&](Context& context) {
      DatabaseOptions options = SimCluster::SmallDatabase();
      options.mode = mode;
      if (!partitioner.empty()) {
        options.partitioner = [](Slice, int) { return 0; };
        options.partitioner_name = partitioner;
      }
      return context.Open("db", options).status();
    });
  }

  SimCluster cluster_{Ranks()};
};

INSTANTIATE_TEST_SUITE_P(Disks, RefusedOpens, testing::Bool(),
                         [](const auto& own) { return own.param ? "Own" : "Shared"; });

TEST_P(RefusedOpens, AMissingDatabaseIsRefused) {
  ExpectOpenRefused("open", Code::kNotFound, OpenMode::kMustExist);
  ExpectRefused("destroy", Code::kNotFound, [](Context& context) { return context.Destroy("db"); });
  MakeForeignDirectory();
  ExpectOpenRefused("open", Code::kNotFound, OpenMode::kMustExist);
  ExpectRefused("destroy", Code::kNotFound, [](Context& context) { return context.Destroy("db"); });
}

TEST_P(RefusedOpens, ACallThatConflictsWithTheDatabaseIsRefused) {
  MakeDatabase();
  ExpectOpenRefused("mode", Code::kInvalidArgument, OpenMode::kMustNotExist);
  ExpectOpenRefused("partitioner", Code::kInvalidArgument, OpenMode::kOpenOrCreate, "another");
  if (GetParam()) return;
  ExpectRefused("restart", Code::kInvalidArgument, [](Context& context) {
    return context.Restart("/repository/checkpoints", "db", {}).status();
  });
}

// A later job would route by the hash what this one routed by the function, or the other way round.
TEST_P(RefusedOpens, APartitionerNamedHashAndANameWithoutAPartitionerAreRefused) {
  ExpectOpenRefused("hash", Code::kInvalidArgument, OpenMode::kOpenOrCreate, "hash");
  ExpectRefused("no function", Code::kInvalidArgument, [](Context& context) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.partitioner_name = "by length";
    return context.Open("db", options).status();
  });
}

TEST_P(RefusedOpens, ADamagedDatabaseIsRefused) {
  MakeForeignDirectory();
  ASSERT_OK(io::WriteFile(cluster_.disk(0), DescriptorPath(kDirectory), "damaged"));
  for (const OpenMode mode : {OpenMode::kMustExist, OpenMode::kOpenOrCreate}) {
    ExpectOpenRefused("open", Code::kCorruption, mode);
  }
  ExpectRefused("destroy", Code::kCorruption,
                [](Context& context) { return context.Destroy("db"); });
}

TEST_P(RefusedOpens, ADatasetIsRefused) {
  MakeForeignDirectory();
  const std::string file = std::string(kDirectory) + "/" + runtime::kDatasetFile;
  ASSERT_OK(io::WriteFile(cluster_.disk(0), file, "a dataset"));
  // On another node there is no directory yet.
  if (GetParam()) ASSERT_OK(cluster_.disk(1).RemoveTree(kDirectory));
  ExpectOpenRefused("open", Code::kInvalidArgument, OpenMode::kOpenOrCreate);
}

TEST_P(RefusedOpens, ADatabaseThatIsOpenIsRefused) {
  cluster_.Run([](int, Context&) {});
  ASSERT_OK(cluster_.disk(0).MakeDirectory(kDirectory));
  const auto lock = cluster_.disk(0).Lock(LockedDatabase::LockPath(kDirectory), "another job");
  ASSERT_OK(lock.status());
  ExpectOpenRefused("open", Code::kBusy, OpenMode::kOpenOrCreate);
  cluster_.Run([](int, Context& context) {
    EXPECT_THAT(context.Open("db", SimCluster::SmallDatabase()).status().message(),
                testing::HasSubstr("to read meanwhile: DatabaseReader, or the command quire"));
  });
}

// Rank 0 sees nothing, another rank has a part: the ranks are not on the nodes that they were on.
TEST(RefusedCalls, RanksOnOtherNodesAreRefused) {
  const auto shared = io::NewSimFileSystem();
  ASSERT_OK(shared->MakeDirectory("/pfs"));
  std::vector<std::unique_ptr<io::SimFileSystem>> disks;
  std::vector<std::unique_ptr<io::FileSystem>> nodes;
  for (int rank = 0; rank < kRanks; ++rank) {
    disks.push_back(io::NewSimFileSystem());
    nodes.push_back(NewMountedFiles(*disks.back(), "/pfs", *shared));
  }
  SimCluster::Options ranks;
  ranks.own_disks = true;
  ranks.file_system = [&](int rank) { return nodes[static_cast<size_t>(rank)].get(); };
  SimCluster cluster(ranks);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [](int, Context&, Database& db) {
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  ASSERT_OK(disks[0]->RemoveTree(kDirectory));
  const auto of_rank_0 = FileTree(*disks[0], "/repository");
  const auto of_rank_1 = FileTree(*disks[1], "/repository");
  cluster.Run([](int, Context& context) {
    EXPECT_CODE(context.Open("db", SimCluster::SmallDatabase()).status(), Code::kCorruption);
    EXPECT_CODE(context.Restart("/pfs", "db", {}).status(), Code::kCorruption);
  });
  EXPECT_EQ(FileTree(*disks[0], "/repository"), of_rank_0);
  EXPECT_EQ(FileTree(*disks[1], "/repository"), of_rank_1);
}

// Ranks of one node that do not agree on the repository.
TEST(RefusedCalls, AContext) {
  const auto disk = io::NewSimFileSystem();
  const auto network = comm::SimNetwork::Create({});
  network->Run([&](int rank, std::unique_ptr<comm::Transport> transport) {
    runtime::Environment environment;
    environment.fs = disk.get();
    environment.background_threads = false;
    const auto context =
        NewContext(environment, std::move(transport), "/repository-" + std::to_string(rank), {});
    EXPECT_CODE(context.status(), Code::kInvalidArgument);
  });
  for (const int rank : {0, 1}) {
    EXPECT_FALSE(disk->Exists("/repository-" + std::to_string(rank)).value());
  }
}

// Two programs come to a repository that is not there. One of them is refused, and takes back the
// directory that it made: the other one makes it again.
TEST_P(RefusedOpens, ARepositoryThatAnotherProgramTookBackIsMadeAgain) {
  cluster_.Run([&](int rank, Context& context) {
    if (rank == 0 || GetParam()) ASSERT_OK(cluster_.disk(rank).RemoveDirectory("/repository"));
    ASSERT_OK(context.Barrier());
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Put("key", "value"));
    ASSERT_OK((*db)->Close());
  });
}

// The places of a checkpoint of which nothing came.
TEST(RefusedCalls, ACheckpointThatCannotBegin) {
  SimCluster cluster({});
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    if (rank == 0) {
      ASSERT_OK(cluster.disk(0).MakeDirectory("/pfs"));
      ASSERT_OK(io::WriteFile(cluster.disk(0), "/pfs/db", "no directory"));
    }
    ASSERT_OK(context.Barrier());
    EXPECT_FALSE(WaitFor(db.Checkpoint("/pfs", {})).ok());
    EXPECT_FALSE(WaitFor(db.Checkpoint("/absent/pfs", {})).ok());
    ASSERT_OK(context.Barrier());
    if (rank == 0) {
      EXPECT_THAT(FileTree(cluster.disk(0), "/pfs"), testing::ElementsAre("/pfs/db"));
      EXPECT_THAT(FileTree(cluster.disk(0), "/absent"), testing::IsEmpty());
    }
    ASSERT_OK(db.Close());
  });
}

// A checkpoint of two ranks, and jobs of another number of ranks that may not restart from it.
class RefusedRestarts : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static constexpr int kDisks = 4;

  void SetUp() override {
    ASSERT_OK(shared_->MakeDirectory("/pfs"));
    for (int disk = 0; disk < kDisks; ++disk) {
      disks_.push_back(io::NewSimFileSystem());
      nodes_.push_back(NewMountedFiles(*disks_.back(), "/pfs", *shared_));
    }
    Run(kRanks, [](Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      ASSERT_OK((*db)->Put("key", "value"));
      ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      ASSERT_OK((*db)->Close());
    });
    ASSERT_OK(io::ReplaceFile(*shared_, std::string("/pfs/db/1/") + kCommitName, "damaged"));
    Run(std::get<0>(GetParam()), [](Context&) {});  // makes the repository
  }
  void Run(int rank_count, const std::function<void(Context&)>& program) {
    SimCluster::Options ranks;
    ranks.rank_count = rank_count;
    ranks.own_disks = std::get<1>(GetParam());
    ranks.file_system = [this](int rank) {
      return nodes_[std::get<1>(GetParam()) ? static_cast<size_t>(rank) : 0].get();
    };
    SimCluster(ranks).Run([&](int, Context& context) { program(context); });
  }
  std::vector<std::vector<std::string>> Trees() {
    std::vector<std::vector<std::string>> trees = {FileTree(*shared_, "/pfs")};
    for (const auto& disk : disks_) trees.push_back(FileTree(*disk, "/repository"));
    return trees;
  }
  void ExpectRefused(const char* what, Code code, const RestartOptions& options) {
    const auto before = Trees();
    Run(std::get<0>(GetParam()), [&](Context& context) {
      const Status status = WaitFor(context.Restart("/pfs", "db", options));
      EXPECT_EQ(status.code(), code) << what << ": " << status.ToString();
    });
    EXPECT_EQ(Trees(), before) << what;
  }

  const std::unique_ptr<io::SimFileSystem> shared_ = io::NewSimFileSystem();
  std::vector<std::unique_ptr<io::SimFileSystem>> disks_;
  std::vector<std::unique_ptr<io::FileSystem>> nodes_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, RefusedRestarts,
                         testing::Combine(testing::Values(1, 3, 4), testing::Bool()),
                         [](const auto& one) {
                           return std::to_string(std::get<0>(one.param)) +
                                  (std::get<1>(one.param) ? "Own" : "Shared");
                         });

TEST_P(RefusedRestarts, ARefusedRestartByOtherRanksChangesNothing) {
  RestartOptions replacing;
  replacing.replace = true;
  ExpectRefused("no replacement", Code::kInvalidArgument, {});
  replacing.number = 7;
  ExpectRefused("none", Code::kNotFound, replacing);
  replacing.number = 1;
  ExpectRefused("damaged", Code::kCorruption, replacing);
  replacing.number = 2;
  const auto lock = disks_[0]->Lock(LockedDatabase::LockPath(kDirectory), "another job");
  ASSERT_OK(lock.status());
  ExpectRefused("busy", Code::kBusy, replacing);
}

TEST(RefusedCalls, NamesAndOptionsThatDifferAreRefused) {
  SimCluster::Options ranks;
  ranks.rank_count = 2;
  SimCluster cluster(ranks);
  cluster.Run([](int rank, Context& context) {
    const std::string name = rank == 0 ? "one" : "other";
    const Status names = context.Open(name, SimCluster::SmallDatabase()).status();
    EXPECT_CODE(names, Code::kInvalidArgument);
    EXPECT_EQ(names.message(),
              "names differ between ranks: rank 0 has \"one\", rank 1 has \"other\"; give the same "
              "on all ranks");
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.group_size = rank + 1;
    const Status differ = context.Open("db", options).status();
    EXPECT_CODE(differ, Code::kInvalidArgument);
    EXPECT_EQ(differ.message(),
              "options differ between ranks: rank 0 has \"group_size = 1\", rank 1 has "
              "\"group_size = 2\"; give the same on all ranks");
  });
}

}  // namespace
}  // namespace quire::kv::refused_opens_test
