// A device that fails to write what a program synced, and the programs that come after it: the
// system takes the pages for written, but what a later sync covers survives a loss of power.
#include <cstdint>
#include <memory>
#include <string>

#include "lsm/db/db_testing.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::db_failed_sync_test {
namespace {

// Programs that put keys, one after the other, of which the device fails some. Every key is put
// once, so that what a loss of power leaves is a beginning of them.
class DbFailedSync : public ::testing::Test {
 protected:
  ~DbFailedSync() override { End(); }

  void NewMachine(WalMode wal) {
    End();
    StorageOptions options = SmallOptions();
    options.wal = wal;
    options.flushing_queue_length = 2;
    test_ = std::make_unique<TestDb>(options);
    faulty_ = io::NewFaultFileSystem(test_->fs());
    test_->environment().fs = faulty_.get();
    tried_ = acknowledged_ = promised_ = 0;
  }

  static std::string KeyOf(uint64_t number) { return "key" + std::to_string(1000 + number); }
  // In the log; apart from it; in a file of its own, written by a call.
  static std::string ValueOf(uint64_t number) {
    const uint64_t bytes = number % 17 == 5 ? 70'000 : number % 3 == 0 ? 900 : 100;
    std::string value = std::to_string(number) + ".";
    value.resize(bytes, static_cast<char>('a' + number % 26));
    return value;
  }

  // Until a call fails: then it is not known whether its key counts.
  Status Put(int puts, int jobs) {
    TestDb& test = *test_;
    for (int i = 0; i < puts; ++i) {
      const uint64_t number = tried_++;
      QUIRE_RETURN_IF_ERROR(test->Put(KeyOf(number), ValueOf(number)));
      acknowledged_ = tried_;
      if (test.options().wal == WalMode::kSync) promised_ = tried_;
      if (i % 9 == 8) {
        QUIRE_RETURN_IF_ERROR(test->SyncLog());
        promised_ = tried_;
      }
      if (i % 10 < jobs) test.executor().RunOne();
    }
    return Status();
  }

  void Die() {
    test_->fs().Restart(io::CrashKind::kProcess, 1);
    test_->Close();
  }

  // The keys are those that were put first, at least `least` of them.
  void ExpectKeys(uint64_t least) {
    const Model found = AllOf(*(*test_)->NewIterator({}));
    ASSERT_GE(found.size(), least);
    ASSERT_LE(found.size(), tried_);
    for (uint64_t i = 0; i < found.size(); ++i) {
      const auto pair = found.find(KeyOf(i));
      ASSERT_NE(pair, found.end()) << i;
      ASSERT_EQ(pair->second == ValueOf(i), true) << i;
    }
    tried_ = acknowledged_ = found.size();
  }

  void Open(uint64_t least) {
    const Status opened = test_->Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    ASSERT_NO_FATAL_FAILURE(ExpectKeys(least));
  }

  // A program of which the n-th sync fails, and with `for_good` all later ones. It is killed, or it
  // ends. False: it has no such sync.
  bool Fail(uint64_t nth, bool for_good, int jobs, bool killed) {
    faulty_->FailAt(io::kFaultSync, nth, for_good ? UINT64_MAX : 1, Code::kIo);
    if (test_->Open().ok()) {
      ExpectKeys(acknowledged_);
      static_cast<void>(Put(60, jobs));
    }
    if (killed) Die();
    test_->Close();
    const bool failed = faulty_->failures() != 0;
    faulty_->FailAt(io::kFaultSync, 1, 0, Code::kIo);
    return failed;
  }

  // A program that the device does not fail, and that is killed.
  void Sync(int puts) {
    ASSERT_NO_FATAL_FAILURE(Open(acknowledged_));
    const Status put = Put(puts, 0);
    ASSERT_TRUE(put.ok()) << put.ToString();
    const Status synced = (*test_)->SyncLog();
    ASSERT_TRUE(synced.ok()) << synced.ToString();
    promised_ = tried_;
    Die();
  }

  void ExpectWhatWasPromised(uint64_t seed) {
    test_->fs().Restart(io::CrashKind::kPower, seed);
    test_->Close();
    ASSERT_NO_FATAL_FAILURE(Open(promised_));
    test_->Close();
  }

  // A program with its n-th sync failing, one that syncs, a loss of power; and again.
  bool Run(WalMode wal, uint64_t nth, uint64_t run) {
    SCOPED_TRACE("sync " + std::to_string(nth) + ", run " + std::to_string(run));
    NewMachine(wal);
    const bool failed = Fail(nth, run % 2 == 0, static_cast<int>(run % 5), run % 3 != 0);
    [&] {
      ASSERT_NO_FATAL_FAILURE(Sync(run % 4 < 2 ? 0 : 3));
      ASSERT_NO_FATAL_FAILURE(ExpectWhatWasPromised(run));
      ASSERT_NO_FATAL_FAILURE(Sync(1));
      ASSERT_NO_FATAL_FAILURE(ExpectWhatWasPromised(run + 1));
    }();
    return failed;
  }

  void RunAll(WalMode wal) {
    const auto runs = static_cast<uint64_t>(test::ScaledCount(10));
    bool failed = true;
    for (uint64_t nth = 1; failed; ++nth) {
      failed = false;
      for (uint64_t run = 0; run < runs; ++run) {
        failed = Run(wal, nth, nth + run) || failed;
        if (HasFatalFailure()) return;
      }
    }
  }

  std::unique_ptr<TestDb> test_;
  std::unique_ptr<io::FaultFileSystem> faulty_;
  uint64_t tried_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t promised_ = 0;  // as many of the first keys survive a loss of power

 private:
  void End() {
    if (test_ != nullptr) test_->Close();
    test_.reset();
    faulty_.reset();
  }
};

TEST_F(DbFailedSync, ASyncRepairsTheFailedSyncOfAnEarlierProgram) { RunAll(WalMode::kOn); }

TEST_F(DbFailedSync, ASyncedWriteRepairsTheFailedSyncOfAnEarlierProgram) { RunAll(WalMode::kSync); }

TEST_F(DbFailedSync, ASyncRepairsTheFailedSyncsOfTwoEarlierPrograms) {
  const auto runs = static_cast<uint64_t>(test::ScaledCount(300));
  for (uint64_t run = 0; run < runs && !HasFatalFailure(); ++run) {
    SCOPED_TRACE(run);
    NewMachine(run % 2 == 0 ? WalMode::kOn : WalMode::kSync);
    Fail(run % 19, run % 3 == 0, static_cast<int>(run % 5), run % 4 != 0);
    Fail(run / 19, run % 3 != 1, static_cast<int>(run % 4), run % 5 != 0);
    ASSERT_NO_FATAL_FAILURE(Sync(static_cast<int>(run % 3)));
    ASSERT_NO_FATAL_FAILURE(ExpectWhatWasPromised(run));
  }
}

// The manifest of the next program lists the segments that it found: their headers must be there.
TEST_F(DbFailedSync, AFailedSyncOfALogHeaderLeavesADatabaseThatOpens) {
  constexpr int kTwoSegments = 700;
  const auto runs = static_cast<uint64_t>(test::ScaledCount(30));
  for (uint64_t run = 0; run < runs && !HasFatalFailure(); ++run) {
    SCOPED_TRACE(run);
    NewMachine(WalMode::kOn);
    faulty_->BeforeCalls(io::kFaultSync, [&](const std::string& path) {
      if (path.ends_with("log-1.seg")) faulty_->FailAt(io::kFaultSync, 1, 1, Code::kIo);
    });
    ASSERT_NO_FATAL_FAILURE(Open(0));
    EXPECT_FALSE(Put(kTwoSegments, static_cast<int>(run % 10)).ok());
    faulty_->BeforeCalls(io::kFaultSync, {});
    Die();
    ASSERT_NO_FATAL_FAILURE(Open(acknowledged_));
    Die();
    ASSERT_NO_FATAL_FAILURE(ExpectWhatWasPromised(run));
  }
}

// A program that died while it made the database left files whose names may not be durable.
TEST_F(DbFailedSync, AfterADeathAmidTheMakingWhatWasSyncedSurvives) {
  bool crashed = true;
  for (uint64_t step = 1; crashed; ++step) {
    for (uint64_t run = 0; run < 12; ++run) {
      const uint64_t seed = test::FirstSeed() + run;
      SCOPED_TRACE("step " + std::to_string(step) + ", seed " + std::to_string(seed));
      NewMachine(WalMode::kOn);
      test_->fs().CrashAfter(step);
      static_cast<void>(test_->Open());
      crashed = test_->fs().crashed();
      Die();
      ASSERT_NO_FATAL_FAILURE(Sync(2));
      ASSERT_NO_FATAL_FAILURE(ExpectWhatWasPromised(seed));
    }
  }
}

}  // namespace
}  // namespace quire::lsm::db_failed_sync_test
