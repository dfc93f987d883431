// What a loss of power leaves that would be taken for something else later.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "stream/log_heap.h"
#include "stream/stream_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::stream {
namespace {

constexpr uint64_t kLogBytes = 64 << 10;
constexpr uint64_t kBytes = 3000;

void PutSome(StreamWriter* writer, char* memory, int count) {
  for (int i = 0; i < count; ++i) {
    Compute(memory, "key", static_cast<uint64_t>(i), kBytes);
    ASSERT_OK(writer->Put("key").status());
  }
}

// A head that was never synced may come back from laps ago, and with it positions that were had.
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

}  // namespace
}  // namespace quire::stream
