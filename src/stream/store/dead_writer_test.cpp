// The calls of readers of a stream whose writer has ended or died: while another program tends the
// stream, on a full device, and if they were open before. And the calls of a reader that is short
// of descriptors or memory, while the writer lives.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "io/sim/sim_file_system.h"
#include "stream/index/gate.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::dead_writer_test {
namespace {

constexpr uint64_t kBytes = 3000;
constexpr uint64_t kPuts = 5;

// A stream of a writer that has put some versions.
class Written : public ::testing::Test {
 protected:
  void SetUp() override {
    StreamOptions options = SmallLog(64 << 10);
    options.collect_percent = 100;
    auto writer = OpenWriter(*owners_, "/place", "store", 0, options);
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    ASSERT_OK(writer_->Create("key", kBytes).status());
    for (uint64_t i = 0; i < kPuts; ++i) ASSERT_OK(writer_->Put("key").status());
  }
  void Finish() {
    ASSERT_OK(writer_->Finish());
    writer_.reset();
  }
  void Kill() {
    owners_->Kill();
    writer_.reset();
  }
  void FillDevice() { fs_->FailAt(io::kFaultAllocate, 1, UINT64_MAX, Code::kNoSpace); }
  std::unique_ptr<StreamReader> Read(Access access = Access::kShared) {
    auto reader = OpenLocalReader(*fs_, "/place", "store", 0, access);
    EXPECT_OK(reader.status());
    return reader.ok() ? *std::move(reader) : nullptr;
  }
  void ExpectNewest() {
    const auto reader = Read();
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(*reader->LastSnapshot(), kPuts);
    std::string bytes;
    EXPECT_OK(reader->Get("key", 0, &bytes));
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  const std::unique_ptr<io::FaultFileSystem> owners_ = io::NewFaultFileSystem(*disk_);
  const std::unique_ptr<io::FaultFileSystem> fs_ = io::NewFaultFileSystem(*disk_);
  std::unique_ptr<StreamWriter> writer_;
};

using FinishedStream = Written;

TEST_F(FinishedStream, StaysReadableWhereTendingFindsAFullDevice) {
  Finish();
  const auto before = Read();
  FillDevice();
  ExpectNewest();
  EXPECT_CODE(CollectEnded(*fs_, "/place", "store", 0), Code::kNoSpace);
  EXPECT_TRUE(*before->Finished());
  EXPECT_CODE(before->Wait(kPuts, 0).status(), Code::kNotFound);
  ExpectNewest();
}

TEST_F(FinishedStream, StaysFinishedWhileItIsTended) {
  Finish();
  const auto before = Read();
  for (const char* const place : {"stream.walk.before", "stream.index.before_rename",
                                  "stream.index.before_number", "stream.open.before_news"}) {
    bool asked = false;
    const AtPlace at(place, [&] {
      asked = true;
      EXPECT_TRUE(*before->Finished()) << place;
      EXPECT_CODE(before->Wait(kPuts, 0).status(), Code::kNotFound) << place;
    });
    ASSERT_OK(CollectEnded(*disk_, "/place", "store", 0));
    EXPECT_TRUE(asked) << place;
  }
  ExpectNewest();
}

TEST_F(FinishedStream, IsReadAndFinishedWhereverItsTenderDied) {
  Finish();
  const auto before = Read();
  for (const char* const place : {"stream.walk.before", "stream.index.before_rename",
                                  "stream.index.before_number", "stream.open.before_news"}) {
    SCOPED_TRACE(place);
    const auto tenders = io::NewFaultFileSystem(*disk_);
    {
      const AtPlace at(place, [&] { tenders->Kill(); });
      static_cast<void>(CollectEnded(*tenders, "/place", "store", 0));
    }
    EXPECT_TRUE(*before->Finished());
    std::string bytes;
    EXPECT_OK(before->Get("key", 0, &bytes));
    const auto looks = Read(Access::kLook);
    ASSERT_NE(looks, nullptr);
    EXPECT_TRUE(*looks->Finished());
    EXPECT_OK(looks->Get("key", 0, &bytes));
    ExpectNewest();
    EXPECT_TRUE(*before->Finished());
  }
}

using KilledWriter = Written;

TEST_F(KilledWriter, IsReadOnAFullDevice) {
  Kill();
  FillDevice();
  ExpectNewest();
}

TEST_F(KilledWriter, IsReadWhereThereIsNoMemoryForAnIndexInTheStore) {
  Kill();
  fs_->FailAt(io::kFaultAllocate, 1, UINT64_MAX, Code::kOutOfMemory);
  ExpectNewest();
}

TEST_F(KilledWriter, IsReportedThoughItsIndexCannotBeMade) {
  const auto before = Read();
  Kill();
  FillDevice();
  EXPECT_CODE(before->Wait(kPuts, 600'000).status(), Code::kPeerFailed);
}

// The gate reports already that the versions go; the index still contains them.
TEST_F(KilledWriter, AWriterKilledInACollectionLeavesOpenReadersTheVersions) {
  const auto pins = Read();
  const auto looks = Read(Access::kLook);
  {
    const AtPlace at("stream.collect.after_head", [&] { owners_->Kill(); });
    static_cast<void>(writer_->Collect());
  }
  writer_.reset();
  for (StreamReader* const reader : {looks.get(), pins.get()}) {
    const auto versions = reader->Versions("key");
    ASSERT_OK(versions.status());
    EXPECT_EQ(versions->size(), kPuts);
    std::string bytes;
    EXPECT_OK(reader->Get("key", 1, &bytes));
  }
}

// For once the reader cannot find out whether the writer lives.
class LivingWriter : public Written {
 protected:
  static constexpr uint32_t kOps = io::kFaultOpen | io::kFaultMap;
  // Acts as if a wait had ended: a reader that is about to sleep checks the writer at once.
  void WakeSleeper() {
    const auto gate = Gate::Open(*disk_, "/place/store/gate-0");
    ASSERT_OK(gate.status());
    (*gate)->SetIndexNumber((*gate)->index_number());
  }
};

TEST_F(LivingWriter, IsWaitedForInAShortageOfDescriptors) {
  const auto reader = Read();
  for (uint64_t nth = 1; nth <= 2; ++nth) {
    const uint64_t newest = *reader->LastSnapshot();
    uint64_t calls = 0;
    fs_->BeforeCalls(kOps, [&](const std::string&) {
      if (++calls == nth) ASSERT_OK(writer_->Put("key").status());
    });
    fs_->FailAt(kOps, nth, 1, Code::kOutOfMemory);
    const AtPlace sleeps("stream.gate.before_sleep", [&] { WakeSleeper(); });
    const Result<uint64_t> came = reader->Wait(newest, 60'000);
    fs_->BeforeCalls(kOps, {});
    EXPECT_EQ(fs_->failures(), 1u);
    ASSERT_OK(came.status());
    EXPECT_EQ(*came, newest + 1);
  }
}

TEST_F(LivingWriter, IsNotDeadWhereAShortageLastsForAllOfAWait) {
  const auto reader = Read();
  fs_->FailAt(kOps, 1, UINT64_MAX, Code::kOutOfMemory);
  EXPECT_CODE(reader->Wait(kPuts, 1).status(), Code::kTimedOut);
  EXPECT_GT(fs_->failures(), 0u);
}

}  // namespace
}  // namespace quire::stream::dead_writer_test
