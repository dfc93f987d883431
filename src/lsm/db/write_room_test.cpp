// Writes that must not wait for room: they stop, and go on where they stopped.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/threads/sync_point.h"
#include "engine/write_batch.h"
#include "lsm/db/db_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::write_room_test {
namespace {

constexpr int kBatches = 200;
constexpr int kPuts = 20;

std::string KeyOf(int batch, int put) {
  return "key " + std::to_string(batch) + " " + std::to_string(put);
}

// A database whose background thread does nothing until it is let go.
class RoomTest : public testing::Test {
 protected:
  RoomTest() : test_(SmallOptions(), 1) {
    EXPECT_OK(test_.Open());
    EXPECT_OK(test_->WaitIdle());
    test_.executor().Schedule([held = go_.get_future().share()] { held.wait(); });
  }
  ~RoomTest() override { LetGo(); }
  void LetGo() {
    if (!gone_) go_.set_value();
    gone_ = true;
  }

  // Applies a batch of puts with an update of "counter" in their midst.
  Status Apply(int number, engine::WriteProgress* progress) {
    engine::WriteBatch batch;
    for (int i = 0; i < kPuts; ++i) {
      batch.Put(KeyOf(number, i), std::string(200, 'v'));
      if (i == kPuts / 2) batch.Update("counter", 1, "");
    }
    const Db::WireUpdateFn add = [this](uint32_t, Slice, Slice, const Slice* present,
                                        std::string* updated, bool* write) {
      ++runs_;
      *updated = std::to_string((present == nullptr ? 0 : std::stoi(std::string(*present))) + 1);
      // It fills the MemTable by itself, now and then.
      updated->append(" ").append(200, 'c');
      *write = true;
      return Status();
    };
    return test_->Apply(batch.bytes(), add, progress);
  }
  // Goes on until it is over.
  template <typename Write>
  Status Finish(const Write& write, engine::WriteProgress* progress) {
    Status status;
    do {
      status = write(progress);
      if (progress->waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (progress->waits);
    return status;
  }

  std::promise<void> go_;
  bool gone_ = false;
  int runs_ = 0;
  TestDb test_;
};

TEST_F(RoomTest, ABatchStopsAndGoesOnWhereItStopped) {
  int stopped = 0;
  for (int number = 0; number < kBatches; ++number) {
    engine::WriteProgress progress;
    progress.may_wait = false;
    const auto apply = [&](engine::WriteProgress* of) { return Apply(number, of); };
    Status status = apply(&progress);
    if (progress.waits) {
      ++stopped;
      EXPECT_CODE(status, Code::kBusy);
      const uint64_t applied = progress.applied;
      for (int again = 0; again < 3 && stopped == 1; ++again) {
        EXPECT_CODE(apply(&progress), Code::kBusy);
        EXPECT_TRUE(progress.waits);
        EXPECT_EQ(progress.applied, applied);
        EXPECT_EQ(GetText(test_.db(), KeyOf(0, 0)), std::string(200, 'v'));
      }
      LetGo();
      status = Finish(apply, &progress);
    }
    ASSERT_OK(status);
    ASSERT_EQ(progress.applied, uint64_t{kPuts} + 1);
  }
  EXPECT_GT(stopped, 0);
  EXPECT_EQ(runs_, kBatches) << "an update runs once";
  EXPECT_EQ(GetText(test_.db(), "counter").substr(0, 4), std::to_string(kBatches) + " ");
  for (int number = 0; number < kBatches; ++number) {
    for (int i = 0; i < kPuts; ++i) {
      ASSERT_EQ(GetText(test_.db(), KeyOf(number, i)), std::string(200, 'v'));
    }
  }
}

// A write that waits is not attempted: each attempt would store a large value.
TEST_F(RoomTest, AWriteThatWaitsStoresNothing) {
  engine::WriteProgress progress;
  progress.may_wait = false;
  engine::WriteBatch batch;
  batch.Put("small", std::string(200, 's'));
  batch.Put("large", std::string(1000, 'l'));
  const auto write = [&](engine::WriteProgress* of) { return test_->Write(batch, of); };
  while (!progress.waits) {
    const Status status = write(&progress);
    if (!progress.waits) ASSERT_OK(status);
  }
  const uint64_t stored = test_->Statistics().value_log_bytes;
  for (int again = 0; again < 100; ++again) {
    EXPECT_CODE(write(&progress), Code::kBusy);
    ASSERT_TRUE(progress.waits);
  }
  EXPECT_EQ(test_->Statistics().value_log_bytes, stored);
  LetGo();
  ASSERT_OK(Finish(write, &progress));
  EXPECT_EQ(GetText(test_.db(), "large"), std::string(1000, 'l'));
  EXPECT_GT(test_->Statistics().stall_ns, 0u);
}

// However many threads put: nothing is flushed, and what they put is bounded by what MemTables may
// refer to.
TEST_F(RoomTest, AllWritersWaitForRoomForTheirValues) {
  constexpr int kWriters = 4;
  constexpr uint64_t kValueBytes = 100'000;
  const StorageOptions& options = test_.options();
  const auto tables = static_cast<uint64_t>(options.flushing_queue_length) + 1;
  const uint64_t most = tables * 8 * options.memtable_bytes + 2 * kWriters * kValueBytes;
  std::atomic<uint64_t> stored{0};
  std::atomic<bool> stop{false};
  std::vector<std::jthread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      for (int n = 0; !stop && stored < 2 * most; ++n) {
        const std::string key = std::to_string(i) + "." + std::to_string(n);
        if (i % 2 == 0) {
          EXPECT_OK(test_->Put(key, std::string(kValueBytes, 'v')));
        } else {
          engine::WriteBatch batch;
          batch.Put(key, std::string(kValueBytes, 'v'));
          engine::WriteProgress progress;
          EXPECT_OK(test_->Write(batch, &progress));
        }
        stored += kValueBytes;
      }
    });
  }
  const auto wait = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  while (stored < (tables - 1) * 8 * options.memtable_bytes) wait(1);
  for (uint64_t before = 0; before != stored;) {  // until they stand still
    before = stored;
    wait(300);
  }
  EXPECT_LE(stored, most);
  stop = true;
  LetGo();
}

TEST_F(RoomTest, AnUpdateRunsItsFunctionOnce) {
  int calls = 0;
  int updates = 0;
  const engine::UpdateFn add = [&](Slice, const Slice*, std::string* updated) {
    ++calls;
    updated->assign(std::to_string(calls)).append(200, 'u');
    return true;
  };
  bool stopped = false;
  while (!stopped) {
    engine::WriteProgress progress;
    progress.may_wait = false;
    const auto update = [&](engine::WriteProgress* of) {
      return test_->Update("key" + std::to_string(updates), add, of);
    };
    Status status = update(&progress);
    if (progress.waits) {
      stopped = true;
      LetGo();
      status = Finish(update, &progress);
    }
    ASSERT_OK(status);
    ++updates;
  }
  EXPECT_EQ(calls, updates);
}

// Fills a MemTable whenever a merge begins, and whenever a flush ends that it let go first.
class FastWriter final : public base::SyncPointListener {
 public:
  explicit FastWriter(TestDb& test) : test_(test) {}
  int flushes() const { return flushes_; }
  void Reach(const char* name) override {
    const std::string_view place = name;
    if (place == "lsm.merge.begin") {
      merging_ = true;
    } else if (place == "lsm.merge.written") {
      merging_ = false;
    } else if (place != "lsm.flush.end" || !merging_ || ++flushes_ >= kFlushesMax) {
      return;
    }
    if (merging_) std::thread([this] { FillMemTable(); }).join();
  }

 private:
  static constexpr int kFlushesMax = 50;
  // With values of eight times its own bytes.
  void FillMemTable() {
    for (int i = 0; i < 8; ++i) ASSERT_OK(test_->Put("large", std::string(4 << 20, 'l')));
  }

  TestDb& test_;
  bool merging_ = false;  // all of this in the one thread of the background
  int flushes_ = 0;
  const base::ScopedSyncPoints installed_{this};
};

// Iterators pin every MemTable of the pool. The write stops at once; gone on with, it gets memory
// outside of the pool.
TEST(WriteBesideIterators, AWriteThatMustNotWaitStops) {
  TestDb test(SmallOptions(), 1);
  ASSERT_OK(test.Open());
  std::vector<std::unique_ptr<engine::Iterator>> held;
  int stopped = 0;
  for (int number = 0; number < kBatches; ++number) {
    held.push_back(test->NewIterator({}));
    engine::WriteBatch batch;
    for (int i = 0; i < kPuts; ++i) batch.Put(KeyOf(number, i), std::string(200, 'v'));
    engine::WriteProgress progress;
    progress.may_wait = false;
    ASSERT_OK(test->WaitIdle());  // so it is not the flushes that are waited for
    Status status = test->Write(batch, &progress);
    if (progress.waits) ++stopped;
    while (progress.waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      status = test->Write(batch, &progress);
    }
    ASSERT_OK(status);
  }
  EXPECT_GT(stopped, 0);
  for (int number = 0; number < kBatches; ++number) {
    EXPECT_EQ(GetText(test.db(), KeyOf(number, 0)), std::string(200, 'v'));
  }
}

// Else what the writers overwrite is never freed, and they fill any device.
TEST(MergeTurn, AMergeEndsHoweverFastOthersWrite) {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 4 << 20;
  options.value_segment_bytes = 64 << 20;
  options.compaction_trigger = 1000;
  TestDb test(options, /*threads=*/1);
  ASSERT_OK(test.Open());
  for (int i = 0; i < 20'000; ++i) ASSERT_OK(test->Put("key" + std::to_string(i), "v"));
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Delete("key0"));
  ASSERT_OK(test->WaitIdle());
  const uint64_t merges = test->Statistics().compaction_count;
  {
    const FastWriter writer(test);
    ASSERT_OK(test->Compact());
    EXPECT_GE(writer.flushes(), 1);
    EXPECT_LE(writer.flushes(), 2);
  }
  EXPECT_GT(test->Statistics().compaction_count, merges);
}

}  // namespace
}  // namespace quire::lsm::write_room_test
