// Checkpoints and restarts: whole or not there, incremental, beside writes, of the newest that is
// sound (docs/decisions/0009-persistence.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads/sync_point.h"
#include "kv/database/persistence_testing.h"
#include "kv/persistence/checkpoint_files.h"
#include "lsm/db/db.h"
#include "quire/log.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::checkpoint_test {
namespace {

using testing::HasSubstr;

constexpr char kHome[] = "/pfs/db";

std::string Value(int round, int i) {
  return std::string(i % 5 == 0 ? 900 : 30, static_cast<char>('a' + round)) + std::to_string(i);
}

// Each rank writes its share of the keys; all ranks together `count`.
void PutShare(Database& db, int rank, int size, int round, int count) {
  for (int i = rank; i < count; i += size) {
    ASSERT_OK(db.Put("key " + std::to_string(i), Value(round, i)));
  }
}

void ExpectShare(Database& db, int rank, int size, int round, int count) {
  for (int i = rank; i < count; i += size) {
    EXPECT_EQ(SimCluster::ValueOf(db, "key " + std::to_string(i)), Value(round, i)) << i;
  }
}

// Completes a later checkpoint at the moment in which the first one is about to be complete.
class Overtaking final : public base::SyncPointListener {
 public:
  explicit Overtaking(io::FileSystem& fs) : fs_(fs) {}
  void Reach(const char* name) override {
    if (std::string_view(name) != "kv.checkpoint.committed" || done_.exchange(true)) return;
    const std::string later = CheckpointDirectory(kHome, 2);
    const auto commit =
        io::ReadFile(fs_, PartialDirectory(kHome, 1) + "/" + kCommitName, UINT32_MAX);
    ASSERT_OK(commit.status());
    ASSERT_OK(fs_.MakeDirectory(later));
    ASSERT_OK(io::WriteFile(fs_, later + "/" + kCommitName, *commit));
  }

 private:
  io::FileSystem& fs_;
  std::atomic<bool> done_{false};
  base::ScopedSyncPoints installed_{this};
};

// Asked until it has ended: what is done never goes back, nor beyond what there is to do, which is
// done in the end.
Status Follow(Result<std::unique_ptr<Event>> begun) {
  if (!begun.ok()) return begun.status();
  Event& event = **begun;
  EventProgress last;
  for (bool ended = false; !ended;) {
    ended = event.Ready();
    const EventProgress now = event.Progress();
    EXPECT_GE(now.bytes_done, last.bytes_done);
    EXPECT_GE(now.bytes_total, last.bytes_total);
    EXPECT_LE(now.bytes_done, now.bytes_total);
    last = now;
    if (!ended) std::this_thread::yield();
  }
  EXPECT_GT(last.bytes_total, 0u);
  EXPECT_EQ(last.bytes_done, last.bytes_total);
  return event.Wait();
}

// Checkpoints, by turns or with threads.
class Checkpoints : public testing::TestWithParam<bool> {
 protected:
  static SimCluster::Options Ranks(int count) {
    SimCluster::Options options;
    options.rank_count = count;
    options.deterministic = GetParam();
    return options;
  }
  std::vector<CheckpointFound> Found(SimCluster& cluster) {
    auto found = FindCheckpoints(cluster.disk(0), kHome);
    EXPECT_OK(found.status());
    return found.ok() ? *found : std::vector<CheckpointFound>();
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, Checkpoints, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

TEST_P(Checkpoints, ComeBackAsTheyWereWhileWritesWentOn) {
  for (const int size : {1, 2, 4}) {
    SimCluster cluster(Ranks(size));
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      PutShare(db, rank, size, 0, 400);
      auto event = db.Checkpoint("/pfs", {});
      ASSERT_OK(event.status());
      EXPECT_GT((*event)->Progress().bytes_total, 0u) << "it is known what is to be copied";
      PutShare(db, rank, size, 1, 400);
      ASSERT_OK(Follow(std::move(event)));
      ASSERT_OK(db.Close());
    });
    cluster.Run([&](int rank, Context& context) {
      EXPECT_EQ(WaitFor(context.Restart("/pfs", "db", {})).code(), Code::kInvalidArgument);
      ASSERT_OK(context.Destroy("db"));
      ASSERT_OK(Follow(context.Restart("/pfs", "db", {})));
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      ExpectShare(**db, rank, size, 0, 400);
      PutShare(**db, rank, size, 2, 400);
      ASSERT_OK((*db)->Close());
    });
    cluster.Run([&](int rank, Context& context) {
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      ExpectShare(**db, rank, size, 2, 400);
      ASSERT_OK((*db)->Close());
    });
  }
}

TEST_P(Checkpoints, LinkWhatAnEarlierOneHas) {
  SimCluster cluster(Ranks(2));
  std::vector<uint64_t> free;
  cluster.disk(0).SetFreeBytes(1 << 30);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    PutShare(db, rank, 2, 0, 3000);
    ASSERT_OK(db.Compact());
    const auto note = [&] {
      if (rank == 0) free.push_back(*cluster.disk(0).FreeBytes("/"));
    };
    note();
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    note();
    PutShare(db, rank, 2, 1, 10);
    ASSERT_OK(db.Barrier(Level::kSsTable));
    note();
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    note();
    ASSERT_OK(db.Close());
  });
  // With threads, segments are made ready and cut to size in the background meanwhile.
  if (GetParam()) {
    const uint64_t first = free[0] - free[1];
    const uint64_t second = free[2] - free[3];
    EXPECT_GT(first, 500'000u);
    EXPECT_LT(second * 20, first) << first << " " << second;
  }
  EXPECT_EQ(Found(cluster).size(), 2u);
}

// A recreated database of the same name: its files have the names of the earlier one's.
TEST_P(Checkpoints, FilesOfAnotherDatabaseAreNotLinked) {
  SimCluster cluster(Ranks(2));
  for (int round = 0; round < 2; ++round) {
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      PutShare(db, rank, 2, round, 100);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
      ASSERT_OK(db.Close());
      ASSERT_OK(context.Destroy("db"));
    });
  }
  cluster.Run([&](int rank, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {})));
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    ExpectShare(**db, rank, 2, 1, 100);
    ASSERT_OK((*db)->Close());
  });
}

// Two checkpoints are under way. The one that was begun later may be complete first.
TEST_P(Checkpoints, ACompleteCheckpointStaysUntilALaterOneEnds) {
  SimCluster cluster(Ranks(2));
  const auto numbers = [&] {
    std::vector<uint64_t> all;
    for (const CheckpointFound& one : Found(cluster)) all.push_back(one.number);
    return all;
  };
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    PutShare(db, rank, 2, 0, 50);
    std::unique_ptr<Overtaking> overtaking;
    if (rank == 0) overtaking = std::make_unique<Overtaking>(cluster.disk(0));
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 1})));
    EXPECT_THAT(numbers(), testing::ElementsAre(1, 2));
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 1})));
    ASSERT_OK(db.Close());
  });
  EXPECT_THAT(numbers(), testing::ElementsAre(3));
}

TEST_P(Checkpoints, TheNewestCheckpointsStay) {
  SimCluster cluster(Ranks(2));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    for (int round = 0; round < 4; ++round) {
      PutShare(db, rank, 2, round, 50);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 2})));
    }
    EXPECT_EQ(db.Checkpoint("/pfs", {.keep = -1}).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(db.Checkpoint("relative", {}).status().code(), Code::kInvalidArgument);
    ASSERT_OK(db.Close());
  });
  std::vector<uint64_t> numbers;
  for (const CheckpointFound& one : Found(cluster)) numbers.push_back(one.number);
  EXPECT_THAT(numbers, testing::ElementsAre(3, 4));
  cluster.Run([&](int rank, Context& context) {
    ASSERT_OK(context.Destroy("db"));
    EXPECT_EQ(WaitFor(context.Restart("/pfs", "db", {.number = 2})).code(), Code::kNotFound);
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 3})));
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    ExpectShare(**db, rank, 2, 2, 50);
    ASSERT_OK((*db)->Close());
    const Status none = context.Restart("/pfs", "other", {}).status();
    EXPECT_EQ(none.code(), Code::kNotFound);
    EXPECT_THAT(none.message(),
                testing::HasSubstr("there is no complete checkpoint of other in /pfs; quire "
                                   "checkpoint list /pfs shows what is there"));
  });
}

// The lines of the log.
class LogLines {
 public:
  LogLines() {
    SetLogSink([this](LogLevel, Slice line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      text_ += std::string(line) + "\n";
    });
  }
  ~LogLines() { SetLogSink({}); }
  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// Returns the rank that reads a file of a checkpoint, as errors name it.
std::string RankOf(const std::string& path) {
  return path.find("/rank-1/") == std::string::npos ? "rank 0: " : "rank 1: ";
}

// A byte in the middle of each file of the newest of three checkpoints, one after another.
TEST_P(Checkpoints, ADamagedOneIsPassedOverForTheOneBeforeIt) {
  SimCluster cluster(Ranks(2));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    for (int round = 0; round < 2; ++round) {
      PutShare(db, rank, 2, round, 100);
      ASSERT_OK(db.Compact());
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    }
    ASSERT_OK(db.Close());
  });
  cluster.Run([](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
  io::SimFileSystem& fs = cluster.disk(0);
  std::vector<std::string> files = {"/pfs/db/2/CHECKPOINT"};
  for (const char* part : {"/pfs/db/2/rank-0", "/pfs/db/2/rank-1"}) {
    for (const io::FileInfo& file : *fs.List(part)) files.push_back(part + ("/" + file.name));
  }
  ASSERT_GE(files.size(), 7u);
  for (const std::string& path : files) {
    for (const bool gone : {false, true}) {
      const auto before = io::ReadFile(fs, path, 1 << 24);
      ASSERT_OK(before.status());
      std::string after = *before;
      after[after.size() / 2] = static_cast<char>(after[after.size() / 2] ^ 1);
      ASSERT_OK(gone ? fs.Unlink(path) : io::ReplaceFile(fs, path, after));
      LogLines log;
      Status told[2];
      cluster.Run([&](int rank, Context& context) {
        told[rank] = WaitFor(context.Restart("/pfs", "db", {.number = 2}));
        ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {})));
        auto db = context.Open("db", Existing());
        ASSERT_OK(db.status());
        ExpectShare(**db, rank, 2, 0, 100);
        ASSERT_OK((*db)->Close());
        ASSERT_OK(context.Destroy("db"));
      });
      EXPECT_EQ(told[0].ToString(), told[1].ToString());
      EXPECT_EQ(told[0].code(), Code::kCorruption) << told[0].ToString();
      EXPECT_THAT(told[0].message(), HasSubstr(path));
      EXPECT_THAT(told[0].message(), HasSubstr(RankOf(path)));
      EXPECT_THAT(log.text(), HasSubstr("passed over")) << path;
      EXPECT_THAT(log.text(), HasSubstr("/pfs/db/2"));
      ASSERT_OK(io::ReplaceFile(fs, path, *before));
    }
  }
}

// The database goes back to the first of two, and gives names again that are in the second.
TEST_P(Checkpoints, AfterARestartDoNotLinkWhatHasTheSameNames) {
  SimCluster cluster(Ranks(2));
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.storage.value_separation_bytes_min = 256;
  cluster.RunDatabase(options, [&](int rank, Context&, Database& db) {
    for (int round = 0; round < 2; ++round) {
      PutShare(db, rank, 2, round, 200);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    }
    ASSERT_OK(db.Close());
  });
  options.mode = OpenMode::kMustExist;
  cluster.Run([&](int rank, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 1, .replace = true})));
    auto db = context.Open("db", options);
    ASSERT_OK(db.status());
    PutShare(**db, rank, 2, 2, 200);  // of the sizes of round 1, so that files may have the same
    ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
    ASSERT_OK((*db)->Close());
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 3, .replace = true})));
    db = context.Open("db", options);
    ASSERT_OK(db.status());
    ExpectShare(**db, rank, 2, 2, 200);
    ASSERT_OK((*db)->Close());
  });
}

// The files of rank 1's part whose names begin with `kind`, but for those in `but`.
std::vector<std::string> FilesOf(io::FileSystem& fs, const std::string& directory,
                                 const std::string& kind, const std::string& but = "") {
  std::set<std::string> others;
  if (!but.empty()) {
    for (const io::FileInfo& file : *fs.List(but)) others.insert(file.name);
  }
  std::vector<std::string> files;
  for (const io::FileInfo& file : *fs.List(directory)) {
    if (file.name.rfind(kind, 0) == 0 && !others.contains(file.name)) files.push_back(file.name);
  }
  return files;
}

// Only the checkpoint reads the damaged block.
TEST_P(Checkpoints, ADamagedDatabaseFailsACheckpointAndTheOneBeforeStays) {
  for (const char* kind : {"t-", "val-"}) {
    SimCluster cluster(Ranks(2));
    io::SimFileSystem& fs = cluster.disk(0);
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.storage.value_separation_bytes_min = 256;
    cluster.RunDatabase(options, [&](int rank, Context& context, Database& db) {
      PutShare(db, rank, 2, 0, 100);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 1})));
      PutShare(db, rank, 2, 1, 100);
      ASSERT_OK(db.Barrier(Level::kSsTable));  // of all ranks, or a later compaction has the rest
      ASSERT_OK(db.Compact());
      ASSERT_OK(WaitFor(db.Checkpoint("/beside", {})));  // seals the segment
      ASSERT_OK(context.Barrier());
      const std::string part = "/repository/db/gen-1/rank-1";
      std::vector<std::string> files;
      if (rank == 1) {
        files = FilesOf(fs, "/beside/db/1/rank-1", kind, "/pfs/db/1/rank-1");
        ASSERT_FALSE(files.empty());
        ASSERT_OK(fs.Damage(part + "/" + files[0], [](std::string* bytes) {
          const size_t at = bytes->size() > 5000 ? 4096 + 60 : bytes->size() / 3;
          (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 4);
        }));
      }
      ASSERT_OK(context.Barrier());
      const Status status = WaitFor(db.Checkpoint("/pfs", {.keep = 1}));
      EXPECT_EQ(status.code(), Code::kCorruption) << kind << ": " << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("rank 1"));
      if (rank == 1) {
        EXPECT_THAT(status.message(), HasSubstr(part + "/" + files[0]));
      }
      static_cast<void>(db.Close());
    });
    std::vector<uint64_t> complete;
    for (const CheckpointFound& one : Found(cluster)) {
      if (one.state == CheckpointState::kComplete) complete.push_back(one.number);
    }
    EXPECT_THAT(complete, testing::ElementsAre(1)) << kind;
    cluster.Run([&](int rank, Context& context) {
      ASSERT_OK(context.Destroy("db"));
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 1})));
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      ExpectShare(**db, rank, 2, 0, 100);
      ASSERT_OK((*db)->Close());
    });
  }
}

// A file of the first checkpoint changes; the next one has it from the database.
class DamagedLink : public Checkpoints {
 protected:
  // How many checkpoints it takes until one says so; the last of them is sound.
  int CheckpointsUntilFound(
      const std::function<void(io::SimFileSystem&, const std::string&)>& damage, int most) {
    SimCluster cluster(Ranks(1));
    LogLines log;
    int count = 0;
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
      PutShare(db, 0, 1, 0, 100);
      ASSERT_OK(db.Compact());
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
      const std::string part = "/pfs/db/1/rank-0/";
      damage(cluster.disk(0), part + FilesOf(cluster.disk(0), part, "t-")[0]);
      for (; count < most && log.text().find("is damaged") == std::string::npos; ++count) {
        ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 2})));
      }
      ASSERT_OK(db.Close());
    });
    cluster.Run([&](int, Context& context) {
      ASSERT_OK(context.Destroy("db"));
      const auto newest = static_cast<uint64_t>(count) + 1;
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = newest})));
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      ExpectShare(**db, 0, 1, 0, 100);
      ASSERT_OK((*db)->Close());
    });
    return count;
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, DamagedLink, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

void Flip(std::string* bytes) {
  (*bytes)[bytes->size() / 2] = static_cast<char>((*bytes)[bytes->size() / 2] ^ 1);
}

TEST_P(DamagedLink, AFileThatWasOverwrittenIsNotLinked) {
  const auto overwrite = [](io::SimFileSystem& fs, const std::string& path) {
    auto file = fs.Open(path, io::FileOpenMode::kReadWrite);
    ASSERT_OK(file.status());
    ASSERT_OK((*file)->WriteAt(100, "XXXX"));
  };
  EXPECT_EQ(CheckpointsUntilFound(overwrite, 1), 1);
}

TEST_P(DamagedLink, IsNotMadeToAFileOfAnotherSize) {
  const auto shorten = [](io::SimFileSystem& fs, const std::string& path) {
    ASSERT_OK(fs.Damage(path, [](std::string* bytes) { bytes->pop_back(); }));
  };
  EXPECT_EQ(CheckpointsUntilFound(shorten, 1), 1);
}

TEST_P(DamagedLink, IsFoundWithinSomeCheckpointsWhereTheDeviceForgot) {
  const auto rot = [](io::SimFileSystem& fs, const std::string& path) {
    ASSERT_OK(fs.Damage(path, Flip));
  };
  EXPECT_LE(CheckpointsUntilFound(rot, 33), 32);
}

TEST_P(Checkpoints, AFullDiskFailsOneAndTheDatabaseAndTheOneBeforeItGoOn) {
  SimCluster cluster(Ranks(2));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    PutShare(db, rank, 2, 0, 300);
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    PutShare(db, rank, 2, 1, 3000);
    ASSERT_OK(db.Barrier(Level::kSsTable));
    ASSERT_OK(context.Barrier());
    if (rank == 0) cluster.disk(0).SetFreeBytes(60'000);
    ASSERT_OK(context.Barrier());
    const Status failed = WaitFor(db.Checkpoint("/pfs", {}));
    EXPECT_EQ(failed.code(), Code::kNoSpace) << failed.ToString();
    EXPECT_THAT(failed.message(), HasSubstr("rank "));
    EXPECT_THAT(failed.message(), HasSubstr("/pfs/db"));
    ASSERT_OK(context.Barrier());
    if (rank == 0) cluster.disk(0).SetFreeBytes(1 << 30);
    ASSERT_OK(context.Barrier());
    ExpectShare(db, rank, 2, 1, 3000);
    if (rank == 0) {
      const auto found = Found(cluster);
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(found[0].state, CheckpointState::kComplete);
      EXPECT_EQ(found[1].state, CheckpointState::kFailed);
      // Whichever rank met the full disk, all have given their room back.
      for (const char* part : {"/rank-0", "/rank-1"}) {
        EXPECT_FALSE(*cluster.disk(0).Exists(found[1].directory + part)) << part;
      }
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  for (const CheckpointFound& one : Found(cluster)) {
    EXPECT_EQ(one.state, CheckpointState::kComplete) << one.directory;
  }
}

TEST_P(Checkpoints, ALeftoverThatStaysBlocksNoCheckpoint) {
  std::unique_ptr<io::FaultFileSystem> faulty;
  SimCluster* made = nullptr;
  SimCluster::Options options = Ranks(2);
  options.file_system = [&](int rank) {
    return rank == 0 ? static_cast<io::FileSystem*>(faulty.get()) : &made->disk(0);
  };
  SimCluster cluster(options);
  made = &cluster;
  io::SimFileSystem& fs = cluster.disk(0);
  faulty = io::NewFaultFileSystem(fs);
  faulty->OnlyBelow("/pfs/db/.partial-1/rank-0");
  faulty->FailAt(io::kFaultUnlink, 1, UINT64_MAX, Code::kIo);
  LogLines log;
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    PutShare(db, rank, 2, 0, 100);
    if (rank == 0) {
      for (const char* directory :
           {"/pfs", kHome, "/pfs/db/.partial-1", "/pfs/db/.partial-1/rank-0"}) {
        ASSERT_OK(fs.MakeDirectory(directory));
      }
      ASSERT_OK(io::WriteFile(fs, "/pfs/db/.partial-1/rank-0/t-1.sst", "a beginning"));
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  EXPECT_THAT(log.text(), HasSubstr("/pfs/db/.partial-1, which an interrupted"));
  const auto found = Found(cluster);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].number, 2u);
  EXPECT_EQ(found[1].state, CheckpointState::kComplete);
}

// A number as a name makes no checkpoint: the commit record does.
TEST_P(Checkpoints, ADirectoryWithoutACommitRecordIsNone) {
  SimCluster cluster(Ranks(2));
  io::SimFileSystem& fs = cluster.disk(0);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    PutShare(db, rank, 2, 0, 100);
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    if (rank == 0) {
      for (const char* directory : {"/pfs/db/2", "/pfs/db/2/rank-0"}) {
        ASSERT_OK(fs.MakeDirectory(directory));
      }
      ASSERT_OK(io::WriteFile(fs, "/pfs/db/2/rank-0/results", "of somebody"));
    }
    ASSERT_OK(context.Barrier());
    PutShare(db, rank, 2, 1, 100);
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 2})));
    ASSERT_OK(db.Close());
    // None to restart from; the newest is the one that was made after it.
    EXPECT_EQ(WaitFor(context.Restart("/pfs", "db", {.number = 2, .replace = true})).code(),
              Code::kCorruption);
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.replace = true})));
    auto again = context.Open("db", Existing());
    ASSERT_OK(again.status());
    ExpectShare(**again, rank, 2, 1, 100);
    ASSERT_OK((*again)->Close());
  });
  std::map<uint64_t, CheckpointState> states;
  for (const CheckpointFound& one : Found(cluster)) {
    states[one.number] = one.state;
    const Status dropped =
        one.number == 2 ? DropCheckpoint(fs, kHome, one) : Status(Code::kInvalidArgument);
    EXPECT_EQ(dropped.code(), Code::kInvalidArgument) << dropped.ToString();
  }
  using enum CheckpointState;
  EXPECT_EQ(states, (std::map<uint64_t, CheckpointState>{
                        {1, kComplete}, {2, kUnrecorded}, {3, kComplete}}))
      << "keep counts checkpoints alone";
  EXPECT_TRUE(*fs.Exists("/pfs/db/2/rank-0/results"));
}

// A process that removed the oldest checkpoint was killed after it had renamed it, or removed some
// parts.
TEST_P(Checkpoints, ARemovalThatWasCutShortGoesOnWithTheNextOne) {
  SimCluster cluster(Ranks(2));
  io::SimFileSystem& fs = cluster.disk(0);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    for (int round = 0; round < 3; ++round) {
      PutShare(db, rank, 2, round, 100);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    }
    if (rank == 0) {
      ASSERT_OK(fs.Rename("/pfs/db/1", "/pfs/db/.dropped-1"));
      ASSERT_OK(fs.Rename("/pfs/db/3", "/pfs/db/.dropped-3"));
      ASSERT_OK(fs.Unlink("/pfs/db/.dropped-3/CHECKPOINT"));
      ASSERT_OK(fs.Unlink("/pfs/db/.dropped-3/rank-0/FILES"));
      std::map<uint64_t, CheckpointState> states;
      for (const CheckpointFound& one : Found(cluster)) states[one.number] = one.state;
      using enum CheckpointState;
      EXPECT_EQ(states, (std::map<uint64_t, CheckpointState>{
                            {1, kDropped}, {2, kComplete}, {3, kDropped}}));
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
    // A checkpoint that was being removed cannot be restarted from, and its number is not used
    // again.
    EXPECT_EQ(WaitFor(context.Restart("/pfs", "db", {.number = 3, .replace = true})).code(),
              Code::kNotFound);
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 2, .replace = true})));
    auto again = context.Open("db", Existing());
    ASSERT_OK(again.status());
    ExpectShare(**again, rank, 2, 1, 100);
    ASSERT_OK((*again)->Close());
  });
  std::vector<uint64_t> numbers;
  for (const CheckpointFound& one : Found(cluster)) {
    EXPECT_EQ(one.state, CheckpointState::kComplete) << one.directory;
    numbers.push_back(one.number);
  }
  EXPECT_THAT(numbers, testing::ElementsAre(2, 4));
  EXPECT_FALSE(*fs.Exists("/pfs/db/.dropped-1"));
  EXPECT_FALSE(*fs.Exists("/pfs/db/.dropped-3"));
}

// Handles of what has ended, kept for longer than the Context.
TEST_P(Checkpoints, AnEventReportsItsEndAfterItsContextIsGone) {
  SimCluster cluster(Ranks(2));
  std::unique_ptr<Event> events[2][2];
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    for (std::unique_ptr<Event>& event : events[rank]) {
      PutShare(db, rank, 2, 0, 100);
      auto begun = db.Checkpoint("/pfs", {});
      ASSERT_OK(begun.status());
      event = std::move(*begun);
      ASSERT_OK(event->Wait());
    }
    ASSERT_OK(db.Close());
  });
  for (auto& of_rank : events) {
    for (const std::unique_ptr<Event>& event : of_rank) {
      EXPECT_TRUE(event->Ready());
      EXPECT_OK(event->Wait());
    }
  }
}

TEST_P(Checkpoints, CloseWaitsForThemAndSeveralMayBeUnderWay) {
  SimCluster cluster(Ranks(2));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    for (int round = 0; round < 3; ++round) {
      PutShare(db, rank, 2, round, 100);
      ASSERT_OK(db.Checkpoint("/pfs", {}).status());
    }
    ASSERT_OK(db.Close());
  });
  const auto found = Found(cluster);
  EXPECT_EQ(found.size(), 3u);
  for (const CheckpointFound& one : found) EXPECT_EQ(one.state, CheckpointState::kComplete);
}

// The syncs of a checkpoint that copies little.
TEST(CheckpointSyncs, AreOneForEachFileAndDirectoryThatASecondOneChanges) {
  std::unique_ptr<io::FaultFileSystem> watched;
  SimCluster::Options ranks;
  ranks.file_system = [&](int) { return watched.get(); };
  SimCluster cluster(ranks);
  watched = io::NewFaultFileSystem(cluster.disk(0));
  std::mutex mutex;
  std::map<std::string, int> synced;
  watched->BeforeCalls(io::kFaultSync, [&](const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex);
    ++synced[path];
  });
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    PutShare(db, rank, 2, 0, 200);
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    PutShare(db, rank, 2, 1, 20);
    ASSERT_OK(db.Barrier(Level::kMemTable));
    if (rank == 0) synced.clear();
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(context.Barrier());
    if (rank == 0) {
      // Each rank's part, then rank 0's word that all are there.
      EXPECT_EQ(synced["/pfs/db/.partial-2"], 3);
      synced.erase("/pfs/db/.partial-2");
      EXPECT_EQ(synced["/pfs/db/.partial-2/rank-1/FILES"], 1);
      EXPECT_EQ(synced["/repository/db/gen-1/rank-1/MANIFEST.tmp"], 1);
      // The flush's tables, then its manifest.
      for (const std::string part :
           {"/repository/db/gen-1/rank-0", "/repository/db/gen-1/rank-1"}) {
        EXPECT_LE(synced[part], 3);
        synced.erase(part);
      }
      for (const auto& [path, count] : synced) EXPECT_EQ(count, 1) << path;
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

// As quire checkpoint export has it, when it is cut off.
TEST(CheckpointLeftovers, GoWithTheListThatWasBeingWritten) {
  SimCluster cluster(SimCluster::Options{});
  io::SimFileSystem& disk = cluster.disk(0);
  for (const char* directory :
       {"/pfs", "/pfs/db", "/pfs/db/.partial-7", "/pfs/db/.partial-7/rank-0"}) {
    ASSERT_OK(disk.MakeDirectory(directory));
  }
  ASSERT_OK(io::WriteFile(disk, "/pfs/db/.partial-7/rank-0/FILES.tmp", "files"));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    PutShare(db, rank, 2, 0, 20);
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  EXPECT_FALSE(*disk.Exists("/pfs/db/.partial-7"));
  EXPECT_TRUE(*disk.Exists("/pfs/db/8"));
}

// `quire clean` or another job's checkpoint would remove a checkpoint that is not locked.
TEST(CheckpointLock, IsHeldUntilTheCheckpointIsThere) {
  std::unique_ptr<io::FaultFileSystem> watched;
  SimCluster::Options ranks;
  ranks.file_system = [&](int) { return watched.get(); };
  SimCluster cluster(ranks);
  watched = io::NewFaultFileSystem(cluster.disk(0));
  int renamed = 0;
  watched->BeforeCalls(io::kFaultRename, [&](const std::string& path) {
    if (path != "/pfs/db/.partial-1") return;
    ++renamed;
    EXPECT_NE(*cluster.disk(0).LockHolder(path + "/LOCK"), "");
  });
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    PutShare(db, rank, 2, 0, 20);
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  EXPECT_EQ(renamed, 1);
  EXPECT_FALSE(*cluster.disk(0).Exists("/pfs/db/1/LOCK"));
}

TEST_P(Checkpoints, ADestructionGoesOnInTheBackground) {
  SimCluster cluster(Ranks(2));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    PutShare(db, rank, 2, 0, 100);
    ASSERT_OK(db.Close());
  });
  cluster.Run([&](int, Context& context) {
    auto event = context.DestroyAsync("db");
    ASSERT_OK(event.status());
    // It may have ended already.
    EXPECT_THAT(context.Open("db", Existing()).status().code(),
                testing::AnyOf(Code::kBusy, Code::kNotFound));
    ASSERT_OK((*event)->Wait());
    EXPECT_EQ(context.Open("db", Existing()).status().code(), Code::kNotFound);
    EXPECT_EQ(context.Destroy("db").code(), Code::kNotFound);
    EXPECT_FALSE(*cluster.disk(0).Exists("/repository/db"));
  });
}

}  // namespace
}  // namespace quire::kv::checkpoint_test
