// The creation and the destruction of a database, with a crash at every step and with calls on
// files that fail: it is there and opens, or it is not there (docs/format/database.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kv/protocol/descriptor.h"
#include "kv/database/sim_cluster_testing.h"
#include "lsm/db/db.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::lifecycle_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr char kDirectory[] = "/repository/db";

SimCluster::Options Ranks(bool own_disks) {
  SimCluster::Options options;
  options.own_disks = own_disks;
  options.context.timeout_ms = 2000;
  return options;
}

DatabaseOptions Opening(OpenMode mode) {
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.mode = mode;
  return options;
}

// Removes the directory, in which there must be no part.
Status RemoveDatabaseDirectory(io::FileSystem& fs) {
  QUIRE_RETURN_IF_ERROR(fs.RemoveDirectory(std::string(kDirectory) + "/gen-1"));
  return fs.RemoveDirectory(kDirectory);
}

// The same code on all ranks, as every collective call promises.
class Codes {
 public:
  void Tell(const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    texts_.push_back(status.ToString());
    if (texts_.size() == 1) code_ = status.code();
    same_ = same_ && status.code() == code_;
  }
  std::string Problem() const {
    if (same_) return "";
    std::string text = "codes differ:";
    for (const std::string& told : texts_) text += "\n  " + told;
    return text;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
  Code code_ = Code::kOk;
  bool same_ = true;
};

enum class Deed { kCreate, kDestroy };

// The work of a job on the repository; the machine of `disk` goes down after `steps` of its steps.
struct Crash {
  Deed deed = Deed::kCreate;
  bool own_disks = true;
  int disk = 0;
  uint64_t steps = 0;
  io::CrashKind kind = io::CrashKind::kProcess;
  uint64_t seed = 1;  // of the ranks' turns, and of what a power loss leaves
};

void Fill(SimCluster& cluster) {
  cluster.RunDatabase(Opening(OpenMode::kMustNotExist), [](int rank, Context&, Database& db) {
    ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank), "value"));
    ASSERT_OK(db.Barrier(Level::kSsTable));
    ASSERT_OK(db.Close());
  });
}

// Returns true if the deed was done on all ranks, as far as their calls report it.
bool Do(SimCluster& cluster, const Crash& crash) {
  std::atomic<int> done{0};
  Codes codes;
  cluster.Run([&](int rank, Context& context) {
    // From here on, without what a Context does.
    if (rank == 0) cluster.disk(crash.disk).CrashAfter(crash.steps);
    ASSERT_OK(context.Barrier());
    Status status;
    if (crash.deed == Deed::kCreate) {
      auto opened = context.Open("db", Opening(OpenMode::kOpenOrCreate));
      status = opened.status();
    } else {
      status = context.Destroy("db");
    }
    if (status.ok()) ++done;
    codes.Tell(status);
  });
  EXPECT_EQ(codes.Problem(), "");
  return done == 2;
}

// All machines come up again, and nothing is in the way: it opens with all its pairs, or it is not
// there.
void ExpectWholeOrGone(SimCluster& cluster, const Crash& crash, bool done) {
  bool there = false;
  cluster.Run([&](int rank, Context& context) {
    auto opened = context.Open("db", Opening(OpenMode::kMustExist));
    const Status status = opened.status();
    ASSERT_TRUE(status.ok() || status.code() == Code::kNotFound) << status.ToString();
    if (done) {
      ASSERT_EQ(status.ok(), crash.deed == Deed::kCreate) << status.ToString();
    }
    if (!status.ok()) return;
    if (rank == 0) there = true;
    if (crash.deed == Deed::kDestroy) {
      for (const int owner : {0, 1}) {
        ASSERT_EQ(SimCluster::ValueOf(**opened, SimCluster::KeyOwnedBy(**opened, owner)), "value");
      }
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK((*opened)->Put("k", "v"));
    ASSERT_OK((*opened)->Close());
  });
  if (testing::Test::HasFatalFailure()) return;
  // Either way both deeds work now, and leave what they should.
  cluster.Run([&](int, Context& context) {
    if (there || crash.steps % 2 == 0) {
      const Status destroyed = context.Destroy("db");
      ASSERT_TRUE(destroyed.ok() || (!there && destroyed.code() == Code::kNotFound))
          << destroyed.ToString();
    }
    auto made = context.Open("db", Opening(OpenMode::kMustNotExist));
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    EXPECT_EQ(SimCluster::ValueOf(**made, "k"), "<not found>") << "of the database that was";
    EXPECT_EQ(SimCluster::ValueOf(**made, SimCluster::KeyOwnedBy(**made, 0)), "<not found>");
    ASSERT_OK((*made)->Close());
    ASSERT_OK(context.Destroy("db"));
  });
  for (const int disk : {0, 1}) {
    const Result<bool> left = cluster.disk(disk).Exists(kDirectory);
    ASSERT_TRUE(left.ok() && !*left) << "on disk " << disk;
  }
}

// False where the deed was done before the crash.
bool CrashAndLookAgain(const Crash& crash) {
  SimCluster::Options ranks = Ranks(crash.own_disks);
  ranks.seed = crash.seed;
  SimCluster cluster(ranks);
  cluster.Run([](int, Context&) {});  // the repository is there
  if (crash.deed == Deed::kDestroy) Fill(cluster);
  const bool done = Do(cluster, crash);
  const bool crashed = cluster.disk(crash.disk).crashed();
  cluster.disk(crash.disk).Restart(crash.kind, crash.seed * 1000 + crash.steps);
  ExpectWholeOrGone(cluster, crash, done);
  return crashed;
}

void SweepCrashes(Deed deed, uint64_t seed = 1) {
  for (const io::CrashKind kind : {io::CrashKind::kProcess, io::CrashKind::kPower}) {
    for (const int disk : {0, 1, 2}) {
      // 0 and 1: each rank has a machine of its own, and that one goes down. 2: they share one.
      Crash crash{deed, disk != 2, disk % 2, 0, kind, seed};
      while (true) {
        SCOPED_TRACE("disk " + std::to_string(disk) + ", step " + std::to_string(crash.steps) +
                     (kind == io::CrashKind::kPower ? ", power" : ""));
        const bool crashed = CrashAndLookAgain(crash);
        ASSERT_FALSE(testing::Test::HasFailure());
        if (!crashed) break;
        ++crash.steps;
      }
      EXPECT_GT(crash.steps, 3u);
    }
  }
}

TEST(Lifecycle, ACreationThatIsCutOffAnywhereLeavesADatabaseOrNone) {
  SweepCrashes(Deed::kCreate);
}

TEST(Lifecycle, ADestructionThatIsCutOffAnywhereLeavesADatabaseOrNone) {
  // A power loss takes back a random part.
  for (uint64_t seed = 1; seed <= 3; ++seed) SweepCrashes(Deed::kDestroy, seed);
}

TEST(Lifecycle, ADatabaseThatIsBeingMadeOrRemovedIsNone) {
  for (const DescriptorState state : {DescriptorState::kCreating, DescriptorState::kDestroying}) {
    SimCluster cluster(Ranks(/*own_disks=*/false));
    Fill(cluster);
    Result<DatabaseDescriptor> descriptor = ReadDescriptor(cluster.disk(0), kDirectory);
    ASSERT_TRUE(descriptor.ok());
    descriptor->state = state;
    ASSERT_OK(WriteDescriptor(cluster.disk(0), kDirectory, *descriptor));
    cluster.Run([](int, Context& context) {
      EXPECT_EQ(context.Open("db", Opening(OpenMode::kMustExist)).status().code(), Code::kNotFound);
      auto made = context.Open("db", Opening(OpenMode::kMustNotExist));
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      EXPECT_EQ(SimCluster::ValueOf(**made, SimCluster::KeyOwnedBy(**made, 0)), "<not found>");
      ASSERT_OK((*made)->Close());
    });
    descriptor->state = state;
    ASSERT_OK(WriteDescriptor(cluster.disk(0), kDirectory, *descriptor));
    cluster.Run([](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
    EXPECT_FALSE(*cluster.disk(0).Exists(kDirectory));
  }
}

// Ranks on one disk, whose calls another program comes in between.
struct WatchedCluster {
  explicit WatchedCluster(int rank_count) : cluster(Options(rank_count)) {
    watched = io::NewFaultFileSystem(disk);
  }
  SimCluster::Options Options(int rank_count) {
    SimCluster::Options options = Ranks(/*own_disks=*/false);
    options.rank_count = rank_count;
    options.file_system = [this](int) { return watched.get(); };
    return options;
  }

  std::unique_ptr<io::FaultFileSystem> watched;
  SimCluster cluster;
  io::FileSystem& disk = cluster.disk(0);
};

// Another program looks for it at each moment of its destruction, and is gone after a while.
TEST(Lifecycle, ALookAtADatabaseThatIsBeingRemovedLeavesNothing) {
  constexpr char kLock[] = "/repository/db/LOCK";
  for (int looks = 1; looks <= 3; ++looks) {
    WatchedCluster two(2);
    SimCluster& cluster = two.cluster;
    io::FileSystem& disk = two.disk;
    Fill(cluster);
    std::unique_ptr<io::FileLock> looking;
    int calls = 0;
    two.watched->BeforeCalls(io::kFaultDirectory, [&](const std::string& path) {
      if (path != kDirectory || *disk.Exists(DescriptorPath(kDirectory))) return;
      const bool looks_now = ++calls % 2 != 0 && calls < 2 * looks && *disk.Exists(kDirectory);
      looking.reset();
      if (!looks_now) return;
      auto lock = disk.Lock(kLock, "another program");
      if (lock.ok()) looking = *std::move(lock);
    });
    cluster.Run([](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
    EXPECT_GE(calls, looks);
    EXPECT_FALSE(*disk.Exists(kDirectory)) << looks << " looks";
  }
}

// The directory is no longer empty when it is to go.
TEST(Lifecycle, ADestructionDoesNotFailIfAnotherProgramLooks) {
  WatchedCluster two(2);
  SimCluster& cluster = two.cluster;
  io::FileSystem& disk = two.disk;
  Fill(cluster);
  bool looked = false;
  two.watched->BeforeCalls(io::kFaultUnlink, [&](const std::string& path) {
    if (path != kDirectory || looked) return;
    looked = true;
    ASSERT_OK(disk.Lock(std::string(kDirectory) + "/LOCK", "another program").status());
  });
  cluster.Run([](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
  EXPECT_TRUE(looked);
  EXPECT_FALSE(*disk.Exists(kDirectory));
}

// A network file system creates such files for removed files that a process still has open.
TEST(Lifecycle, FilesOfOthersKeepNoNameFromBeingUsedAgain) {
  for (const bool own_disks : {true, false}) {
    SimCluster cluster(Ranks(own_disks));
    for (int round = 0; round < 2; ++round) {
      Fill(cluster);
      io::FileSystem& disk = cluster.disk(1);
      ASSERT_OK(io::WriteFile(disk, std::string(kDirectory) + "/gen-1/rank-1/.nfs01", "x"));
      cluster.Run([](int, Context& context) {
        ASSERT_OK(context.Destroy("db"));
        EXPECT_EQ(context.Destroy("db").code(), Code::kNotFound);
        EXPECT_EQ(context.Open("db", Opening(OpenMode::kMustExist)).status().code(),
                  Code::kNotFound);
      });
    }
    cluster.RunDatabase(Opening(OpenMode::kMustNotExist), [](int rank, Context&, Database& db) {
      EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, rank)), "<not found>");
    });
    const auto left = cluster.disk(1).List(std::string(kDirectory) + "/gen-1");
    ASSERT_OK(left.status());
    const auto is_left = [](const auto& file) { return file.name.starts_with("rank-1.left-"); };
    EXPECT_EQ(std::count_if(left->begin(), left->end(), is_left), 2);
  }
}

TEST(Lifecycle, LookingForADatabaseThatGoesAwayMakesNoDirectory) {
  WatchedCluster one(1);
  SimCluster& cluster = one.cluster;
  io::FileSystem& disk = one.disk;
  for (const int stays_for : {0, 1, 2}) {  // calls
    for (const bool destroy : {false, true}) {
      cluster.Run([&](int, Context& context) {
        ASSERT_OK(disk.MakeDirectory(kDirectory));
        int calls = 0;
        one.watched->BeforeCalls(io::kFaultDirectory | io::kFaultOpen,
                                 [&](const std::string& path) {
                                   const bool of_it = path.starts_with(kDirectory);
                                   if (of_it && calls++ == stays_for)
                                     ASSERT_OK(disk.RemoveDirectory(kDirectory));
                                 });
        const Status status = destroy ? context.Destroy("db")
                                      : context.Open("db", Opening(OpenMode::kMustExist)).status();
        one.watched->BeforeCalls(0, {});
        EXPECT_EQ(status.code(), Code::kNotFound) << status.ToString();
        EXPECT_GT(calls, stays_for);
        EXPECT_FALSE(*disk.Exists(kDirectory)) << stays_for;
      });
    }
  }
}

TEST(Lifecycle, ARanksPartWithoutADescriptorIsDamageAndStays) {
  for (const bool own_disks : {false, true}) {
    SimCluster cluster(Ranks(own_disks));
    Fill(cluster);
    ASSERT_OK(cluster.disk(0).Unlink(DescriptorPath(kDirectory)));
    cluster.Run([](int, Context& context) {
      const auto expect_damage = [](const Status& status) {
        EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
        EXPECT_THAT(status.message(), HasSubstr("/repository/db/gen-1/rank-"));
        EXPECT_THAT(status.message(), HasSubstr("restore it"));
      };
      for (const OpenMode mode :
           {OpenMode::kOpenOrCreate, OpenMode::kMustExist, OpenMode::kMustNotExist}) {
        expect_damage(context.Open("db", Opening(mode)).status());
      }
      expect_damage(context.Destroy("db"));
    });
    for (const int rank : {0, 1}) {
      const std::string part = std::string(kDirectory) + "/gen-1/rank-" + std::to_string(rank);
      EXPECT_TRUE(*cluster.disk(rank).Exists(part + "/MANIFEST"));
    }
  }
}

// The nodes of a job change places between two runs: what was written is not what the ranks see.
TEST(Lifecycle, RanksOnOtherNodesThanTheirPartsGetAnErrorAndNoNewDatabase) {
  SimCluster* nodes = nullptr;
  bool exchanged = false;
  SimCluster::Options options = Ranks(/*own_disks=*/true);
  options.file_system = [&](int rank) { return &nodes->disk(exchanged ? 1 - rank : rank); };
  SimCluster cluster(options);
  nodes = &cluster;
  Fill(cluster);
  exchanged = true;
  cluster.Run([](int, Context& context) {
    for (const OpenMode mode :
         {OpenMode::kMustExist, OpenMode::kOpenOrCreate, OpenMode::kMustNotExist}) {
      const Status opened = context.Open("db", Opening(mode)).status();
      EXPECT_EQ(opened.code(), Code::kCorruption) << opened.ToString();
      EXPECT_THAT(opened.message(), HasSubstr("the nodes that hold their parts"));
    }
    EXPECT_EQ(context.Destroy("db").code(), Code::kCorruption);
  });
  exchanged = false;
  cluster.Run([](int, Context& context) {
    auto opened = context.Open("db", Opening(OpenMode::kMustExist));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ASSERT_OK((*opened)->Close());
  });
}

// Parts may be where their number does not lead: on a node that now has other ranks, under the
// number of a part of another node.
TEST(Lifecycle, ADestructionFindsThePartsOnEveryNode) {
  for (const char* const name : {"/gen-1/rank-0", "/gen-1/rank-2", "/gen-1/rank-3"}) {
    SCOPED_TRACE(name);
    SimCluster cluster(Ranks(/*own_disks=*/true));
    Fill(cluster);
    const std::string directory = kDirectory;
    ASSERT_OK(cluster.disk(1).Rename(directory + "/gen-1/rank-1", directory + name));
    cluster.Run([](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
    for (const int rank : {0, 1}) EXPECT_FALSE(*cluster.disk(rank).Exists(kDirectory)) << rank;
  }
}

// If a rank's own part is gone, all ranks report damage, and no part is created in its place.
TEST(Lifecycle, ADatabaseThatLacksARanksPartIsDamage) {
  for (const bool with_directory : {false, true}) {
    for (const OpenMode mode : {OpenMode::kOpenOrCreate, OpenMode::kMustExist}) {
      SimCluster cluster(Ranks(/*own_disks=*/true));
      Fill(cluster);
      ASSERT_OK(lsm::DestroyDb(cluster.disk(1), std::string(kDirectory) + "/gen-1/rank-1"));
      if (with_directory) {
        ASSERT_OK(RemoveDatabaseDirectory(cluster.disk(1)));
      }
      cluster.Run([&](int, Context& context) {
        const Status opened = context.Open("db", Opening(mode)).status();
        EXPECT_EQ(opened.code(), Code::kCorruption) << opened.ToString();
        EXPECT_THAT(opened.message(), HasSubstr("rank 1"));
        EXPECT_THAT(opened.message(), HasSubstr("/repository/db/gen-1/rank-1"));
      });
    }
  }
}

// Rank 1 was through when the machine of rank 0 lost its power.
TEST(Lifecycle, ADestructionGoesOnWhereSomeRanksHaveNothingLeft) {
  SimCluster cluster(Ranks(/*own_disks=*/true));
  Fill(cluster);
  Result<DatabaseDescriptor> descriptor = ReadDescriptor(cluster.disk(0), kDirectory);
  ASSERT_TRUE(descriptor.ok());
  descriptor->state = DescriptorState::kDestroying;
  ASSERT_OK(WriteDescriptor(cluster.disk(0), kDirectory, *descriptor));
  ASSERT_OK(lsm::DestroyDb(cluster.disk(1), std::string(kDirectory) + "/gen-1/rank-1"));
  ASSERT_OK(RemoveDatabaseDirectory(cluster.disk(1)));
  cluster.Run([&](int, Context& context) {
    EXPECT_EQ(context.Open("db", Opening(OpenMode::kMustExist)).status().code(), Code::kNotFound);
    ASSERT_OK(context.Destroy("db"));
    EXPECT_EQ(context.Destroy("db").code(), Code::kNotFound);
  });
  for (const int disk : {0, 1}) EXPECT_FALSE(*cluster.disk(disk).Exists(kDirectory));
}

// Every call on files of one rank fails in turn, in a whole life of a database.
class FaultyLife {
 public:
  FaultyLife(int rank, uint32_t ops, uint64_t n, uint64_t count, Code code) : code_(code) {
    options_ = Ranks(/*own_disks=*/true);
    options_.file_system = [this](int i) { return faults_[static_cast<size_t>(i)].get(); };
    cluster_ = std::make_unique<SimCluster>(options_);
    for (const int i : {0, 1}) faults_.push_back(io::NewFaultFileSystem(cluster_->disk(i)));
    faults_[static_cast<size_t>(rank)]->FailAt(ops, n, count, code);
    faulty_ = rank;
  }

  // Returns false if no call failed.
  bool Live() {
    cluster_->RunRaw([&](int rank, Result<std::unique_ptr<Context>> context) {
      if (!Tell(kContext, context.status())) return;
      auto opened = (*context)->Open("db", Opening(OpenMode::kOpenOrCreate));
      if (Tell(kOpen, opened.status())) {
        Write(rank, **opened);
        opened->reset();
      }
      Tell(kDestroy, (*context)->Destroy("other"));
    });
    for (size_t step = 0; step < kStepCount; ++step) {
      EXPECT_EQ(codes_[step].Problem(), "") << "step " << step;
    }
    return faults_[static_cast<size_t>(faulty_)]->failures() > 0;
  }

  // With all calls working again what was acknowledged is there, and the database can be removed.
  void LookAgain() {
    faults_[static_cast<size_t>(faulty_)]->FailAt(0, 0, 0, Code::kIo);
    const DatabaseOptions options = Opening(OpenMode::kOpenOrCreate);
    cluster_->RunDatabase(options, [&](int, Context& context, Database& db) {
      for (const auto& [key, value] : acknowledged_) {
        ASSERT_EQ(SimCluster::ValueOf(db, key), value);
      }
      ASSERT_OK(context.Barrier());
      ASSERT_OK(db.Close());
      ASSERT_OK(context.Destroy("db"));
    });
    for (const int disk : {0, 1}) ASSERT_FALSE(*cluster_->disk(disk).Exists(kDirectory));
  }

 private:
  enum Step { kContext, kOpen, kBarrier, kClose, kDestroy, kStepCount };

  // A collective call's answer: the same code on all ranks, and a text that says what failed.
  bool Tell(Step step, const Status& status) {
    codes_[step].Tell(status);
    if (status.ok()) return true;
    const bool absent = step == kDestroy && status.code() == Code::kNotFound;
    if (!absent) {
      // If a full device makes an outcome unknown, the error is that of a failed device.
      EXPECT_THAT(status.code(), AnyOf(code_, Code::kReadOnly, Code::kIo)) << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(faulty_)));
    }
    return false;
  }

  void Write(int rank, Database& db) {
    std::vector<std::pair<std::string, std::string>> relaxed;
    for (int i = 0; i < 6; ++i) {
      const std::string key = std::to_string(rank) + "/" + std::to_string(i);
      const std::string value = "value " + std::string(i == 3 ? 3000 : 20, 'v');
      const bool local = db.Owner(key) == rank;
      const Status put = db.Put(key, value);
      if (!put.ok()) {
        EXPECT_THAT(put.code(), AnyOf(code_, Code::kReadOnly)) << put.ToString();
      } else if (local) {
        Acknowledge(key, value);
      } else {
        relaxed.emplace_back(key, value);
      }
    }
    if (Tell(kBarrier, db.Barrier(Level::kSsTable))) {
      for (const auto& [key, value] : relaxed) Acknowledge(key, value);
    }
    Tell(kClose, db.Close());
  }

  void Acknowledge(const std::string& key, const std::string& value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    acknowledged_.emplace_back(key, value);
  }

  SimCluster::Options options_;
  std::unique_ptr<SimCluster> cluster_;
  std::vector<std::unique_ptr<io::FaultFileSystem>> faults_;
  Code code_;
  int faulty_ = 0;
  Codes codes_[kStepCount];
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> acknowledged_;
};

void SweepFaults(uint64_t count, Code code, uint32_t ops = io::kFaultAll) {
  for (const int rank : {0, 1}) {
    uint64_t n = 1;
    for (;; ++n) {
      SCOPED_TRACE("call " + std::to_string(n) + " of rank " + std::to_string(rank));
      FaultyLife life(rank, ops, n, count, code);
      const bool failed = life.Live();
      ASSERT_FALSE(testing::Test::HasFailure());
      ASSERT_NO_FATAL_FAILURE(life.LookAgain());
      if (!failed) break;
    }
    EXPECT_GT(n, ops == io::kFaultAll ? 30u : 10u);
  }
}

TEST(Lifecycle, OneFailingCallIsReportedAlikeOnAllRanksAndLosesNothing) {
  SweepFaults(1, Code::kIo);
}

TEST(Lifecycle, ADeviceThatFailsForGoodIsReportedAlikeOnAllRanksAndLosesNothing) {
  SweepFaults(UINT64_MAX, Code::kIo);
}

TEST(Lifecycle, OneCallWithoutRoomIsReportedAlikeOnAllRanksAndLosesNothing) {
  SweepFaults(1, Code::kNoSpace);
}

TEST(Lifecycle, OneUnusableFileIsReportedAlikeOnAllRanksAndLosesNothing) {
  SweepFaults(1, Code::kOutOfMemory, io::kFaultOpen | io::kFaultMap);
}

TEST(Lifecycle, AShortageOfDescriptorsIsReportedAlikeOnAllRanksAndLosesNothing) {
  SweepFaults(UINT64_MAX, Code::kOutOfMemory, io::kFaultOpen | io::kFaultMap);
}

// The same for a destruction: whatever fails, the next one goes through.
TEST(Lifecycle, ADestructionWithAFailingCallIsReportedAlikeAndCanBeRepeated) {
  for (const int rank : {0, 1}) {
    for (uint64_t n = 1;; ++n) {
      SCOPED_TRACE("call " + std::to_string(n) + " of rank " + std::to_string(rank));
      std::vector<std::unique_ptr<io::FaultFileSystem>> faults;
      SimCluster::Options options = Ranks(/*own_disks=*/true);
      options.file_system = [&](int i) { return faults[static_cast<size_t>(i)].get(); };
      SimCluster cluster(options);
      for (const int i : {0, 1}) faults.push_back(io::NewFaultFileSystem(cluster.disk(i)));
      Fill(cluster);
      io::FaultFileSystem& faulty = *faults[static_cast<size_t>(rank)];
      uint64_t failures = 0;
      Codes codes;
      cluster.Run([&](int of_rank, Context& context) {
        if (of_rank == rank) faulty.FailAt(io::kFaultAll, n, 1, Code::kIo);
        ASSERT_OK(context.Barrier());
        const Status destroyed = context.Destroy("db");
        codes.Tell(destroyed);
        if (!destroyed.ok()) {
          EXPECT_EQ(destroyed.code(), Code::kIo) << destroyed.ToString();
          EXPECT_THAT(destroyed.message(), HasSubstr("rank " + std::to_string(rank)));
        }
        ASSERT_OK(context.Barrier());
        if (of_rank == rank) {
          failures = faulty.failures();
          faulty.FailAt(0, 0, 0, Code::kIo);
        }
        ASSERT_OK(context.Barrier());
        const Status again = context.Destroy("db");
        EXPECT_TRUE(again.code() == Code::kNotFound || (again.ok() && !destroyed.ok()))
            << again.ToString();
      });
      EXPECT_EQ(codes.Problem(), "");
      if (failures > 0) {
        // If only the empty directory could not be removed, the next database uses it.
        Fill(cluster);
        cluster.Run([&](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
      }
      for (const int disk : {0, 1}) EXPECT_FALSE(*cluster.disk(disk).Exists(kDirectory));
      ASSERT_FALSE(testing::Test::HasFailure());
      if (failures == 0) break;
    }
  }
}

}  // namespace
}  // namespace quire::kv::lifecycle_test
