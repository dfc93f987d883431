// What is refused, by whom, and what the text says: calls on a closed database, places that a
// caller does not give, and bulk calls of which one part fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::refusals_test {
namespace {

using testing::HasSubstr;
using testing::Not;

SimCluster::Options Ranks(int count, bool own_disks) {
  SimCluster::Options options;
  options.rank_count = count;
  options.own_disks = own_disks;
  return options;
}

std::string ValueOf(Database& db, Slice key) {
  return SimCluster::ValueOf(db, key);
}

constexpr char kAbsent[] = "<not found>";

TEST(Refusals, AClosedDatabaseRefusesBulkCallsAndAsynchronousGets) {
  for (const int count : {1, 2}) {
    SimCluster cluster(Ranks(count, true));
    cluster.RunDatabase(SimCluster::SmallDatabase(), [](int, Context&, Database& db) {
      ASSERT_OK(db.Close());
      const auto expect_closed = [](const Status& status) {
        EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
        EXPECT_THAT(status.message(), HasSubstr("database db is closed"));
      };
      expect_closed(db.PutMany({{"k", "v"}}));
      expect_closed(db.PutMany({}));
      expect_closed(db.DeleteMany({"k"}));
      std::vector<std::string> values;
      std::vector<bool> found;
      expect_closed(db.GetMany({"k"}, &values, &found));
      Batch batch;
      expect_closed(db.Write(batch));
      batch.Put("k", "v");
      expect_closed(db.Write(batch));
      const auto pending = db.GetAsync("k");
      ASSERT_NE(pending, nullptr);
      EXPECT_TRUE(pending->Ready());
      expect_closed(pending->Take().status());
      expect_closed(db.Delete("k"));
    });
  }
}

// A value of the owner's MemTable, of its table, one that lies apart; each may come by a path of
// its own.
void ExpectPlacesMayBeRefused(Database& db, const std::string& prefix, int owner) {
  for (const char* const kind : {"small", "large", "empty"}) {
    const std::string key = SimCluster::KeyOwnedBy(db, owner, prefix + kind);
    int asked = 0;
    const Status refused = db.Get(key, [&asked](size_t) {
      ++asked;
      return static_cast<char*>(nullptr);
    });
    EXPECT_EQ(refused.code(), Code::kOutOfMemory) << key << ": " << refused.ToString();
    EXPECT_FALSE(refused.message().empty());
    EXPECT_GE(asked, 1) << key;
    EXPECT_THAT(ValueOf(db, key), Not(HasSubstr("<"))) << "the next one is not harmed";
  }
}

void PutKinds(Database& db, const std::string& prefix, int owner) {
  ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, owner, prefix + "small"), "value"));
  ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, owner, prefix + "large"), std::string(20'000, 'l')));
  ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, owner, prefix + "empty"), ""));
}

TEST(Refusals, APlaceThatIsNotGivenIsOutOfMemoryOnEveryPath) {
  for (const bool own_disks : {false, true}) {
    SimCluster cluster(Ranks(2, own_disks));
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.local_cache_bytes = 1 << 20;
    cluster.RunDatabase(options, [&](int rank, Context& context, Database& db) {
      const int other = 1 - rank;
      PutKinds(db, "memory", rank);
      ExpectPlacesMayBeRefused(db, "memory", rank);  // own key
      const uint64_t staged = db.GetStatistics().at("gets.staged");
      ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, other, "staged"), "value"));
      const Status refused = db.Get(SimCluster::KeyOwnedBy(db, other, "staged"),
                                    [](size_t) { return static_cast<char*>(nullptr); });
      EXPECT_EQ(refused.code(), Code::kOutOfMemory) << refused.ToString();
      EXPECT_EQ(db.GetStatistics().at("gets.staged"), staged + 1);
      ASSERT_OK(db.Barrier(Level::kMemTable));
      ExpectPlacesMayBeRefused(db, "memory", other);  // directly, or by message
      ASSERT_OK(context.Barrier());
      PutKinds(db, "table", rank);
      ASSERT_OK(db.Barrier(Level::kSsTable));
      for (const int owner : {rank, other}) ExpectPlacesMayBeRefused(db, "table", owner);
      ExpectPlacesMayBeRefused(db, "table", rank);  // from the local cache
      ASSERT_OK(db.Protect(Protection::kReadOnly));
      for (int repeat = 0; repeat < 2; ++repeat) ExpectPlacesMayBeRefused(db, "table", other);
      const Statistics statistics = db.GetStatistics();
      EXPECT_GT(statistics.at("cache.local.hits"), 0u);
      if (cluster.direct_reads()) {
        EXPECT_GT(statistics.at("gets.direct"), 0u);
        EXPECT_EQ(statistics.at("gets.message"), statistics.at("gets.direct_busy"));
      } else {
        EXPECT_GT(statistics.at("gets.message"), 0u);
        EXPECT_GT(statistics.at("cache.remote.hits"), 0u);
      }
      ASSERT_OK(db.Close());
    });
  }
}

TEST(Refusals, AGetUnderWayOutlivesItsDatabase) {
  for (const bool close : {true, false}) {
    SimCluster cluster(Ranks(2, true));
    cluster.Run([&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_TRUE(db.ok()) << db.status().ToString();
      const std::string key = SimCluster::KeyOwnedBy(**db, 1 - rank);
      ASSERT_OK((*db)->Put(SimCluster::KeyOwnedBy(**db, rank), std::to_string(rank)));
      // What is answered goes to the remote cache.
      ASSERT_OK((*db)->Protect(Protection::kReadOnly));
      const auto present = (*db)->GetAsync(key);
      const auto absent = (*db)->GetAsync(SimCluster::KeyOwnedBy(**db, 1 - rank, "absent"));
      const auto own = (*db)->GetAsync(SimCluster::KeyOwnedBy(**db, rank));
      const auto dropped = (*db)->GetAsync(key);
      // Asked before the owner closed: answered.
      if (close) {
        ASSERT_OK((*db)->Close());
      } else {
        ASSERT_OK(context.Barrier());
      }
      db->reset();
      const Result<std::string> value = present->Take();
      ASSERT_TRUE(value.ok()) << value.status().ToString();
      EXPECT_EQ(*value, std::to_string(1 - rank));
      EXPECT_EQ(absent->Take().status().code(), Code::kNotFound);
      EXPECT_TRUE(own->Ready());
      const Result<std::string> near = own->Take();
      ASSERT_TRUE(near.ok()) << near.status().ToString();
      EXPECT_EQ(*near, std::to_string(rank));
    });
  }
}

TEST(Refusals, AGetWhoseOwnerHasClosedOrWhoseContextIsGoneSaysSo) {
  SimCluster cluster(Ranks(2, true));
  std::vector<std::unique_ptr<PendingGet>> late(2);
  cluster.Run([&](int rank, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    if (rank == 1) db->reset();  // without Close
    ASSERT_OK(context.Barrier());
    if (rank == 0) {
      const std::string key = SimCluster::KeyOwnedBy(**db, 1);
      const auto pending = (*db)->GetAsync(key);
      late[0] = (*db)->GetAsync(key);
      db->reset();
      const Status gone = pending->Take().status();
      EXPECT_EQ(gone.code(), Code::kPeerFailed) << gone.ToString();
      EXPECT_THAT(gone.message(), HasSubstr("rank 1"));
    }
    ASSERT_OK(context.Barrier());
  });
  EXPECT_TRUE(late[0]->Ready());
  const Status gone = late[0]->Take().status();
  EXPECT_EQ(gone.code(), Code::kInvalidArgument) << gone.ToString();
  EXPECT_THAT(gone.message(), HasSubstr("context"));
}

// Keys of one owner: "<prefix>0kk", "<prefix>1k", ...
std::vector<std::string> KeysOf(const Database& db, int owner, const std::string& prefix,
                                size_t count) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(SimCluster::KeyOwnedBy(db, owner, prefix + std::to_string(i)));
  }
  return keys;
}

TEST(Refusals, ABatchOfWhichOneOwnerFailsIsAppliedByTheOthersAndSaysHowManyFailed) {
  for (const int failing : {0, 1, 2}) {  // the caller's own part, or that of another rank
    SimCluster cluster(Ranks(3, true));
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      std::vector<std::vector<std::string>> keys;
      for (int owner = 0; owner < 3; ++owner) {
        keys.push_back(KeysOf(db, owner, "k", owner == failing ? 100 : 4));
      }
      if (rank == 0) {
        Batch batch;
        // More than a MemTable of 64 KiB takes.
        for (const auto& of_owner : keys) {
          for (const std::string& key : of_owner) batch.Put(key, std::string(900, 'v'));
        }
        const Status written = db.Write(batch);
        EXPECT_EQ(written.code(), Code::kInvalidArgument) << written.ToString();
        EXPECT_THAT(written.message(), HasSubstr("100 of 108 operations failed"));
        if (failing != 0) {
          EXPECT_THAT(written.message(), HasSubstr("rank " + std::to_string(failing)));
        }
      }
      ASSERT_OK(context.Barrier());
      for (int owner = 0; owner < 3; ++owner) {
        for (const std::string& key : keys[static_cast<size_t>(owner)]) {
          ASSERT_EQ(ValueOf(db, key), owner == failing ? kAbsent : std::string(900, 'v'));
        }
      }
      ASSERT_OK(db.Close());
    });
  }
}

TEST(Refusals, ABatchWithADeadOwnerIsAppliedByTheOthersAlsoBehindWhatIsStagedForIt) {
  for (const bool staged : {false, true}) {
    SimCluster cluster(Ranks(3, true));
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
      if (rank == 2) {
        ASSERT_OK(context.WaitSignal(2, {0}));
        return cluster.network().Kill(2);
      }
      if (rank == 0) {
        if (staged) {
          ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, 2, "staged"), "value"));
        }
        ASSERT_OK(context.Notify(2, {2}));
        ASSERT_OK(context.WaitSignal(3, {1}));  // sends nothing that is staged
        Batch batch;
        for (const int owner : {0, 1, 2}) {
          for (const std::string& key : KeysOf(db, owner, "k", 2)) batch.Put(key, "value");
        }
        const Status written = db.Write(batch);
        EXPECT_EQ(written.code(), Code::kPeerFailed) << written.ToString();
        EXPECT_THAT(written.message(), HasSubstr("2 of 6 operations failed"));
        EXPECT_THAT(written.message(), HasSubstr("rank 2"));
        for (const int owner : {0, 1}) {
          for (const std::string& key : KeysOf(db, owner, "k", 2)) {
            EXPECT_EQ(ValueOf(db, key), "value");
          }
        }
        EXPECT_EQ(db.Fence().ok(), !staged);
        ASSERT_OK(context.Notify(1, {1}));
      } else {
        while (!cluster.network().Killed(2)) context.Progress();
        ASSERT_OK(context.Notify(3, {0}));
        ASSERT_OK(context.WaitSignal(1, {0}));
      }
    });
  }
}

TEST(Refusals, BulkCallsTryEachKeyAndSayHowManyFailed) {
  for (const Consistency consistency : {Consistency::kSequential, Consistency::kRelaxed}) {
    SimCluster cluster(Ranks(2, true));
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.consistency = consistency;
    cluster.RunDatabase(options, [&](int rank, Context& context, Database& db) {
      const std::string too_long(65'537, 'x');
      const std::vector<std::string> own = KeysOf(db, rank, std::to_string(rank) + "own", 3);
      const std::vector<std::string> far = KeysOf(db, 1 - rank, std::to_string(rank) + "far", 3);
      std::vector<std::pair<Slice, Slice>> pairs;
      std::vector<Slice> keys;
      for (size_t i = 0; i < 3; ++i) {
        for (const Slice key :
             {Slice(own[i]), Slice(i == 1 ? too_long : std::string_view()), Slice(far[i])}) {
          pairs.emplace_back(key, "value");
          keys.push_back(key);
        }
      }
      const auto expect_three_failed = [](const Status& status) {
        EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
        EXPECT_THAT(status.message(), HasSubstr("3 of 9 operations failed"));
      };
      expect_three_failed(db.PutMany(pairs));
      ASSERT_OK(db.Fence());
      ASSERT_OK(context.Barrier());
      std::vector<std::string> values;
      std::vector<bool> found;
      expect_three_failed(db.GetMany(keys, &values, &found));
      for (size_t i = 0; i < keys.size(); ++i) {
        EXPECT_EQ(found[i], i % 3 != 1) << i;
        EXPECT_EQ(values[i], i % 3 != 1 ? "value" : "") << i;
      }
      expect_three_failed(db.DeleteMany(keys));
      ASSERT_OK(db.Fence());
      for (const Slice key : keys) {
        if (!key.empty() && key.size() < 65'537) {
          EXPECT_EQ(ValueOf(db, key), kAbsent);
        }
      }
      ASSERT_OK(db.Close());
    });
  }
}

// The key is valid, but too large for MemTables this small: only the owner's database can know.
TEST(Refusals, AnOperationThatItsOwnerRefusesTakesNoOtherWithIt) {
  for (const Consistency consistency : {Consistency::kSequential, Consistency::kRelaxed}) {
    SimCluster cluster(Ranks(2, true));
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.consistency = consistency;
    options.remote_memtable_bytes = 512 * 1024;
    options.migrate_batch_bytes = 256 * 1024;
    cluster.RunDatabase(options, [&](int rank, Context&, Database& db) {
      const std::vector<std::string> good = KeysOf(db, 1 - rank, std::to_string(rank) + "g", 20);
      std::string large(65'530, static_cast<char>('a' + rank));
      while (db.Owner(large) == rank) large += "l";
      ASSERT_LE(large.size(), 65'536u);
      std::vector<std::pair<Slice, Slice>> pairs;
      for (size_t i = 0; i < good.size(); ++i) {
        if (i == 5 || i == 15) pairs.emplace_back(large, "never");
        pairs.emplace_back(good[i], good[i]);
      }
      Status written = db.PutMany(pairs);
      if (consistency == Consistency::kSequential) {
        EXPECT_THAT(written.message(), HasSubstr("2 of 22 operations failed"));
      } else {
        ASSERT_OK(written);
        written = db.Fence();
        EXPECT_THAT(written.message(), HasSubstr("2 operations lost"));
      }
      EXPECT_EQ(written.code(), Code::kInvalidArgument) << written.ToString();
      EXPECT_THAT(written.message(), HasSubstr("rank " + std::to_string(1 - rank)));
      EXPECT_THAT(written.message(), HasSubstr("memtable_bytes")) << "what to do";
      for (const std::string& key : good) EXPECT_EQ(ValueOf(db, key), key);
      EXPECT_EQ(ValueOf(db, large), kAbsent);
      ASSERT_OK(db.Close());
    });
  }
}

// Whatever the function returns, only its own operation is lost.
TEST(Refusals, AnUpdateFunctionThatFailsTakesNoOtherOperationWithIt) {
  SimCluster cluster(Ranks(2, true));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    ASSERT_OK(db.RegisterUpdate(1, [](Slice, const Slice*, Slice argument, std::string* updated) {
      if (argument == "fail") return Status(Code::kIo, "the function's own reason");
      updated->assign(argument);
      return Status();
    }));
    ASSERT_OK(context.Barrier());
    const std::vector<std::string> keys = KeysOf(db, 1 - rank, std::to_string(rank) + "u", 9);
    for (size_t i = 0; i < keys.size(); ++i) {
      const Slice argument = i % 3 == 1 ? "fail" : "ok";
      ASSERT_OK(i % 3 == 2 ? db.Put(keys[i], "put") : db.Update(keys[i], 1, argument));
    }
    const Status told = db.Fence();
    EXPECT_EQ(told.code(), Code::kIo) << told.ToString();
    EXPECT_THAT(told.message(), HasSubstr("3 operations lost"));
    EXPECT_THAT(told.message(), HasSubstr("the function's own reason"));
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(ValueOf(db, keys[i]), i % 3 == 0 ? "ok" : i % 3 == 1 ? kAbsent : "put");
    }
    ASSERT_OK(db.Close());
  });
}

}  // namespace
}  // namespace quire::kv::refusals_test
