// Readers in a place that they cannot write to, so that no pin holds what they read; and readers of
// a store that was removed or moved.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::reader_alone_test {
namespace {

constexpr uint64_t kBytes = 9000;

// A finished store to which `reader_` cannot write, but others can.
class ReaderAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteMany();
    ASSERT_OK(writer_->Finish());
    writer_.reset();
    read_only_->FailAt(io::kFaultChange, 1, UINT64_MAX, Code::kReadOnly);
    auto reader = OpenLocalReader(*read_only_, "/place", "store", 0);
    ASSERT_OK(reader.status());
    reader_ = *std::move(reader);
  }
  // Opens the store, and writes all of its log more than once.
  void WriteMany() {
    auto writer = OpenWriter(*disk_, "/place", "store", 0, SmallLog(64 << 10));
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    const Result<char*> memory = writer_->Create("key", kBytes, {});
    ASSERT_OK(memory.status());
    for (int i = 0; i < 20; ++i) {
      Compute(*memory, "key", ++newest_, kBytes);
      ASSERT_OK(writer_->Put("key").status());
    }
  }
  void ExpectNewest() {
    std::string bytes;
    ASSERT_OK(reader_->Get("key", 0, &bytes));
    EXPECT_EQ(bytes == BytesOf("key", newest_, kBytes), true);
    EXPECT_EQ(*reader_->LastSnapshot(), newest_);
    EXPECT_EQ(*reader_->Wait(newest_ - 1, 0), newest_);
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  const std::unique_ptr<io::FaultFileSystem> read_only_ = io::NewFaultFileSystem(*disk_);
  std::unique_ptr<StreamWriter> writer_;
  std::unique_ptr<StreamReader> reader_;
  uint64_t newest_ = 0;
};

TEST_F(ReaderAlone, KeepsItsViewsUnchangedWhileWritersWrite) {
  const auto view = reader_->View("key", 0);
  ASSERT_OK(view.status());
  const std::string viewed = BytesOf("key", newest_, kBytes);
  EXPECT_EQ((*view)->bytes() == viewed, true);
  WriteMany();
  EXPECT_EQ((*view)->bytes() == viewed, true);
  EXPECT_OK((*view)->Verify());
}

TEST_F(ReaderAlone, SeesWhatALaterWriterStoresAndThatItEnds) {
  ExpectNewest();
  WriteMany();
  ExpectNewest();
  EXPECT_EQ(reader_->Versions("key")->front().version, newest_);
  EXPECT_EQ(*reader_->Objects(), std::vector<std::string>{"key"});
  EXPECT_FALSE(*reader_->Finished());
  EXPECT_CODE(reader_->Wait(newest_, 1).status(), Code::kTimedOut);
  writer_.reset();
  ExpectNewest();
  EXPECT_TRUE(*reader_->Finished());
  EXPECT_CODE(reader_->Wait(newest_, 600'000).status(), Code::kNotFound);
}

TEST_F(ReaderAlone, WaitsForTheNextSnapshot) {
  WriteMany();
  std::thread later([this] { EXPECT_OK(writer_->Put("key").status()); });
  EXPECT_EQ(*reader_->Wait(newest_, 600'000), newest_ + 1);
  later.join();
}

TEST_F(ReaderAlone, GivesNothingThatAWriterWroteOverMeanwhile) {
  for (const char* const place : {"stream.read.after_sight", "stream.read.after_index",
                                  "stream.read.before_pin", "stream.read.after_pin"}) {
    for (const bool view : {false, true}) {
      SCOPED_TRACE(std::string(place) + (view ? ", a view" : ", a get"));
      writer_.reset();
      ExpectNewest();
      const AtPlace comes(place, [&] { WriteMany(); });
      std::string bytes;
      if (view) {
        const auto viewed = reader_->View("key", 0);
        ASSERT_OK(viewed.status());
        bytes = (*viewed)->bytes();
      } else {
        ASSERT_OK(reader_->Get("key", 0, &bytes));
      }
      EXPECT_EQ(bytes == BytesOf("key", newest_, kBytes), true);
    }
  }
}

class ReaderOfARemovedStore : public ::testing::Test {
 protected:
  void SetUp() override {
    first_ = Write();
    auto reader = OpenLocalReader(io::PosixFileSystem(), directory_.path(), "store", 0);
    ASSERT_OK(reader.status());
    reader_ = *std::move(reader);
  }
  std::unique_ptr<StreamWriter> Write() {
    auto writer =
        OpenWriter(io::PosixFileSystem(), directory_.path(), "store", 0, SmallLog(1 << 20));
    EXPECT_OK(writer.status());
    const Result<char*> memory = (*writer)->Create("key", kBytes);
    EXPECT_OK(memory.status());
    memory_ = *memory;
    EXPECT_OK((*writer)->Put("key").status());
    return *std::move(writer);
  }
  void ExpectToldSo() {
    const Status told = reader_->Wait(1, 600'000).status();
    EXPECT_CODE(told, Code::kPeerFailed);
    EXPECT_NE(told.message().find("was removed"), std::string::npos) << told.ToString();
  }

  const test::TempDirectory directory_;
  std::unique_ptr<StreamWriter> first_;
  char* memory_ = nullptr;  // of the writer that was opened last
  std::unique_ptr<StreamReader> reader_;
};

TEST_F(ReaderOfARemovedStore, ReportsTheRemoval) {
  std::filesystem::remove_all(directory_ / "store");
  ExpectToldSo();
}

// The gate of the new store has no mark yet.
TEST_F(ReaderOfARemovedStore, ReportsTheRemovalWhileTheStoreIsRecreated) {
  const std::filesystem::path gate = directory_ / "store/gate-0";
  ASSERT_TRUE(std::filesystem::exists(gate));
  const std::string zeros(std::filesystem::file_size(gate), '\0');
  std::filesystem::remove_all(directory_ / "store");
  std::filesystem::create_directories(gate.parent_path());
  ASSERT_OK(io::WriteFile(io::PosixFileSystem(), gate.string(), zeros));
  ExpectToldSo();
}

TEST_F(ReaderOfARemovedStore, ReportsTheRemovalAfterTheStoreWasRecreated) {
  std::filesystem::remove_all(directory_ / "store");
  const std::unique_ptr<StreamWriter> second = Write();
  ExpectToldSo();
  std::string bytes;
  EXPECT_CODE(reader_->Get("key", 0, &bytes), Code::kPeerFailed);
}

TEST_F(ReaderOfARemovedStore, ReportsTheRemovalAfterTheWriterFinished) {
  ASSERT_OK(first_->Finish());
  EXPECT_CODE(reader_->Wait(1, 600'000).status(), Code::kNotFound);
  std::filesystem::remove_all(directory_ / "store");
  ExpectToldSo();
}

// The files at the names of its locks belong to another store.
TEST_F(ReaderOfARemovedStore, KeepsItsViewsIfTheStoreWasMovedAndRecreated) {
  const auto view = reader_->View("key", 1);
  ASSERT_OK(view.status());
  ASSERT_TRUE((*view)->in_place());
  const std::string held((*view)->bytes());
  auto later = OpenLocalReader(io::PosixFileSystem(), directory_.path(), "store", 0);
  ASSERT_OK(later.status());
  char* const memory = memory_;
  std::filesystem::rename(directory_ / "store", directory_ / "moved");
  const std::unique_ptr<StreamWriter> second = Write();
  // Without a check, a reader that holds nothing yet would take the slot of the one that does.
  EXPECT_CODE((*later)->View("key", 1).status(), Code::kPeerFailed);
  later->reset();
  Status put;
  for (uint64_t version = 2; version <= 300 && put.ok(); ++version) {
    Compute(memory, "key", version, kBytes);
    put = first_->Put("key").status();
  }
  EXPECT_CODE(put, Code::kNoSpace);
  EXPECT_NE(put.message().find("was removed or moved"), std::string::npos) << put.ToString();
  EXPECT_TRUE((*view)->bytes() == held);
  EXPECT_OK((*view)->Verify());
}

}  // namespace
}  // namespace quire::stream::reader_alone_test
