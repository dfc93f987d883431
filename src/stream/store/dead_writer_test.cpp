// What is told of a stream whose writer has ended or died, while another program tends it, on a
// full device, and to a reader that was open before.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "io/sim/sim_file_system.h"
#include "stream/store/stream_testing.h"
#include "stream/store/streams.h"
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
  std::unique_ptr<StreamReader> Read() {
    auto reader = OpenLocalReader(*fs_, "/place", "store", 0);
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

}  // namespace
}  // namespace quire::stream::dead_writer_test
