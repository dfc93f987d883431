// Remains of a loss of power that could be mistaken for something else later.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "stream/log/log_heap.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::lost_power_test {
namespace {

constexpr uint64_t kLogBytes = 64 << 10;
constexpr uint64_t kBytes = 3000;

void PutSome(StreamWriter* writer, char* memory, int count) {
  for (int i = 0; i < count; ++i) {
    Compute(memory, "key", static_cast<uint64_t>(i), kBytes);
    ASSERT_OK(writer->Put("key").status());
  }
}

// A head that was never synced may come back from laps ago. Then positions that were used before
// are used again.
TEST(LostPower, RecordsOfPositionsThatComeAgainAreErased) {
  StreamMachine machine;
  auto writer = machine.Write(SmallLog(kLogBytes));
  ASSERT_OK(writer.status());
  const Result<char*> memory = (*writer)->Create("key", kBytes);
  ASSERT_OK(memory.status());
  const Result<std::string> header = io::ReadFile(machine.fs(), machine.log_path(), UINT64_MAX);
  ASSERT_OK(header.status());
  PutSome(writer->get(), *memory, 200);
  const Result<std::string> log = io::ReadFile(machine.fs(), machine.log_path(), UINT64_MAX);
  ASSERT_OK(log.status());
  machine.fs().Restart(io::CrashKind::kPower, 1);
  ASSERT_OK(io::ReplaceFile(machine.fs(), machine.log_path(),
                            header->substr(0, kLogHeaderBytes) + log->substr(kLogHeaderBytes)));
  writer = machine.Write(SmallLog(kLogBytes));
  ASSERT_OK(writer.status());
  EXPECT_EQ((*writer)->LastSnapshot(), 0u);
  const Result<std::string> left = io::ReadFile(machine.fs(), machine.log_path(), UINT64_MAX);
  ASSERT_OK(left.status());
  const auto records = [](const std::string& bytes) {
    int count = 0;
    for (uint64_t at = kLogHeaderBytes; at < bytes.size(); at += kRecordBytes) {
      count += MayBeRecord(bytes.data() + at) ? 1 : 0;
    }
    return count;
  };
  EXPECT_GT(records(*log), 10);
  EXPECT_EQ(records(*left), 0);
}

TEST(LostPower, ASnapshotThatWasKeptAndLostIsNotAnotherOne) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    StreamMachine machine;
    auto writer = machine.Write(SmallLog(kLogBytes));
    ASSERT_OK(writer.status());
    const Result<char*> memory = (*writer)->Create("key", kBytes);
    ASSERT_OK(memory.status());
    PutSome(writer->get(), *memory, 5);
    ASSERT_OK((*writer)->Sync());
    PutSome(writer->get(), *memory, 2);
    ASSERT_OK((*writer)->Keep(7));
    machine.fs().Restart(io::CrashKind::kPower, seed);
    writer = machine.Write(SmallLog(kLogBytes));
    ASSERT_OK(writer.status());
    const bool is_there = (*writer)->LastSnapshot() == 7;
    lost += is_there ? 0 : 1;
    EXPECT_EQ((*writer)->Release(7).ok(), is_there) << seed;
  }
  EXPECT_GT(lost, 5);
}

// A writer is killed after it synced a head, and another before its first head is stored. During
// the opening of a third writer the power fails: the synced head must not be overwritten meanwhile.
class KilledTwice {
 public:
  // Syncs one version. Some of the others move the head, and some are stored where the head was.
  explicit KilledTwice(uint64_t puts) {
    auto writer = machine_.Write(SmallLog(kLogBytes));
    EXPECT_OK(writer.status());
    const Result<char*> memory = (*writer)->Create("key", kBytes);
    for (uint64_t version = 1; version <= puts; ++version) {
      Compute(*memory, "key", version, kBytes);
      EXPECT_OK((*writer)->Put("key").status());
      if (version == kSynced) EXPECT_OK((*writer)->Sync());
    }
    machine_.fs().Restart(io::CrashKind::kProcess, 0);
  }

  void OpenAndCrashAfter(uint64_t steps, io::CrashKind kind, uint64_t seed) {
    machine_.fs().CrashAfter(steps);
    static_cast<void>(machine_.Write(SmallLog(kLogBytes)).status());
    EXPECT_TRUE(machine_.fs().crashed());
    machine_.fs().Restart(kind, seed);
  }

  void ExpectWhatWasSynced() {
    const auto writer = machine_.Write(SmallLog(kLogBytes));
    ASSERT_OK(writer.status());
    ASSERT_GE((*writer)->LastSnapshot(), kSynced);
    const auto reader = machine_.Read();
    ASSERT_OK(reader.status());
    std::string bytes;
    ASSERT_OK((*reader)->Get("key", 0, &bytes));
    EXPECT_EQ(bytes == BytesOf("key", (*writer)->LastSnapshot(), kBytes), true);
  }

 private:
  static constexpr uint64_t kSynced = 5;
  StreamMachine machine_;
};

TEST(LostPower, APowerLossInTheSecondOpenAfterAKillLeavesWhatWasSynced) {
  constexpr uint64_t kSteps = 9;  // of an opening, until its first heads are stored and synced
  constexpr uint64_t kSeeds = 40;
  for (uint64_t run = 0; run < kSteps * kSteps * kSeeds; ++run) {
    const uint64_t first = run % kSteps;
    const uint64_t second = run / kSteps % kSteps;
    KilledTwice log(24);
    log.OpenAndCrashAfter(first, io::CrashKind::kProcess, 0);
    log.OpenAndCrashAfter(second, io::CrashKind::kPower, run);
    log.ExpectWhatWasSynced();
    ASSERT_FALSE(HasFailure()) << "run " << run << ", crashes after " << first << " and "
                               << second << " steps";
  }
}

// A loss of power may not leave a head that could not be synced: the bytes below it are needed by
// the head before.
TEST(LostPower, AfterAHeadThatCouldNotBeSyncedLeavesWhatWasSynced) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    StreamMachine machine;
    const auto fs = io::NewFaultFileSystem(machine.fs());
    auto writer = OpenWriter(*fs, "/place", "store", 0, SmallLog(kLogBytes));
    ASSERT_OK(writer.status());
    const Result<char*> memory = (*writer)->Create("key", kBytes);
    ASSERT_OK(memory.status());
    PutSome(writer->get(), *memory, 10);
    ASSERT_OK((*writer)->Sync());
    fs->FailAt(io::kFaultSync, 1, UINT64_MAX, Code::kIo);
    EXPECT_CODE((*writer)->Collect(), Code::kIo);
    Status put;
    for (uint64_t i = 0; i < 15 + seed % 10; ++i) {
      Compute(*memory, "key", 10 + i, kBytes);
      put = (*writer)->Put("key").status();
    }
    EXPECT_CODE(put, Code::kIo);  // there is no room any more
    machine.fs().Restart(io::CrashKind::kPower, seed);
    const auto again = machine.Write(SmallLog(kLogBytes));
    SCOPED_TRACE(seed);
    ASSERT_OK(again.status());
    ASSERT_GE((*again)->LastSnapshot(), 10u);
    const auto reader = machine.Read();
    ASSERT_OK(reader.status());
    std::string bytes;
    ASSERT_OK((*reader)->Get("key", 0, &bytes));
  }
}

// Puts one object rarely, so that collection appends it again and again; others fill the log.
// Nothing is synced. Returns the rare object's version at each snapshot.
std::vector<uint64_t> PutRarelyAndOften(StreamWriter* writer, uint64_t seed) {
  std::vector<uint64_t> rare_at = {0};
  const Result<char*> rare = writer->Create("rare", kBytes);
  const Result<char*> often = writer->Create("often", kBytes);
  EXPECT_TRUE(rare.ok() && often.ok());
  const uint64_t puts = 20 + seed % 50;
  for (uint64_t i = 1; i <= puts && !::testing::Test::HasFailure(); ++i) {
    const bool puts_rare = i == 1 || i == 4 || i == 8;
    const uint64_t version = rare_at.back() + (puts_rare ? 1 : 0);
    Compute(puts_rare ? *rare : *often, puts_rare ? "rare" : "often", puts_rare ? version : i,
            kBytes);
    EXPECT_OK(writer->Put(puts_rare ? "rare" : "often").status());
    rare_at.push_back(version);
  }
  return rare_at;
}

// A head says that the records before it are not needed, because later ones replace them. The
// device may have stored the head and lost the later records.
TEST(LostPower, ALogThatWasNeverSyncedShowsNoOlderVersionAtASnapshot) {
  int partly = 0;
  for (uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    StreamMachine machine;
    StreamOptions options = SmallLog(32 << 10);
    options.keep_versions = 2;
    auto writer = machine.Write(options);
    ASSERT_OK(writer.status());
    const std::vector<uint64_t> rare_at = PutRarelyAndOften(writer->get(), seed);
    machine.fs().Restart(io::CrashKind::kPower, seed);
    SCOPED_TRACE(seed);
    const auto reader = seed % 2 == 0 ? machine.Read()
                                      : OpenLocalReader(machine.fs(), "/place", "store", 0,
                                                        Access::kLook);
    ASSERT_OK(reader.status());
    const Result<uint64_t> newest = (*reader)->LastSnapshot();
    ASSERT_OK(newest.status());
    for (uint64_t snapshot = 1; snapshot <= *newest; ++snapshot) {
      std::string bytes;
      const Status got = (*reader)->GetAt("rare", snapshot, &bytes);
      if (got.code() == Code::kNotFound && snapshot != *newest) continue;
      ASSERT_OK(got);
      EXPECT_TRUE(bytes == BytesOf("rare", rare_at[snapshot], kBytes)) << "snapshot " << snapshot;
    }
    partly += *newest != 0 ? 1 : 0;
  }
  EXPECT_GT(partly, 20);
}

// Stores two objects, all zeros but the last byte, which differs by writer. So the first page of
// the commit is the same for both writers, except for the record.
void SnapshotAs(StreamWriter* writer, char whose) {
  for (const auto& [key, bytes] : {std::pair("x", 4500), std::pair("y", 100)}) {
    const Result<char*> memory = writer->Create(key, static_cast<uint64_t>(bytes));
    ASSERT_OK(memory.status());
    std::fill_n(*memory, bytes - 1, '\0');
    (*memory)[bytes - 1] = whose;
  }
  ASSERT_OK(writer->Snapshot().status());
}

// After the first loss of power a lost commit may be present except for its record. After the
// second one the record alone of the next commit at this place may be present.
TEST(LostPower, TwiceAtOnePlaceLeavesNothingOfTheCommitThatWasLostFirst) {
  int of_second = 0;
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    StreamMachine machine;
    char newest = 0;
    for (const char whose : {'A', 'B'}) {
      const auto writer = machine.Write(SmallLog(kLogBytes));
      ASSERT_OK(writer.status());
      if ((*writer)->LastSnapshot() == 0) {
        SnapshotAs(writer->get(), whose);
        newest = whose;
      }
      machine.fs().Restart(io::CrashKind::kPower, 2 * seed + (whose == 'B' ? 1 : 0));
    }
    const auto reader = machine.Read();
    ASSERT_OK(reader.status());
    if (*(*reader)->LastSnapshot() == 0) continue;
    for (const char* const key : {"x", "y"}) {
      std::string bytes;
      ASSERT_OK((*reader)->GetAt(key, 1, &bytes));
      EXPECT_EQ(bytes.back(), newest) << key;
    }
    of_second += newest == 'B' ? 1 : 0;
  }
  EXPECT_GT(of_second, 20);
}

// A program that died while it created the store left files whose names may not be durable.
TEST(LostPower, AfterADeathAmidTheMakingLeavesWhatWasSynced) {
  bool crashed = true;
  for (uint64_t step = 1; crashed; ++step) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE("step " + std::to_string(step) + ", seed " + std::to_string(seed));
      StreamMachine machine;
      machine.fs().CrashAfter(step);
      static_cast<void>(machine.Write(SmallLog(kLogBytes)).status());
      crashed = machine.fs().crashed();
      machine.fs().Restart(io::CrashKind::kProcess, seed);
      const auto writer = machine.Write(SmallLog(kLogBytes));
      ASSERT_OK(writer.status());
      const Result<char*> memory = (*writer)->Create("key", kBytes);
      ASSERT_OK(memory.status());
      PutSome(writer->get(), *memory, 1);
      ASSERT_OK((*writer)->Sync());
      machine.fs().Restart(io::CrashKind::kPower, seed);
      const auto reader = machine.Read();
      ASSERT_OK(reader.status());
      std::string bytes;
      ASSERT_OK((*reader)->Get("key", 0, &bytes));
    }
  }
}

}  // namespace
}  // namespace quire::stream::lost_power_test
