// Threads and iterators while the mode changes and the database closes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kv/database/sim_cluster_testing.h"
#include "kv/protocol/writes_under_way.h"
#include "tests/support/held_thread.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::mode_changes_test {
namespace {

using testing::HasSubstr;

SimCluster::Options FreeRunning(int rank_count) {
  SimCluster::Options ranks;
  ranks.rank_count = rank_count;
  ranks.deterministic = false;
  return ranks;
}

// A write of another thread of rank 0, held behind the question whether it may go on.
class HeldWrite {
 public:
  template <typename Write>
  explicit HeldWrite(const Write& write) {
    test::Hold hold;
    hold.place = "kv.write.admitted";
    held_ = std::make_unique<test::HeldThread>(hold);
    thread_ = std::thread([write] { EXPECT_OK(write()); });
    EXPECT_TRUE(held_->WaitUntilHeld());
  }
  ~HeldWrite() {
    held_->Release();
    thread_.join();
  }

 private:
  std::unique_ptr<test::HeldThread> held_;  // it lets the write go after a while by itself
  std::thread thread_;
};

template <typename Write>
void HoldAndProtect(const Write& write, const std::string& expected = "new") {
  SimCluster cluster(FreeRunning(2));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context& context, Database& db) {
    const std::string key = SimCluster::KeyOwnedBy(db, 1);
    ASSERT_OK(db.RegisterUpdate(1, [](Slice, const Slice*, Slice argument, std::string* updated) {
      *updated = std::string(argument);
      return Status();
    }));
    if (rank == 0) ASSERT_OK(db.Put(key, "old"));
    ASSERT_OK(db.Barrier(Level::kMemTable));
    std::unique_ptr<HeldWrite> held;
    if (rank == 0) held = std::make_unique<HeldWrite>([&] { return write(db, key); });
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Protect(Protection::kReadOnly));
    // It has landed: in the phase no value changes.
    EXPECT_EQ(SimCluster::ValueOf(db, key), expected);
    EXPECT_EQ(db.Put(key, "later").code(), Code::kReadOnly);
    held.reset();
    ASSERT_OK(context.Barrier());
    EXPECT_EQ(SimCluster::ValueOf(db, key), expected);
    ASSERT_OK(db.Protect(Protection::kReadWrite));
  });
}

TEST(ModeChanges, APutThatWasAdmittedEndsBeforeTheReadOnlyPhase) {
  HoldAndProtect([](Database& db, const std::string& key) { return db.Put(key, "new"); });
}

TEST(ModeChanges, ABatchThatWasAdmittedEndsBeforeTheReadOnlyPhase) {
  HoldAndProtect([](Database& db, const std::string& key) {
    Batch batch;
    batch.Put(key, "new");
    return db.Write(batch);
  });
}

TEST(ModeChanges, ACallOfManyPairsThatWasAdmittedEndsBeforeTheReadOnlyPhase) {
  HoldAndProtect([](Database& db, const std::string& key) {
    return db.PutMany({{key, "new"}, {key + " and more", "new"}});
  });
  HoldAndProtect(
      [](Database& db, const std::string& key) {
        return db.DeleteMany({key, key + " and more"});
      },
      "<not found>");
}

TEST(ModeChanges, AnUpdateThatWasAdmittedEndsBeforeTheReadOnlyPhase) {
  HoldAndProtect([](Database& db, const std::string& key) { return db.Update(key, 1, "new"); });
}

// A collective call reports the loss of one rank. The writes that other ranks lost are not
// forgotten.
TEST(ModeChanges, ALossThatACollectiveCallOmitsIsReportedByTheNextFence) {
  SimCluster cluster(FreeRunning(2));
  cluster.RunDatabase(SimCluster::SmallDatabase(), [](int rank, Context& context, Database& db) {
    ASSERT_OK(db.RegisterUpdate(1, [](Slice, const Slice*, Slice, std::string*) {
      return Status(Code::kInvalidArgument, "told to fail");
    }));
    ASSERT_OK(context.Barrier());
    const std::string key = SimCluster::KeyOwnedBy(db, 1 - rank);
    const auto lose = [&] {
      for (int i = 0; i <= rank; ++i) ASSERT_OK(db.Update(key, 1, "fail"));
    };
    const auto expect_untold = [&](const std::string& lost) {
      const Status fenced = db.Fence();
      EXPECT_EQ(fenced.ok(), lost.empty()) << fenced.ToString();
      EXPECT_THAT(fenced.message(), HasSubstr(lost));
      EXPECT_OK(db.Fence());
    };
    const std::string mine = std::to_string(rank + 1) + (rank == 0 ? " operation" : " operations");
    const std::vector<std::function<Status()>> calls = {
        [&] { return db.Barrier(Level::kMemTable); },
        [&] { return db.Protect(Protection::kReadWrite); },
        [&] { return db.Checkpoint("/checkpoints", {}).status(); }};
    for (const auto& call : calls) {
      lose();
      const Status told = call();
      EXPECT_CODE(told, Code::kInvalidArgument);
      EXPECT_THAT(told.message(), HasSubstr("rank 0: 1 operation lost"));
      expect_untold(rank == 0 ? "" : mine + " lost");
    }
    lose();
    EXPECT_CODE(db.Barrier(static_cast<Level>(9)), Code::kInvalidArgument);
    expect_untold(mine + " lost");
    lose();
    lose();
    EXPECT_CODE(db.Barrier(static_cast<Level>(9)), Code::kInvalidArgument);
    lose();
    expect_untold(std::to_string(3 * (rank + 1)) + " operations lost");
    ASSERT_OK(context.Barrier());
  });
}

TEST(ModeChanges, AnIteratorEndsWithItsDatabase) {
  for (const int rank_count : {1, 2}) {
    SimCluster cluster(FreeRunning(rank_count));
    cluster.Run([](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      const std::string key = SimCluster::KeyOwnedBy(**db, rank);
      ASSERT_OK((*db)->Put(key, "value"));
      const std::unique_ptr<LocalIterator> iterator = (*db)->NewLocalIterator();
      iterator->SeekToFirst();
      ASSERT_TRUE(iterator->Valid());
      ASSERT_OK((*db)->Close());
      EXPECT_FALSE(iterator->Valid());
      EXPECT_EQ(iterator->status().code(), Code::kInvalidArgument);
      EXPECT_THAT(iterator->status().message(), HasSubstr("closed"));
      iterator->SeekToFirst();
      EXPECT_FALSE(iterator->Valid());
      db->reset();
      // It keeps no lock.
      auto again = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(again.status());
      EXPECT_EQ(SimCluster::ValueOf(**again, key), "value");
      ASSERT_OK((*again)->Close());
      again->reset();
      ASSERT_OK(context.Destroy("db"));
      EXPECT_FALSE(iterator->Valid());
    });
  }
}

TEST(WritesUnderWay, AreAwaitedHoweverManyComeMeanwhile) {
  WritesUnderWay writes;
  const size_t before = writes.Begin();
  const size_t turned = writes.Turn();
  EXPECT_EQ(turned, before);
  EXPECT_FALSE(writes.None(turned));
  const size_t later = writes.Begin();
  writes.End(before);
  EXPECT_TRUE(writes.None(turned)) << "a later write is none of those before";
  writes.End(later);
}

// A write may have asked for its side and not yet be counted when the first change looks.
TEST(WritesUnderWay, TheSecondTurnAwaitsWritesOfEitherSide) {
  WritesUnderWay writes;
  const size_t early = writes.Begin();
  writes.Turn();
  const size_t late = writes.Begin();
  writes.End(early);
  const size_t turned = writes.Turn();
  EXPECT_EQ(turned, late);
  EXPECT_FALSE(writes.None(turned));
  writes.End(late);
  EXPECT_TRUE(writes.None(turned));
}

// A change that times out amid its turns leaves the other side the turned one.
TEST(WritesUnderWay, TheNextChangeAwaitsWritesOfAChangeThatGaveUp) {
  WritesUnderWay writes;
  const size_t held = writes.Begin();
  writes.Turn();  // and no more: it gives up
  const size_t later = writes.Begin();
  bool awaited = false;
  for (int turn = 0; turn < 2; ++turn) {
    const size_t side = writes.Turn();
    if (side == later) writes.End(later);
    if (side == held) awaited = !writes.None(side);
  }
  EXPECT_TRUE(awaited);
}

TEST(ModeChanges, EndsBesideWritersThatNeverPause) {
  constexpr int kWriters = 8;
  constexpr uint64_t kPuts = 200;  // then they are all at work
  SimCluster::Options options;
  options.rank_count = 2;
  options.deterministic = false;
  options.context.timeout_ms = 5'000;
  DatabaseOptions sequential = SimCluster::SmallDatabase();
  sequential.storage.memtable_bytes = 4 << 20;
  sequential.consistency = Consistency::kSequential;
  SimCluster(options).RunDatabase(sequential, [&](int rank, Context& context, Database& db) {
    std::atomic<bool> stop = false;
    std::atomic<uint64_t> puts = 0;
    std::vector<std::thread> writers;
    for (int i = 0; i < kWriters && rank == 0; ++i) {
      writers.emplace_back([&, i] {
        const std::string value(2000, 'v');
        for (int n = 0; !stop; ++n) {
          const std::string key = std::to_string(i) + "/" + std::to_string(n % 1000);
          EXPECT_TRUE(db.Put(key, value).ok());
          ++puts;
          puts.notify_one();
        }
      });
    }
    for (uint64_t seen = 0; rank == 0 && seen < kPuts; seen = puts) puts.wait(seen);
    const Status changed = db.SetConsistency(Consistency::kRelaxed);
    const Status back = db.SetConsistency(Consistency::kSequential);
    const Status narrowed = db.Protect(Protection::kWriteOnly);
    stop = true;
    for (std::thread& writer : writers) writer.join();
    EXPECT_TRUE(changed.ok()) << changed.ToString();
    EXPECT_TRUE(back.ok()) << back.ToString();
    EXPECT_TRUE(narrowed.ok()) << narrowed.ToString();
    EXPECT_TRUE(context.Barrier().ok());
    EXPECT_TRUE(db.Close().ok());
  });
}

}  // namespace
}  // namespace quire::kv::mode_changes_test
