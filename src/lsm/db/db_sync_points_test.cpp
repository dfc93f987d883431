// One thread stands at a sync point of this folder, or of a sync of files, while another calls the
// database: every pair of such a place and such a call, with 1, 2 and 4 background threads, against
// what was acknowledged.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/threads/epoch.h"
#include "lsm/db/db_testing.h"
#include "tests/support/held_thread.h"
#include "tests/support/status_asserts.h"
#include "tests/support/sync_point_places.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::db_sync_points_test {
namespace {

// Enough for a few flushes; where the held thread is the only one that could go on, it is what a
// call waits for.
constexpr int kHoldMs = 20;
constexpr int kLargeBytes = 700;
constexpr uint64_t kSkips = 3;  // a thread is held at one of its first arrivals
constexpr int64_t kCalls = 10;  // of AllCalls

// A writer with keys of its own, and what it knows to be stored.
class Writer {
 public:
  Writer(TestDb& test, std::string prefix) : test_(test), prefix_(std::move(prefix)) {}

  void Put(int number, size_t bytes) {
    const std::string key = prefix_ + std::to_string(number);
    std::string value = key + "." + std::to_string(++count_) + ".";
    value.resize(std::max(bytes, value.size()), 'x');
    ASSERT_OK(test_->Put(key, value));
    model_[key] = value;
  }
  void Delete(int number) {
    const std::string key = prefix_ + std::to_string(number);
    ASSERT_OK(test_->Delete(key));
    model_.erase(key);
  }
  void Batch() {
    engine::WriteBatch batch;
    std::string value = "batch." + std::to_string(++count_);
    for (int i = 0; i < 5; ++i) batch.Put(prefix_ + std::to_string(i), value);
    ASSERT_OK(test_->Write(batch));
    for (int i = 0; i < 5; ++i) model_[prefix_ + std::to_string(i)] = value;
  }
  void DeleteRange() {
    ASSERT_OK(test_->DeleteRange(prefix_ + "2", prefix_ + "3"));
    model_.erase(model_.lower_bound(prefix_ + "2"), model_.lower_bound(prefix_ + "3"));
  }
  void Update(int number) {
    const std::string key = prefix_ + std::to_string(number);
    ASSERT_OK(test_->Update(key, [](Slice, const Slice* present, std::string* updated) {
      *updated = present == nullptr ? std::string(kLargeBytes, 'u') : std::string(*present) + "+";
      return true;
    }));
    const auto [stored, is_new] = model_.try_emplace(key, kLargeBytes, 'u');
    if (!is_new) stored->second += "+";
  }
  // Fills a value segment with values most of which die, so that it is collected.
  void Churn(int count) {
    for (int i = 0; i < count; ++i) Put(i, kLargeBytes);
    ASSERT_OK(test_->Flush());
    for (int i = 0; i < count; ++i) {
      if (i % 3 != 0) Put(i, 10);
    }
  }
  // Whether the pairs with this writer's prefix in `pairs` are exactly those that it stored.
  void ExpectIn(const Model& pairs) const {
    Model mine;
    for (const auto& [key, value] : pairs) {
      if (key.compare(0, prefix_.size(), prefix_) == 0) mine[key] = value;
    }
    EXPECT_EQ(mine, model_);
  }
  void ExpectGets() const {
    for (const auto& [key, value] : model_) EXPECT_EQ(GetText(test_.db(), key), value) << key;
  }

 private:
  TestDb& test_;
  const std::string prefix_;
  Model model_;
  int count_ = 0;
};

Model AllPairs(TestDb& test, const engine::Snapshot* snapshot = nullptr) {
  engine::IteratorOptions options;
  options.snapshot = snapshot;
  const std::unique_ptr<engine::Iterator> iterator = test->NewIterator(options);
  return AllOf(*iterator);
}

// A call that is made while a thread is held. `mine` has keys that no other writer writes.
struct Call {
  const char* name;
  std::function<void(TestDb& test, Writer& mine)> body;
};

std::vector<Call> CallsThatWrite() {
  return {
      {"puts",
       [](TestDb&, Writer& mine) {
         for (int i = 0; i < 20; ++i) mine.Put(i, i % 2 == 0 ? 20 : kLargeBytes);
         mine.ExpectGets();
       }},
      {"deletes",
       [](TestDb&, Writer& mine) {
         for (int i = 0; i < 5; ++i) mine.Put(i, 20);
         mine.Delete(3);
         mine.DeleteRange();
         mine.Batch();
         mine.ExpectGets();
       }},
      {"flushes",
       [](TestDb& test, Writer& mine) {
         mine.Put(1, kLargeBytes);
         ASSERT_OK(test->Flush());
         mine.ExpectGets();
       }},
      // Seals the value segment, and lets all that judges it see that.
      {"turns over value segments",
       [](TestDb& test, Writer& mine) {
         for (int i = 0; i < 120; ++i) mine.Put(i, kLargeBytes);
         for (int i = 0; i < 8; ++i) {
           mine.Put(200 + i, 20);
           ASSERT_OK(test->Flush());
         }
         mine.ExpectGets();
       }},
      {"compacts",
       [](TestDb& test, Writer& mine) {
         mine.Put(1, kLargeBytes);
         ASSERT_OK(test->Compact());
         mine.ExpectGets();
       }},
      {"syncs the log",
       [](TestDb& test, Writer& mine) {
         mine.Put(1, kLargeBytes);
         ASSERT_OK(test->SyncLog());
       }},
      {"updates",
       [](TestDb&, Writer& mine) {
         mine.Put(1, 20);
         mine.Update(1);
         mine.Update(2);
         mine.ExpectGets();
       }},
  };
}

std::vector<Call> CallsThatRead() {
  return {
      {"iterates", [](TestDb& test, Writer& mine) { mine.ExpectIn(AllPairs(test)); }},
      {"takes a snapshot",
       [](TestDb& test, Writer& mine) {
         mine.Put(1, kLargeBytes);
         const std::unique_ptr<engine::Snapshot> snapshot = test->NewSnapshot();
         const Writer then = mine;
         mine.Put(1, 20);
         mine.Put(2, kLargeBytes);
         then.ExpectIn(AllPairs(test, snapshot.get()));
         mine.ExpectIn(AllPairs(test));
       }},
      {"captures",
       [](TestDb& test, Writer& mine) {
         mine.Put(1, kLargeBytes);
         const Result<std::shared_ptr<const engine::Capture>> capture = test->NewCapture();
         ASSERT_OK(capture.status());
         for (const engine::Capture::File& file : (*capture)->files()) {
           const Result<bool> exists = test.fs().Exists("/db/" + file.name);
           EXPECT_TRUE(exists.ok() && *exists) << file.name;
         }
       }},
  };
}

std::vector<Call> AllCalls() {
  std::vector<Call> calls = CallsThatWrite();
  for (Call& call : CallsThatRead()) calls.push_back(std::move(call));
  return calls;
}

// Reaches every place of this folder.
void Work(TestDb& test, Writer& writer) {
  writer.Churn(60);
  for (int i = 0; i < 500; ++i) writer.Put(100 + i % 150, 200);
  ASSERT_OK(test->Flush());
  writer.Churn(60);
  ASSERT_OK(test->SyncLog());
  ASSERT_OK(test->Compact());
  writer.Put(1, kLargeBytes);
  ASSERT_OK(test->NewCapture().status());
}

// Lets a merge move more values than a segment holds.
void MoveValues(TestDb& test, Writer& writer) {
  writer.Churn(600);
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Compact());
}

using WorkFn = void (*)(TestDb& test, Writer& writer);

class SyncPointsTest : public testing::TestWithParam<int> {
 protected:
  static std::unique_ptr<TestDb> NewDb() {
    auto test = std::make_unique<TestDb>(SmallOptions(), GetParam());
    EXPECT_OK(test->Open());
    return test;
  }
  // The places that the work passes.
  std::set<std::string> Places() {
    const std::unique_ptr<TestDb> test = NewDb();
    Writer writer(*test, "theirs-");
    test::HeldThread counter(test::Hold{});
    Work(*test, writer);
    test->Close();
    Note(counter);
    return passed_;
  }
  static bool IsOurs(const std::string& place) {
    return place.starts_with("lsm.") || place.starts_with("io.sync.");
  }
  static std::set<std::string> PlacesInSources() {
    std::set<std::string> places = test::SyncPointsIn(QUIRE_SOURCES, "lsm.");
    places.merge(test::SyncPointsIn(QUIRE_SOURCES "/../io/files", "io.sync."));
    return places;
  }
  void Note(const test::HeldThread& holder) {
    for (const auto& [name, count] : holder.arrivals()) {
      if (IsOurs(name)) passed_.insert(name);
    }
  }
  // True where a thread was held while `call` ran.
  bool Try(WorkFn work, const test::Hold& hold, const Call& call) {
    SCOPED_TRACE(hold.place + ", " + call.name);
    const std::unique_ptr<TestDb> test = NewDb();
    Writer theirs(*test, "theirs-");
    Writer mine(*test, "mine-");
    bool held = false;
    {
      test::HeldThread holder(hold);
      std::thread worker([&] {
        work(*test, theirs);
        holder.Release();
      });
      held = holder.WaitUntilHeld();
      call.body(*test, mine);
      holder.Release();
      worker.join();
      Note(holder);
    }
    Check(*test, theirs, mine);
    return held;
  }
  static void Check(TestDb& test, const Writer& theirs, const Writer& mine) {
    theirs.ExpectGets();
    mine.ExpectGets();
    EXPECT_OK(test->Compact());
    EXPECT_OK(test->Verify());
    ASSERT_OK(test.Reopen());
    theirs.ExpectGets();
    mine.ExpectIn(AllPairs(test));
    EXPECT_OK(test->Verify());
    test.Close();
  }
  // Each call beside a thread held at `place`. A shorter test draws some of the calls, and tries
  // them all only if no thread comes to be held; a longer one repeats them.
  void TryCalls(const std::string& place, base::Random& random) {
    const int64_t count = test::ScaledCount(kCalls);
    const auto stride = static_cast<uint64_t>(std::max<int64_t>(1, kCalls / count));
    int held = 0;
    for (int64_t repeat = 0; repeat < std::max<int64_t>(1, count / kCalls); ++repeat) {
      for (const Call& call : AllCalls()) {
        if (held > 0 && random.Below(stride) != 0) continue;
        const int skip = held == 0 ? 0 : static_cast<int>(random.Below(kSkips));
        held += Try(Work, {place, skip, 0, kHoldMs}, call) ? 1 : 0;
        ASSERT_FALSE(HasFailure()) << place << ", " << skip << ", " << call.name;
      }
    }
    EXPECT_TRUE(held > 0 || NotPassed().contains(place)) << place << " was never held";
  }
  // The places that the work need not pass.
  static std::map<std::string, std::string> NotPassed() {
    std::map<std::string, std::string> reasons;
    for (const std::string& place : test::SyncPointsIn(QUIRE_SOURCES, "lsm.peer.")) {
      reasons[place] = "another process reads: DatabaseSyncPoints passes it";
    }
    reasons["lsm.capture.open"] = "another thread flushes in between: DbCapture";
    reasons["lsm.write.large"] = "values are smaller: ALargeValue";
    reasons["lsm.values.grow"] = "segments are smaller than their first room: ValueLogThreads";
    return reasons;
  }

  const std::set<std::string>& passed() const { return passed_; }

 private:
  std::set<std::string> passed_;  // in any run
};

TEST_P(SyncPointsTest, NothingAcknowledgedIsLostWhicheverThreadIsHeldWhere) {
  base::Random random(test::FirstSeed());
  for (const std::string& place : Places()) {
    TryCalls(place, random);
    if (HasFailure()) return;
  }
  test::ExpectPassed(PlacesInSources(), passed(), NotPassed());
}

// A merge has written its tables, and moved values into segments that are full and sealed. Others
// judge these segments before it publishes.
TEST_P(SyncPointsTest, ValuesThatAMergeMovedOutliveEveryOtherPublication) {
  int held = 0;
  for (const Call& call : AllCalls()) {
    held += Try(MoveValues, {.place = "lsm.merge.values-synced"}, call) ? 1 : 0;
    if (HasFailure()) FAIL() << call.name;
  }
  EXPECT_GT(held, 0);
}

// As many runs as make several merges due, one after the other.
void MakeRuns(TestDb& test) {
  test.options().compaction_trigger = 1000;
  ASSERT_OK(test.Open());
  for (const int keys : {400, 400, 400, 60, 60, 60, 1, 1, 1}) {
    for (int i = 0; i < keys; ++i) {
      ASSERT_OK(test->Put("key" + std::to_string(i), std::string(100, 'a')));
    }
    ASSERT_OK(test->Flush());
  }
  test.options().compaction_trigger = 3;
  ASSERT_OK(test.Reopen());
}

void PublishAMerge(TestDb& test) {
  const uint64_t before = test->Statistics().compaction_count;
  while (test->Statistics().compaction_count == before && test.executor().RunOne()) {
    base::EpochCollect();
  }
  base::EpochSynchronize();
  base::EpochCollect();
}

// Compact sees that nothing is in memory, while a batch has stored its large value and asks for
// room for its records. By the time that it judges value segments the records are there.
TEST(HeldCompact, JudgesNoValueSegmentByAnOldLookAtMemory) {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 512 << 10;
  options.table_bytes_max = 1 << 20;
  options.dead_percent_max = 1000;
  TestDb test(options);
  const auto faulty = io::NewFaultFileSystem(test.fs());
  test.environment().fs = faulty.get();
  ASSERT_NO_FATAL_FAILURE(MakeRuns(test));
  engine::WriteBatch batch;
  batch.Put("large", std::string(kLargeBytes, 'v'));
  for (int i = 0; i < 4000; ++i) batch.Put("small" + std::to_string(i), std::string(40, 's'));

  std::optional<test::HeldThread> holder;
  std::thread compacts;
  Status compacted;
  std::atomic<bool> asks = false;
  faulty->BeforeCalls(io::kFaultAllocate, [&](const std::string& path) {
    if (path.find("/log-") == std::string::npos || asks.exchange(true)) return;
    // Merges that wait for it to be done with its look get their turn, too.
    holder.emplace(test::Hold{.place = "lsm.observe.memory", .wait_ms_max = 200});
    compacts = std::thread([&] { compacted = test->Compact(); });
    EXPECT_TRUE(holder->WaitUntilHeld());
  });
  EXPECT_OK(test->Write(batch));
  ASSERT_TRUE(asks);
  for (int i = 0; i < 2; ++i) PublishAMerge(test);
  holder->Release();
  compacts.join();
  holder.reset();
  faulty->BeforeCalls(0, {});
  EXPECT_OK(compacted);
  EXPECT_EQ(GetText(test.db(), "large"), std::string(kLargeBytes, 'v'));
  EXPECT_OK(test->Verify());
  test.Close();
}

INSTANTIATE_TEST_SUITE_P(BackgroundThreads, SyncPointsTest, testing::Values(1, 2, 4));

}  // namespace
}  // namespace quire::lsm::db_sync_points_test
