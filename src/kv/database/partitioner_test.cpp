// Databases whose owners a function of the program chooses, opened, brought back and redistributed
// by other numbers of ranks than wrote them (docs/decisions/0009-persistence.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "kv/database/database_reader.h"
#include "kv/database/persistence_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::partitioner_test {
namespace {

using Model = std::map<std::string, std::string>;
using testing::HasSubstr;

constexpr int kKeys = 240;
constexpr int kWriters = 3;

std::string KeyOf(int i) {
  return "key " + std::to_string(i);
}

std::string ValueFor(int round, int i) {
  return std::string(i % 6 == 0 ? 800 : 25, static_cast<char>('a' + round)) + std::to_string(i);
}

// By the number in the key, in blocks of ten; of many ranks the last has nothing.
int ByBlock(Slice key, int rank_count) {
  const int number = std::stoi(std::string(key).substr(4));
  return number / 10 % (rank_count > 2 ? rank_count - 1 : rank_count);
}

// Returns no valid rank if the number of ranks differs from that of the writers.
int OnlyAmongWriters(Slice key, int rank_count) {
  return rank_count == kWriters ? ByBlock(key, rank_count) : rank_count;
}

DatabaseOptions With(const Partitioner& partitioner, bool redistribute = false) {
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.partitioner = partitioner;
  options.redistribute = redistribute;
  return options;
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

// Every rank asks for every key, one by one and all at once, and walks over those it owns.
void Expect(Database& db, const Model& model, Context& context) {
  Model own, walked;
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back(KeyOf(i));
  const std::vector<Slice> asked(keys.begin(), keys.end());
  std::vector<std::string> values;
  std::vector<bool> is_there;
  ASSERT_OK(db.GetMany(asked, &values, &is_there));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = model.find(keys[i]);
    const bool there = found != model.end();
    const int owner = ByBlock(keys[i], context.size());
    EXPECT_EQ(db.Owner(keys[i]), owner);
    EXPECT_EQ(SimCluster::ValueOf(db, keys[i]), there ? found->second : "<not found>") << keys[i];
    EXPECT_EQ(is_there[i], there) << keys[i];
    if (there) {
      EXPECT_EQ(values[i], found->second) << keys[i];
    }
    if (there && owner == context.rank()) own[keys[i]] = found->second;
  }
  const auto iterator = db.NewLocalIterator();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    walked[std::string(iterator->key())] = std::string(iterator->value());
  }
  EXPECT_OK(iterator->status());
  EXPECT_EQ(walked, own);
}

class PartitionerOfTheProgram : public JobsOverOneDisk {
 protected:
  // Puts pairs from three ranks, writes a checkpoint, and returns the pairs.
  Model Fill(const Partitioner& partitioner) {
    Job(kWriters, With(partitioner), [&](int rank, Context&, Database& db) {
      Write(db, rank, kWriters, 0);
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
      ASSERT_OK(db.Close());
    });
    Model model;
    Step(&model, 0);
    return model;
  }
  Model WalkedByAReader(const Partitioner& partitioner) {
    Model walked;
    DatabaseReaderOptions options;
    options.partitioner = partitioner;
    const auto reader = OpenDatabaseReader(*disk_, "/repository/db", options);
    EXPECT_OK(reader.status());
    if (!reader.ok()) return walked;
    const auto iterator = (*reader)->NewIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      walked[std::string(iterator->key())] = std::string(iterator->value());
    }
    EXPECT_OK(iterator->status());
    return walked;
  }
  void DestroyBy(int size) {
    SimCluster(Ranks(size)).Run([](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PartitionerOfTheProgram, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

TEST_P(PartitionerOfTheProgram, IsKeptOnEveryNumberOfRanks) {
  for (const bool redistribute : {false, true}) {
    disk_ = io::NewSimFileSystem();
    Model model;
    int round = 0;
    for (const int size : {2, 3, 1, 4, 4, 2}) {
      Job(size, With(ByBlock, redistribute), [&](int rank, Context& context, Database& db) {
        Expect(db, model, context);
        ASSERT_OK(context.Barrier());
        if (rank == 0) Step(&model, round);
        ASSERT_OK(context.Barrier());
        Write(db, rank, size, round);
        ASSERT_OK(db.Barrier(Level::kMemTable));
        Expect(db, model, context);
        ASSERT_OK(context.Barrier());
        ASSERT_OK(db.Close());
      });
      ++round;
    }
  }
}

TEST_P(PartitionerOfTheProgram, RestartsOnOtherNumbersOfRanks) {
  const Model model = Fill(ByBlock);
  DestroyBy(1);
  for (const int size : {1, 2, 3, 4, 6}) {
    for (const bool in_place : {false, true}) {
      SimCluster(Ranks(size)).Run([&](int, Context& context) {
        ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = in_place})));
        for (const bool redistribute : {false, true}) {
          auto db = context.Open("db", With(ByBlock, redistribute));
          ASSERT_OK(db.status());
          Expect(**db, model, context);
          ASSERT_OK((*db)->Close());
        }
        ASSERT_OK(context.Destroy("db"));
      });
    }
  }
}

TEST_P(PartitionerOfTheProgram, MovesPairsBetweenStoragesOfTheRanksOwn) {
  std::vector<std::unique_ptr<io::SimFileSystem>> disks;
  for (int rank = 0; rank < 4; ++rank) disks.push_back(io::NewSimFileSystem());
  Model model;
  for (const int size : {2, 3, 4}) {
    SimCluster::Options ranks = Ranks(size);
    ranks.own_disks = true;
    ranks.file_system = [&](int rank) { return disks[static_cast<size_t>(rank)].get(); };
    SimCluster(ranks).RunDatabase(With(ByBlock), [&](int rank, Context& context, Database& db) {
      Expect(db, model, context);
      ASSERT_OK(context.Barrier());
      if (rank == 0) Step(&model, size - 2);
      Write(db, rank, size, size - 2);
      ASSERT_OK(context.Barrier());
      ASSERT_OK(db.Close());
    });
  }
}

// The pairs that it has are in the database of the descriptor, which says so.
TEST_P(PartitionerOfTheProgram, IsAskedForByNameWhereItIsNotGiven) {
  const Model model = Fill(ByBlock);
  for (const int size : {2, 3}) {
    SimCluster(Ranks(size)).Run([&](int, Context& context) {
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.replace = true})));
      const Status without = context.Open("db", Existing()).status();
      EXPECT_EQ(without.code(), Code::kInvalidArgument) << without.ToString();
      EXPECT_THAT(without.message(), HasSubstr("made with the partitioner \"custom\""));
      DatabaseOptions other = With(ByBlock);
      other.partitioner_name = "by block";
      EXPECT_EQ(context.Open("db", other).status().code(), Code::kInvalidArgument);
      auto db = context.Open("db", With(ByBlock));
      ASSERT_OK(db.status());
      Expect(**db, model, context);
      ASSERT_OK((*db)->Close());
    });
  }
}

class PartitionerByTurns : public PartitionerOfTheProgram {};

INSTANTIATE_TEST_SUITE_P(Mode, PartitionerByTurns, testing::Values(true));

// Nothing of the other parts is looked at: what was damaged there is not noticed.
TEST_P(PartitionerByTurns, FindsAKeyInThePartOfItsOldOwnerAlone) {
  Fill(ByBlock);
  const std::string damaged = "/repository/db/gen-1/rank-1/t-1.sst";
  ASSERT_OK(disk_->Damage(damaged, [](std::string* table) { table->assign(table->size(), 'x'); }));
  Job(2, With(ByBlock), [&](int, Context& context, Database& db) {
    for (int i = 0; i < kKeys; ++i) {
      std::string value;
      const Status status = db.Get(KeyOf(i), &value);
      if (ByBlock(KeyOf(i), kWriters) == 1) {
        EXPECT_EQ(status.code(), Code::kCorruption) << KeyOf(i) << status.ToString();
        EXPECT_THAT(status.message(), HasSubstr(damaged));
      } else {
        EXPECT_OK(status);
        EXPECT_EQ(value, ValueFor(0, i));
      }
    }
    ASSERT_OK(context.Barrier());
    static_cast<void>(db.Close());
  });
}

// Pairs for which it answers no rank are neither lost nor left out of a walk silently.
TEST_P(PartitionerOfTheProgram, AnAnswerThatIsNoRankIsAnErrorAndThePairsStay) {
  const Model model = Fill(OnlyAmongWriters);
  Job(2, With(OnlyAmongWriters), [&](int, Context& context, Database& db) {
    std::string value;
    EXPECT_EQ(db.Get(KeyOf(1), &value).code(), Code::kInvalidArgument);
    EXPECT_EQ(db.Put(KeyOf(1), "other").code(), Code::kInvalidArgument);
    const auto walk = db.NewLocalIterator();
    walk->SeekToFirst();
    EXPECT_FALSE(walk->Valid());
    EXPECT_EQ(walk->status().code(), Code::kInvalidArgument) << walk->status().ToString();
    ASSERT_OK(context.Barrier());
    static_cast<void>(db.Close());
  });
  SimCluster(Ranks(2)).Run([&](int, Context& context) {
    const Status moved = context.Open("db", With(OnlyAmongWriters, true)).status();
    EXPECT_EQ(moved.code(), Code::kInvalidArgument) << moved.ToString();
    EXPECT_THAT(moved.message(), HasSubstr("the partitioner answers rank 2 of 2"));
  });
  EXPECT_EQ(WalkedByAReader(OnlyAmongWriters), model);
  Job(kWriters, With(OnlyAmongWriters), [&](int, Context& context, Database& db) {
    Expect(db, model, context);
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

// It throws if it is asked for the owner among so many ranks; never among none.
std::atomic<int> throws_among{0};
std::atomic<bool> throws_bad_alloc{false};
// The first keys of the parts of three ranks: it throws for them among two ranks, so that the other
// pairs of these parts do not move there.
bool Stays(Slice key) {
  return key == KeyOf(0) || key == KeyOf(10);
}

int ThrowsAmongSome(Slice key, int rank_count) {
  const bool hostile = rank_count == throws_among.load();
  if (hostile && throws_bad_alloc.load()) throw std::bad_alloc();
  if (hostile) throw std::runtime_error("its table is gone");
  if (rank_count == 2 && Stays(key)) throw std::runtime_error("it does not know the key");
  return ByBlock(key, rank_count);
}

// A database of the generations of two ranks, and of three before them.
class PartitionerThatThrows : public PartitionerOfTheProgram {
 protected:
  static constexpr int kOverwritten = 13;
  static constexpr int kDeleted = 14;
  static constexpr int kOld = 12;  // and all others

  void TearDown() override { Throw(0, false); }
  static void Throw(int among, bool bad_alloc) {
    throws_bad_alloc.store(bad_alloc);
    throws_among.store(among);
  }
  static void ExpectThrown(const Status& status, bool bad_alloc) {
    EXPECT_EQ(status.code(), bad_alloc ? Code::kOutOfMemory : Code::kInvalidArgument)
        << status.ToString();
    if (!bad_alloc) {
      EXPECT_THAT(status.message(), HasSubstr("the partitioner threw an exception: its table is"));
    }
  }
  // `inside` runs at two ranks, beside the generation of three.
  Model FillTwice(const SimCluster::DatabaseProgram& inside) {
    Model model = Fill(ThrowsAmongSome);
    Job(2, With(ThrowsAmongSome), [&](int rank, Context& context, Database& db) {
      if (rank == 0) {
        ASSERT_OK(db.Put(KeyOf(kOverwritten), "new"));
        ASSERT_OK(db.Delete(KeyOf(kDeleted)));
      }
      ASSERT_OK(db.Barrier(Level::kSsTable));
      inside(rank, context, db);
      ASSERT_OK(context.Barrier());
      static_cast<void>(db.Close());  // fails: the pairs of three ranks have not moved
    });
    model[KeyOf(kOverwritten)] = "new";
    model.erase(KeyOf(kDeleted));
    return model;
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, PartitionerThatThrows, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

Status Appends(Slice, const Slice* present, Slice argument, std::string* updated) {
  *updated = std::string(present == nullptr ? Slice("absent") : *present) + std::string(argument);
  return Status();
}

TEST_P(PartitionerThatThrows, FailsTheGetsOfKeysThatOlderGenerationsHave) {
  FillTwice([](int rank, Context& context, Database& db) {
    ASSERT_OK(db.RegisterUpdate(1, Appends));
    for (const bool bad_alloc : {false, true}) {
      ASSERT_OK(context.Barrier());
      if (rank == 0) Throw(kWriters, bad_alloc);
      ASSERT_OK(context.Barrier());
      for (const int i : {kOld, kOld + 10}) {  // of both ranks
        const std::string key = KeyOf(i);
        std::string value;
        std::vector<std::string> values;
        std::vector<bool> found;
        ExpectThrown(db.Get(key, &value), bad_alloc);
        ExpectThrown(db.GetAsync(key)->Take().status(), bad_alloc);
        ExpectThrown(db.GetMany({key}, &values, &found), bad_alloc);
        ExpectThrown(db.UpdateAndAnswer(key, 1, "+", &value), bad_alloc);
      }
      EXPECT_EQ(SimCluster::ValueOf(db, KeyOf(kOverwritten)), "new");
      EXPECT_EQ(SimCluster::ValueOf(db, KeyOf(kDeleted)), "<not found>");
      ASSERT_OK(context.Barrier());
      if (rank == 0) Throw(0, false);
      ASSERT_OK(context.Barrier());
      for (const int i : {kOld, kOld + 10}) {
        EXPECT_EQ(SimCluster::ValueOf(db, KeyOf(i)), ValueFor(0, i));
      }
    }
  });
}

TEST_P(PartitionerThatThrows, FailsTheGetsAndWalksOfAReader) {
  const Model model = FillTwice([](int, Context&, Database&) {});
  DatabaseReaderOptions options;
  options.partitioner = [](Slice key, int rank_count) {
    return Stays(key) ? ByBlock(key, rank_count) : ThrowsAmongSome(key, rank_count);
  };
  const auto reader = OpenDatabaseReader(*disk_, "/repository/db", options);
  ASSERT_OK(reader.status());
  std::string value;
  for (const bool bad_alloc : {false, true}) {
    Throw(kWriters, bad_alloc);
    ExpectThrown((*reader)->Get(KeyOf(kOld), &value), bad_alloc);
    EXPECT_OK((*reader)->Get(KeyOf(kOverwritten), &value));
    Throw(2, bad_alloc);
    for (const int i : {kOld, kOverwritten, kDeleted}) {
      ExpectThrown((*reader)->Get(KeyOf(i), &value), bad_alloc);
    }
    const auto walk = (*reader)->NewIterator();
    walk->SeekToFirst();
    while (walk->Valid()) walk->Next();
    ExpectThrown(walk->status(), bad_alloc);
    Throw(0, false);
    EXPECT_OK((*reader)->Get(KeyOf(kOld), &value));
    EXPECT_EQ((*reader)->Get(KeyOf(kDeleted), &value).code(), Code::kNotFound);
  }
  EXPECT_EQ(WalkedByAReader(options.partitioner), model);
}

// Without the answer of the newer generation a pair that was deleted there would come back.
TEST_P(PartitionerThatThrows, FailsTheOpenThatMovesPairsAndAllStay) {
  const Model model = FillTwice([](int, Context&, Database&) {});
  for (const bool bad_alloc : {true, false}) {
    Throw(2, bad_alloc);
    SimCluster(Ranks(4)).Run([&](int, Context& context) {
      const Status moved = context.Open("db", With(ThrowsAmongSome, true)).status();
      ExpectThrown(moved, bad_alloc);
    });
  }
  Throw(0, false);
  const auto by_block = [](Slice key, int rank_count) { return ByBlock(key, rank_count); };
  Job(4, With(by_block, true), [&](int, Context& context, Database& db) {
    Expect(db, model, context);
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

}  // namespace
}  // namespace quire::kv::partitioner_test
