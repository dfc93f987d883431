// Databases opened by other numbers of ranks than wrote them: all pairs are there at once, move in
// the background, and deleted ones stay deleted (docs/decisions/0009-persistence.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads/sync_point.h"
#include "engine/write_batch.h"
#include "io/sim/sim_file_system.h"
#include "kv/database/persistence_testing.h"
#include "kv/generations/generation_chain.h"
#include "kv/protocol/descriptor.h"
#include "lsm/db/db_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::elastic_test {
namespace {

using Model = std::map<std::string, std::string>;

constexpr int kKeys = 300;

std::string KeyOf(int i) {
  return "key " + std::to_string(i);
}

std::string ValueFor(int round, int i) {
  return std::string(i % 6 == 0 ? 800 : 25, static_cast<char>('a' + round % 26)) +
         std::to_string(i);
}

// In round r every (r + 2)th key is overwritten, every (r + 5)th deleted; the first one puts all.
void Step(Model* model, int round) {
  for (int i = 0; i < kKeys; ++i) {
    if (round == 0 || i % (round + 2) == 0) (*model)[KeyOf(i)] = ValueFor(round, i);
    if (round > 0 && i % (round + 5) == 0) model->erase(KeyOf(i));
  }
}

void Write(Database& db, int rank, int size, int round) {
  for (int i = rank; i < kKeys; i += size) {
    if (round == 0 || i % (round + 2) == 0) ASSERT_OK(db.Put(KeyOf(i), ValueFor(round, i)));
    if (round > 0 && i % (round + 5) == 0) ASSERT_OK(db.Delete(KeyOf(i)));
  }
}

// Every rank asks for every key, and walks over those it owns.
void Expect(Database& db, const Model& model, int rank) {
  Model own;
  for (int i = 0; i < kKeys; ++i) {
    const auto found = model.find(KeyOf(i));
    const bool there = found != model.end();
    EXPECT_EQ(SimCluster::ValueOf(db, KeyOf(i)), there ? found->second : "<not found>") << KeyOf(i);
    if (there && db.Owner(KeyOf(i)) == rank) own[KeyOf(i)] = found->second;
  }
  Model walked;
  const auto iterator = db.NewLocalIterator();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    walked[std::string(iterator->key())] = std::string(iterator->value());
  }
  EXPECT_OK(iterator->status());
  EXPECT_EQ(walked, own);
  Model backward;
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
    backward[std::string(iterator->key())] = std::string(iterator->value());
  }
  EXPECT_EQ(backward, own);
}

Model FirstModel() {
  Model model;
  Step(&model, 0);
  return model;
}

// All is as the rounds before left it; then one more is written, and the database closed.
void Round(Context& context, Database& db, Model* model, int round) {
  Expect(db, *model, context.rank());
  ASSERT_OK(context.Barrier());
  if (context.rank() == 0) Step(model, round);
  ASSERT_OK(context.Barrier());
  Write(db, context.rank(), context.size(), round);
  ASSERT_OK(db.Barrier(Level::kMemTable));
  Expect(db, *model, context.rank());
  ASSERT_OK(context.Barrier());
  ASSERT_OK(db.Close());
}

void FlipBit(std::string* bytes) {
  (*bytes)[20] = static_cast<char>((*bytes)[20] ^ 1);
}

class Elastic : public JobsOverOneDisk {
 protected:
  // Puts pairs from three ranks, and returns them.
  Model Fill() {
    Job(3, SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      Write(db, rank, 3, 0);
      ASSERT_OK(db.Close());
    });
    return FirstModel();
  }
  // The same, and it is in a checkpoint alone.
  Model Save() {
    Job(3, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      Write(db, rank, 3, 0);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
      ASSERT_OK(db.Close());
      ASSERT_OK(context.Destroy("db"));
    });
    return FirstModel();
  }
  void ExpectOneGeneration() {
    const auto entries = disk_->List("/repository/db");
    ASSERT_OK(entries.status());
    EXPECT_EQ(entries->size(), 3u) << "DATABASE, LOCK, one generation";
  }
  size_t GenerationCount() {
    const auto descriptor = ReadDescriptor(*disk_, "/repository/db");
    EXPECT_OK(descriptor.status());
    return descriptor.ok() ? descriptor->generations.size() : 0;
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, Elastic, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

TEST_P(Elastic, EveryNumberOfRanksSeesTheSame) {
  Model model;
  int round = 0;
  for (const int size : {2, 3, 1, 4, 4, 2}) {
    Job(size, SimCluster::SmallDatabase(),
        [&](int, Context& context, Database& db) { Round(context, db, &model, round); });
    ++round;
  }
}

TEST_P(Elastic, RedistributionLeavesOneGenerationAndTheSamePairs) {
  Model model;
  int round = 0;
  for (const int size : {3, 2, 4, 1, 3}) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.redistribute = true;
    Job(size, options, [&](int rank, Context& context, Database& db) {
      if (rank == 0) {
        EXPECT_EQ(GenerationCount(), 1u);
      }
      Round(context, db, &model, round);
    });
    ++round;
  }
  ExpectOneGeneration();
}

TEST_P(Elastic, WaitsForWhatIsLeftOfTheJobThatWroteIt) {
  const Model model = Fill();
  for (const int size : {1, 2, 4}) {
    auto orphan = disk_->Lock("/repository/db/gen-1/rank-2/LOCK", "node9 pid 17");
    ASSERT_OK(orphan.status());
    SimCluster(Ranks(size)).Run([&](int, Context& context) {
      const Status busy = context.Open("db", SimCluster::SmallDatabase()).status();
      EXPECT_EQ(busy.code(), Code::kBusy) << busy.ToString();
      EXPECT_THAT(busy.message(), testing::HasSubstr("process 17 on host node9"));
    });
  }
  Job(2, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    Expect(db, model, rank);
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

TEST_P(Elastic, AWalkGoesOnWhileThePairsUnderItMove) {
  const Model model = Fill();
  Job(2, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    auto walk = db.NewLocalIterator();
    walk->SeekToFirst();
    ASSERT_TRUE(walk->Valid());
    // A checkpoint is of one generation: it waits for the pairs to have moved.
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    if (rank == 0) {
      EXPECT_EQ(GenerationCount(), 1u);
    }
    Model walked;
    for (; walk->Valid(); walk->Next()) {
      walked[std::string(walk->key())] = std::string(walk->value());
    }
    EXPECT_OK(walk->status());
    Model own;
    for (const auto& [key, value] : model) {
      if (db.Owner(key) == rank) own[key] = value;
    }
    EXPECT_EQ(walked, own);
    walk.reset();
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
  EXPECT_FALSE(*disk_->Exists("/repository/db/gen-1"));
  EXPECT_TRUE(*disk_->Exists("/repository/db/gen-2"));
}

TEST_P(Elastic, MovedPairsGiveTheirRoomBackAtOnce) {
  Fill();
  Job(2, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    std::string value;
    ASSERT_OK(db.Get(KeyOf(rank), &value));
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(context.Barrier());
    EXPECT_FALSE(*disk_->Exists("/repository/db/gen-1")) << "somebody has it open still";
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

TEST_P(Elastic, ARedistributionThatFailedIsBegunAgainByTheNextCheckpoint) {
  const Model model = Fill();
  // Damaged: the pairs of that part cannot move.
  const std::string table = "/repository/db/gen-1/rank-1/t-1.sst";
  ASSERT_OK(disk_->Damage(table, FlipBit));
  Job(2, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    EXPECT_EQ(db.Checkpoint("/pfs", {}).status().code(), Code::kCorruption);
    ASSERT_OK(context.Barrier());
    if (rank == 0) {
      EXPECT_EQ(GenerationCount(), 2u);
      ASSERT_OK(disk_->Damage(table, FlipBit));
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    Expect(db, model, rank);
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

// Rank 1 has let go of the older parts when it fails; rank 0's iterator keeps them.
TEST_P(Elastic, ARedistributionThatFailsBehindItsDescriptorFailsNoCheckpoint) {
  const Model model = Fill();
  const auto faults = io::NewFaultFileSystem(*disk_);
  std::atomic<bool> no_memory = true;
  faults->BeforeCalls(io::kFaultOpen, [&](const std::string& path) {
    if (!no_memory || !path.starts_with("/repository/db/gen-1/")) return;
    const auto descriptor = ReadDescriptor(*disk_, "/repository/db");
    if (descriptor.ok() && descriptor->generations.back().number == 2) throw std::bad_alloc();
  });
  SimCluster::Options ranks = Ranks(2);
  ranks.file_system = [&](int rank) -> io::FileSystem* {
    if (rank == 1) return faults.get();
    return disk_.get();
  };
  const DatabaseOptions options = SimCluster::SmallDatabase();
  SimCluster(ranks).RunDatabase(options, [&](int rank, Context& context, Database& db) {
    const auto walk = rank == 0 ? db.NewLocalIterator() : nullptr;
    for (int i = 0; i < 2; ++i) ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    Expect(db, model, rank);
    ASSERT_OK(context.Barrier());
    no_memory = false;
    ASSERT_OK(db.Close());
  });
  Job(2, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    Expect(db, model, rank);
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

// The directory of the descriptor cannot be synced once: the pairs have moved, and the next
// checkpoint finds that.
TEST_P(Elastic, ARedistributionEndsAfterASyncThatFailed) {
  Fill();
  const auto files = io::NewFaultFileSystem(*disk_);
  class FailsASync final : public base::SyncPointListener {
   public:
    explicit FailsASync(io::FaultFileSystem& files) : files_(files) {}
    // The first sync is that of the new file.
    void Reach(const char* name) override {
      if (name != std::string_view("kv.move.flushed") || armed_.exchange(true)) return;
      files_.FailAt(io::kFaultSync, 2, 1, Code::kIo);
    }

   private:
    io::FaultFileSystem& files_;
    std::atomic<bool> armed_{false};
    base::ScopedSyncPoints installed_{this};
  };
  FailsASync fails(*files);
  SimCluster::Options options = Ranks(1);
  options.file_system = [&](int) { return files.get(); };
  SimCluster(options).RunDatabase(Existing(), [](int, Context&, Database& db) {
    for (int i = 0; i < 3; ++i) static_cast<void>(WaitFor(db.Checkpoint("/pfs", {})));
    EXPECT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  EXPECT_EQ(files->failures(), 1u);
  EXPECT_EQ(GenerationCount(), 1u);
}

TEST_P(Elastic, ARedistributionForgetsNothingOfAnotherDatabase) {
  Fill();
  MovesTheDatabase moves(*disk_, "kv.move.flushed");
  SimCluster(Ranks(1)).Run([&](int, Context& context) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.redistribute = true;
    const Status status = context.Open("db", options).status();
    EXPECT_CODE(status, Code::kBusy);
    EXPECT_THAT(status.message(), testing::HasSubstr("moved or removed"));
  });
  moves.ExpectOther();
}

// Lets one rank have no memory when it begins to let go of the older parts.
class NoMemoryToDrop final : public base::SyncPointListener {
 public:
  void Reach(const char* name) override {
    if (name != std::string_view("kv.move.before_drop") || thrown.exchange(true)) return;
    throw std::bad_alloc();
  }
  std::atomic<bool> thrown = false;
};

TEST_P(Elastic, ARedistributionWithoutMemoryBehindItsDescriptorFailsNoCheckpoint) {
  const Model model = Fill();
  NoMemoryToDrop starved;
  const base::ScopedSyncPoints installed(&starved);
  Job(2, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    Expect(db, model, rank);
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
  EXPECT_TRUE(starved.thrown);
}

TEST_P(Elastic, ARedistributionThatWasCutOffOnOwnStoragesLeavesTheOldRanksTheirDatabase) {
  const Model model = FirstModel();
  std::vector<std::unique_ptr<io::SimFileSystem>> disks;
  for (int rank = 0; rank < 4; ++rank) disks.push_back(io::NewSimFileSystem());
  const auto run = [&](int size, const SimCluster::Program& program) {
    SimCluster::Options ranks = Ranks(size);
    ranks.own_disks = true;
    ranks.file_system = [&](int rank) { return disks[static_cast<size_t>(rank)].get(); };
    SimCluster(ranks).Run(program);
  };
  run(2, [&](int rank, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_OK(db.status());
    Write(**db, rank, 2, 0);
    ASSERT_OK((*db)->Close());
  });
  // Rank 1's pairs cannot be read: the new generation gets a part of them.
  const std::string table = "/repository/db/gen-1/rank-1/t-1.sst";
  ASSERT_OK(disks[1]->Damage(table, FlipBit));
  run(3, [&](int, Context& context) {
    EXPECT_EQ(context.Open("db", SimCluster::SmallDatabase()).status().code(), Code::kCorruption);
  });
  ASSERT_OK(disks[1]->Damage(table, FlipBit));
  for (const int size : {2, 3}) {
    run(size, [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      Expect(**db, model, rank);
      ASSERT_OK(context.Barrier());
      ASSERT_OK((*db)->Close());
    });
  }
  const auto descriptor = ReadDescriptor(*disks[0], "/repository/db");
  ASSERT_OK(descriptor.status());
  EXPECT_EQ(descriptor->state, DescriptorState::kReady);
  EXPECT_EQ(descriptor->generations.size(), 1u);
}

// The number of the newest generation, and how many there are.
std::pair<uint32_t, size_t> NewestGeneration(io::FileSystem& disk) {
  const auto descriptor = ReadDescriptor(disk, "/repository/db");
  EXPECT_OK(descriptor.status());
  if (!descriptor.ok()) return {};
  return {descriptor->generations[0].number, descriptor->generations.size()};
}

// The tables in all parts of that generation.
std::vector<std::string> TablesOf(io::FileSystem& disk, uint32_t number) {
  std::vector<std::string> tables;
  const std::string generation = "/repository/db/gen-" + std::to_string(number);
  const auto parts = disk.List(generation);
  EXPECT_OK(parts.status());
  if (!parts.ok()) return tables;
  for (const io::FileInfo& part : *parts) {
    const auto files = disk.List(generation + "/" + part.name);
    EXPECT_OK(files.status());
    if (!files.ok()) continue;
    for (const io::FileInfo& file : *files) {
      if (file.name.rfind("t-", 0) == 0) tables.push_back(part.name + "/" + file.name);
    }
  }
  return tables;
}

class ElasticByTurns : public Elastic {};
class ElasticWithThreads : public Elastic {};

INSTANTIATE_TEST_SUITE_P(Mode, ElasticByTurns, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Mode, ElasticWithThreads, testing::Values(false));

// The work that Open leaves to the background waits for the program's next calls.
TEST_P(ElasticByTurns, APlainOpenMovesNothingAndAllIsThere) {
  for (const int size : {1, 2, 4}) {
    disk_ = io::NewSimFileSystem();
    const Model model = Fill();
    EXPECT_THAT(TablesOf(*disk_, 1), testing::Not(testing::IsEmpty()));
    Job(size, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      if (rank == 0) {
        EXPECT_EQ(NewestGeneration(*disk_), std::make_pair(uint32_t{2}, size_t{2}));
        EXPECT_THAT(TablesOf(*disk_, 2), testing::IsEmpty());
      }
      Expect(db, model, rank);
      ASSERT_OK(context.Barrier());
      ASSERT_OK(db.Close());
    });
  }
}

// Each leaves a generation, and copies of what it moved. Nothing moves here but inside a call.
TEST_P(ElasticByTurns, ShortJobsLeaveFewGenerations) {
  const Model model = Fill();
  for (int job = 0; job < 8; ++job) {
    Job(1 + job % 2, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      EXPECT_LE(GenerationCount(), 3u);
      Expect(db, model, rank);
      ASSERT_OK(context.Barrier());
      ASSERT_OK(db.Close());
    });
  }
  EXPECT_LE(GenerationCount(), 3u);
}

// The database opens all the same, and has what can be read.
TEST_P(ElasticByTurns, AnOpenThatCannotMoveManyGenerationsMovesNone) {
  const Model model = Fill();
  Job(1, SimCluster::SmallDatabase(), [&](int, Context&, Database& db) { ASSERT_OK(db.Close()); });
  Job(2, SimCluster::SmallDatabase(), [&](int, Context&, Database& db) { ASSERT_OK(db.Close()); });
  const std::string table = "/repository/db/gen-1/rank-1/t-1.sst";
  ASSERT_OK(disk_->Damage(table, FlipBit));
  Job(1, SimCluster::SmallDatabase(), [&](int, Context&, Database& db) {
    EXPECT_EQ(GenerationCount(), 4u);
    ASSERT_OK(disk_->Damage(table, FlipBit));
    Expect(db, model, 0);
    ASSERT_OK(db.Close());
  });
}

TEST_P(ElasticWithThreads, PairsMoveWhileNoRankMakesACall) {
  const Model model = Fill();
  for (const int size : {2, 4, 1}) {
    Job(size, SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      const auto old_files_left = [&] {
        const auto entries = disk_->List("/repository/db");
        return !entries.ok() || entries->size() > 3;
      };
      while ((GenerationCount() > 1 || old_files_left()) &&
             std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      EXPECT_EQ(GenerationCount(), 1u);
      ExpectOneGeneration();
      Expect(db, model, rank);
      ASSERT_OK(context.Barrier());
      ASSERT_OK(db.Close());
    });
  }
}

TEST_P(Elastic, AForcedRedistributionMovesThePairsOfAsManyRanks) {
  Model model;
  struct Turn {
    bool wait;
    bool force;
    uint32_t number;  // of the generation
  };
  int round = 0;
  for (const Turn& turn : {Turn{false, true, 1}, Turn{true, false, 1}, Turn{false, true, 2},
                           Turn{true, true, 3}, Turn{false, false, 3}}) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.redistribute = turn.wait;
    options.force_redistribute = turn.force;
    Job(3, options, [&](int rank, Context& context, Database& db) {
      if (rank == 0) {
        EXPECT_EQ(NewestGeneration(*disk_), std::make_pair(turn.number, size_t{1}));
      }
      Round(context, db, &model, round);
    });
    ++round;
  }
  ExpectOneGeneration();
}

TEST_P(Elastic, ADatabaseThatIsOpenInPlaceOfACheckpointMovesOut) {
  const Model model = Save();
  for (const int size : {2, 3}) {
    SimCluster cluster(Ranks(size));
    cluster.Run([&](int rank, Context& context) {
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = true})));
      for (const bool redistribute : {false, true}) {
        auto db = context.Open("db", Existing(redistribute));
        ASSERT_OK(db.status());
        Expect(**db, model, rank);
        ASSERT_OK((*db)->Close());
      }
      EXPECT_TRUE(*disk_->Exists("/pfs/db/1/rank-2/MANIFEST"));
      ASSERT_OK(context.Barrier());
      ASSERT_OK(context.Destroy("db"));
    });
  }
}

TEST_P(Elastic, RestartsOnOtherNumbersOfRanks) {
  const Model model = Save();
  for (const int size : {1, 2, 3, 4, 6}) {
    SimCluster cluster(Ranks(size));
    cluster.Run([&](int rank, Context& context) {
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {})));
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      Expect(**db, model, rank);
      ASSERT_OK((*db)->Close());
      ASSERT_OK(context.Destroy("db"));
    });
  }
}

// As if the older parts were on nodes' own disks: no rank reads pairs there, which are moved.
TEST(EmptyBackingStore, KeepsDeletionsAgainstWhatIsMovedOverIt) {
  lsm::TestDb test(lsm::SmallOptions());
  test.environment().base = NewEmptyBackingStore();
  ASSERT_OK(test.Open());
  ASSERT_OK(test->Put("other", "v"));
  ASSERT_OK(test->Delete("deleted"));
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Compact());
  engine::WriteBatch moved;
  moved.Put("deleted", "old");
  moved.Put("kept", "old");
  engine::WriteProgress progress;
  ASSERT_OK(test->Fill(moved.bytes(), &progress));
  EXPECT_EQ(lsm::AllOf(*test->NewIterator({})), (lsm::Model{{"kept", "old"}, {"other", "v"}}));
  test->DetachBackingStore();
  ASSERT_OK(test->Compact());
  EXPECT_EQ(lsm::GetText(test.db(), "deleted"), "<absent>");
  EXPECT_EQ(lsm::GetText(test.db(), "kept"), "old");
}

}  // namespace
}  // namespace quire::kv::elastic_test
