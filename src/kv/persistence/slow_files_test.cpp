// Files that take long, so that a job lasts for longer than a rank waits: it goes on, and Close
// waits for a checkpoint.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads/sync_point.h"
#include "kv/database/persistence_testing.h"
#include "kv/generations/part_files.h"
#include "kv/persistence/checkpoint_files.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::slow_files_test {
namespace {

using std::chrono::milliseconds;

constexpr int kRanksMax = 3;
constexpr int kFiles = 40;
constexpr char kHome[] = "/pfs/db";
constexpr milliseconds kTimeout(1500);

// The first arrival at `point` takes for longer than any rank waits.
class Held final : public base::SyncPointListener {
 public:
  explicit Held(std::string point) : point_(std::move(point)) {}
  void Reach(const char* name) override {
    if (point_ == name && !held_.exchange(true)) std::this_thread::sleep_for(5 * kTimeout / 2);
  }
  bool held() const { return held_; }

 private:
  const std::string point_;
  std::atomic<bool> held_{false};
  base::ScopedSyncPoints installed_{this};
};

class SlowFiles : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }

  SimCluster::Options Ranks() {
    SimCluster::Options options;
    options.rank_count = size();
    options.deterministic = false;
    options.context.timeout_ms = static_cast<uint64_t>(kTimeout.count());
    options.file_system = [this](int) { return files_.get(); };
    return options;
  }

  void Put(Database& db, int rank, const std::string& value) {
    for (int i = rank; i < 100; i += size()) ASSERT_OK(db.Put("key " + std::to_string(i), value));
  }

  // How Close ended on each rank beside a checkpoint, and how the event did that another thread
  // waits for.
  void CloseBesideCheckpoint(SimCluster& cluster, int keep) {
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      Put(db, rank, "new");
      auto event = db.Checkpoint("/pfs", {.keep = keep});
      ASSERT_OK(event.status());
      const auto at = static_cast<size_t>(rank);
      std::thread waiter([&] { ended_[at] = (*event)->Wait(); });
      closed_[at] = db.Close();
      waiter.join();
    });
  }

  // More files than one step may remove.
  void AddFiles(const std::string& directory) {
    for (int i = 0; i < kFiles; ++i) {
      const std::string table = lsm::TableName(1000 + static_cast<uint64_t>(i));
      ASSERT_OK(io::WriteFile(*disk_, directory + "/" + table, "x"));
    }
  }
  // Makes the removal of the first files whose paths begin with `prefix` slow.
  void SlowRemoval(const std::string& prefix, milliseconds time) {
    files_->BeforeCalls(io::kFaultUnlink, [this, prefix, time](const std::string& path) {
      if (path.rfind(prefix, 0) != 0) return;
      if (removed_++ < kFiles * size()) std::this_thread::sleep_for(time);
    });
  }

  void ExpectOneCode() {
    for (int rank = 1; rank < size(); ++rank) {
      const Status& other = closed_[static_cast<size_t>(rank)];
      EXPECT_EQ(other.code(), closed_[0].code()) << closed_[0].ToString() << other.ToString();
    }
  }
  void ExpectRemoved() {
    EXPECT_GE(removed_, kFiles * size()) << "it takes more than two timeouts";
  }
  // Neither Close nor the wait gave it up.
  void ExpectAllEndedWell() {
    for (size_t rank = 0; rank < static_cast<size_t>(size()); ++rank) {
      SCOPED_TRACE(rank);
      EXPECT_OK(closed_[rank]);
      EXPECT_OK(ended_[rank]);
    }
  }

  // The newest of the checkpoints is whole: the restored pairs are the captured ones.
  void ExpectRestored(SimCluster& cluster, uint64_t number) {
    cluster.Run([&](int rank, Context& context) {
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = number, .replace = true})));
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      for (int i = rank; i < 100; i += size()) {
        EXPECT_EQ(SimCluster::ValueOf(**db, "key " + std::to_string(i)), "new");
      }
      ASSERT_OK((*db)->Close());
    });
  }

  // The numbers of those that are there, all of which are complete.
  std::vector<uint64_t> Numbers() {
    std::vector<uint64_t> numbers;
    const auto found = FindCheckpoints(*disk_, kHome);
    EXPECT_OK(found.status());
    if (!found.ok()) return numbers;
    for (const CheckpointFound& one : *found) {
      EXPECT_EQ(one.state, CheckpointState::kComplete) << one.directory;
      numbers.push_back(one.number);
    }
    return numbers;
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  const std::unique_ptr<io::FaultFileSystem> files_ = io::NewFaultFileSystem(*disk_);
  std::array<Status, kRanksMax> closed_;
  std::array<Status, kRanksMax> ended_;
  std::atomic<int> removed_{0};
};

INSTANTIATE_TEST_SUITE_P(Ranks, SlowFiles, testing::Values(1, 3));

// No file takes long, but all of them together.
TEST_P(SlowFiles, CloseWaitsForACheckpointThatRemovesOldOnesForSeveralTimeouts) {
  SimCluster cluster(Ranks());
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
    Put(db, rank, "old");
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
    ASSERT_OK(db.Close());
  });
  for (int rank = 0; rank < size(); ++rank) {
    AddFiles(std::string(kHome) + "/1/rank-" + std::to_string(rank));
  }
  SlowRemoval(std::string(kHome) + "/.dropped-", kTimeout / 16 / size());
  CloseBesideCheckpoint(cluster, /*keep=*/1);
  files_->BeforeCalls(io::kFaultUnlink, {});
  ExpectRemoved();
  ExpectAllEndedWell();
  EXPECT_EQ(Numbers(), std::vector<uint64_t>{2});
  ExpectRestored(cluster, 2);
}

// A step that does not end: whether the ranks wait for it or give it up, they agree.
TEST_P(SlowFiles, CloseReturnsOneCodeWhereOneStepOfACheckpointLastsForSeveralTimeouts) {
  SimCluster cluster(Ranks());
  {
    const Held held("kv.checkpoint.durable");
    CloseBesideCheckpoint(cluster, /*keep=*/0);
    EXPECT_TRUE(held.held());
  }
  ExpectOneCode();
  const bool timed_out = closed_[0].code() == Code::kTimedOut;
  EXPECT_TRUE(closed_[0].ok() || (timed_out && size() > 1)) << closed_[0].ToString();
  EXPECT_EQ(Numbers(), std::vector<uint64_t>{1}) << "it was published before";
}

// Parts with many files.
class SlowParts : public SlowFiles {
 protected:
  // A checkpoint, and the database, whose parts get more files.
  void Prepare(SimCluster& cluster) {
    cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int rank, Context&, Database& db) {
      Put(db, rank, "new");
      ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {})));
      ASSERT_OK(db.Close());
    });
    const auto parts = FindParts(*disk_, "/repository/db", {});
    ASSERT_OK(parts.status());
    for (const PartFound& part : *parts) AddFiles(part.path);
    SlowRemoval("/repository/db/gen-", kTimeout / 16);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, SlowParts, testing::Values(2));

TEST_P(SlowParts, AreReplacedByARestart) {
  SimCluster cluster(Ranks());
  ASSERT_NO_FATAL_FAILURE(Prepare(cluster));
  cluster.Run([&](int, Context& context) {
    EXPECT_OK(WaitFor(context.Restart("/pfs", "db", {.replace = true})));
  });
  ExpectRemoved();
}

TEST_P(SlowParts, AreDestroyed) {
  SimCluster cluster(Ranks());
  ASSERT_NO_FATAL_FAILURE(Prepare(cluster));
  cluster.Run([&](int, Context& context) { EXPECT_OK(context.Destroy("db")); });
  ExpectRemoved();
}

TEST_P(SlowParts, GoWhenTheirPairsHaveMoved) {
  SimCluster cluster(Ranks());
  ASSERT_NO_FATAL_FAILURE(Prepare(cluster));
  DatabaseOptions moving = Existing(/*redistribute=*/true);
  moving.force_redistribute = true;
  cluster.Run([&](int, Context& context) {
    auto db = context.Open("db", moving);
    EXPECT_OK(db.status());
    if (db.ok()) {
      EXPECT_OK((*db)->Close());
    }
  });
  ExpectRemoved();
}

}  // namespace
}  // namespace quire::kv::slow_files_test
