// An owner whose flushing queue is full: writes of other ranks wait for room, nothing else does.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "io/sim/sim_file_system.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::writes_without_room_test {
namespace {

constexpr int kKeys = 4000;
constexpr int kOwner = 1;
constexpr std::chrono::seconds kHoldMax(20);

std::string Key(int i) {
  return "key " + std::to_string(i);
}

// A device that takes no tables until it is let go.
class SlowDevice {
 public:
  SlowDevice() : files_(io::NewFaultFileSystem(*disk_)) {
    files_->BeforeCalls(io::kFaultWrite, [this](const std::string& path) {
      if (path.find("/t-") == std::string::npos) return;
      std::unique_lock<std::mutex> lock(mutex_);
      held_ = true;
      changed_.notify_all();
      changed_.wait_for(lock, kHoldMax, [this] { return gone_; });
    });
  }
  io::FileSystem* files() { return files_.get(); }
  void WaitUntilHeld() {
    std::unique_lock<std::mutex> lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, kHoldMax, [this] { return held_; }));
  }
  void LetGo() {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone_ = true;
    changed_.notify_all();
  }

 private:
  std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  std::unique_ptr<io::FaultFileSystem> files_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool gone_ = false;
};

// Runs `write` in a thread of rank 0 until it waits for the owner, whose device is held, and gets
// pairs from the owner meanwhile.
void RunWhileTheOwnerHasNoRoom(Consistency consistency,
                               const std::function<void(Database&)>& write) {
  SlowDevice device;
  SimCluster::Options ranks;
  ranks.deterministic = false;
  ranks.own_disks = true;
  const auto disk = io::NewSimFileSystem();
  ranks.file_system = [&](int rank) { return rank == kOwner ? device.files() : disk.get(); };
  SimCluster cluster(ranks);
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.consistency = consistency;
  cluster.RunDatabase(options, [&](int rank, Context& context, Database& db) {
    if (rank == 0) {
      const std::string known = SimCluster::KeyOwnedBy(db, kOwner, "known");
      ASSERT_OK(db.Put(known, "value"));
      ASSERT_OK(db.Fence());
      std::atomic<bool> over{false};
      std::thread writer([&] {
        write(db);
        over = true;
      });
      device.WaitUntilHeld();
      // Time for the writer to fill what the owner has left.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_FALSE(over);
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 10; ++i) EXPECT_EQ(SimCluster::ValueOf(db, known), "value");
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kHoldMax / 4);
      EXPECT_FALSE(over) << "its writes wait";
      device.LetGo();
      writer.join();
      ASSERT_OK(db.Fence());
    }
    ASSERT_OK(context.Barrier());
    for (int i = 0; i < kKeys; ++i) {
      if (db.Owner(Key(i)) != kOwner) continue;
      ASSERT_EQ(SimCluster::ValueOf(db, Key(i)), std::string(200, 'v')) << i;
    }
    ASSERT_OK(db.Close());
  });
}

void PutAll(Database& db) {
  for (int i = 0; i < kKeys; ++i) {
    if (db.Owner(Key(i)) != kOwner) continue;
    ASSERT_OK(db.Put(Key(i), std::string(200, 'v')));
  }
}

TEST(WritesWithoutRoom, BatchesKeepNoGetWaiting) {
  RunWhileTheOwnerHasNoRoom(Consistency::kRelaxed, PutAll);
}

TEST(WritesWithoutRoom, SinglePutsKeepNoGetWaiting) {
  RunWhileTheOwnerHasNoRoom(Consistency::kSequential, PutAll);
}

// All or nothing at the owner.
TEST(WritesWithoutRoom, AtomicBatchesKeepNoGetWaiting) {
  RunWhileTheOwnerHasNoRoom(Consistency::kRelaxed, [](Database& db) {
    Batch batch;
    for (int i = 0; i < kKeys; ++i) {
      if (db.Owner(Key(i)) == kOwner) batch.Put(Key(i), std::string(200, 'v'));
      if (i % 100 != 99) continue;
      ASSERT_OK(db.Write(batch));
      batch = Batch();
    }
  });
}

// An iterator that is never destroyed keeps its MemTables; writers continue in others, whose number
// is bounded.
TEST(WritesWithoutRoom, AnIteratorStopsNoWriterOfAnyRank) {
  SimCluster::Options ranks;
  ranks.deterministic = false;
  ranks.own_disks = true;
  SimCluster cluster(ranks);
  cluster.RunDatabase(SimCluster::SmallDatabase(), [&](int, Context& context, Database& db) {
    PutAll(db);
    ASSERT_OK(db.Barrier(Level::kMemTable));
    const std::unique_ptr<LocalIterator> held = db.NewLocalIterator();
    held->SeekToFirst();
    ASSERT_OK(held->status());
    ASSERT_OK(context.Barrier());
    const uint64_t before = db.GetStatistics().at("memory.memtables");
    uint64_t most = 0;
    for (int round = 0; round < 10; ++round) {  // each is a dozen MemTables
      PutAll(db);
      ASSERT_OK(db.Fence());
      most = std::max(most, db.GetStatistics().at("memory.memtables"));
    }
    EXPECT_LE(most, 4 * before) << "the pool, and as many beside it and 8 more";
    ASSERT_OK(held->status());
    ASSERT_OK(context.Barrier());
    ASSERT_OK(db.Close());
  });
}

}  // namespace
}  // namespace quire::kv::writes_without_room_test
