// Restarts that replace a database, and those that use a checkpoint where it lies: in one step, or
// not at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "kv/database/database_reader.h"
#include "kv/database/persistence_testing.h"
#include "kv/persistence/checkpoint_files.h"
#include "kv/protocol/descriptor.h"
#include "lsm/db/db.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::restart_test {
namespace {

using testing::HasSubstr;

constexpr int kKeys = 100;
constexpr char kDirectory[] = "/repository/db";

std::string Key(int i) {
  return "key " + std::to_string(i);
}

// Two ranks' database: the first checkpoint has "0", the second "1", the database "2".
class Restarts : public testing::TestWithParam<bool> {
 protected:
  explicit Restarts(int checkpoints = 2) : cluster_(TwoRanks()) {
    cluster_.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      for (int round = 0; round < 3; ++round) {
        for (int i = rank; i < kKeys; i += 2) ASSERT_OK(db.Put(Key(i), std::to_string(round)));
        if (round < checkpoints) ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
      }
      ASSERT_OK(db.Close());
    });
  }
  static SimCluster::Options TwoRanks() {
    SimCluster::Options options;
    options.deterministic = GetParam();
    return options;
  }
  io::SimFileSystem& fs() { return cluster_.disk(0); }

  void ExpectContents(Context& context, const std::string& value) {
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    for (int i = 0; i < kKeys; ++i) EXPECT_EQ(SimCluster::ValueOf(**db, Key(i)), value) << i;
    ASSERT_OK((*db)->Close());
  }
  std::vector<std::string> Generations() {
    std::vector<std::string> names;
    for (const io::FileInfo& entry : *fs().List(kDirectory)) {
      if (entry.is_directory) names.push_back(entry.name);
    }
    return names;
  }
  // Its newest table, which no checkpoint before it has.
  void DamageCheckpoint(int number) {
    const std::string part = "/pfs/db/" + std::to_string(number) + "/rank-1/";
    std::string newest;
    for (const io::FileInfo& file : *fs().List(part)) {
      if (file.name.rfind("t-", 0) == 0) newest = file.name;
    }
    ASSERT_OK(fs().Damage(part + newest, [](std::string* bytes) { bytes->resize(10); }));
  }

  SimCluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(Modes, Restarts, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

TEST_P(Restarts, ReplaceADatabaseWhereTheyAreAskedTo) {
  for (const bool in_place : {false, true}) {
    cluster_.Run([&](int, Context& context) {
      EXPECT_EQ(context.Restart("/pfs", "db", {}).status().code(), Code::kInvalidArgument);
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = in_place, .replace = true})));
      ASSERT_OK(context.Barrier());
      // The replaced database is gone by the end of the event.
      const std::vector<std::string> copied = {"gen-2"};
      EXPECT_EQ(Generations(), in_place ? std::vector<std::string>() : copied);
      ASSERT_OK(context.Barrier());
      ExpectContents(context, "1");
    });
  }
  // Again, over one that is used where it lies, and with no database there.
  cluster_.Run([&](int, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 1, .replace = true})));
    ExpectContents(context, "0");
    ASSERT_OK(context.Destroy("db"));
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.replace = true})));
    ExpectContents(context, "1");
  });
}

TEST_P(Restarts, ReplaceNoOtherDatabaseThanTheyBeganWith) {
  MovesTheDatabase moves(fs(), "kv.restart.before_publish");
  cluster_.Run([&](int, Context& context) {
    const Status status = WaitFor(context.Restart("/pfs", "db", {.replace = true}));
    EXPECT_CODE(status, Code::kBusy);
    EXPECT_THAT(status.message(), HasSubstr("moved or removed"));
  });
  moves.ExpectOther();
}

TEST_P(Restarts, LeaveTheDatabaseWhereEveryCheckpointIsDamaged) {
  DamageCheckpoint(1);
  DamageCheckpoint(2);
  for (const uint64_t number : {0, 2}) {
    cluster_.Run([&](int, Context& context) {
      const Status status =
          WaitFor(context.Restart("/pfs", "db", {.number = number, .replace = true}));
      EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
      ASSERT_OK(context.Barrier());
      EXPECT_THAT(Generations(), testing::ElementsAre("gen-1")) << "nothing of the attempt stays";
      ASSERT_OK(context.Barrier());
      ExpectContents(context, "2");
    });
  }
}

TEST_P(Restarts, LeaveTheDatabaseWhereRanksDisagree) {
  cluster_.Run([&](int rank, Context& context) {
    const std::string path = rank == 0 ? "/pfs" : "/./pfs";
    EXPECT_EQ(WaitFor(context.Restart(path, "db", {.replace = true})).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(WaitFor(context.Restart("/pfs", "db", {.replace = rank == 0})).code(),
              Code::kInvalidArgument);
    ExpectContents(context, "2");
  });
}

TEST_P(Restarts, LeaveTheDatabaseWhereTheDiskIsFull) {
  fs().SetFreeBytes(1200);
  cluster_.Run([&](int rank, Context& context) {
    const Status status = WaitFor(context.Restart("/pfs", "db", {.replace = true}));
    EXPECT_EQ(status.code(), Code::kNoSpace) << status.ToString();
    ASSERT_OK(context.Barrier());
    EXPECT_THAT(Generations(), testing::ElementsAre("gen-1"));
    if (rank == 0) fs().SetFreeBytes(1 << 30);
    ASSERT_OK(context.Barrier());
    ExpectContents(context, "2");
  });
}

// The newest generation of the database is still being filled from the older ones.
TEST_P(Restarts, LeaveADatabaseWhosePairsAreMoving) {
  DatabaseDescriptor descriptor = *ReadDescriptor(fs(), kDirectory);
  descriptor.state = DescriptorState::kFilling;
  descriptor.generations.insert(descriptor.generations.begin(), descriptor.generations[0]);
  descriptor.generations[0].number = 2;
  ASSERT_OK(WriteDescriptor(fs(), kDirectory, descriptor));
  DamageCheckpoint(2);
  cluster_.Run([&](int, Context& context) {
    EXPECT_EQ(context.Restart("/pfs", "db", {}).status().code(), Code::kInvalidArgument);
    const RestartOptions second = {.number = 2, .replace = true};
    EXPECT_EQ(WaitFor(context.Restart("/pfs", "db", second)).code(), Code::kCorruption);
    ExpectContents(context, "2");
  });
}

// As what is left of a job without its rank 0 would, or a job that begins too early.
TEST_P(Restarts, KeepOthersFromThePartsThatTheyCopy) {
  const std::string part = std::string(kDirectory) + "/gen-2/rank-1";
  std::atomic<int> refused{0};
  std::atomic<int> removed{0};
  const auto watched = io::NewFaultFileSystem(fs());
  watched->BeforeCalls(io::kFaultWrite, [&](const std::string& path) {
    if (path.rfind(part + "/t-", 0) != 0) return;
    ++(lsm::DestroyDb(fs(), part).code() == Code::kBusy ? refused : removed);
  });
  SimCluster::Options options = TwoRanks();
  options.file_system = [&](int) { return watched.get(); };
  SimCluster(options).Run([&](int, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.replace = true})));
    ExpectContents(context, "1");
  });
  EXPECT_GT(refused, 0);
  EXPECT_EQ(removed, 0);
}

// A rank that reads parts that are to move keeps them, even if no owner has ever opened them.
TEST_P(Restarts, LeavePartsThatAnotherNumberOfRanksCanLock) {
  cluster_.Run([](int, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.replace = true})));
  });
  const std::string parts = std::string(kDirectory) + "/gen-2/rank-";
  for (const char* rank : {"0", "1"}) ASSERT_OK(fs().Unlink(lsm::LockPath(parts + rank)));
  SimCluster::Options options = TwoRanks();
  options.rank_count = 1;
  options.file_system = [&](int) { return &fs(); };
  SimCluster(options).Run([&](int, Context& context) {
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    EXPECT_EQ(SimCluster::ValueOf(**db, Key(1)), "1");
    EXPECT_EQ(SimCluster::ValueOf(**db, Key(2)), "1");
    // Threads may have moved all pairs by now, and removed the parts.
    for (const char* rank : {"0", "1"}) {
      if (!GetParam()) break;
      EXPECT_EQ(lsm::DestroyDb(fs(), parts + rank).code(), Code::kBusy) << rank;
    }
    ASSERT_OK((*db)->Close());
  });
}

TEST_P(Restarts, DoNotReplaceADatabaseThatIsOpen) {
  cluster_.RunDatabase(SimCluster::SmallDatabase(), [&](int, Context& context, Database& db) {
    EXPECT_EQ(context.Restart("/pfs", "db", {.replace = true}).status().code(), Code::kBusy);
    EXPECT_EQ(SimCluster::ValueOf(db, Key(1)), "2");
    ASSERT_OK(db.Close());
  });
}

TEST_P(Restarts, ARestartInPlaceSkipsACheckpointThatLacksAFile) {
  for (const bool gone : {false, true}) {
    const std::string list = "/pfs/db/2/rank-1/FILES";
    if (gone) {
      ASSERT_OK(fs().Unlink(list));
    } else {
      DamageCheckpoint(2);
    }
    cluster_.Run([&](int, Context& context) {
      const RestartOptions newest = {.number = 2, .in_place = true, .replace = true};
      const Status wanted = WaitFor(context.Restart("/pfs", "db", newest));
      EXPECT_EQ(wanted.code(), Code::kCorruption) << wanted.ToString();
      EXPECT_THAT(wanted.message(), HasSubstr("/pfs/db/2/rank-1/"));
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = true, .replace = true})));
      ExpectContents(context, "0");
    });
  }
}

// An owner that cannot read a value returns the failure at once, and sends no message.
TEST(RestartInPlace, AGetFailsAtOnceIfTheCheckpointLostItsValue) {
  SimCluster::Options options;
  options.rank_count = 1;
  SimCluster cluster(options);
  const std::string large(5000, 'l');
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(db.Put(Key(i), large));
    ASSERT_OK(db.Put("small", "s"));
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  cluster.Run([&](int, Context& context) {
    ASSERT_OK(context.Destroy("db"));
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = true})));
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    EXPECT_EQ(SimCluster::ValueOf(**db, "small"), "s");  // the part is open now
    const std::string part = "/pfs/db/1/rank-0";
    for (const io::FileInfo& file : *cluster.disk(0).List(part)) {
      ASSERT_OK(cluster.disk(0).Unlink(part + "/" + file.name));
    }
    const uint64_t before = (*db)->GetStatistics()["gets.message"];
    int failed = 0;
    std::string value;
    std::vector<std::string> values;
    std::vector<bool> found;
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = Key(i);
      for (const Status& status :
           {(*db)->Get(key, &value), (*db)->GetAsync(key)->Take().status(),
            (*db)->GetMany({key}, &values, &found)}) {
        if (status.ok()) continue;
        EXPECT_CODE(status, Code::kCorruption);
        ++failed;
      }
    }
    EXPECT_GT(failed, 0);
    EXPECT_EQ((*db)->GetStatistics()["gets.message"], before);
    const auto pairs = (*db)->NewLocalIterator();
    for (pairs->SeekToFirst(); pairs->Valid(); pairs->Next()) static_cast<void>(pairs->value());
    EXPECT_CODE(pairs->status(), Code::kCorruption);
    static_cast<void>((*db)->Close());
  });
}

// A number is free once its checkpoint was dropped: the database must not read another's pairs.
TEST(RestartInPlace, NoticesThatAnotherCheckpointHasItsNumber) {
  SimCluster::Options options;
  options.rank_count = 2;
  SimCluster cluster(options);
  io::SimFileSystem& fs = cluster.disk(0);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
    for (const std::string value : {"first", "second"}) {
      ASSERT_OK(db.Put("key", value));
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    }
    ASSERT_OK(db.Close());
  });
  const RestartOptions first = {.number = 1, .in_place = true, .replace = true};
  cluster.Run([&](int, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", first)));
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    EXPECT_EQ(SimCluster::ValueOf(**db, "key"), "first");
    ASSERT_OK((*db)->Close());
  });
  const auto expect_refused = [&](const std::string& why) {
    cluster.Run([&](int, Context& context) {
      const Status opened = context.Open("db", Existing()).status();
      EXPECT_CODE(opened, Code::kCorruption);
      EXPECT_THAT(opened.message(), AllOf(HasSubstr(why), HasSubstr("/pfs/db/1")));
    });
    const auto reader = OpenDatabaseReader(fs, "/repository/db", {});
    std::string value;
    const Status read = reader.ok() ? (*reader)->Get("absent", &value) : reader.status();
    EXPECT_CODE(read, Code::kCorruption);
  };
  // Two readers: one opened the database, the other one the checkpoint's directory.
  const auto before = OpenDatabaseReader(fs, "/repository/db", {});
  const auto of_checkpoint = OpenDatabaseReader(fs, "/pfs/db/1", {});
  std::string value;
  ASSERT_OK(before.status());
  ASSERT_OK(of_checkpoint.status());
  for (const std::unique_ptr<DatabaseReader>* const reader : {&*before, &*of_checkpoint}) {
    EXPECT_CODE((*reader)->Get("absent", &value), Code::kNotFound);  // all parts are open now
  }
  ASSERT_OK(fs.Rename("/pfs/db/1", "/pfs/db/old"));
  expect_refused("is seen by no rank");
  ASSERT_OK(fs.Rename("/pfs/db/2", "/pfs/db/1"));
  expect_refused("is another one by now");
  EXPECT_CODE((*before)->Refresh(), Code::kCorruption);
  ASSERT_OK((*of_checkpoint)->Refresh());
  ASSERT_OK((*of_checkpoint)->Get("key", &value));
  EXPECT_EQ(value, "second") << "the one that has the name now, as a whole";
  ASSERT_OK(fs.Unlink("/pfs/db/1/CHECKPOINT"));
  expect_refused("is gone");
}

// A checkpoint whose writer was killed when it had renamed it, and had not synced the name yet, is
// there, and can be restarted from.
TEST(RestartInPlace, OutlivesALossOfPowerThoughTheCheckpointsNameWasNotSynced) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SimCluster::Options options;
    options.rank_count = 1;
    SimCluster cluster(options);
    io::SimFileSystem& fs = cluster.disk(0);
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
      for (int i = 0; i < kKeys; ++i) ASSERT_OK(db.Put(Key(i), "v"));
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
      ASSERT_OK(db.Close());
    });
    ASSERT_OK(fs.Rename("/pfs/db/1", "/pfs/db/before"));
    ASSERT_OK(fs.SyncDirectory("/pfs/db"));
    ASSERT_OK(fs.Rename("/pfs/db/before", "/pfs/db/1"));
    cluster.Run([&](int, Context& context) {
      ASSERT_OK(context.Destroy("db"));
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = true})));
    });
    fs.Restart(io::CrashKind::kPower, seed);
    cluster.Run([&](int, Context& context) {
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      for (int i = 0; i < kKeys; ++i) EXPECT_EQ(SimCluster::ValueOf(**db, Key(i)), "v") << i;
      ASSERT_OK((*db)->Close());
    });
  }
}

}  // namespace
}  // namespace quire::kv::restart_test
