// A device that fails to write what a program synced, and the programs that come after it. The
// system takes the pages for written, but what a later Sync covers must survive a loss of power.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/sim/sim_file_system.h"
#include "stream/log/log_format.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::stream::failed_sync_test {
namespace {

constexpr uint64_t kBytes = 3000;
constexpr int kPuts = 12;

enum class End { kFinish, kLeave, kDie };

// Programs that write one object, one after the other. The device fails in some of them.
class FailedSync : public ::testing::Test {
 protected:
  static StreamOptions Options() {
    StreamOptions options = SmallLog(64 << 10);
    options.keep_versions = 2;
    options.deltas = StreamDeltas::kOff;
    return options;
  }

  Result<std::unique_ptr<StreamWriter>> Write() {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<StreamWriter> writer,
                           OpenWriter(*fs_, "/place", "store", 0, Options()));
    QUIRE_ASSIGN_OR_RETURN(memory_, writer->Create("key", kBytes));
    return writer;
  }

  void NewMachine() {
    newest_ = 0;
    promised_ = 0;
    fs_.reset();
    disk_ = io::NewSimFileSystem();
    fs_ = io::NewFaultFileSystem(*disk_);
  }

  // Puts some versions, with syncs among them.
  void Put(StreamWriter& writer, int puts) {
    for (int i = 0; i < puts; ++i) {
      Compute(memory_, "key", newest_ + 1, kBytes);
      if (writer.Put("key").ok()) ++newest_;
      if (i % 4 == 3 && writer.Sync().ok()) promised_ = newest_;
    }
  }

  // Runs a program whose n-th sync fails, and with `for_good` all later ones.
  bool Fail(uint64_t nth, bool for_good, End end) {
    fs_->FailAt(io::kFaultSync, nth, for_good ? UINT64_MAX : 1, Code::kIo);
    {
      Result<std::unique_ptr<StreamWriter>> writer = Write();
      if (writer.ok()) Put(**writer, kPuts);
      if (end == End::kDie) disk_->Restart(io::CrashKind::kProcess, 1);
      if (writer.ok() && end == End::kFinish) {
        if ((*writer)->Finish().ok()) promised_ = newest_;
      }
    }
    const bool failed = fs_->failures() != 0;
    fs_->FailAt(io::kFaultSync, 1, 0, Code::kIo);
    return failed;
  }

  // Runs a program in which the device does not fail.
  void Sync(int puts) {
    const auto writer = Write();
    ASSERT_OK(writer.status());
    Put(**writer, puts);
    ASSERT_OK((*writer)->Sync());
    promised_ = newest_;
    disk_->Restart(io::CrashKind::kProcess, 1);
  }

  void ExpectWhatWasPromised(uint64_t seed) {
    disk_->Restart(io::CrashKind::kPower, seed);
    const auto reader = OpenLocalReader(*fs_, "/place", "store", 0);
    ASSERT_OK(reader.status());
    const auto versions = (*reader)->Versions("key");
    if (promised_ == 0 && versions.status().code() == Code::kNotFound) return;
    ASSERT_OK(versions.status());
    ASSERT_GE(versions->front().version, promised_);
    ASSERT_LE(versions->front().version, newest_);
    for (const StreamVersion& version : *versions) {
      std::string bytes;
      ASSERT_OK((*reader)->Get("key", version.version, &bytes));
      ASSERT_EQ(bytes == BytesOf("key", version.version, kBytes), true) << version.version;
    }
    newest_ = versions->front().version;
  }

  std::unique_ptr<io::SimFileSystem> disk_;
  std::unique_ptr<io::FaultFileSystem> fs_;
  char* memory_ = nullptr;  // the memory of the program that writes
  uint64_t newest_ = 0;
  uint64_t promised_ = 0;  // the newest version that a Sync that returned OK covers
};

TEST_F(FailedSync, ASyncRepairsTheFailedSyncOfAnEarlierProgram) {
  const auto seeds = static_cast<uint64_t>(test::ScaledCount(4));
  for (const End end : {End::kFinish, End::kLeave, End::kDie}) {
    bool failed = true;
    for (uint64_t nth = 1; failed; ++nth) {
      for (uint64_t run = 0; run < 4 * seeds; ++run) {
        SCOPED_TRACE("end " + std::to_string(static_cast<int>(end)) + ", sync " +
                     std::to_string(nth) + ", run " + std::to_string(run));
        NewMachine();
        failed = Fail(nth, run % 2 == 0, end);
        Sync(run % 4 < 2 ? 0 : 5);
        ExpectWhatWasPromised(run);
        Sync(1);
        ExpectWhatWasPromised(run + 1);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(FailedSync, ASyncRepairsTheFailedSyncsOfTwoEarlierPrograms) {
  const auto runs = static_cast<uint64_t>(test::ScaledCount(600));
  for (uint64_t run = 0; run < runs; ++run) {
    SCOPED_TRACE(run);
    NewMachine();
    Fail(run % 17, run % 2 == 0, static_cast<End>(run % 3));
    Fail(run / 17, run % 4 < 2, static_cast<End>(run / 3 % 3));
    Sync(static_cast<int>(run % 3));
    ExpectWhatWasPromised(run);
    if (HasFailure()) return;
  }
}

// Two slots have heads that could not be synced. The third has the head that a loss of power
// leaves, which may not be overwritten before one of the others is durable.
TEST_F(FailedSync, TwoHeadsThatWereNotSyncedLeaveTheHeadThatWas) {
  const auto runs = static_cast<uint64_t>(test::ScaledCount(600));
  for (uint64_t run = 0; run < runs && !HasFailure(); ++run) {
    SCOPED_TRACE(run);
    NewMachine();
    {
      const auto writer = Write();
      ASSERT_OK(writer.status());
      Put(**writer, 20 + static_cast<int>(run % 16));
      disk_->Restart(io::CrashKind::kProcess, run);
    }
    for (int program = 0; program < 2; ++program) {
      const AtPlace fail("stream.head.stored",
                         [&] { fs_->FailAt(io::kFaultSync, 1, 1, Code::kIo); });
      EXPECT_CODE(Write().status(), Code::kIo);
    }
    {
      const AtPlace crash("stream.head.before_store", [&] { disk_->CrashAfter(1); });
      EXPECT_CODE(Write().status(), Code::kIo);
    }
    ExpectWhatWasPromised(run);
  }
}

// A loss of power took a commit and left the one behind it, which an opening erases.
class FailedErasure : public FailedSync {
 protected:
  // Version 2 of three is damaged; the machine has been rebooted.
  void LoseTheSecondOfThree() {
    NewMachine();
    {
      const auto writer = Write();
      ASSERT_OK(writer.status());
      Put(**writer, 1);
      ASSERT_OK((*writer)->Sync());
      Put(**writer, 2);
      disk_->Restart(io::CrashKind::kMoved, 1);
    }
    ASSERT_OK(disk_->Damage("/place/store/log-0", [](std::string* log) {
      const std::string second = BytesOf("key", 2, kBytes);
      const size_t at = log->find(second);
      ASSERT_NE(at, std::string::npos);
      (*log)[at] ^= 1;
    }));
    newest_ = promised_ = 1;
  }

  // Expects that the third version is absent, now and after another loss of power, whatever an
  // unfinished opening left. Returns false if `fail` had no effect.
  bool ExpectNoThird(uint64_t seed, const std::function<bool()>& fail) {
    LoseTheSecondOfThree();
    const bool failed = fail();
    {
      const auto writer = Write();
      EXPECT_OK(writer.status());
      if (!writer.ok()) return false;
      EXPECT_EQ((*writer)->LastSnapshot(), 1u);
      Put(**writer, 1);
      EXPECT_OK((*writer)->Sync());
      promised_ = newest_;
    }
    ExpectWhatWasPromised(seed);
    return failed && !HasFailure();
  }
};

TEST_F(FailedErasure, IsTriedAgainByTheNextOpening) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t nth = 1;
    while (ExpectNoThird(seed, [&] {
      fs_->FailAt(io::kFaultSync, nth, 1, Code::kIo);
      static_cast<void>(Write().status());
      const bool failed = fs_->failures() != 0;
      fs_->FailAt(io::kFaultSync, 1, 0, Code::kIo);
      return failed;
    })) {
      ++nth;
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", sync " << nth;
    ASSERT_GT(nth, 2u);
  }
}

TEST_F(FailedErasure, IsTriedAgainAfterADeath) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t step = 1;
    while (ExpectNoThird(seed, [&] {
      disk_->CrashAfter(step);
      static_cast<void>(Write().status());
      const bool crashed = disk_->crashed();
      if (crashed) disk_->Restart(io::CrashKind::kProcess, seed);
      disk_->CrashAfter(UINT64_MAX);
      return crashed;
    })) {
      ++step;
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", step " << step;
    ASSERT_GT(step, 5u);
  }
}

}  // namespace
}  // namespace quire::stream::failed_sync_test
