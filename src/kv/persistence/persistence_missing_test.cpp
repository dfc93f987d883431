// Another program removes files: of a database during a checkpoint, of a checkpoint during a
// restart, of parts that are moving. All ranks report the same damage, with the file and its rank;
// calls that do not need the file succeed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kv/database/persistence_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::persistence_missing_test {
namespace {

using testing::HasSubstr;

constexpr int kKeys = 200;

std::string ValueFor(int round, int i) {
  return std::string(i % 9 == 0 ? 6000 : 30, static_cast<char>('a' + round)) + std::to_string(i);
}

void PutShare(Database& db, int rank, int size, int round) {
  for (int i = rank; i < kKeys; i += size) {
    ASSERT_OK(db.Put("key " + std::to_string(i), ValueFor(round, i)));
  }
}

void ExpectAll(Database& db, int round) {
  for (int i = 0; i < kKeys; ++i) {
    EXPECT_EQ(SimCluster::ValueOf(db, "key " + std::to_string(i)), ValueFor(round, i));
  }
}

// Some keys, by far not all, answer with the damage of the file `lost`.
void ExpectSomeDamaged(Database& db, int round, const std::string& lost) {
  int damaged = 0;
  for (int i = 0; i < kKeys; ++i) {
    std::string value;
    const Status got = db.Get("key " + std::to_string(i), &value);
    if (got.ok()) {
      EXPECT_EQ(value, ValueFor(round, i));
      continue;
    }
    ++damaged;
    EXPECT_EQ(got.code(), Code::kCorruption) << got.ToString();
    EXPECT_THAT(got.message(), HasSubstr(lost));
  }
  EXPECT_GT(damaged, 0);
  EXPECT_LT(damaged, kKeys * 3 / 4);
}

void ExpectStored(Context& context, int round) {
  auto db = context.Open("db", Existing());
  ASSERT_OK(db.status());
  ExpectAll(**db, round);
  ASSERT_OK((*db)->Close());
}

// In the newest checkpoint, which takes the place of the database.
void ExpectSaved(Context& context, int round) {
  ASSERT_OK(context.Destroy("db"));
  ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {})));
  ExpectStored(context, round);
}

// Two jobs or more over one disk, from which the test removes files meanwhile.
class Missing : public testing::Test {
 protected:
  void Run(int size, const SimCluster::Program& program) {
    SimCluster::Options options;
    options.rank_count = size;
    options.seed = ++seed_;
    options.file_system = [this](int) { return disk_.get(); };
    SimCluster(options).Run(program);
  }
  // Checkpoints 1 and 2 in /pfs hold rounds 0 and 1; there is no database.
  void MakeCheckpoints() {
    Run(2, [](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      for (int round = 0; round < 2; ++round) {
        PutShare(**db, rank, 2, round);
        ASSERT_OK((*db)->Compact());
        ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      }
      ASSERT_OK((*db)->Close());
      ASSERT_OK(context.Destroy("db"));
    });
  }
  std::vector<std::string> FilesIn(const std::string& directory, const std::string& prefix) {
    std::vector<std::string> files;
    const auto entries = disk_->List(directory);
    EXPECT_OK(entries.status());
    for (const io::FileInfo& entry : *entries) {
      if (entry.name.rfind(prefix, 0) == 0) files.push_back(directory + "/" + entry.name);
    }
    EXPECT_FALSE(files.empty()) << directory;
    return files;
  }
  // As another program would; what it held stays in kept_.
  void Lose(const std::string& path) {
    const auto content = io::ReadFile(*disk_, path, 1 << 24);
    ASSERT_OK(content.status());
    kept_[path] = *content;
    ASSERT_OK(disk_->Unlink(path));
  }
  void BringBack() {
    for (const auto& [path, content] : kept_) ASSERT_OK(io::ReplaceFile(*disk_, path, content));
    kept_.clear();
  }
  // Called by every rank.
  void Tell(const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    told_.push_back(status);
  }
  void ExpectTold(const std::string& file, int rank) {
    ASSERT_GE(told_.size(), 2u);
    for (const Status& told : told_) {
      EXPECT_EQ(told.ToString(), told_[0].ToString());
      EXPECT_EQ(told.code(), Code::kCorruption) << told.ToString();
      EXPECT_THAT(told.message(), HasSubstr(file));
      EXPECT_THAT(told.message(), HasSubstr("rank " + std::to_string(rank) + ": "));
    }
    told_.clear();
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  uint64_t seed_ = 0;
  std::map<std::string, std::string> kept_;
  std::mutex mutex_;
  std::vector<Status> told_;
};

// The table is gone before the checkpoint begins, or when it is under way.
TEST_F(Missing, AMissingTableFailsACheckpointUntilTheDatabaseIsCompacted) {
  for (const bool begun : {false, true}) {
    std::string lost;
    Run(2, [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      PutShare(**db, rank, 2, 0);
      ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      PutShare(**db, rank, 2, 1);
      ASSERT_OK((*db)->Barrier(Level::kSsTable));
      const auto lose = [&] {
        if (rank == 0) {
          lost = FilesIn("/repository/db/gen-1/rank-1", "t-").back();
          Lose(lost);
        }
        ASSERT_OK(context.Barrier());
      };
      if (!begun) lose();
      auto event = (*db)->Checkpoint("/pfs", {});
      ASSERT_OK(event.status());
      if (begun) lose();
      Tell((*event)->Wait());
      ASSERT_OK(context.Barrier());
      if (rank == 0) ExpectTold(lost, 1);
      // What is open can be read, written, and compacted into a table that is there.
      ExpectAll(**db, 1);
      ASSERT_OK((*db)->Compact());
      ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      ASSERT_OK((*db)->Close());
      ExpectSaved(context, 1);
      ASSERT_OK(context.Destroy("db"));
    });
    ASSERT_FALSE(HasFailure()) << (begun ? "during" : "before");
  }
}

// Its directory goes before any rank has written its part.
TEST_F(Missing, AMissingDirectoryFailsTheCheckpointThatIsWrittenAlone) {
  Run(2, [&](int rank, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    PutShare(**db, rank, 2, 0);
    auto event = (*db)->Checkpoint("/pfs", {});
    ASSERT_OK(event.status());
    if (rank == 0) {
      ASSERT_OK(disk_->Unlink("/pfs/db/.partial-1/LOCK"));
      ASSERT_OK(disk_->RemoveDirectory("/pfs/db/.partial-1"));
    }
    ASSERT_OK(context.Barrier());
    const Status told = (*event)->Wait();
    EXPECT_EQ(told.code(), Code::kIo) << told.ToString();
    EXPECT_THAT(told.message(), HasSubstr("rank 0: "));
    EXPECT_THAT(told.message(), HasSubstr("/pfs/db/.partial-1/rank-0"));
    ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
    ASSERT_OK((*db)->Close());
    ExpectSaved(context, 0);
  });
}

TEST_F(Missing, AFileMissingAtARestartIsDamageOfItsCheckpoint) {
  MakeCheckpoints();
  for (const int rank_of_file : {0, 1}) {
    const std::string part = "/pfs/db/2/rank-" + std::to_string(rank_of_file);
    for (const std::string& lost : FilesIn(part, "")) {
      for (const uint64_t wanted : {2, 0}) {
        Run(2, [&](int rank, Context& context) {
          auto event = context.Restart("/pfs", "db", {.number = wanted});
          ASSERT_OK(event.status());
          if (rank == 0) Lose(lost);
          ASSERT_OK(context.Barrier());
          const Status ended = (*event)->Wait();
          ASSERT_OK(context.Barrier());
          if (wanted == 2) {
            Tell(ended);
            EXPECT_EQ(context.Open("db", Existing()).status().code(), Code::kNotFound);
          } else {
            ASSERT_OK(ended);
            ExpectStored(context, 0);
          }
          ASSERT_OK(context.Destroy("db"));
        });
        if (wanted == 2) ExpectTold(lost, rank_of_file);
        BringBack();
        ASSERT_FALSE(HasFailure()) << lost << ", wanted " << wanted;
      }
    }
  }
}

// Tables and values of a checkpoint that a database stands in place of, or of its older part.
TEST_F(Missing, AFileMissingInAnOlderPartFailsItsKeysAndTheirMoveAlone) {
  MakeCheckpoints();
  for (const bool in_place : {true, false}) {
    for (const char* const kind : {"t-", "val-"}) {
      const std::string part = in_place ? "/pfs/db/2/rank-1" : "/repository/db/gen-1/rank-1";
      std::string lost;
      Run(3, [&](int rank, Context& context) {
        ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = 2, .in_place = in_place})));
        if (rank == 0) {
          lost = FilesIn(part, kind)[0];
          Lose(lost);
        }
        ASSERT_OK(context.Barrier());
        Tell(context.Open("db", Existing(true)).status());
      });
      ExpectTold(lost, 1);
      Run(3, [&](int rank, Context& context) {
        auto db = context.Open("db", Existing());
        ASSERT_OK(db.status());
        ExpectSomeDamaged(**db, 1, lost);
        ASSERT_OK((*db)->Put("new " + std::to_string(rank), "value"));
        ASSERT_OK((*db)->Close());
      });
      BringBack();
      Run(3, [&](int rank, Context& context) {
        auto db = context.Open("db", Existing(true));
        ASSERT_OK(db.status());
        ExpectAll(**db, 1);
        EXPECT_EQ(SimCluster::ValueOf(**db, "new " + std::to_string(rank)), "value");
        ASSERT_OK((*db)->Close());
        ASSERT_OK(context.Destroy("db"));
      });
      ASSERT_FALSE(HasFailure()) << kind << (in_place ? " in place" : " copied");
    }
  }
}

}  // namespace
}  // namespace quire::kv::persistence_missing_test
