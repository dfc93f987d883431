// Writers, updaters, readers, iterators, snapshots, flushes and merges at once; for
// ThreadSanitizer, too.
#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text/coding.h"
#include "base/threads/sync_point.h"
#include "lsm/db/db_testing.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::db_concurrency_test {
namespace {

constexpr int kKeys = 60;
constexpr uint64_t kBaseStep = 1'000'000;

std::string NumberText(uint64_t number) {
  std::string text = std::to_string(number) + "|";
  text.resize(text.size() + number % 90, 'p');
  if (number % 40 == 0) text.resize(600, 'q');  // a separated one
  return text;
}
uint64_t NumberOf(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

class ConcurrencyTest : public testing::Test {
 protected:
  ConcurrencyTest() : test_(SmallOptions(), 2) { EXPECT_TRUE(test_.Open().ok()); }
  ~ConcurrencyTest() override { test_.Close(); }

  static uint64_t Rounds() { return static_cast<uint64_t>(test::ScaledCount(10'000)); }

  // Runs all bodies at once; those in `until_done` go on until the others are finished.
  void Run(const std::vector<std::function<void()>>& bodies,
           const std::vector<std::function<void()>>& until_done) {
    std::vector<std::thread> workers;
    std::vector<std::thread> watchers;
    for (const auto& body : bodies) workers.emplace_back(body);
    for (const auto& body : until_done) {
      watchers.emplace_back([this, &body] {
        while (!done_.load()) body();
      });
    }
    for (std::thread& worker : workers) worker.join();
    done_.store(true);
    for (std::thread& watcher : watchers) watcher.join();
  }

  TestDb test_;
  std::atomic<bool> done_{false};
};

TEST_F(ConcurrencyTest, ReadersSeeNothingOlderThanWhatWasAcknowledged) {
  constexpr int kWriters = 3;
  std::array<std::array<std::atomic<uint64_t>, kKeys>, kWriters> begun{};
  std::array<std::array<std::atomic<uint64_t>, kKeys>, kWriters> acknowledged{};
  const auto key_of = [](int writer, int key) {
    return "w" + std::to_string(writer) + "." + std::to_string(key);
  };
  std::vector<std::function<void()>> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.push_back([&, writer] {
      for (uint64_t i = 1; i <= Rounds(); ++i) {
        const int key = static_cast<int>(i % kKeys);
        begun[writer][key].store(i);
        ASSERT_TRUE(test_->Put(key_of(writer, key), NumberText(i)).ok());
        acknowledged[writer][key].store(i);
      }
    });
  }
  const auto read = [&] {
    thread_local base::Random random(reinterpret_cast<uintptr_t>(&random));
    for (int i = 0; i < 50; ++i) {
      const int writer = static_cast<int>(random.Below(kWriters));
      const int key = static_cast<int>(random.Below(kKeys));
      const uint64_t least = acknowledged[writer][key].load();
      std::string value;
      const Status status = test_->Get(key_of(writer, key), &value);
      const uint64_t most = begun[writer][key].load();
      ASSERT_TRUE(status.ok() || (status.code() == Code::kNotFound && least == 0));
      if (status.ok()) {
        ASSERT_EQ(value, NumberText(NumberOf(value)));
        ASSERT_GE(NumberOf(value), least);
        ASSERT_LE(NumberOf(value), most);
      }
    }
  };
  const auto maintain = [&] {
    ASSERT_TRUE(test_->Flush().ok());
    ASSERT_TRUE(test_->Compact().ok());
    ASSERT_TRUE(test_->SyncLog().ok());
    test_->Statistics();
  };
  Run(writers, {read, read, maintain});
  for (int writer = 0; writer < kWriters; ++writer) {
    for (int key = 0; key < kKeys; ++key) {
      EXPECT_EQ(GetText(test_.db(), key_of(writer, key)),
                NumberText(acknowledged[writer][key].load()));
    }
  }
}

TEST_F(ConcurrencyTest, IteratorsSeeBatchesWholeAndSnapshotsStandStill) {
  constexpr int kWriters = 2;
  std::vector<std::function<void()>> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.push_back([this, writer] {
      for (uint64_t i = 1; i <= Rounds(); ++i) {
        engine::WriteBatch batch;
        const std::string key = std::to_string(writer) + "." + std::to_string(i % kKeys);
        batch.Put("a" + key, NumberText(i));
        batch.Put("b" + key, NumberText(i));
        if (i % 50 == 0) batch.DeleteRange("c", "d");
        ASSERT_TRUE(test_->Write(batch).ok());
      }
    });
  }
  const auto scan = [this] {
    Model first;
    Model second;
    for (const auto& [key, value] : AllOf(*test_->NewIterator({}))) {
      (key[0] == 'a' ? first : second)[key.substr(1)] = value;
    }
    ASSERT_EQ(first, second);
  };
  const auto stand_still = [this] {
    const std::unique_ptr<engine::Snapshot> snapshot = test_->NewSnapshot();
    engine::IteratorOptions options;
    options.snapshot = snapshot.get();
    const Model before = AllOf(*test_->NewIterator(options));
    ASSERT_TRUE(test_->Flush().ok());
    ASSERT_EQ(AllOf(*test_->NewIterator(options)), before);
    for (const auto& [key, value] : before) {
      ASSERT_EQ(GetText(test_.db(), key, snapshot.get()), value);
    }
  };
  Run(writers, {scan, stand_still});
}

TEST_F(ConcurrencyTest, NoUpdateIsLostAndNonePassesOverAPut) {
  // Two threads add one by one, a third adds in batches from elsewhere.
  const auto add = [](const Slice* present, std::string* updated) {
    const uint64_t sum = 1 + (present == nullptr ? 0 : NumberOf(std::string(*present)));
    *updated = NumberText(sum);
  };
  const auto counter_of = [](uint64_t i) { return "counter" + std::to_string(i % 7); };
  const auto update = [&] {
    for (uint64_t i = 0; i < Rounds(); ++i) {
      const Status status = test_->Update(
          counter_of(i), [&](Slice, const Slice* present, std::string* updated) {
            add(present, updated);
            return true;
          });
      ASSERT_TRUE(status.ok());
    }
  };
  const auto apply = [&] {
    for (uint64_t i = 0; i < Rounds();) {
      engine::WriteBatch batch;
      for (int j = 0; j < 10; ++j, ++i) batch.Update(counter_of(i), 3, "x");
      engine::WriteProgress progress;
      const Status status = test_->Apply(
          batch.bytes(),
          [&](uint32_t function, Slice argument, Slice, const Slice* present, std::string* updated,
              bool* write) {
            EXPECT_EQ(function, 3u);
            EXPECT_EQ(argument, "x");
            add(present, updated);
            *write = true;
            return Status();
          },
          &progress);
      ASSERT_TRUE(status.ok());
      ASSERT_EQ(progress.applied, 10u);
    }
  };
  // A fourth puts rising bases, to which a fifth adds: what is found after a put stands on that
  // base.
  const auto put_bases = [&] {
    for (uint64_t i = 1; i <= Rounds() / 4; ++i) {
      if (i % 20 == 0) {
        ASSERT_TRUE(test_->DeleteRange("base", "bases").ok());
        std::string value;
        const Status status = test_->Get("base", &value);
        ASSERT_TRUE(status.code() == Code::kNotFound || NumberOf(value) < kBaseStep) << value;
      }
      engine::WriteBatch batch;
      batch.Put("base", NumberText(i * kBaseStep));
      ASSERT_TRUE((i % 2 == 0 ? test_->Write(batch)
                              : test_->Put("base", NumberText(i * kBaseStep))).ok());
      std::string value;
      ASSERT_TRUE(test_->Get("base", &value).ok());
      ASSERT_EQ(NumberOf(value) / kBaseStep, i);
    }
  };
  const auto add_to_base = [&] {
    ASSERT_TRUE(test_->Update("base", [&](Slice, const Slice* present, std::string* updated) {
      add(present, updated);
      return true;
    }).ok());
  };
  Run({update, update, apply, put_bases}, {add_to_base, [&] {
    ASSERT_TRUE(test_->Flush().ok());
  }});
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 7; ++i) sum += NumberOf(GetText(test_.db(), counter_of(i)));
  EXPECT_EQ(sum, 3 * Rounds());
}

TEST_F(ConcurrencyTest, SyncedWritersShareSyncs) {
  test_.Close();
  test_.options().wal = WalMode::kSync;
  ASSERT_TRUE(test_.Open().ok());
  std::vector<std::function<void()>> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.push_back([this, writer] {
      for (uint64_t i = 0; i < Rounds() / 10; ++i) {
        ASSERT_TRUE(test_->Put(std::to_string(writer) + "." + std::to_string(i), "v").ok());
      }
    });
  }
  Run(writers, {});
  test_.fs().Restart(io::CrashKind::kPower, 5);
  test_.Close();
  ASSERT_TRUE(test_.Open().ok());
  EXPECT_EQ(AllOf(*test_->NewIterator({})).size(), 4 * (Rounds() / 10));
}

// Schedules a job when a merge begins, and looks whether it has run when the merge is written.
class JobBesideAMerge final : public base::SyncPointListener {
 public:
  explicit JobBesideAMerge(base::Executor& executor) : executor_(executor) {}
  void Reach(const char* name) override {
    if (name == std::string_view("lsm.merge.begin")) {
      ran_ = false;
      executor_.Schedule([this] { ran_ = true; });
    } else if (name == std::string_view("lsm.merge.written")) {
      ++merges;
      ran_first += ran_ ? 1 : 0;
    }
  }
  int merges = 0;
  int ran_first = 0;

 private:
  base::Executor& executor_;
  std::atomic<bool> ran_{false};
};

// A dataset, or another database, of the same context.
TEST(Merges, LetOthersWorkOnTheOnlyThread) {
  StorageOptions options = SmallOptions();
  options.compaction_trigger = 100;
  TestDb test(options, 1);
  ASSERT_TRUE(test.Open().ok());
  // Two runs at least: of one, which has all that a slow thread left to a single flush, nothing is
  // to be dropped, and no merge begins.
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(test->Put("key " + std::to_string(i), "v").ok());
    if (i == 10'000) {
      ASSERT_TRUE(test->Flush().ok());
    }
  }
  ASSERT_TRUE(test->Flush().ok());
  JobBesideAMerge beside(test.executor());
  {
    const base::ScopedSyncPoints installed(&beside);
    ASSERT_TRUE(test->Compact().ok());
  }
  EXPECT_GT(beside.ran_first, 0) << "of " << beside.merges << " merges";
  test.Close();
}

}  // namespace
}  // namespace quire::lsm::db_concurrency_test
