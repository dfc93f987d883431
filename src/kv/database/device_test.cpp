// A device of one owner that is full, or that fails: the results of calls on another rank, and the
// pairs that are there afterwards (docs/durability.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::device_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr char kAbsent[] = "<not found>";

SimCluster::Options OwnDisks() {
  SimCluster::Options options;
  options.own_disks = true;
  return options;
}

// "<prefix>0kk", "<prefix>1k", ... of one owner.
std::vector<std::string> KeysOf(const Database& db, int owner, const std::string& prefix,
                                size_t count) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(SimCluster::KeyOwnedBy(db, owner, prefix + std::to_string(i) + "."));
  }
  return keys;
}

std::vector<std::pair<Slice, Slice>> PairsOf(const std::vector<std::string>& keys, Slice value) {
  std::vector<std::pair<Slice, Slice>> pairs;
  for (const std::string& key : keys) pairs.emplace_back(key, value);
  return pairs;
}

size_t CountPresent(Database& db, const std::vector<std::string>& keys, const std::string& value) {
  size_t count = 0;
  for (const std::string& key : keys) {
    const std::string found = SimCluster::ValueOf(db, key);
    EXPECT_THAT(found, AnyOf(value, std::string(kAbsent))) << key;
    if (found == value) ++count;
  }
  return count;
}

void ExpectFull(const Status& status, const std::string& count) {
  EXPECT_EQ(status.code(), Code::kNoSpace) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("rank 1"));
  EXPECT_THAT(status.message(), HasSubstr(count));
}

Status Replace(Slice, const Slice*, Slice argument, std::string* updated) {
  *updated = std::string(argument);
  return Status();
}

// On rank 0, while rank 1's disk is full: relaxed writes are lost, and counted.
void FillRelaxed(Database& db, const std::vector<std::string>& keys, const std::string& value) {
  ASSERT_OK(db.PutMany(PairsOf(keys, value)));
  const Status fenced = db.Fence();
  const size_t present = CountPresent(db, keys, value);
  EXPECT_GT(present, 0u) << "what was set aside takes some";
  EXPECT_LT(present, keys.size());
  ExpectFull(fenced, std::to_string(keys.size() - present) + " operations lost");
  ASSERT_OK(db.Fence());  // reported once
}

// FillRelaxed with writes that wait for their owner: each reports the failure at once, and stores
// nothing.
void WriteSequentially(Database& db) {
  const std::string value(200, 's');
  const std::string key = SimCluster::KeyOwnedBy(db, 1, "one");
  ExpectFull(db.Put(key, value), "");
  ExpectFull(db.Delete(key), "");
  ExpectFull(db.Update(key, 1, value), "");
  const std::vector<std::string> many = KeysOf(db, 1, "many", 20);
  ExpectFull(db.PutMany(PairsOf(many, value)), "20 of 20 operations failed");
  Batch batch;
  const std::vector<std::string> here = KeysOf(db, 0, "here", 5);
  const std::vector<std::string> there = KeysOf(db, 1, "there", 7);
  for (const std::string& mine : here) batch.Put(mine, value);
  for (const std::string& theirs : there) batch.Put(theirs, value);
  ExpectFull(db.Write(batch), "7 of 12 operations failed");
  EXPECT_EQ(SimCluster::ValueOf(db, key), kAbsent);
  EXPECT_EQ(CountPresent(db, many, value), 0u);
  EXPECT_EQ(CountPresent(db, here, value), 5u) << "rank 0 has room";
  EXPECT_EQ(CountPresent(db, there, value), 0u);
}

TEST(FullDevice, EachCallReportsItAndWorksAgainOnceThereIsRoom) {
  SimCluster cluster(OwnDisks());
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    ASSERT_OK(db.RegisterUpdate(1, Replace));
    const std::string value(200, 'r');
    const std::vector<std::string> keys = KeysOf(db, 1, "relaxed", 3000);
    if (rank == 1) cluster.disk(1).SetFreeBytes(0);
    ASSERT_OK(context.Barrier());
    if (rank == 0) FillRelaxed(db, keys, value);
    ASSERT_OK(db.SetConsistency(Consistency::kSequential));
    if (rank == 0) {
      WriteSequentially(db);
    }
    ASSERT_OK(context.Barrier());
    if (rank == 1) {
      EXPECT_EQ(db.Put(SimCluster::KeyOwnedBy(db, 1, "own"), value).code(), Code::kNoSpace);
    }
    ExpectFull(db.Barrier(Level::kSsTable), "");  // on both
    if (rank == 1) cluster.disk(1).SetFreeBytes(UINT64_MAX);
    ASSERT_OK(context.Barrier());
    if (rank == 0) {
      ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, 1, "one"), "there is room"));
      ASSERT_OK(db.PutMany(PairsOf(keys, "new")));
      Batch batch;
      for (const std::string& key : KeysOf(db, 1, "there", 7)) batch.Put(key, "new");
      ASSERT_OK(db.Write(batch));
    }
    ASSERT_OK(db.SetConsistency(Consistency::kRelaxed));
    if (rank == 0) {
      ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, 1, "relaxed again"), "new"));
      ASSERT_OK(db.Fence());
    }
    ASSERT_OK(db.Barrier(Level::kSsTable));
    EXPECT_EQ(CountPresent(db, keys, "new"), keys.size());
    EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, 1, "relaxed again")), "new");
    EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, 1, "one")), "there is room");
    ASSERT_OK(db.Close());
  });
}

TEST(FullDevice, OpenReportsItOnAllRanksAndLeavesNoHalfDatabase) {
  for (const bool there : {false, true}) {
    SimCluster cluster(OwnDisks());
    const DatabaseOptions options = SimCluster::SmallDatabase();
    if (there) {
      cluster.RunDatabase(options, [](int rank, Context&, Database& db) {
        ASSERT_OK(db.Put(SimCluster::KeyOwnedBy(db, rank), "kept"));
        ASSERT_OK(db.Close());
      });
    }
    cluster.Run([&](int rank, Context& context) {
      DatabaseOptions larger = options;  // than the segments that are there
      larger.storage.memtable_bytes *= 4;
      if (rank == 1) cluster.disk(1).SetFreeBytes(0);
      ASSERT_OK(context.Barrier());
      ExpectFull(context.Open("db", there ? larger : options).status(), "");
      ASSERT_OK(context.Barrier());
      if (rank == 1) cluster.disk(1).SetFreeBytes(UINT64_MAX);
      auto again = context.Open("db", options);
      ASSERT_TRUE(again.ok()) << again.status().ToString();
      for (const int owner : {0, 1}) {
        EXPECT_EQ(SimCluster::ValueOf(**again, SimCluster::KeyOwnedBy(**again, owner)),
                  there ? "kept" : kAbsent);
      }
      ASSERT_OK(context.Barrier());  // all have looked
      ASSERT_OK((*again)->Put("k", "v"));
      ASSERT_OK((*again)->Close());
    });
  }
}

// If the log is synced, a write is at its level only if the owner's device says so: also for a
// caller on another rank.
TEST(FailingDevice, ASyncThatFailsAtTheOwnerIsReportedToTheCaller) {
  const char* const kCalls[] = {"put", "delete", "update", "many", "batch", "relaxed"};
  for (const std::string call : kCalls) {
    SCOPED_TRACE(call);
    std::vector<std::unique_ptr<io::FaultFileSystem>> disks;
    SimCluster::Options ranks = OwnDisks();
    ranks.file_system = [&](int rank) { return disks[static_cast<size_t>(rank)].get(); };
    SimCluster cluster(ranks);
    for (const int rank : {0, 1}) disks.push_back(io::NewFaultFileSystem(cluster.disk(rank)));
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.storage.wal = WalMode::kSync;
    options.consistency = call == "relaxed" ? Consistency::kRelaxed : Consistency::kSequential;
    cluster.RunDatabase(options, [&](int rank, Context& context, Database& db) {
      ASSERT_OK(db.RegisterUpdate(1, Replace));
      if (rank == 1) disks[1]->FailAt(io::kFaultSync, 1, UINT64_MAX, Code::kIo);
      ASSERT_OK(context.Barrier());
      if (rank == 0) {
        const std::vector<std::string> keys = KeysOf(db, 1, "k", 3);
        Status status;
        if (call == "put") status = db.Put(keys[0], "value");
        if (call == "delete") status = db.Delete(keys[0]);
        if (call == "update") status = db.Update(keys[0], 1, "value");
        if (call == "many") status = db.PutMany(PairsOf(keys, "value"));
        Batch batch;
        for (const std::string& key : keys) batch.Put(key, "value");
        if (call == "batch") status = db.Write(batch);
        if (call == "relaxed") {
          ASSERT_OK(db.PutMany(PairsOf(keys, "value")));
          status = db.Fence();
          EXPECT_THAT(status.message(), HasSubstr("3 operations lost"));
        }
        EXPECT_EQ(status.code(), Code::kIo) << status.ToString();
        EXPECT_THAT(status.message(), HasSubstr("rank 1"));
        if (call == "many" || call == "batch") {
          EXPECT_THAT(status.message(), HasSubstr("3 of 3 operations failed"));
        }
      }
      ASSERT_OK(context.Barrier());
    });
  }
}

// An owner that cannot read a value returns the failure at once. It sends no message, not even to
// itself.
TEST(FailingDevice, AFailedReadAtTheOwnerIsReturnedWithoutAMessage) {
  const auto disk = io::NewSimFileSystem();
  const auto files = io::NewFaultFileSystem(*disk);
  SimCluster::Options options;
  options.rank_count = 2;
  options.file_system = [&](int) { return files.get(); };
  SimCluster(options).RunDatabase(
      SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
        const std::string key = SimCluster::KeyOwnedBy(db, rank);
        ASSERT_OK(db.Put(key, std::string(5000, 'l')));
        ASSERT_OK(db.Barrier(Level::kSsTable));
        if (rank == 0) {
          const uint64_t before = db.GetStatistics()["gets.message"];
          files->FailAt(io::kFaultRead, 1, UINT64_MAX, Code::kBusy);
          std::string value;
          std::vector<std::string> values;
          std::vector<bool> found;
          EXPECT_CODE(db.Get(key, &value), Code::kBusy);
          EXPECT_CODE(db.GetAsync(key)->Take().status(), Code::kBusy);
          EXPECT_CODE(db.GetMany({key}, &values, &found), Code::kBusy);
          EXPECT_EQ(values, std::vector<std::string>{""});
          files->FailAt(io::kFaultRead, 1, 0, Code::kBusy);
          EXPECT_EQ(db.GetStatistics()["gets.message"], before);
          EXPECT_EQ(SimCluster::ValueOf(db, key), std::string(5000, 'l'));
        }
        ASSERT_OK(context.Barrier());
        ASSERT_OK(db.Close());
      });
}

}  // namespace
}  // namespace quire::kv::device_test
