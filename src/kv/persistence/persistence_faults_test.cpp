// Devices that become full during a checkpoint, a restart or a redistribution: every call of either
// rank that needs room fails, one after another, once and from then on. All ranks receive the same
// error, with rank and file; what was there before stays intact, and nothing half-made is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kv/persistence/checkpoint_files.h"
#include "kv/database/database_reader.h"
#include "kv/protocol/descriptor.h"
#include "kv/database/persistence_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::persistence_faults_test {
namespace {

using testing::HasSubstr;
using Model = std::map<std::string, std::string>;
using Files = std::map<std::string, uint64_t>;  // sizes

constexpr int kKeys = 40;
// The operations that a file system without room, or a quota, refuses.
constexpr uint32_t kNeedsRoom =
    io::kFaultWrite | io::kFaultAllocate | io::kFaultRename | io::kFaultWritable;
// NFS reports the lack of room in a sync. This makes a database read-only if the files are its own.
constexpr uint32_t kNeedsRoomOrSyncs = kNeedsRoom | io::kFaultSync;

Model ModelOf(int round) {
  Model model;
  for (int i = 0; i < kKeys; ++i) {
    model["key " + std::to_string(i)] =
        std::string(i % 8 == 0 ? 700 : 20, static_cast<char>('a' + round)) + std::to_string(i);
  }
  return model;
}

void PutShare(Database& db, int rank, int size, int round) {
  int i = 0;
  for (const auto& [key, value] : ModelOf(round)) {
    if (i++ % size == rank) ASSERT_OK(db.Put(key, value));
  }
}

void ExpectAll(Database& db, int round) {
  for (const auto& [key, value] : ModelOf(round)) EXPECT_EQ(SimCluster::ValueOf(db, key), value);
}

// Which calls of which rank fail.
struct Fault {
  int rank = 0;
  uint64_t first = 1;
  uint64_t count = 1;
  uint32_t ops = kNeedsRoom;
  Code code = Code::kNoSpace;
  std::string below;  // where; empty: everywhere
};

class FullDisk : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  static constexpr uint64_t kForGood = UINT64_MAX;

  FullDisk() {
    for (int rank = 0; rank < kRanks; ++rank) faults_.push_back(io::NewFaultFileSystem(*disk_));
  }

  void Run(int size, const std::string& repository, const SimCluster::Program& program) {
    SimCluster::Options options;
    options.rank_count = size;
    options.repository = repository;
    options.seed = ++seed_;
    options.file_system = [this](int rank) { return faults_[static_cast<size_t>(rank)].get(); };
    SimCluster(options).Run(program);
  }

  // A database of two ranks, and a checkpoint of it.
  void MakeCheckpoint(const std::string& repository) {
    Run(2, repository, [](int rank, Context&, Database& db) {
      PutShare(db, rank, 2, 0);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    });
  }
  using DatabaseProgram = SimCluster::DatabaseProgram;
  void Run(int size, const std::string& repository, const DatabaseProgram& program) {
    Run(size, repository, [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      program(rank, context, **db);
      ASSERT_OK((*db)->Close());
    });
  }

  // On each rank: `call`, in which the calls of `fault` fail.
  void CallFaulty(const Fault& fault, int rank, Context& context,
                  const std::function<Status()>& call) {
    io::FaultFileSystem& fs = *faults_[static_cast<size_t>(rank)];
    ASSERT_OK(context.Barrier());
    if (rank == fault.rank) {
      fs.OnlyBelow(fault.below);
      fs.FailAt(fault.ops, fault.first, fault.count, fault.code);
    }
    const Status status = call();
    ASSERT_OK(context.Barrier());
    if (rank == fault.rank) {
      failures_ = fs.failures();
      fs.FailAt(0, 1, 0, Code::kOk);
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      told_.push_back(status);
    }
    ASSERT_OK(context.Barrier());
  }

  // Expects that all ranks received the same result of the last faulty call.
  void ExpectTold(const Fault& fault) {
    for (const Status& told : told_) {
      EXPECT_EQ(told.ToString(), told_[0].ToString());
      if (told.ok()) continue;
      // For a file that was replaced, and whose directory was not synced, the code is kIo.
      const bool replaced = told.message().find("sync directory") != std::string::npos;
      EXPECT_TRUE(told.code() == fault.code || (replaced && told.code() == Code::kIo))
          << told.ToString();
      if (told_.size() > 1) {  // else there is no other that it could have been
        EXPECT_THAT(told.message(), HasSubstr("rank " + std::to_string(fault.rank) + ": "));
      }
      EXPECT_THAT(told.message(), HasSubstr(" /"));
    }
    failed_ += told_[0].ok() ? 0 : 1;
  }

  // `life` with each call that needs room failing, on each of `size` ranks.
  void ForEachFault(int size, Fault fault, const std::function<void(const Fault& fault)>& life) {
    for (fault.rank = 0; fault.rank < size; ++fault.rank) {
      for (const uint64_t count : {uint64_t{1}, kForGood}) {
        fault.count = count;
        for (fault.first = 1;; ++fault.first) {
          told_.clear();
          failures_ = 0;
          life(fault);
          ASSERT_FALSE(HasFailure()) << "rank " << fault.rank << ", call " << fault.first
                                     << (count == 1 ? " alone" : " and all later ones");
          if (failures_ == 0) break;
        }
        EXPECT_GT(fault.first, 2u);
      }
    }
    EXPECT_GT(std::exchange(failed_, 0), 10);
  }

  // Every file below, with its size.
  void AddTree(const std::string& directory, const std::string& name, Files* tree) {
    const auto entries = disk_->List(directory + name);
    ASSERT_OK(entries.status());
    for (const io::FileInfo& entry : *entries) {
      const std::string below = name + "/" + entry.name;
      (*tree)[below] = entry.is_directory ? 0 : entry.size;
      if (entry.is_directory) AddTree(directory, below, tree);
    }
  }
  Files Tree(const std::string& directory) {
    Files tree;
    AddTree(directory, "", &tree);
    return tree;
  }

  Model Read(const std::string& directory) {
    Model all;
    const auto reader = OpenDatabaseReader(*disk_, directory, {});
    EXPECT_OK(reader.status());
    if (!reader.ok()) return all;
    const auto iterator = (*reader)->NewIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      all[std::string(iterator->key())] = std::string(iterator->value());
    }
    EXPECT_OK(iterator->status());
    return all;
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  std::vector<std::unique_ptr<io::FaultFileSystem>> faults_;
  uint64_t seed_ = 0;
  std::mutex mutex_;
  std::vector<Status> told_;  // in no order
  uint64_t failures_ = 0;
  int failed_ = 0;
};

// Which of the two is full: that of the checkpoint, or that of the database, or the first fails.
struct Place {
  const char* name;
  const char* below;
  uint32_t ops;
  Code code;
  int ranks = 2;
};

class FullDiskCheckpoint : public FullDisk, public testing::WithParamInterface<Place> {
 protected:
  // A checkpoint that fails beside one that is there.
  void Fail(Fault fault, const std::string& repository, const std::string& pfs) {
    const int size = GetParam().ranks;
    Run(size, repository, [&](int rank, Context& context, Database& db) {
      PutShare(db, rank, size, 0);
      ASSERT_OK(WaitFor(db.Checkpoint(pfs, {})));
      PutShare(db, rank, size, 1);
      CallFaulty(fault, rank, context, [&] { return WaitFor(db.Checkpoint(pfs, {})); });
      ExpectAll(db, 1);
      ASSERT_OK(context.Barrier());
      PutShare(db, rank, size, 2);
      ASSERT_OK(db.Barrier(Level::kSsTable));
      ExpectAll(db, 2);
      if (rank == 0) {
        EXPECT_TRUE(Read(pfs + "/db/1") == ModelOf(0));
      }
      ASSERT_OK(WaitFor(db.Checkpoint(pfs, {})));
    });
    ExpectTold(fault);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Places, FullDiskCheckpoint,
    testing::Values(Place{"NoRoomForCheckpoints", "/pfs", kNeedsRoomOrSyncs, Code::kNoSpace},
                    Place{"NoRoomForThoseOfOneRank", "/pfs", kNeedsRoomOrSyncs, Code::kNoSpace, 1},
                    Place{"NoRoomForTheDatabase", "/repository", kNeedsRoom, Code::kNoSpace},
                    Place{"ABrokenCheckpointDevice", "/pfs", kNeedsRoomOrSyncs, Code::kIo}),
    [](const auto& place) { return place.param.name; });

TEST_P(FullDiskCheckpoint, FailsOnAllRanksAlikeAndTheDatabaseAndTheOneBeforeGoOn) {
  int lives = 0;
  Fault place;
  place.ops = GetParam().ops;
  place.code = GetParam().code;
  ForEachFault(GetParam().ranks, place, [&](Fault fault) {
    const std::string number = "-" + std::to_string(++lives);
    const std::string pfs = "/pfs" + number;
    fault.below = GetParam().below + number;
    Fail(fault, "/repository" + number, pfs);
    const auto found = FindCheckpoints(*disk_, pfs + "/db");
    ASSERT_OK(found.status());
    std::vector<int> rounds = {0, 2};
    // It could be done without what failed; or, published, it could not be taken back.
    const bool stuck = fault.count == kForGood && found->size() == 3;
    if (told_[0].ok() || stuck) rounds = {0, 1, 2};
    ASSERT_EQ(found->size(), rounds.size());
    for (size_t i = 0; i < rounds.size(); ++i) {
      EXPECT_EQ((*found)[i].state, CheckpointState::kComplete);
      EXPECT_TRUE(Read((*found)[i].directory) == ModelOf(rounds[i])) << (*found)[i].directory;
    }
  });
}

class FullDiskRestart : public FullDisk, public testing::WithParamInterface<bool> {
 protected:
  // A restart that fails, then one that does not.
  void Restart(const Fault& fault, const std::string& repository, const Files& wanted) {
    const RestartOptions options{.in_place = GetParam()};
    Run(2, repository, [&](int rank, Context& context) {
      CallFaulty(fault, rank, context,
                 [&] { return WaitFor(context.Restart("/pfs", "db", options)); });
      auto early = context.Open("db", Existing(false));
      const bool stuck = fault.count == kForGood && early.ok();  // it could not be taken back
      if (early.ok()) ASSERT_OK((*early)->Close());
      if (!told_[0].ok() && stuck) {
        EXPECT_THAT(told_[0].message(), HasSubstr("is the restored database is not known"));
        ++in_doubt_;
      }
      if (told_[0].code() == Code::kNoSpace) {
        EXPECT_THAT(told_[0].message(), testing::Not(HasSubstr("database is not known")));
      }
      if (!told_[0].ok() && !stuck) {
        EXPECT_EQ(early.status().code(), Code::kNotFound);
        if (fault.first % 2 == 0) ExpectNothingAfterDestroying(context, repository);
        ASSERT_OK(WaitFor(context.Restart("/pfs", "db", options)));
      }
      if (rank == 0 && !early.ok()) {
        EXPECT_EQ(WithFirstGeneration(Tree(repository)), wanted);
      }
      ASSERT_OK(context.Barrier());
      auto db = context.Open("db", Existing(false));
      ASSERT_OK(db.status());
      ExpectAll(**db, 0);
      ASSERT_OK((*db)->Close());
      ASSERT_OK(context.Destroy("db"));
    });
    ExpectTold(fault);
  }

  // Renames the only generation to gen-1: its number rises with each attempt.
  static Files WithFirstGeneration(const Files& files) {
    const std::string prefix = "/db/gen-";
    Files renamed;
    for (const auto& [path, bytes] : files) {
      const size_t end = path.find_first_not_of("0123456789", prefix.size());
      const bool inside = path.rfind(prefix, 0) == 0;
      const std::string rest = end == std::string::npos ? "" : path.substr(end);
      EXPECT_TRUE(renamed.emplace(inside ? prefix + "1" + rest : path, bytes).second) << path;
    }
    return renamed;
  }

  std::atomic<int> in_doubt_ = 0;

  // The state if the program does not try again.
  void ExpectNothingAfterDestroying(Context& context, const std::string& repository) {
    const Status destroyed = context.Destroy("db");
    EXPECT_TRUE(destroyed.ok() || destroyed.code() == Code::kNotFound) << destroyed.ToString();
    Files left = Tree(repository);
    left.erase("/db");
    left.erase("/db/LOCK");
    EXPECT_THAT(left, testing::IsEmpty());
    ASSERT_OK(context.Barrier());
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, FullDiskRestart, testing::Values(false, true),
                         [](const auto& way) { return way.param ? "InPlace" : "Copied"; });

TEST_P(FullDiskRestart, FailsOnAllRanksAlikeAndTheNextOneIsWhole) {
  MakeCheckpoint("/repository");
  const Files checkpoint = Tree("/pfs/db");
  Run(2, "/wanted", [&](int, Context& context) {
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = GetParam()})));
  });
  const Files wanted = Tree("/wanted");
  Fault no_room;
  no_room.ops = kNeedsRoomOrSyncs;
  // A device that cannot be read is no damaged checkpoint, which would be passed over.
  Fault broken;
  broken.ops = io::kFaultOpen | io::kFaultRead | io::kFaultDirectory;
  broken.code = Code::kIo;
  broken.below = "/pfs";
  int lives = 0;
  for (const Fault& where : {no_room, broken}) {
    ForEachFault(2, where, [&](const Fault& fault) {
      Restart(fault, "/restarted-" + std::to_string(++lives), wanted);
    });
  }
  EXPECT_EQ(Tree("/pfs/db"), checkpoint);
  EXPECT_GT(in_doubt_, 0);
}

// Redistributes a database that two ranks have left, or one that uses a checkpoint in place.
TEST_P(FullDiskRestart, FailsARedistributionOnAllRanksAlikeAndTheNextOneIsWhole) {
  MakeCheckpoint("/repository");
  const Files checkpoint = Tree("/pfs/db");
  int lives = 0;
  ForEachFault(kRanks, {}, [&](const Fault& fault) {
    const std::string repository = "/restarted-" + std::to_string(++lives);
    Run(kRanks, repository, [&](int rank, Context& context) {
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = GetParam()})));
      CallFaulty(fault, rank, context, [&] {
        auto db = context.Open("db", Existing(true));
        return db.ok() ? (*db)->Close() : db.status();
      });
      auto db = context.Open("db", Existing(true));
      ASSERT_OK(db.status());
      ExpectAll(**db, 0);
      ASSERT_OK((*db)->Close());
    });
    ExpectTold(fault);
    const auto descriptor = ReadDescriptor(*disk_, repository + "/db");
    ASSERT_OK(descriptor.status());
    EXPECT_EQ(descriptor->generations.size(), 1u);
    EXPECT_EQ(disk_->List(repository + "/db")->size(), 3u)
        << testing::PrintToString(Tree(repository)) << told_[0].ToString();
    EXPECT_TRUE(Read(repository + "/db") == ModelOf(0));
    Run(1, repository, [&](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
  });
  EXPECT_EQ(Tree("/pfs/db"), checkpoint);
}

}  // namespace
}  // namespace quire::kv::persistence_faults_test
