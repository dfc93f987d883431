// Restarts of ranks that share only checkpoints, if there is no database: the remains of an
// interrupted restart on the disk of a node are not taken for a part of the next one.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kv/database/mounted_files_testing.h"
#include "kv/database/persistence_testing.h"
#include "kv/protocol/descriptor.h"
#include "tests/support/file_tree.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::own_disks_test {
namespace {

constexpr int kRanks = 4;
constexpr int kKeys = 60;

std::string Key(int i) {
  return "key " + std::to_string(i);
}

void CopyTree(io::FileSystem& from, io::FileSystem& to, const std::string& directory) {
  ASSERT_OK(io::MakeDurableDirectory(to, io::DirectoryOf(directory)));
  ASSERT_OK(io::MakeDurableDirectory(to, directory));
  for (const std::string& path : test::FileTree(from, directory)) {
    const Result<std::string> bytes = io::ReadFile(from, path, UINT64_MAX);
    ASSERT_OK(bytes.ok() ? io::WriteFile(to, path, *bytes) : to.MakeDirectory(path));
  }
}

// Four ranks' database "2", with checkpoints of when it was "0" and "1".
class OwnDisks : public testing::Test {
 protected:
  OwnDisks() {
    EXPECT_OK(io::MakeDurableDirectory(*shared_, "/pfs"));
    for (int rank = 0; rank < kRanks; ++rank) {
      disks_.push_back(io::NewSimFileSystem());
      nodes_.push_back(NewMountedFiles(*disks_.back(), "/pfs", *shared_));
    }
    Run(kRanks, [](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      for (int round = 0; round < 3; ++round) {
        for (int i = rank; i < kKeys; i += kRanks) {
          ASSERT_OK((*db)->Put(Key(i), std::to_string(round)));
        }
        if (round < 2) ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      }
      ASSERT_OK((*db)->Close());
    });
  }

  SimCluster::Options Ranks(int size) {
    SimCluster::Options options;
    options.rank_count = size;
    options.seed = ++seed_;
    options.own_disks = true;
    options.repository = repository_;
    options.context.timeout_ms = 2000;
    options.file_system = [this](int rank) { return nodes_[static_cast<size_t>(rank)].get(); };
    return options;
  }
  void Run(int size, const SimCluster::Program& program) { SimCluster(Ranks(size)).Run(program); }

  // All ranks die when rank 0 is about to say that what they copied is the database.
  void CutOffRestart(uint64_t number) {
    std::vector<std::unique_ptr<io::FaultFileSystem>> files;
    for (const auto& node : nodes_) files.push_back(io::NewFaultFileSystem(*node));
    SimCluster::Options options = Ranks(kRanks);
    options.file_system = [&](int rank) { return files[static_cast<size_t>(rank)].get(); };
    options.on_kill = [&](int rank) { files[static_cast<size_t>(rank)]->Kill(); };
    SimCluster cluster(options);
    int descriptors = 0;  // the first says that a restart begins
    files[0]->BeforeCalls(io::kFaultRename, [&](const std::string& path) {
      if (path.rfind(repository_ + "/db/DATABASE", 0) != 0 || ++descriptors != 2) return;
      for (int rank = 0; rank < kRanks; ++rank) cluster.network().Kill(rank);
    });
    cluster.RunRaw([&](int, Result<std::unique_ptr<Context>> context) {
      ASSERT_OK(context.status());
      EXPECT_FALSE(
          WaitFor((*context)->Restart("/pfs", "db", {.number = number, .replace = true})).ok());
    });
    EXPECT_GE(descriptors, 2);
  }

  void Restart(int size, uint64_t number) {
    Run(size, [&](int, Context& context) {
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = number, .replace = true})));
    });
  }

  void ExpectOn(int size, const std::string& value) {
    Run(size, [&](int, Context& context) {
      auto db = context.Open("db", Existing(true));
      ASSERT_OK(db.status());
      for (int i = 0; i < kKeys; ++i) EXPECT_EQ(SimCluster::ValueOf(**db, Key(i)), value) << i;
      ASSERT_OK(context.Barrier());
      ASSERT_OK((*db)->Close());
    });
  }

  std::unique_ptr<io::SimFileSystem> shared_ = io::NewSimFileSystem();
  std::vector<std::unique_ptr<io::SimFileSystem>> disks_;
  std::vector<std::unique_ptr<io::FileSystem>> nodes_;
  std::string repository_ = "/repository";
  uint64_t seed_ = 0;
};

TEST_F(OwnDisks, ARestartOnFewerNodesIsNotMixedWithAnInterruptedOneOnMore) {
  repository_ = "/other";
  CutOffRestart(1);
  Restart(2, 2);
  ExpectOn(kRanks - 1, "1");
  ExpectOn(kRanks, "1");
}

TEST_F(OwnDisks, AReplacingRestartOnFewerNodesIsNotMixedWithAnInterruptedOne) {
  CutOffRestart(1);
  Restart(2, 2);
  ExpectOn(kRanks - 1, "1");
  ExpectOn(kRanks, "1");
}

TEST_F(OwnDisks, ARestartAfterFewerCreatedTheDatabaseIsNotMixedWithAnInterruptedOne) {
  repository_ = "/other";
  for (int i = 0; i < 2; ++i) CutOffRestart(1);
  Run(2, [](int, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Close());
  });
  Restart(2, 2);
  ExpectOn(kRanks - 1, "1");
  ExpectOn(kRanks, "1");
}

TEST_F(OwnDisks, ARestartOnFewerNodesOpensOnAnyNumberOfNodes) {
  repository_ = "/other";
  for (const int fewer : {1, 2, 3}) {
    for (const int size : {kRanks, fewer, kRanks - 1, kRanks}) {
      Restart(fewer, 2);
      ExpectOn(size, "1");
      ExpectOn(kRanks, "1");
      ASSERT_FALSE(HasFailure()) << "by " << fewer << ", opened by " << size;
    }
  }
}

// A failed open by more ranks may leave a part on a node that is absent next time. It is no part of
// the generation that another open made meanwhile.
TEST_F(OwnDisks, APartThatAFailedOpenByMoreRanksLeftIsIgnored) {
  repository_ = "/other";
  const auto on_nodes = [this](std::vector<io::FileSystem*> nodes) {
    SimCluster::Options options = Ranks(static_cast<int>(nodes.size()));
    options.file_system = [nodes](int rank) { return nodes[static_cast<size_t>(rank)]; };
    return options;
  };
  Run(2, [](int rank, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    for (int i = rank; i < kKeys; i += 2) ASSERT_OK((*db)->Put(Key(i), "1"));
    ASSERT_OK((*db)->Close());
  });
  const std::unique_ptr<io::FaultFileSystem> full = io::NewFaultFileSystem(*nodes_[1]);
  full->OnlyBelow("/other/db/gen-2");
  full->FailAt(io::kFaultWrite | io::kFaultAllocate, 1, UINT64_MAX, Code::kNoSpace);
  SimCluster(on_nodes({nodes_[0].get(), full.get(), nodes_[2].get()}))
      .Run([](int, Context& context) {
        EXPECT_EQ(context.Open("db", Existing()).status().code(), Code::kNoSpace);
      });
  SimCluster(on_nodes({nodes_[0].get(), nodes_[1].get(), nodes_[3].get()}))
      .Run([](int, Context& context) {
        auto db = context.Open("db", Existing());
        ASSERT_OK(db.status());
        for (int i = 0; i < kKeys; ++i) EXPECT_EQ(SimCluster::ValueOf(**db, Key(i)), "1") << i;
        ASSERT_OK(context.Barrier());
        ASSERT_OK((*db)->Close());
      });
  SimCluster(on_nodes({nodes_[0].get(), nodes_[1].get(), nodes_[2].get()}))
      .Run([](int, Context& context) {
        EXPECT_EQ(context.Open("db", Existing()).status().code(), Code::kCorruption)
            << "a part is on another node";
      });
}

// Rank 0's old copy names a generation that has moved since. Parts that it does not name are not
// the rest of a failed open: they contain all pairs.
TEST_F(OwnDisks, AnOldCopyOnRankZeroRemovesNoParts) {
  const auto old = io::NewSimFileSystem();
  const std::string directory = repository_ + "/db";
  CopyTree(*disks_[0], *old, directory);
  Run(kRanks, [](int, Context& context) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.force_redistribute = true;
    auto db = context.Open("db", options);
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Close());
  });
  SimCluster::Options options = Ranks(kRanks);
  options.file_system = [&](int rank) -> io::FileSystem* {
    return rank == 0 ? old.get() : nodes_[static_cast<size_t>(rank)].get();
  };
  SimCluster(options).Run([](int, Context& context) {
    const Status status = context.Open("db", SimCluster::SmallDatabase()).status();
    EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
    EXPECT_NE(status.ToString().find("start the ranks on the nodes"), std::string::npos);
  });
  ExpectOn(kRanks, "2");
}

// Nodes with disks of their own, of which each job has some.
class NodesOfJobs {
 public:
  void Run(const std::vector<size_t>& nodes, const SimCluster::Program& program) {
    SimCluster::Options options;
    options.rank_count = static_cast<int>(nodes.size());
    options.own_disks = true;
    options.own_machines = true;
    options.context.timeout_ms = 2000;
    options.file_system = [&](int rank) { return faults_[nodes[static_cast<size_t>(rank)]].get(); };
    SimCluster(options).Run(program);
  }
  io::FaultFileSystem& node(size_t node) { return *faults_[node]; }
  void Write(const std::vector<size_t>& nodes, const std::string& value) {
    Run(nodes, [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      for (int i = 0; i < kKeys && rank == 0; ++i) ASSERT_OK((*db)->Put(Key(i), value));
      ASSERT_OK((*db)->Close());
    });
  }
  void Expect(const std::vector<size_t>& nodes, const std::string& value) {
    Run(nodes, [&](int, Context& context) {
      auto db = context.Open("db", Existing(true));
      ASSERT_OK(db.status());
      for (int i = 0; i < kKeys; ++i) EXPECT_EQ(SimCluster::ValueOf(**db, Key(i)), value) << i;
      ASSERT_OK(context.Barrier());
      ASSERT_OK((*db)->Close());
    });
  }
  void ExpectRefused(const std::vector<size_t>& nodes) {
    Run(nodes, [](int, Context& context) {
      const Status status = context.Open("db", SimCluster::SmallDatabase()).status();
      EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
    });
  }

 private:
  std::vector<std::unique_ptr<io::SimFileSystem>> disks_ = [] {
    std::vector<std::unique_ptr<io::SimFileSystem>> disks;
    for (int node = 0; node < 3; ++node) disks.push_back(io::NewSimFileSystem());
    return disks;
  }();
  std::vector<std::unique_ptr<io::FaultFileSystem>> faults_ = [this] {
    std::vector<std::unique_ptr<io::FaultFileSystem>> faults;
    for (const auto& disk : disks_) faults.push_back(io::NewFaultFileSystem(*disk));
    return faults;
  }();
};

// Node 1 has a part of a database that was destroyed without it.
TEST(DestroyedDatabase, IsNotTakenForANewOneOfItsName) {
  NodesOfJobs nodes;
  nodes.Write({0, 1}, "old");
  nodes.Run({0}, [](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
  nodes.Write({0, 2}, "new");
  nodes.ExpectRefused({0, 1});
  nodes.ExpectRefused({0, 1, 2});
  nodes.Expect({0, 2}, "new");
}

// The new one was made on one machine, as the old one was.
TEST(DestroyedDatabase, IsNotTakenForANewOneThatGrew) {
  NodesOfJobs nodes;
  nodes.Write({0}, "older");
  nodes.Write({0, 1}, "old");
  nodes.Run({0}, [](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
  nodes.Write({0}, "newer");
  nodes.Write({0, 2}, "new");
  nodes.ExpectRefused({0, 1});
  nodes.Expect({0, 2}, "new");
}

// Node 1 has a part of nodes 0 and 1's database, and rank 0 has one of its own.
TEST(ForeignParts, AreRemovedByNoCallOfAnotherJob) {
  NodesOfJobs nodes;
  nodes.Write({0, 1}, "theirs");
  nodes.Write({2}, "own");
  nodes.ExpectRefused({2, 1});
  nodes.ExpectRefused({1, 2});
  nodes.Run({2, 1}, [](int, Context& context) {
    EXPECT_EQ(context.Destroy("db").code(), Code::kCorruption);
    const auto restart = context.Restart("/nowhere", "db", {.replace = true});
    EXPECT_FALSE(restart.ok() && (*restart)->Wait().ok());
  });
  nodes.Expect({0, 1}, "theirs");
  nodes.Expect({2}, "own");
}

// Two databases of one machine each, with generations of the same numbers.
TEST(ForeignParts, AreRecognizedByTheirOwnDescriptor) {
  NodesOfJobs nodes;
  nodes.Write({0}, "first");
  nodes.Write({1}, "second");
  nodes.ExpectRefused({0, 1});
  nodes.ExpectRefused({1, 0});
  nodes.Expect({0}, "first");
  nodes.Expect({1}, "second");
}

// A creation with another rank 0 was cut off, and left a descriptor that counts no more.
TEST(ForeignParts, AreNotThoseBesideARestOfACreation) {
  uint64_t refused = 0;
  for (bool failed = true; failed && !testing::Test::HasFailure(); ++refused) {
    SCOPED_TRACE(refused + 1);
    NodesOfJobs nodes;
    nodes.Run({1}, [&](int, Context& context) {
      nodes.node(1).FailAt(io::kFaultChange, refused + 1, UINT64_MAX, Code::kIo);
      failed = !context.Open("db", SimCluster::SmallDatabase()).ok();
    });
    nodes.node(1).FailAt(0, 1, 0, Code::kIo);
    bool made = false;
    nodes.Run({0, 1}, [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      if (rank == 0) made = db.ok();
      if (db.ok()) ASSERT_OK((*db)->Close());
    });
    if (!made) continue;  // it had come to its part
    nodes.Write({0, 1}, "new");
    nodes.Expect({0, 1}, "new");
  }
  EXPECT_GT(refused, 10u);
}

// Rank 0 has begun to create a database of this name, wherever that failed.
TEST(ForeignParts, AreNoRemainsOfACreationThatWasCutOff) {
  uint64_t refused = 0;
  for (bool failed = true; failed && !testing::Test::HasFailure(); ++refused) {
    SCOPED_TRACE(refused + 1);
    NodesOfJobs nodes;
    nodes.Write({0, 1}, "theirs");
    nodes.Run({2}, [&](int, Context& context) {
      nodes.node(2).FailAt(io::kFaultChange, refused + 1, UINT64_MAX, Code::kIo);
      failed = !context.Open("db", SimCluster::SmallDatabase()).ok();
    });
    nodes.node(2).FailAt(0, 1, 0, Code::kIo);
    nodes.ExpectRefused({2, 1});
    nodes.Expect({0, 1}, "theirs");
  }
  EXPECT_GT(refused, 10u);
}

// Wherever the disk of a node fails for good amid its creation, a new database is made by the next
// open, beside the parts that node 1 has of a destroyed one.
TEST(DestroyedDatabase, HindersNoNewOneWhoseCreationWasCutOff) {
  for (const size_t broken : {0, 2}) {
    uint64_t refused = 0;
    for (bool failed = true; failed && !testing::Test::HasFailure(); ++refused) {
      SCOPED_TRACE(std::to_string(broken) + ", call " + std::to_string(refused + 1));
      NodesOfJobs nodes;
      nodes.Write({0, 1}, "old");
      nodes.Run({0}, [](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
      nodes.Run({0, 2}, [&](int rank, Context& context) {
        ASSERT_OK(context.Barrier());
        if (rank == 0) {
          nodes.node(broken).FailAt(io::kFaultChange, refused + 1, UINT64_MAX, Code::kIo);
        }
        ASSERT_OK(context.Barrier());
        const auto db = context.Open("db", SimCluster::SmallDatabase());
        if (rank == 0) failed = !db.ok();
      });
      nodes.node(broken).FailAt(0, 1, 0, Code::kIo);
      nodes.Write({0, 2}, "new");
      nodes.Expect({0, 2}, "new");
    }
    EXPECT_GT(refused, 20u);
  }
}

// All ranks see the checkpoint that is used in place. Rank 1's part of an open that was cut off
// before it counted is on a node that the next job does not have.
TEST_F(OwnDisks, APartThatAnInterruptedOpenOverACheckpointLeftIsIgnored) {
  repository_ = "/other";
  Run(2, [](int, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 2, .in_place = true})));
  });
  std::vector<std::unique_ptr<io::FaultFileSystem>> files;
  for (int rank = 0; rank < 2; ++rank) files.push_back(io::NewFaultFileSystem(*nodes_[rank]));
  SimCluster::Options options = Ranks(2);
  options.file_system = [&](int rank) { return files[static_cast<size_t>(rank)].get(); };
  options.on_kill = [&](int rank) { files[static_cast<size_t>(rank)]->Kill(); };
  SimCluster cluster(options);
  files[0]->BeforeCalls(io::kFaultRename, [&](const std::string& path) {
    const bool made = *nodes_[1]->Exists("/other/db/gen-2/rank-1/MANIFEST");
    if (!made || !path.starts_with("/other/db/DATABASE")) return;
    for (int rank = 0; rank < 2; ++rank) cluster.network().Kill(rank);
  });
  cluster.RunRaw([](int, Result<std::unique_ptr<Context>> context) {
    ASSERT_OK(context.status());
    EXPECT_FALSE((*context)->Open("db", Existing(true)).ok());
  });
  ASSERT_TRUE(*nodes_[1]->Exists("/other/db/gen-2/rank-1/MANIFEST"));
  SimCluster::Options others = Ranks(2);
  others.file_system = [this](int rank) { return nodes_[rank == 0 ? 0 : 2].get(); };
  SimCluster(others).Run([](int, Context& context) {
    auto db = context.Open("db", Existing(true));
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Close());
  });
  Run(2, [](int, Context& context) {
    EXPECT_EQ(context.Open("db", Existing()).status().code(), Code::kCorruption);
  });
  SimCluster(others).Run([](int, Context& context) {
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    for (int i = 0; i < kKeys; ++i) EXPECT_EQ(SimCluster::ValueOf(**db, Key(i)), "1") << i;
    ASSERT_OK(context.Barrier());
    ASSERT_OK((*db)->Close());
  });
}

// A deletion over pairs that are to move stays in force, though no reader looks for pairs there.
TEST_F(OwnDisks, PairsDeletedOverSharedOlderPartsStayDeleted) {
  constexpr int kNew = 2;       // ranks
  constexpr int kFirst = 4000;  // pairs that move first: tables that are merged with the deletions
  repository_ = "/shared";
  SimCluster::Options options = Ranks(3);
  options.own_disks = false;
  options.file_system = [this](int) { return shared_.get(); };
  SimCluster(options).RunDatabase(
      SimCluster::SmallDatabase(), [](int rank, Context&, Database& db) {
        for (int i = rank; i < kKeys; i += 3) ASSERT_OK(db.Put(Key(i), "old"));
        for (int i = rank; i < kFirst; i += 3) {
          ASSERT_OK(db.Put("a" + std::to_string(i), std::string(1000, 'v')));
        }
        ASSERT_OK(db.Close());
      });
  // Pairs do not move as long as the first ones of each table cannot be read.
  const auto flip_bits = [this] {
    for (const std::string& path : test::FileTree(*shared_, "/shared/db/gen-1")) {
      if (!path.ends_with(".sst")) continue;
      ASSERT_OK(shared_->Damage(path, [](std::string* bytes) { bytes->at(20) ^= 1; }));
    }
  };
  flip_bits();
  options.rank_count = kNew;
  SimCluster(options).RunDatabase(Existing(), [](int rank, Context&, Database& db) {
    for (int i = 3 * rank; i < kKeys; i += 3 * kNew) ASSERT_OK(db.Delete(Key(i)));
    ASSERT_OK(db.Close());
  });
  flip_bits();
  ASSERT_EQ(ReadDescriptor(*shared_, "/shared/db")->generations.size(), 2u);
  for (int rank = 0; rank < kNew; ++rank) {
    CopyTree(*shared_, *disks_[static_cast<size_t>(rank)], "/shared/db");
  }
  ASSERT_OK(disks_[0]->RemoveTree("/shared/db/gen-1/rank-2"));
  Run(kNew, [](int, Context& context) {
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    for (int i = 0; i < kKeys; ++i) {
      const std::string expected = i % 3 == 0 ? "<not found>" : "old";
      EXPECT_EQ(SimCluster::ValueOf(**db, Key(i)), expected) << i;
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK((*db)->Close());
  });
}

}  // namespace
}  // namespace quire::kv::own_disks_test
