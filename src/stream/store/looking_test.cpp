// Readers that only look (Access::kLook): they change nothing, and no writer waits for them. And
// readers that rebuild the index of a writer that died: the next writer waits for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "base/core/sanitizer.h"
#include "base/threads/sync_point.h"
#include "stream/index/gate.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace quire::stream::looking_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = 9000;
constexpr int kPuts = 20;  // more than the log holds

// The state of the writer before a reader looks.
enum class Writer { kWrites, kFinished, kEnded, kKilled, kKilledElsewhere };
void PrintTo(Writer writer, std::ostream* out) {
  const char* const names[] = {"Writes", "Finished", "Ended", "Killed", "KilledElsewhere"};
  *out << names[static_cast<int>(writer)];
}

class Looking : public ::testing::TestWithParam<Writer> {
 protected:
  void SetUp() override {
    Open(*owners_);
    for (int i = 0; i < kPuts; ++i) Put();
    switch (GetParam()) {
      case Writer::kWrites:
        return;
      case Writer::kFinished:
        ASSERT_OK(writer_->Finish());
        break;
      case Writer::kEnded:
        break;
      case Writer::kKilled:
        owners_->Kill();
        break;
      case Writer::kKilledElsewhere:
        disk_->Restart(io::CrashKind::kMoved, 1);
        break;
    }
    writer_.reset();
  }
  void Open(io::FileSystem& fs) {
    StreamOptions options = SmallLog(64 << 10);
    options.keep_versions = 2;
    auto writer = OpenWriter(fs, "/place", "store", 0, options);
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    const Result<char*> memory = writer_->Create("key", kBytes, {});
    ASSERT_OK(memory.status());
    memory_ = *memory;
  }
  void Put() {
    Compute(memory_, "key", ++newest_, kBytes);
    ASSERT_OK(writer_->Put("key").status());
  }
  Result<std::unique_ptr<StreamReader>> Look(io::FileSystem& fs) {
    return OpenLocalReader(fs, "/place", "store", 0, Access::kLook);
  }
  // Makes every call of a reader. The newest version may have come while it looked.
  void ExpectAll(io::FileSystem& fs) {
    const uint64_t before = newest_;
    const auto reader = Look(fs);
    ASSERT_OK(reader.status());
    EXPECT_EQ(*(*reader)->Objects(), std::vector<std::string>{"key"});
    const auto versions = (*reader)->Versions("key");
    ASSERT_OK(versions.status());
    EXPECT_GE(versions->front().version, before);
    EXPECT_GE(*(*reader)->LastSnapshot(), before);
    ASSERT_OK((*reader)->Finished().status());
    const auto view = (*reader)->View("key", 0);
    ASSERT_OK(view.status());
    EXPECT_FALSE((*view)->in_place());
    EXPECT_OK((*view)->Verify());
    EXPECT_GE((*view)->version().version, before);
    EXPECT_EQ((*view)->bytes() == BytesOf("key", (*view)->version().version, kBytes), true);
    std::string bytes;
    ASSERT_OK((*reader)->Get("key", 0, &bytes));
    EXPECT_EQ(bytes == BytesOf("key", newest_, kBytes), true);
    EXPECT_OK(CheckLog(fs, "/place", "store", 0, true));
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  const std::unique_ptr<io::FaultFileSystem> owners_ = io::NewFaultFileSystem(*disk_);
  const std::unique_ptr<io::FaultFileSystem> lookers_ = io::NewFaultFileSystem(*disk_);
  std::unique_ptr<StreamWriter> writer_;
  char* memory_ = nullptr;
  uint64_t newest_ = 0;
};

TEST_P(Looking, ChangesNothingAndTakesNoLock) {
  lookers_->FailAt(io::kFaultChange, 1, UINT64_MAX, Code::kReadOnly);
  const uint64_t steps = disk_->steps();
  ExpectAll(*lookers_);
  EXPECT_EQ(lookers_->failures(), 0u);
  EXPECT_EQ(disk_->steps(), steps);
}

// Before the n-th call of the reader the owner comes, or goes on, and fills its whole log.
TEST_P(Looking, NeverLocksTheOwnerOut) {
  bool came = true;
  for (uint64_t nth = 1; came && !HasFatalFailure(); ++nth) {
    SCOPED_TRACE("before call " + std::to_string(nth));
    uint64_t call = 0;
    lookers_->BeforeCalls(io::kFaultAll, [&](const std::string&) {
      if (++call != nth) return;
      if (GetParam() != Writer::kWrites) Open(*disk_);
      for (int i = 0; i < kPuts; ++i) Put();
      if (GetParam() != Writer::kWrites) writer_.reset();
    });
    ExpectAll(*lookers_);
    lookers_->BeforeCalls(io::kFaultAll, {});
    came = call >= nth;
  }
}

TEST_P(Looking, AWalkThatTheOwnerOvertakesBeginsAgain) {
  const AtPlace comes("stream.walk.before", [&] {
    if (GetParam() != Writer::kWrites) Open(*disk_);
    for (int i = 0; i < kPuts; ++i) Put();
  });
  ExpectAll(*lookers_);
}

TEST_P(Looking, AWalkThatTheOwnerWasFasterThanBeginsAgain) {
  const AtPlace comes("stream.walk.before", [&] {
    if (GetParam() != Writer::kWrites) Open(*disk_);
    for (int i = 0; i < kPuts; ++i) Put();
    writer_.reset();
  });
  ExpectAll(*lookers_);
}

INSTANTIATE_TEST_SUITE_P(Writers, Looking,
                         testing::Values(Writer::kWrites, Writer::kFinished, Writer::kEnded,
                                         Writer::kKilled, Writer::kKilledElsewhere),
                         testing::PrintToStringParamName());

// The writer overwrites what is being copied; no pin stops it. Seven versions fill its log.
TEST(LookingBesideAWriter, GivesOnlyWholeVersionsAndNeverAnOlderOne) {
#if QUIRE_THREAD_SANITIZER
  GTEST_SKIP() << "the bytes are copied while they change, and dropped then";
#endif
  const auto puts = static_cast<uint64_t>(test::ScaledCount(20'000));
  const test::TempDirectory place;
  auto writer = OpenWriter(io::PosixFileSystem(), place.path(), "store", 0, SmallLog(64 << 10));
  ASSERT_OK(writer.status());
  const Result<char*> memory = (*writer)->Create("key", kBytes, {});
  ASSERT_OK(memory.status());
  ASSERT_OK((*writer)->Put("key").status());
  std::atomic<bool> ended = false;
  std::thread puts_on([&] {
    for (uint64_t version = 2; version <= puts; ++version) {
      Compute(*memory, "key", version, kBytes);
      EXPECT_OK((*writer)->Put("key").status());
    }
    ended = true;
  });
  const auto reader =
      OpenLocalReader(io::PosixFileSystem(), place.path(), "store", 0, Access::kLook);
  EXPECT_OK(reader.status());
  for (uint64_t newest = 1; reader.ok() && !ended && !::testing::Test::HasFailure();) {
    const auto view = (*reader)->View("key", 0);
    EXPECT_OK(view.status());
    if (!view.ok()) break;
    const uint64_t version = (*view)->version().version;
    EXPECT_GE(version, newest);
    newest = version;
    if (version == 1) continue;  // before the first computation
    EXPECT_EQ((*view)->bytes() == BytesOf("key", version, kBytes), true) << version;
  }
  puts_on.join();
}

// Stops the first thread that reaches a place, until it is released.
class Stopped final : public base::SyncPointListener {
 public:
  explicit Stopped(std::string place) : place_(std::move(place)), installed_(this) {}
  void Reach(const char* name) override {
    if (place_ != name || reached_.exchange(true)) return;
    go_on_.wait(false);
  }
  void AwaitReached() const {
    while (!reached_) std::this_thread::yield();
  }
  void LetGo() {
    go_on_ = true;
    go_on_.notify_all();
  }

 private:
  const std::string place_;
  std::atomic<bool> reached_ = false;
  std::atomic<bool> go_on_ = false;
  base::ScopedSyncPoints installed_;
};

// A store whose writer was killed.
class Tending : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto dies = io::NewFaultFileSystem(*disk_);
    auto writer = Own(*dies);
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->Create("key", kBytes, {}).status());
    ASSERT_OK((*writer)->Put("key").status());
    dies->Kill();
    writer->reset();
  }
  static Result<std::unique_ptr<StreamWriter>> Own(io::FileSystem& fs) {
    return OpenWriter(fs, "/place", "store", 0, SmallLog(64 << 10));
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
};

// The gate still says that the dead writer writes, for longer than an owner waits for a writer.
TEST_F(Tending, IsWaitedForByTheOwnerFromItsFirstMomentOn) {
  constexpr auto kLongerThanForAWriter = std::chrono::milliseconds(700);
  Stopped stopped("stream.lock.after");
  std::thread reader([&] { EXPECT_OK(OpenLocalReader(*disk_, "/place", "store", 0).status()); });
  stopped.AwaitReached();
  std::thread owner([&] { EXPECT_OK(Own(*disk_).status()); });
  std::this_thread::sleep_for(kLongerThanForAWriter);
  stopped.LetGo();
  reader.join();
  owner.join();
}

// The tending program behaves as if it were stopped (SIGSTOP).
TEST_F(Tending, IsNamedWhereItDoesNotGiveWayForAMinute) {
  if (test::ScaledCount(1) < 2) GTEST_SKIP() << "takes a minute: QUIRE_TEST_SCALE=2";
  Stopped stopped("stream.lock.after");
  Status opened;  // kBusy: it was stopped for as long as it may retry
  std::thread reader([&] { opened = OpenLocalReader(*disk_, "/place", "store", 0).status(); });
  stopped.AwaitReached();
  const Status refused = Own(*disk_).status();
  EXPECT_CODE(refused, Code::kBusy);
  EXPECT_THAT(refused.message(), HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_THAT(refused.message(), HasSubstr("only tends it"));
  EXPECT_THAT(refused.message(), HasSubstr("kill -CONT"));
  stopped.LetGo();
  reader.join();
  EXPECT_TRUE(opened.ok() || opened.code() == Code::kBusy) << opened.ToString();
  EXPECT_OK(Own(*disk_).status());
}

// This holds for a log of any length.
TEST_F(Tending, GivesWayToTheOwnerAmidItsWalk) {
  Stopped stopped("stream.walk.before");
  std::thread tends(
      [&] { EXPECT_CODE(RecoverIndex(*disk_, "/place", "store", 0), Code::kBusy); });
  stopped.AwaitReached();
  std::thread owner([&] { EXPECT_OK(Own(*disk_).status()); });
  const auto gate = Gate::Open(*disk_, "/place/store/gate-0", io::MapMode::kRead);
  EXPECT_OK(gate.status());
  while (gate.ok() && (*gate)->asked() == 0) std::this_thread::yield();
  stopped.LetGo();
  tends.join();
  owner.join();
}

// The owner comes while the collector checks what can go, or between the pieces that it removes.
TEST(Collecting, GivesWayToTheOwner) {
  constexpr uint64_t kVersions = 3000;
  for (const char* const place : {"stream.collect.before_look", "stream.collect.before_head"}) {
    const auto disk = io::NewSimFileSystem();
    StreamOptions options = SmallLog(16 << 20);
    options.collect_percent = 100;
    const auto own = [&] { return OpenWriter(*disk, "/place", "store", 0, options); };
    {
      auto writer = own();
      ASSERT_OK(writer.status());
      ASSERT_OK((*writer)->Create("key", 8, {}).status());
      for (uint64_t i = 0; i < kVersions; ++i) ASSERT_OK((*writer)->Put("key").status());
    }
    Stopped stopped(place);
    std::thread daemon(
        [&] { EXPECT_CODE(CollectEnded(*disk, "/place", "store", 0), Code::kBusy) << place; });
    stopped.AwaitReached();
    std::thread owner([&] { EXPECT_OK(own().status()); });
    const auto gate = Gate::Open(*disk, "/place/store/gate-0", io::MapMode::kRead);
    EXPECT_OK(gate.status());
    while (gate.ok() && (*gate)->asked() == 0) std::this_thread::yield();
    stopped.LetGo();
    daemon.join();
    owner.join();
    EXPECT_OK(CollectEnded(*disk, "/place", "store", 0));
    const auto reader = OpenLocalReader(*disk, "/place", "store", 0);
    ASSERT_OK(reader.status());
    const auto versions = (*reader)->Versions("key");
    ASSERT_OK(versions.status());
    ASSERT_EQ(versions->size(), 1u);
    EXPECT_EQ(versions->front().version, kVersions);
  }
}

}  // namespace
}  // namespace quire::stream::looking_test
