// Merges beside what others want meanwhile: another database's work, writers, room on the device.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "lsm/db/db_testing.h"
#include "lsm/version/compaction_picker.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::db_merges_test {
namespace {

std::string KeyOf(uint64_t i) { return "key " + std::to_string(i); }

class TwoDatabases : public testing::TestWithParam<CompactionPolicy> {};

// Else its runs would become too many, and its flushes wait for a merge that waits for the thread.
TEST_P(TwoDatabases, ALongMergeOfOneStopsNoWriterOfTheOther) {
  constexpr uint64_t kPairs = 300'000;
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 4 << 20;
  TestDb one(options, /*threads=*/1);
  ASSERT_OK(one.Open());
  for (uint64_t i = 0; i < kPairs; ++i) {
    ASSERT_OK(one->Put(KeyOf(i * 7919 % kPairs), std::string(100, 'v')));
  }
  ASSERT_OK(one->Flush());
  ASSERT_OK(one->Delete(KeyOf(0)));
  ASSERT_OK(one->WaitIdle());
  StorageOptions others = SmallOptions();
  others.compaction = GetParam();
  const auto two = Db::Open(one.environment(), "/two", others, engine::OpenFlags::kOpenOrCreate);
  ASSERT_OK(two.status());
  auto merged = std::async(std::launch::async, [&] { return one->Compact(); });
  uint64_t puts = 0;
  while (merged.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    ASSERT_OK((*two)->Put(KeyOf(++puts), std::string(200, 'w')));
  }
  const DbStatistics statistics = (*two)->Statistics();
  EXPECT_OK(merged.get());
  EXPECT_GT(statistics.flush_count, 2 * RunCountMax(others)) << puts << " puts";
  if (GetParam() == CompactionPolicy::kTiered) {
    EXPECT_GT(statistics.compaction_count, 0u);
  }
  EXPECT_EQ(GetText(**two, KeyOf(1)), std::string(200, 'w'));
}
INSTANTIATE_TEST_SUITE_P(Policies, TwoDatabases,
                         testing::Values(CompactionPolicy::kTiered, CompactionPolicy::kEveryNth),
                         [](const auto& policy) {
                           return policy.param == CompactionPolicy::kTiered ? "Tiered" : "EveryNth";
                         });

// Fills another MemTable whenever one was flushed, so that there is always one to be flushed.
class EndlessWriter final : public base::SyncPointListener {
 public:
  static constexpr int kFlushesMax = 300;
  explicit EndlessWriter(TestDb& test) : test_(test) {}
  int flushes() const { return flushes_; }
  void Reach(const char* name) override {
    if (name != std::string_view("lsm.flush.end") || ++flushes_ > kFlushesMax) return;
    std::thread([this] { FillMemTable(); }).join();
  }

 private:
  // With values of eight times its own bytes.
  void FillMemTable() {
    for (int i = 0; i < 8; ++i) {
      ASSERT_OK(test_->Put(KeyOf(random_.Below(4)), std::string(64 << 10, 'v')));
    }
  }

  TestDb& test_;
  base::Random random_{1};
  int flushes_ = 0;  // in the one thread of the background
  const base::ScopedSyncPoints installed_{this};
};

TEST(Compact, ReturnsWhileOthersWriteOn) {
  TestDb test(SmallOptions(), /*threads=*/1);
  ASSERT_OK(test.Open());
  for (uint64_t i = 0; i < 2000; ++i) ASSERT_OK(test->Put(KeyOf(i), std::string(100, 'v')));
  ASSERT_OK(test->Flush());
  const EndlessWriter writer(test);
  ASSERT_OK(test->Put(KeyOf(0), "v"));
  ASSERT_OK(test->Compact());
  EXPECT_GE(writer.flushes(), 1);
  EXPECT_LT(writer.flushes(), EndlessWriter::kFlushesMax);
}

// Holds the first thread that comes to a place, once it is asked to.
class Holds final : public base::SyncPointListener {
 public:
  struct Place {
    explicit Place(std::string_view of) : name(of) {}
    void Hold() { asked = true; }
    void WaitUntilHeld() { held.get_future().wait(); }
    void LetGo() {
      if (!gone.exchange(true)) go.set_value();
    }
    const std::string_view name;
    std::atomic<bool> asked{false};
    std::atomic<bool> gone{false};
    std::promise<void> held;
    std::promise<void> go;
  };
  ~Holds() override {
    write.LetGo();
    merge.LetGo();
    iterator.LetGo();
  }
  void Reach(const char* name) override {
    for (Place* const place : {&write, &merge, &iterator}) {
      if (place->name != name || !place->asked.exchange(false)) continue;
      place->held.set_value();
      place->go.get_future().wait();
    }
  }
  Place write{"lsm.write.large"};
  Place merge{"lsm.merge.written"};
  Place iterator{"lsm.iterator.pinned"};

 private:
  const base::ScopedSyncPoints installed_{this};
};

class ALargeValue : public testing::Test {
 protected:
  ALargeValue() { EXPECT_OK(test_.Open()); }
  // Its value is stored, and its record is not.
  std::future<Status> PutHalf() {
    holds_.write.Hold();
    auto put = std::async(std::launch::async, [this] { return test_->Put("large", value_); });
    holds_.write.WaitUntilHeld();
    return put;
  }
  const std::string value_ = std::string(1 << 20, 'l');
  TestDb test_{SmallOptions(), /*threads=*/1};
  Holds holds_;
};

// Else the databases of a program would stand still, and none could be closed, until it is copied.
TEST_F(ALargeValue, HoldsUpNoThreadWhileItIsStored) {
  std::future<Status> put = PutHalf();
  EXPECT_TRUE(NoGuardIsHeld());
  holds_.write.LetGo();
  EXPECT_OK(put.get());
}

TEST_F(ALargeValue, HoldsUpNoThreadWhileItIsRead) {
  ASSERT_OK(test_->Put("large", value_));
  std::string got;
  const BufferAllocator place = [&got](size_t size) {
    EXPECT_TRUE(NoGuardIsHeld());
    got.resize(size);
    return got.data();
  };
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(test_->Get("large", nullptr, place));
    EXPECT_EQ(got, value_);
    ASSERT_OK(test_->Flush());
  }
}

// Nor does who waits for the key that it updates.
TEST(AnUpdate, HoldsUpNoThreadWhileItsFunctionRuns) {
  TestDb test(SmallOptions(), /*threads=*/1);
  ASSERT_OK(test.Open());
  ASSERT_OK(test->Put("key", "1"));
  std::future<Status> put;
  engine::WriteProgress progress;
  ASSERT_OK(test->Update(
      "key",
      [&](Slice, const Slice* present, std::string* updated) {
        EXPECT_EQ(std::string(*present), "1");
        put = std::async(std::launch::async, [&] { return test->Put("key", "3"); });
        EXPECT_EQ(put.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
        EXPECT_TRUE(NoGuardIsHeld());
        *updated = "2";
        return true;
      },
      &progress));
  ASSERT_OK(put.get());
  EXPECT_EQ(GetText(test.db(), "key"), "3");
}

// It is read, and stored again, by a function that makes it longer.
TEST_F(ALargeValue, IsUpdated) {
  ASSERT_OK(test_->Put("large", value_));
  engine::WriteProgress progress;
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(test_->Update(
        "large",
        [](Slice, const Slice* present, std::string* updated) {
          updated->assign(*present).append("x");
          return true;
        },
        &progress));
    if (i % 5 == 4) ASSERT_OK(test_->Compact());
  }
  EXPECT_EQ(GetText(test_.db(), "large"), value_ + std::string(20, 'x'));
}

// Its segment is sealed, and nothing refers to it until the record is stored; then a MemTable does
// that a merge which is published next knows nothing of.
TEST_F(ALargeValue, IsThereHoweverLongItsRecordTakes) {
  std::future<Status> put = PutHalf();
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(test_->Put(KeyOf(1), std::string(300, 'v')));
    ASSERT_OK(test_->Compact());
    base::EpochSynchronize();
  }
  ASSERT_OK(test_->Put(KeyOf(1), "v"));
  holds_.merge.Hold();
  auto merged = std::async(std::launch::async, [this] { return test_->Compact(); });
  holds_.merge.WaitUntilHeld();
  holds_.write.LetGo();
  ASSERT_OK(put.get());
  holds_.merge.LetGo();
  ASSERT_OK(merged.get());
  EXPECT_EQ(GetText(test_.db(), "large"), value_);
  ASSERT_OK(test_.Reopen());
  EXPECT_EQ(GetText(test_.db(), "large"), value_);
}

// Its segment came after the Version that the iterator holds.
using AnIterator = ALargeValue;
TEST_F(AnIterator, ReadsAValueThatWasStoredWhileItBegan) {
  holds_.iterator.Hold();
  auto made = std::async(std::launch::async, [this] { return test_->NewIterator({}); });
  holds_.iterator.WaitUntilHeld();
  ASSERT_OK(test_->Put("large", value_));
  holds_.iterator.LetGo();
  const std::unique_ptr<engine::Iterator> iterator = made.get();
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(test_->Put("large", "v"));
    ASSERT_OK(test_->Compact());
  }
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
  EXPECT_EQ(std::string(iterator->value()), value_);
  EXPECT_OK(iterator->status());
}

class Merges final : public base::SyncPointListener {
 public:
  void Reach(const char* name) override {
    if (std::string_view(name) == "lsm.merge.begin") ++begun;
  }
  uint64_t begun = 0;

 private:
  const base::ScopedSyncPoints installed_{this};
};

// Each attempt would fill the device for others, and keep smaller merges from their turn.
TEST(MergeWithoutRoom, IsTriedAgainOnceThereIsMoreRoom) {
  constexpr uint64_t kPairs = 20'000;
  constexpr int kFlushes = 60;
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  const std::string value(200, 'v');
  for (uint64_t i = 0; i < kPairs; ++i) ASSERT_OK(test->Put(KeyOf(i), value));
  ASSERT_OK(test->Compact());
  test.fs().SetFreeBytes(kPairs * value.size() * 3 / 4);
  base::Random random(1);
  const auto overwrite = [&] {
    for (uint64_t i = 0; i < 200; ++i) {
      ASSERT_OK(test->Put(KeyOf(random.Below(kPairs / 2)), value));
    }
    ASSERT_OK(test->Flush());
    while (test.executor().RunOne()) {
    }
  };
  const Merges merges;
  const uint64_t before = test->Statistics().compaction_count;
  for (int i = 0; i < kFlushes; ++i) overwrite();
  const uint64_t done = test->Statistics().compaction_count - before;
  EXPECT_GE(merges.begun, done + 1) << "there was room for all of them";
  EXPECT_LE(merges.begun, done + 4);
  EXPECT_GE(done, static_cast<uint64_t>(kFlushes) / 6);
  test.fs().SetFreeBytes(UINT64_MAX);
  for (int i = 0; i < 5; ++i) overwrite();
  EXPECT_LE(test->Statistics().run_count, 3u);
}

// What is left in a segment does not fit elsewhere: tables are merged all the same.
TEST(MergeWithoutRoom, AMergeOfValuesLeavesTablesTheirTurn) {
  constexpr int kFlushes = 60;
  StorageOptions options = SmallOptions();
  options.value_segment_bytes = 4 << 20;
  TestDb test(options);
  ASSERT_OK(test.Open());
  const std::string large(1 << 20, 'l');
  for (const char* const key : {"a", "b", "c"}) ASSERT_OK(test->Put(key, large));
  ASSERT_OK(test->Compact());
  test.fs().SetFreeBytes(600 << 10);
  // The next segment has its room already.
  for (const char* const key : {"d", "e", "f"}) ASSERT_OK(test->Put(key, large));
  ASSERT_OK(test->Put("a", "small"));
  ASSERT_OK(test->Put("b", "small"));
  base::Random random(1);
  const Merges merges;
  const uint64_t before = test->Statistics().compaction_count;
  for (int i = 0; i < kFlushes; ++i) {
    for (int n = 0; n < 200; ++n) {
      ASSERT_OK(test->Put(KeyOf(random.Below(1000)), std::string(100, 'v')));
    }
    ASSERT_OK(test->Flush());
    while (test.executor().RunOne()) {
    }
    ASSERT_LE(test->Statistics().run_count, RunCountMax(options)) << i;
  }
  const uint64_t done = test->Statistics().compaction_count - before;
  EXPECT_GE(done, static_cast<uint64_t>(kFlushes) / 6);
  EXPECT_GE(merges.begun, done + 1) << "there was room for all of them";
  EXPECT_LE(merges.begun, done + 4);
  EXPECT_EQ(GetText(test.db(), "c"), large);
}

}  // namespace
}  // namespace quire::lsm::db_merges_test
