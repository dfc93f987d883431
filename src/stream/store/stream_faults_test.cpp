// A device fails under a writer and a reader of a stream, at any call. Both return an error,
// committed versions stay, and both go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stream/index/gate.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::stream_faults_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = 9000;

class StreamFaults : public ::testing::Test {
 protected:
  StreamOptions Options() {
    StreamOptions options = SmallLog(64 << 10);
    options.keep_versions = 2;
    return options;
  }

  // Opens, puts twenty versions with syncs among them, and ends. A put that returns an error counts
  // as no version.
  Status Write(io::FileSystem& fs) {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StreamWriter> writer,
                           OpenWriter(fs, "/place", "store", 0, Options()));
    QUIRE_ASSIGN_OR_RETURN(char* const memory, writer->Create("key", kBytes, {}));
    Status first;
    for (int i = 0; i < 20; ++i) {
      Compute(memory, "key", newest_ + 1, kBytes);
      const Result<uint64_t> version = writer->Put("key");
      if (version.ok()) {
        EXPECT_EQ(*version, newest_ + 1);
        newest_ = *version;
      } else if (first.ok()) {
        first = version.status();
      }
      const Status synced = i % 6 == 5 ? writer->Sync() : Status();
      if (first.ok()) first = synced;
    }
    const Status finished = writer->Finish();
    return first.ok() ? finished : first;
  }

  void ExpectNewest(io::FileSystem& fs) {
    const auto reader = OpenLocalReader(fs, "/place", "store", 0);
    if (newest_ == 0) {
      if (reader.ok()) {
        EXPECT_CODE((*reader)->Versions("key").status(), Code::kNotFound);
      }
      return;
    }
    ASSERT_OK(reader.status());
    std::string bytes;
    ASSERT_OK((*reader)->Get("key", 0, &bytes));
    EXPECT_EQ(bytes == BytesOf("key", newest_, kBytes), true) << newest_;
  }

  // Lets the n-th call of `ops` fail. Returns false if there are fewer calls.
  bool FailWriting(uint32_t ops, uint64_t nth, uint64_t count, Code code) {
    const auto disk = io::NewSimFileSystem();
    const auto fs = io::NewFaultFileSystem(*disk);
    newest_ = 0;
    EXPECT_OK(Write(*disk));
    fs->FailAt(ops, nth, count, code);
    const Status told = Write(*fs);
    const bool failed = fs->failures() > 0;
    if (!told.ok()) {
      EXPECT_EQ(told.code(), code) << told.ToString();
    }
    fs->FailAt(ops, 1, 0, code);
    ExpectNewest(*fs);
    EXPECT_OK(Write(*fs));
    ExpectNewest(*fs);
    return failed;
  }

  // Opens a reader and reads while its n-th call fails.
  bool FailReading(uint32_t ops, uint64_t nth, uint64_t count, Code code) {
    const auto disk = io::NewSimFileSystem();
    const auto fs = io::NewFaultFileSystem(*disk);
    newest_ = 0;
    EXPECT_OK(Write(*disk));
    fs->FailAt(ops, nth, count, code);
    const auto reader = OpenLocalReader(*fs, "/place", "store", 0);
    std::string bytes;
    const Status read = reader.ok() ? (*reader)->Get("key", 0, &bytes) : reader.status();
    const bool failed = fs->failures() > 0;
    if (read.ok()) {
      EXPECT_EQ(bytes == BytesOf("key", newest_, kBytes), true);
    }
    if (!read.ok()) {
      EXPECT_CODE(read, code);
    }
    fs->FailAt(io::kFaultAll, 1, 0, Code::kIo);
    ExpectNewest(*fs);
    return failed;
  }

  uint64_t newest_ = 0;
};

TEST_F(StreamFaults, FaultsOfAWriterAreReportedAndLoseNoVersion) {
  uint64_t nth = 1;
  while (FailWriting(io::kFaultAll, nth, 1, Code::kIo) && !HasFailure()) ++nth;
  EXPECT_GT(nth, 20u);
}

TEST_F(StreamFaults, LastingFaultsAreReportedAndLoseNoVersion) {
  uint64_t nth = 1;
  while (FailWriting(io::kFaultAll, nth, UINT64_MAX, Code::kNoSpace) && !HasFailure()) ++nth;
  EXPECT_GT(nth, 20u);
}

TEST_F(StreamFaults, FaultsOfAReaderAreReported) {
  uint64_t nth = 1;
  while (FailReading(io::kFaultAll, nth, 1, Code::kIo) && !HasFailure()) ++nth;
  EXPECT_GT(nth, 5u);
}

TEST_F(StreamFaults, FilesThatCannotBeOpenedOrMappedAreReportedAndLoseNoVersion) {
  constexpr uint32_t kOps = io::kFaultOpen | io::kFaultMap;
  for (const uint64_t count : {uint64_t{1}, UINT64_MAX}) {
    uint64_t nth = 1;
    while (FailWriting(kOps, nth, count, Code::kOutOfMemory) && !HasFailure()) ++nth;
    EXPECT_GT(nth, 3u) << count;
    nth = 1;
    while (FailReading(kOps, nth, count, Code::kOutOfMemory) && !HasFailure()) ++nth;
    EXPECT_GT(nth, 3u) << count;
  }
}

TEST_F(StreamFaults, AFullDeviceIsReportedWhenTheLogIsMade) {
  const auto disk = io::NewSimFileSystem();
  disk->SetFreeBytes(32 << 10);
  EXPECT_CODE(OpenWriter(*disk, "/place", "store", 0, Options()).status(), Code::kNoSpace);
  EXPECT_CODE(OpenLocalReader(*disk, "/place", "store", 0).status(), Code::kNotFound);
  disk->SetFreeBytes(UINT64_MAX);
  EXPECT_OK(OpenWriter(*disk, "/place", "store", 0, Options()).status());
}

TEST_F(StreamFaults, AReadOnlyPlaceIsReadWithoutAnIndexOfItsWriter) {
  const auto disk = io::NewSimFileSystem();
  const auto fs = io::NewFaultFileSystem(*disk);
  newest_ = 0;
  ASSERT_OK(Write(*disk));
  fs->FailAt(io::kFaultChange, 1, UINT64_MAX, Code::kReadOnly);
  ExpectNewest(*fs);
}

TEST_F(StreamFaults, AReadOnlyPlaceIsReadBesideALivingWriter) {
  const auto disk = io::NewSimFileSystem();
  const auto fs = io::NewFaultFileSystem(*disk);
  auto writer = OpenWriter(*disk, "/place", "store", 0, Options());
  ASSERT_OK(writer.status());
  const Result<char*> memory = (*writer)->Create("key", kBytes, {});
  ASSERT_OK(memory.status());
  Compute(*memory, "key", ++newest_, kBytes);
  ASSERT_OK((*writer)->Put("key").status());
  fs->FailAt(io::kFaultChange, 1, UINT64_MAX, Code::kReadOnly);
  ExpectNewest(*fs);
  writer->reset();
  ExpectNewest(*fs);
}

// A reader that died holds the log: its pin stays behind, and no process has its lock.
class StreamDeadReader : public StreamFaults {
 protected:
  void Open(uint64_t wait_ms) {
    StreamOptions options = Options();
    options.wait_ms = wait_ms;
    auto writer = OpenWriter(*fs_, "/place", "store", 0, options);
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    ASSERT_OK(writer_->Create("key", kBytes, {}).status());
    const auto gate = Gate::Open(*disk_, "/place/store/gate-0");
    ASSERT_OK(gate.status());
    (*gate)->Pin(0, 0);
  }
  // Puts more than the log holds; the first `failures` calls that open a file fail.
  Status PutMany(uint64_t failures) {
    fs_->FailAt(io::kFaultOpen, 1, failures, Code::kIo);
    Status status;
    for (int i = 0; i < 20 && status.ok(); ++i) status = writer_->Put("key").status();
    return status;
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  const std::unique_ptr<io::FaultFileSystem> fs_ = io::NewFaultFileSystem(*disk_);
  std::unique_ptr<StreamWriter> writer_;
};

TEST_F(StreamDeadReader, ALockThatCannotBeTriedIsReportedWithTheReason) {
  Open(0);
  const Status status = PutMany(UINT64_MAX);
  EXPECT_CODE(status, Code::kNoSpace);
  EXPECT_THAT(status.message(), HasSubstr("whether it lives is not known"));
  EXPECT_THAT(status.message(), HasSubstr("lock /place/store/reader-0-0.lock"));
  EXPECT_OK(PutMany(0));
}

TEST_F(StreamDeadReader, IsWaitedForUntilItsLockCanBeTried) {
  Open(600'000);
  EXPECT_OK(PutMany(9));
  EXPECT_EQ(fs_->failures(), 9u);
}

TEST_F(StreamFaults, ASyncThatFailedOnceFailsForGood) {
  bool failed = true;
  for (uint64_t nth = 1; failed; ++nth) {
    const auto disk = io::NewSimFileSystem();
    const auto fs = io::NewFaultFileSystem(*disk);
    const auto writer = OpenWriter(*fs, "/place", "store", 0, Options());
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->Create("key", kBytes, {}).status());
    ASSERT_OK((*writer)->Put("key").status());
    fs->FailAt(io::kFaultAll, nth, 1, Code::kIo);
    const Status first = (*writer)->Sync();
    failed = fs->failures() > 0;
    EXPECT_EQ(first.ok(), !failed) << nth;
    EXPECT_EQ((*writer)->Sync().ok(), !failed) << nth;
    ASSERT_LT(nth, 20u);
  }
}

}  // namespace
}  // namespace quire::stream::stream_faults_test
