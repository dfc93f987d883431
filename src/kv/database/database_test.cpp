// The parallel database over the simulated network: every call, on the seeded scheduler and on real
// threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/hash/hash.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::database_test {
namespace {

using testing::HasSubstr;

struct Mode {
  bool deterministic;
  bool own_disks;  // no direct reads: all gets are messages
};

std::string NameOf(const testing::TestParamInfo<Mode>& mode) {
  return std::string(mode.param.deterministic ? "Seeded" : "Threads") +
         (mode.param.own_disks ? "OwnDisks" : "OneDisk");
}

class DatabaseOverSim : public testing::TestWithParam<Mode> {
 protected:
  SimCluster::Options Ranks(int count) {
    SimCluster::Options options;
    options.rank_count = count;
    options.seed = ++seed_;
    options.deterministic = GetParam().deterministic;
    options.own_disks = GetParam().own_disks;
    return options;
  }
  // Opens "db", runs, closes.
  using Program = std::function<void(int rank, Context& context, Database& db)>;
  void RunDatabase(SimCluster& cluster, const DatabaseOptions& options, const Program& program) {
    cluster.Run([&](int rank, Context& context) {
      auto opened = context.Open("db", options);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      program(rank, context, **opened);
      ASSERT_OK((*opened)->Close());
    });
  }
  void RunDatabase(int count, const Program& program) {
    SimCluster cluster(Ranks(count));
    RunDatabase(cluster, SimCluster::SmallDatabase(), program);
  }
  bool DirectReads() const { return !GetParam().own_disks && !QUIRE_THREAD_SANITIZER; }
  uint64_t seed_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Modes, DatabaseOverSim,
                         testing::Values(Mode{true, false}, Mode{true, true}, Mode{false, false},
                                         Mode{false, true}),
                         NameOf);

std::string Key(int rank, int i) {
  return std::to_string(rank) + "/" + std::to_string(i);
}

std::string GetOr(Database& db, Slice key, const std::string& absent) {
  std::string value;
  const Status status = db.Get(key, &value);
  if (status.code() == Code::kNotFound) return absent;
  return status.ok() ? value : status.ToString();
}

TEST_P(DatabaseOverSim, EveryRankReadsWhatEveryRankWroteAfterABarrier) {
  for (int count = 1; count <= 4; ++count) {
    RunDatabase(count, [](int rank, Context& context, Database& db) {
      constexpr int kPairs = 300;
      for (int i = 0; i < kPairs; ++i) {
        ASSERT_OK(db.Put(Key(rank, i), "value of " + Key(rank, i)));
        ASSERT_EQ(GetOr(db, Key(rank, i), "(absent)"), "value of " + Key(rank, i));
      }
      ASSERT_OK(db.Barrier(Level::kMemTable));
      for (int other = 0; other < context.size(); ++other) {
        for (int i = 0; i < kPairs; ++i) {
          ASSERT_EQ(GetOr(db, Key(other, i), "(absent)"), "value of " + Key(other, i));
        }
      }
      ASSERT_EQ(GetOr(db, "nobody wrote this", "(absent)"), "(absent)");
      ASSERT_OK(db.Barrier(Level::kMemTable));
      for (int i = 0; i < kPairs; i += 2) ASSERT_OK(db.Delete(Key((rank + 1) % context.size(), i)));
      ASSERT_OK(db.Barrier(Level::kSsTable));
      for (int i = 0; i < kPairs; ++i) {
        ASSERT_EQ(GetOr(db, Key(rank, i), "(absent)"),
                  i % 2 == 0 ? "(absent)" : "value of " + Key(rank, i));
      }
    });
  }
}

TEST_P(DatabaseOverSim, KeepsDataFromOneJobToTheNext) {
  SimCluster cluster(Ranks(3));
  for (const WalMode log : {WalMode::kOn, WalMode::kOff, WalMode::kSync}) {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.storage.wal = log;
    const std::string suffix = std::to_string(static_cast<int>(log));
    RunDatabase(cluster, options, [&](int rank, Context&, Database& db) {
      for (int i = 0; i < 100; ++i) ASSERT_OK(db.Put(Key(rank, i) + suffix, "v" + suffix));
    });
    RunDatabase(cluster, options, [&](int rank, Context&, Database& db) {
      for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(GetOr(db, Key((rank + 1) % 3, i) + suffix, "(absent)"), "v" + suffix);
      }
    });
  }
}

TEST_P(DatabaseOverSim, ARankReadsItsOwnRelaxedWritesOfAnySize) {
  RunDatabase(3, [](int rank, Context&, Database& db) {
    for (const size_t size : {0u, 1u, 100u, 900u, 1100u, 5000u, 20'000u, 100'000u}) {
      for (int i = 0; i < 5; ++i) {
        const std::string key = Key(rank, i) + "/" + std::to_string(size);
        ASSERT_OK(db.Put(key, std::string(size, 'a')));
        ASSERT_OK(db.Put(key, std::string(size, 'b')));
        ASSERT_EQ(GetOr(db, key, "(absent)"), std::string(size, 'b')) << key;
        if (i % 2 == 0) continue;
        ASSERT_OK(db.Delete(key));
        ASSERT_EQ(GetOr(db, key, "(absent)"), "(absent)") << key;
      }
    }
  });
}

TEST_P(DatabaseOverSim, SequentialWritesAreSeenByAllAtOnce) {
  RunDatabase(3, [](int rank, Context& context, Database& db) {
    ASSERT_OK(db.SetConsistency(Consistency::kSequential));
    for (int i = 0; i < 30; ++i) {
      ASSERT_OK(db.Put("turn", std::to_string(rank)));
      ASSERT_OK(db.Put(Key(rank, i), std::to_string(i)));
      if (rank == i % 3) {
        ASSERT_OK(context.Notify(7, {(rank + 1) % 3}));
      } else if (rank == (i + 1) % 3) {
        ASSERT_OK(context.WaitSignal(7, {i % 3}));
        ASSERT_EQ(GetOr(db, Key(i % 3, i), "(absent)"), std::to_string(i));
      }
    }
  });
}

TEST_P(DatabaseOverSim, AFenceAndASignalHandOverRelaxedWrites) {
  RunDatabase(2, [](int rank, Context& context, Database& db) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = "shared " + std::to_string(i);
      if (rank == i % 2) {
        ASSERT_OK(db.Put(key, "from " + std::to_string(rank)));
        ASSERT_OK(db.Fence());
        ASSERT_OK(context.Notify(1, {1 - rank}));
      } else {
        ASSERT_OK(context.WaitSignal(1, {1 - rank}));
        ASSERT_EQ(GetOr(db, key, "(absent)"), "from " + std::to_string(1 - rank));
      }
    }
  });
}

TEST_P(DatabaseOverSim, BulkCallsDoWhatSingleOnesDo) {
  for (const Consistency consistency : {Consistency::kRelaxed, Consistency::kSequential}) {
    RunDatabase(3, [consistency](int rank, Context&, Database& db) {
      ASSERT_OK(db.SetConsistency(consistency));
      std::vector<std::string> names, contents;
      for (int i = 0; i < 200; ++i) {
        names.push_back(Key(rank, i));
        contents.push_back(std::string(static_cast<size_t>(i * 7), static_cast<char>('a' + rank)));
      }
      std::vector<std::pair<Slice, Slice>> pairs;
      std::vector<Slice> keys;
      for (size_t i = 0; i < names.size(); ++i) pairs.emplace_back(names[i], contents[i]);
      for (const std::string& name : names) keys.push_back(name);
      ASSERT_OK(db.PutMany(pairs));
      std::vector<std::string> values;
      std::vector<bool> found;
      ASSERT_OK(db.GetMany(keys, &values, &found));
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_TRUE(found[i]) << i;
        ASSERT_EQ(values[i], contents[i]) << i;
      }
      ASSERT_OK(db.DeleteMany({keys.begin(), keys.begin() + 100}));
      ASSERT_OK(db.Barrier(Level::kMemTable));
      const int other = (rank + 1) % 3;
      std::vector<std::string> theirs;
      for (int i = 0; i < 200; ++i) theirs.push_back(Key(other, i));
      keys.assign(theirs.begin(), theirs.end());
      ASSERT_OK(db.GetMany(keys, &values, &found));
      for (size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(found[i], i >= 100) << i;
        if (found[i]) {
          ASSERT_EQ(values[i], std::string(i * 7, static_cast<char>('a' + other)));
        }
      }
    });
  }
}

TEST_P(DatabaseOverSim, ABatchIsAppliedAfterWhatWasStagedBefore) {
  RunDatabase(2, [](int rank, Context&, Database& db) {
    for (int i = 0; i < 50; ++i) ASSERT_OK(db.Put(Key(rank, i), "staged"));
    Batch batch;
    for (int i = 0; i < 50; ++i) {
      if (i % 5 == 0) {
        batch.Delete(Key(rank, i));
      } else {
        batch.Put(Key(rank, i), "batch");
      }
    }
    ASSERT_OK(db.Write(batch));
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(GetOr(db, Key(rank, i), "(absent)"), i % 5 == 0 ? "(absent)" : "batch");
    }
  });
}

TEST_P(DatabaseOverSim, ABatchThatFitsNoMemTableIsRefusedWhole) {
  RunDatabase(2, [](int rank, Context&, Database& db) {
    Batch batch;
    for (int i = 0; i < 400; ++i) batch.Put(Key(rank, i), std::string(900, 'x'));
    EXPECT_CODE(db.Write(batch), Code::kInvalidArgument);
    for (int i = 0; i < 400; ++i) ASSERT_EQ(GetOr(db, Key(rank, i), "(absent)"), "(absent)");
  });
}

TEST_P(DatabaseOverSim, AsynchronousGetsAreAnsweredInAnyOrder) {
  RunDatabase(3, [](int rank, Context&, Database& db) {
    for (int i = 0; i < 100; ++i) ASSERT_OK(db.Put(Key(rank, i), "v" + std::to_string(i)));
    ASSERT_OK(db.Barrier(Level::kMemTable));
    std::vector<std::unique_ptr<PendingGet>> gets;
    const int other = (rank + 1) % 3;
    for (int i = 0; i < 110; ++i) gets.push_back(db.GetAsync(Key(other, i)));
    for (int i = 109; i >= 0; --i) {
      const size_t at = static_cast<size_t>(i);
      if (i % 3 == 0) {
        while (!gets[at]->Ready()) std::this_thread::yield();
      }
      const Result<std::string> value = gets[at]->Take();
      if (i < 100) {
        ASSERT_TRUE(value.ok()) << value.status().ToString();
        ASSERT_EQ(*value, "v" + std::to_string(i));
      } else {
        ASSERT_EQ(value.status().code(), Code::kNotFound);
      }
      ASSERT_EQ(gets[at]->Take().status().code(), Code::kInvalidArgument);
    }
  });
}

// Adds the argument, a number in text, to the value; an argument of "drop" writes nothing, "fail"
// fails.
Status AddNumber(Slice, const Slice* present, Slice argument, std::string* updated) {
  if (argument == "drop") return Status(Code::kNotFound);
  if (argument == "fail") return Status(Code::kInvalidArgument, "told to fail");
  const long before = present == nullptr ? 0 : std::stol(std::string(*present));
  *updated = std::to_string(before + std::stol(std::string(argument)));
  return Status();
}

TEST_P(DatabaseOverSim, UpdatesOfAllRanksAddUp) {
  for (const Consistency consistency : {Consistency::kRelaxed, Consistency::kSequential}) {
    RunDatabase(3, [consistency](int rank, Context&, Database& db) {
      ASSERT_OK(db.RegisterUpdate(4, AddNumber));
      ASSERT_OK(db.Protect(Protection::kUpdateOnly));
      ASSERT_OK(db.SetConsistency(consistency));
      EXPECT_CODE(db.Put("k", "v"), Code::kReadOnly);
      for (int i = 0; i < 200; ++i) {
        ASSERT_OK(db.Update("sum " + std::to_string(i % 10), 4, std::to_string(rank + 1)));
        ASSERT_OK(db.Update("sum 0", 4, "drop"));
      }
      ASSERT_OK(db.Update(Key(rank, 0), 4, "5"));
      ASSERT_EQ(GetOr(db, Key(rank, 0), "(absent)"), "5") << "own update, at once";
      ASSERT_OK(db.Barrier(Level::kMemTable));
      for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(GetOr(db, "sum " + std::to_string(i), "(absent)"), std::to_string(20 * 6));
      }
    });
  }
}

TEST_P(DatabaseOverSim, AFailingUpdateIsReportedByTheFenceWithTheCount) {
  RunDatabase(2, [](int rank, Context& context, Database& db) {
    ASSERT_OK(db.RegisterUpdate(1, AddNumber));
    ASSERT_OK(context.Barrier());
    std::string key = "k";
    while (db.Owner(key) == rank) key += "k";
    ASSERT_OK(db.Update(key, 1, "3"));
    ASSERT_OK(db.Update(key, 1, "fail"));
    ASSERT_OK(db.Update(key, 1, "4"));
    ASSERT_OK(db.Update(key, 99, "4"));
    const Status fenced = db.Fence();
    EXPECT_CODE(fenced, Code::kInvalidArgument);
    EXPECT_THAT(fenced.message(), HasSubstr("2 operations lost"));
    EXPECT_THAT(fenced.message(), HasSubstr("told to fail"));
    ASSERT_EQ(GetOr(db, key, "(absent)"), "7");
    ASSERT_OK(db.Fence());
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.SetConsistency(Consistency::kSequential));
    EXPECT_THAT(db.Update(key, 1, "fail").message(), HasSubstr("told to fail"));
    EXPECT_THAT(db.Update(key, 98, "").message(), HasSubstr("98 is not registered"));
  });
}

TEST_P(DatabaseOverSim, ProtectionRefusesWhatItSays) {
  RunDatabase(2, [](int rank, Context&, Database& db) {
    ASSERT_OK(db.RegisterUpdate(1, AddNumber));
    ASSERT_OK(db.Put(Key(rank, 1), "1"));
    ASSERT_OK(db.Protect(Protection::kWriteOnly));
    std::string value;
    const Status get = db.Get(Key(rank, 1), &value);
    EXPECT_CODE(get, Code::kInvalidArgument);
    EXPECT_THAT(get.message(), HasSubstr("write-only"));
    EXPECT_CODE(db.GetAsync("k")->Take().status(), Code::kInvalidArgument);
    EXPECT_CODE(db.NewLocalIterator()->status(), Code::kInvalidArgument);
    ASSERT_OK(db.Put(Key(rank, 2), "2"));
    ASSERT_OK(db.Protect(Protection::kReadOnly));
    for (int other = 0; other < 2; ++other) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        ASSERT_EQ(GetOr(db, Key(other, 2), "(absent)"), "2");
      }
    }
    const Status put = db.Put("k", "v");
    EXPECT_CODE(put, Code::kReadOnly);
    EXPECT_THAT(put.message(), HasSubstr("read-only"));
    EXPECT_CODE(db.Delete("k"), Code::kReadOnly);
    EXPECT_CODE(db.Update("k", 1, "1"), Code::kReadOnly);
    EXPECT_CODE(db.PutMany({{"k", "v"}}), Code::kReadOnly);
    EXPECT_CODE(db.Write(Batch()), Code::kReadOnly);
    ASSERT_OK(db.Protect(Protection::kReadWrite));
    ASSERT_OK(db.Put(Key(rank, 2), "3"));
    ASSERT_OK(db.Barrier(Level::kMemTable));
    for (int other = 0; other < 2; ++other) ASSERT_EQ(GetOr(db, Key(other, 2), "(absent)"), "3");
  });
}

TEST_P(DatabaseOverSim, TheRemoteCacheAnswersOnlyInReadOnlyPhases) {
  if (DirectReads()) GTEST_SKIP() << "neighbours are read directly, not cached";
  RunDatabase(2, [](int rank, Context&, Database& db) {
    for (int i = 0; i < 50; ++i) ASSERT_OK(db.Put(Key(rank, i), "first"));
    ASSERT_OK(db.Protect(Protection::kReadOnly));
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (int i = 0; i < 50; ++i) ASSERT_EQ(GetOr(db, Key(1 - rank, i), "(absent)"), "first");
    }
    const Statistics read = db.GetStatistics();
    EXPECT_EQ(read.at("cache.remote.hits"), read.at("gets.message"));
    EXPECT_GT(read.at("memory.remote_cache"), 0u);
    ASSERT_OK(db.Protect(Protection::kReadWrite));
    EXPECT_EQ(db.GetStatistics().at("memory.remote_cache"), 0u);
    for (int i = 0; i < 50; ++i) ASSERT_OK(db.Put(Key(rank, i), "second"));
    ASSERT_OK(db.Protect(Protection::kReadOnly));
    for (int i = 0; i < 50; ++i) ASSERT_EQ(GetOr(db, Key(1 - rank, i), "(absent)"), "second");
  });
}

TEST_P(DatabaseOverSim, TheLocalCacheNeverHidesAWrite) {
  SimCluster cluster(Ranks(2));
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.local_cache_bytes = 1 << 20;
  RunDatabase(cluster, options, [](int rank, Context&, Database& db) {
    for (int round = 0; round < 5; ++round) {
      const std::string value = "round " + std::to_string(round);
      for (int i = 0; i < 40; ++i) ASSERT_OK(db.Put(Key(rank, i), value));
      ASSERT_OK(db.Barrier(Level::kSsTable));
      for (int repeat = 0; repeat < 2; ++repeat) {
        for (int i = 0; i < 40; ++i) {
          ASSERT_EQ(GetOr(db, Key(0, i), "(absent)"), value);
          ASSERT_EQ(GetOr(db, Key(1, i), "(absent)"), value);
        }
      }
      ASSERT_OK(db.Barrier(Level::kMemTable));
    }
    EXPECT_GT(db.GetStatistics().at("cache.local.hits"), 0u);
  });
}

TEST_P(DatabaseOverSim, DirectReadsReachNeighboursAndNoOtherRanks) {
  RunDatabase(3, [this](int rank, Context&, Database& db) {
    for (int i = 0; i < 200; ++i) ASSERT_OK(db.Put(Key(rank, i), std::string(100, 'v')));
    ASSERT_OK(db.Barrier(Level::kMemTable));
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(GetOr(db, Key((rank + 1) % 3, i), "(absent)"), std::string(100, 'v'));
    }
    const Statistics statistics = db.GetStatistics();
    if (!DirectReads()) {
      EXPECT_EQ(statistics.at("direct.neighbours"), 0u);
      EXPECT_EQ(statistics.at("gets.direct"), 0u);
      EXPECT_GT(statistics.at("gets.message"), 0u);
    } else {
      EXPECT_EQ(statistics.at("direct.neighbours"), 2u);
      EXPECT_GT(statistics.at("gets.direct"), 0u);
      EXPECT_EQ(statistics.at("gets.message"), statistics.at("gets.direct_busy"));
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
  });
}

// The names between backquotes in docs/statistics.md, but for those of datasets.
std::set<std::string> DocumentedStatistics() {
  std::ifstream file(QUIRE_SOURCE_DIR "/docs/statistics.md");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line) && line != "## Of datasets";) {
    if (line.rfind("| `", 0) != 0) continue;
    const std::string cell = line.substr(0, line.find('|', 1));
    for (size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at + 1)) {
      const size_t end = cell.find('`', at + 1);
      names.insert(cell.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return names;
}

TEST_P(DatabaseOverSim, StatisticsAreThoseThatAreDocumented) {
  RunDatabase(2, [](int, Context&, Database& db) {
    std::set<std::string> names;
    for (const auto& [name, count] : db.GetStatistics()) names.insert(name);
    EXPECT_EQ(names, DocumentedStatistics());
  });
}

TEST_P(DatabaseOverSim, IteratesOverThePairsThatARankOwns) {
  RunDatabase(3, [](int rank, Context& context, Database& db) {
    std::map<std::string, std::string> mine;
    for (int i = 0; i < 300; ++i) {
      ASSERT_OK(db.Put(Key(rank, i), std::to_string(i)));
      for (int other = 0; other < context.size(); ++other) {
        if (db.Owner(Key(other, i)) == rank) mine[Key(other, i)] = std::to_string(i);
      }
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
    const auto iterator = db.NewLocalIterator();
    auto expected = mine.begin();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++expected) {
      ASSERT_NE(expected, mine.end());
      ASSERT_EQ(iterator->key(), expected->first);
      ASSERT_EQ(iterator->value(), expected->second);
    }
    ASSERT_EQ(expected, mine.end());
    ASSERT_OK(iterator->status());
    iterator->SeekToLast();
    ASSERT_EQ(iterator->key(), mine.rbegin()->first);
    iterator->Seek(mine.begin()->first + "\0");
    ASSERT_TRUE(iterator->Valid());
    ASSERT_OK(db.Barrier(Level::kMemTable));
  });
}

TEST_P(DatabaseOverSim, SeveralDatabasesAreOpenAtOnceWithPropertiesOfTheirOwn) {
  SimCluster cluster(Ranks(2));
  cluster.Run([](int rank, Context& context) {
    DatabaseOptions sequential = SimCluster::SmallDatabase();
    sequential.consistency = Consistency::kSequential;
    DatabaseOptions by_length = SimCluster::SmallDatabase();
    by_length.partitioner = [](Slice key, int count) {
      return static_cast<int>(key.size() % static_cast<size_t>(count));
    };
    by_length.partitioner_name = "length";
    auto one = context.Open("one", sequential);
    auto two = context.Open("two", by_length);
    ASSERT_TRUE(one.ok() && two.ok());
    EXPECT_EQ((*two)->Owner("abc"), 1);
    EXPECT_EQ((*two)->Owner("abcd"), 0);
    ASSERT_OK((*one)->Put(Key(rank, 0), "in one"));
    ASSERT_OK((*two)->Put(Key(rank, 0), "in two"));
    ASSERT_OK((*two)->Fence());
    ASSERT_OK(context.Barrier());
    for (int other = 0; other < 2; ++other) {
      EXPECT_EQ(GetOr(**one, Key(other, 0), "(absent)"), "in one");
      EXPECT_EQ(GetOr(**two, Key(other, 0), "(absent)"), "in two");
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK((*one)->Close());
    EXPECT_EQ(GetOr(**two, Key(1 - rank, 0), "(absent)"), "in two");
    ASSERT_OK((*two)->Close());
  });
}

TEST_P(DatabaseOverSim, AClosedDatabaseRefusesEveryCall) {
  SimCluster cluster(Ranks(2));
  cluster.Run([](int, Context& context) {
    auto opened = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_TRUE(opened.ok());
    Database& db = **opened;
    ASSERT_OK(db.Close());
    std::string value;
    const Status get = db.Get("k", &value);
    EXPECT_CODE(get, Code::kInvalidArgument);
    EXPECT_THAT(get.message(), HasSubstr("closed"));
    EXPECT_CODE(db.Put("k", "v"), Code::kInvalidArgument);
    EXPECT_CODE(db.Delete("k"), Code::kInvalidArgument);
    EXPECT_CODE(db.Fence(), Code::kInvalidArgument);
    EXPECT_CODE(db.Barrier(Level::kMemTable), Code::kInvalidArgument);
    EXPECT_CODE(db.Protect(Protection::kReadOnly), Code::kInvalidArgument);
    EXPECT_CODE(db.SetConsistency(Consistency::kRelaxed), Code::kInvalidArgument);
    EXPECT_CODE(db.Compact(), Code::kInvalidArgument);
    EXPECT_CODE(db.RegisterUpdate(1, AddNumber), Code::kInvalidArgument);
    EXPECT_CODE(db.Update("k", 1, "1"), Code::kInvalidArgument);
    EXPECT_CODE(db.Close(), Code::kInvalidArgument);
    EXPECT_CODE(db.NewLocalIterator()->status(), Code::kInvalidArgument);
    EXPECT_TRUE(db.GetStatistics().empty());
    EXPECT_EQ(db.name(), "db");
  });
}

TEST_P(DatabaseOverSim, HandlesEndInAnyOrder) {
  SimCluster cluster(Ranks(2));
  cluster.RunRaw([](int rank, Result<std::unique_ptr<Context>> context) {
    ASSERT_TRUE(context.ok());
    auto first = (*context)->Open("first", SimCluster::SmallDatabase());
    auto second = (*context)->Open("second", SimCluster::SmallDatabase());
    ASSERT_TRUE(first.ok() && second.ok());
    ASSERT_OK((*first)->Put(Key(rank, 1), "v"));
    ASSERT_OK((*second)->Put(Key(rank, 1), "v"));
    auto iterator = (*second)->NewLocalIterator();
    auto pending = (*second)->GetAsync(Key(rank, 1));
    ASSERT_OK((*second)->Barrier(Level::kMemTable));
    ASSERT_OK((*first)->Barrier(Level::kMemTable));
    first = Status(Code::kNotFound);  // without Close
    ASSERT_OK((*context)->Barrier());
    *context = nullptr;  // while a database, an iterator and a get are there
    std::string value;
    EXPECT_CODE((*second)->Get("k", &value), Code::kInvalidArgument);
    iterator->SeekToFirst();
    EXPECT_FALSE(iterator->Valid());
    EXPECT_CODE(iterator->status(), Code::kInvalidArgument);
  });
  cluster.Run([](int rank, Context& context) {
    for (const char* name : {"first", "second"}) {
      auto opened = context.Open(name, SimCluster::SmallDatabase());
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      EXPECT_EQ(GetOr(**opened, Key(1 - rank, 1), "(absent)"), "v");
      ASSERT_OK((*opened)->Close());
    }
  });
}

TEST_P(DatabaseOverSim, StagingIsBoundedAndNothingIsLost) {
  SimCluster cluster(Ranks(2));
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.storage.memtable_bytes = 1 << 20;
  RunDatabase(cluster, options, [](int rank, Context&, Database& db) {
    const std::string value(200, 'v');
    for (int i = 0; i < 2000; ++i) {
      ASSERT_OK(db.Put(Key(rank, i), value));
      if (i % 100 == 0) {
        ASSERT_LE(db.GetStatistics().at("memory.staging"), 64u * 1024 + 8192);
      }
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(GetOr(db, Key(1 - rank, i), "(absent)"), value);
    ASSERT_OK(db.Barrier(Level::kMemTable));
  });
}

TEST_P(DatabaseOverSim, DestroyRemovesADatabaseAndNothingElse) {
  SimCluster cluster(Ranks(2));
  RunDatabase(cluster, SimCluster::SmallDatabase(),
              [](int rank, Context&, Database& db) { ASSERT_OK(db.Put(Key(rank, 0), "v")); });
  const auto kept = cluster.disk(0).Open("/repository/db/notes", io::FileOpenMode::kCreate);
  ASSERT_TRUE(kept.ok());
  cluster.Run([](int, Context& context) {
    EXPECT_CODE(context.Destroy("nothing"), Code::kNotFound);
    EXPECT_CODE(context.Destroy("../db"), Code::kInvalidArgument);
    {
      auto opened = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_TRUE(opened.ok());
      EXPECT_CODE(context.Destroy("db"), Code::kBusy);
      ASSERT_OK((*opened)->Close());
    }
    ASSERT_OK(context.Destroy("db"));
    DatabaseOptions must_exist = SimCluster::SmallDatabase();
    must_exist.mode = OpenMode::kMustExist;
    EXPECT_CODE(context.Open("db", must_exist).status(), Code::kNotFound);
    auto again = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(GetOr(**again, Key(0, 0), "(absent)"), "(absent)");
    ASSERT_OK((*again)->Close());
  });
  EXPECT_TRUE(*cluster.disk(0).Exists("/repository/db/notes"));
}

// Files of these names, below the database's directory on the disks of all ranks.
void LeaveInLost(SimCluster& cluster, const std::vector<const char*>& names) {
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_OK(io::MakeDurableDirectory(cluster.disk(rank), "/repository/db/lost"));
    for (const char* name : names) {
      ASSERT_OK(
          io::ReplaceFile(cluster.disk(rank), std::string("/repository/db/lost/") + name, "x"));
    }
  }
}

TEST_P(DatabaseOverSim, DestroyRemovesWhatRepairHasSetAsideAndNothingElseThere) {
  const std::vector<const char*> of_repair = {"DATABASE", "gen-1.rank-0.t-7.sst",
                                              "gen-12.rank-1.MANIFEST", "gen-1.rank-1.x.tmp"};
  const std::vector<const char*> of_others = {"notes", "gen-1.notes", "gen-1.rank-x.notes",
                                              "gen-1.rank-1.", "rank-1.gen-1.t-7.sst"};
  for (const bool others : {false, true}) {
    SimCluster cluster(Ranks(2));
    RunDatabase(cluster, SimCluster::SmallDatabase(),
                [](int rank, Context&, Database& db) { ASSERT_OK(db.Put(Key(rank, 0), "v")); });
    LeaveInLost(cluster, of_repair);
    if (others) LeaveInLost(cluster, of_others);
    cluster.Run([](int, Context& context) { ASSERT_OK(context.Destroy("db")); });
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(*cluster.disk(rank).Exists("/repository/db"), others);
      if (!others) continue;
      const auto left = cluster.disk(rank).List("/repository/db/lost");
      ASSERT_OK(left.status());
      EXPECT_EQ(left->size(), of_others.size());
    }
  }
}

TEST_P(DatabaseOverSim, BadInputIsReportedAlikeOnAllRanks) {
  SimCluster cluster(Ranks(3));
  cluster.Run([](int rank, Context& context) {
    const DatabaseOptions small = SimCluster::SmallDatabase();
    for (const char* name : {"", "a/b", "..", "../x", ".hidden", "-x", "a b"}) {
      EXPECT_CODE(context.Open(name, small).status(), Code::kInvalidArgument) << name;
    }
    DatabaseOptions options = small;
    options.mode = OpenMode::kMustExist;
    EXPECT_CODE(context.Open("none", options).status(), Code::kNotFound);
    options = small;
    options.storage.memtable_bytes = 1;
    EXPECT_CODE(context.Open("db", options).status(), Code::kInvalidArgument);
    options = small;
    options.migrate_batch_bytes += static_cast<uint64_t>(rank) * 8;
    Status status = context.Open("db", options).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("migrate_batch_bytes"));
    status = context.Open(rank == 1 ? "other" : "db", small).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("other"));
    // An invalid option on one rank alone: Open fails on all ranks.
    options = small;
    if (rank == 2) options.storage.block_bytes = 3;
    status = context.Open("db", options).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("rank 2"));
    EXPECT_THAT(status.message(), HasSubstr("block_bytes"));
    options = small;
    options.storage.memtable_bytes = 256 * 1024;
    auto opened = context.Open("db", options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    Database& db = **opened;
    EXPECT_CODE(db.Put("", "v"), Code::kInvalidArgument);
    EXPECT_CODE(db.Put(std::string(65'537, 'k'), "v"), Code::kInvalidArgument);
    ASSERT_OK(db.Put(std::string(65'536, 'k'), "v"));
    EXPECT_EQ(GetOr(db, std::string(65'536, 'k'), "(absent)"), "v");
    // Refused before a byte of it is read, whoever owns the key.
    for (const char* const key : {"a", "b", "c", "d"}) {
      EXPECT_CODE(db.Put(key, Slice(key, 1ull << 32)), Code::kInvalidArgument);
      const Status update = db.Update(key, 1, Slice(key, (1ull << 32) - 4));
      EXPECT_CODE(update, Code::kInvalidArgument);
      EXPECT_THAT(update.message(), HasSubstr("argument of 4294967292 bytes"));
    }
    std::string value;
    EXPECT_CODE(db.Get("", &value), Code::kInvalidArgument);
    EXPECT_CODE(db.Barrier(static_cast<Level>(9)), Code::kInvalidArgument);
    EXPECT_CODE(db.Protect(static_cast<Protection>(9)), Code::kInvalidArgument);
    EXPECT_CODE(db.SetConsistency(static_cast<Consistency>(9)), Code::kInvalidArgument);
    status = db.Protect(rank == 0 ? Protection::kReadOnly : Protection::kWriteOnly);
    EXPECT_CODE(status, Code::kInvalidArgument);
    ASSERT_OK(db.Put("still", "writable"));
    EXPECT_CODE(context.Notify(1, {0, 3}), Code::kInvalidArgument);
    EXPECT_CODE(context.WaitSignal(1, {-1}), Code::kInvalidArgument);
    ASSERT_OK(db.Close());
  });
}

TEST_P(DatabaseOverSim, AWrongPartitionerIsReported) {
  SimCluster cluster(Ranks(2));
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.partitioner = [](Slice key, int) { return key == "bad" ? 2 : key == "worse" ? -1 : 0; };
  RunDatabase(cluster, options, [](int, Context&, Database& db) {
    EXPECT_CODE(db.Put("bad", "v"), Code::kInvalidArgument);
    EXPECT_CODE(db.Delete("worse"), Code::kInvalidArgument);
    std::string value;
    const Status get = db.Get("bad", &value);
    EXPECT_CODE(get, Code::kInvalidArgument);
    EXPECT_THAT(get.message(), HasSubstr("partitioner"));
    const Status many = db.PutMany({{"bad", "v"}, {"good", "v"}, {"worse", "v"}});
    EXPECT_CODE(many, Code::kInvalidArgument);
    EXPECT_THAT(many.message(), HasSubstr("2 of 3"));
    EXPECT_EQ(GetOr(db, "good", "(absent)"), "v");
  });
  // Another partitioner than it was made with.
  cluster.Run([](int, Context& context) {
    const Status status = context.Open("db", SimCluster::SmallDatabase()).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("custom"));
  });
}

TEST_P(DatabaseOverSim, ContextOptionsThatDifferAreReported) {
  comm::SimNetwork::Options network;
  network.rank_count = 2;
  network.deterministic = GetParam().deterministic;
  const auto disk = io::NewSimFileSystem();
  comm::SimNetwork::Create(network)->Run([&](int rank, std::unique_ptr<comm::Transport> transport) {
    runtime::Environment environment;
    environment.fs = disk.get();
    ContextOptions options;
    options.background_threads = 1 + rank;
    const Status status =
        NewContext(environment, std::move(transport), "/repository", options).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("background_threads = 2"));
    EXPECT_THAT(status.message(), HasSubstr("; give the same on all ranks"));
  });
}

TEST_P(DatabaseOverSim, AgreesWithAModelOverManyRandomOperations) {
  // Every rank writes keys of its own, to all owners: so each knows what its keys hold at any time.
  const int steps = 25'000;
  SimCluster cluster(Ranks(3));
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.storage.memtable_bytes = 256 * 1024;
  options.local_cache_bytes = 64 * 1024;
  RunDatabase(cluster, options, [&](int rank, Context&, Database& db) {
    std::mt19937_64 random(static_cast<uint64_t>(rank) * 77 + 5);
    std::map<std::string, std::string> model;
    for (int step = 0; step < steps; ++step) {
      const std::string key = Key(rank, static_cast<int>(random() % 200));
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {
          const std::string value(random() % (random() % 50 == 0 ? 3000 : 60),
                                  static_cast<char>('a' + step % 26));
          ASSERT_OK(db.Put(key, value));
          model[key] = value;
          break;
        }
        case 3:
          ASSERT_OK(db.Delete(key));
          model.erase(key);
          break;
        case 4:
          if (random() % 200 == 0) ASSERT_OK(db.Fence());
          break;
        default: {
          const auto expected = model.find(key);
          ASSERT_EQ(GetOr(db, key, "(absent)"),
                    expected == model.end() ? "(absent)" : expected->second)
              << "step " << step;
        }
      }
    }
    ASSERT_OK(db.Barrier(Level::kSsTable));
    for (int i = 0; i < 200; ++i) {
      const auto expected = model.find(Key(rank, i));
      ASSERT_EQ(GetOr(db, Key(rank, i), "(absent)"),
                expected == model.end() ? "(absent)" : expected->second);
    }
  });
}

TEST_P(DatabaseOverSim, ManyThreadsOfARankMayCallAtOnce) {
  if (GetParam().deterministic) GTEST_SKIP() << "the seeded scheduler runs one thread per rank";
  RunDatabase(2, [](int rank, Context&, Database& db) {
    ASSERT_OK(db.RegisterUpdate(1, AddNumber));
    ASSERT_OK(db.Barrier(Level::kMemTable));
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&db, rank, t] {
        const std::string prefix = std::to_string(rank) + "." + std::to_string(t) + ".";
        for (int i = 0; i < 300; ++i) {
          ASSERT_OK(db.Put(prefix + std::to_string(i), std::to_string(i)));
          ASSERT_OK(db.Update("sum", 1, "1"));
          ASSERT_EQ(GetOr(db, prefix + std::to_string(i), "(absent)"), std::to_string(i));
          if (i % 50 == 0) ASSERT_OK(db.Fence());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_OK(db.Barrier(Level::kMemTable));
    ASSERT_EQ(GetOr(db, "sum", "(absent)"), std::to_string(2 * 3 * 300));
    for (int t = 0; t < 3; ++t) {
      const std::string prefix = std::to_string(1 - rank) + "." + std::to_string(t) + ".";
      for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(GetOr(db, prefix + std::to_string(i), "(absent)"), std::to_string(i));
      }
    }
    ASSERT_OK(db.Barrier(Level::kMemTable));
  });
}

}  // namespace
}  // namespace quire::kv::database_test
