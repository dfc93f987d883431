// A refused open of a stream leaves nothing behind that was not there before.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "stream/store/local_reader.h"
#include "stream/store/stream_testing.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/file_tree.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::refused_streams_test {
namespace {

using test::FileTree;

class RefusedStreams : public testing::Test {
 protected:
  Status Open(uint32_t rank = 0) {
    return OpenWriter(*disk_, "/place", "store", rank, SmallLog(64 << 10)).status();
  }
  std::vector<std::string> Tree() {
    if (!disk_->Exists("/place").value()) return {};
    std::vector<std::string> paths = FileTree(*disk_, "/place");
    paths.emplace_back("/place");
    return paths;
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
};

// Room ends at each number of bytes: for the log, for its gate, for its index.
TEST_F(RefusedStreams, WithoutRoom) {
  const std::vector<std::string> before = Tree();
  uint64_t refused = 0;
  for (uint64_t bytes = 0;; bytes += 8 << 10) {
    disk_->SetFreeBytes(bytes);
    const Status opened = Open();
    if (opened.ok()) break;
    EXPECT_EQ(opened.code(), Code::kNoSpace) << opened.ToString();
    ASSERT_EQ(Tree(), before) << bytes;
    ++refused;
  }
  EXPECT_GT(refused, 8u);
}

// A store that another rank writes stays complete.
TEST_F(RefusedStreams, WithoutRoomBesideAnotherRank) {
  ASSERT_OK(Open(1));
  const std::vector<std::string> before = Tree();
  disk_->SetFreeBytes(20 << 10);
  EXPECT_CODE(Open(), Code::kNoSpace);
  EXPECT_EQ(Tree(), before);
}

// Opens a copy, which has no lock files.
TEST_F(RefusedStreams, ADamagedLogIsRefused) {
  ASSERT_OK(Open());
  for (const std::string& path : Tree()) {
    if (path.ends_with(".lock")) ASSERT_OK(disk_->Unlink(path));
  }
  ASSERT_OK(disk_->Damage("/place/store/log-0", [](std::string* bytes) { bytes->resize(100); }));
  const std::vector<std::string> before = Tree();
  EXPECT_FALSE(Open().ok());
  EXPECT_EQ(Tree(), before);
}

// A finished stream keeps some versions, and a program that would keep fewer is refused. Only a
// program that could open the stream decides what is kept, and for how long.
class RefusedPolicies : public RefusedStreams {
 protected:
  static constexpr uint64_t kVersions = 5;

  // Lets each of the calls fail in turn, with the `count` - 1 that follow. Returns how many opens
  // failed.
  uint64_t FailEachOf(uint32_t ops, uint64_t count, Code code) {
    const auto fs = io::NewFaultFileSystem(*disk_);
    uint64_t refused = 0;
    for (bool failed = true; failed && !HasFailure(); ++refused) {
      SCOPED_TRACE("call " + std::to_string(refused + 1));
      WriteAndFinish();
      fs->FailAt(ops, refused + 1, count, code);
      failed = !OpenWriter(*fs, "/place", "store", 0, SmallLog(64 << 10)).ok();
      if (!failed) break;
      ExpectAsItWas();
    }
    return refused;
  }

 private:
  void WriteAndFinish() {
    StreamOptions options = SmallLog(64 << 10);
    options.keep_versions = kVersions;
    auto writer = OpenWriter(*disk_, "/place", "store", 0, options);
    ASSERT_OK(writer.status());
    ASSERT_OK((*writer)->Create("key", 3000).status());
    for (uint64_t i = 0; i < kVersions; ++i) ASSERT_OK((*writer)->Put("key").status());
    ASSERT_OK((*writer)->Finish());
  }
  void ExpectAsItWas() {
    ASSERT_OK(CollectEnded(*disk_, "/place", "store", 0));
    const auto reader = OpenLocalReader(*disk_, "/place", "store", 0);
    ASSERT_OK(reader.status());
    EXPECT_EQ((*reader)->Versions("key")->size(), kVersions);
    EXPECT_TRUE(*(*reader)->Finished());
  }
};

TEST_F(RefusedPolicies, AtAnyCallThatAsksForRoomLeaveTheFormerOneAndTheEnd) {
  constexpr uint32_t kOps = io::kFaultAllocate | io::kFaultOpen | io::kFaultMap;
  EXPECT_GT(FailEachOf(kOps, UINT64_MAX, Code::kNoSpace), 3u);
}

// A policy is stored twice: the first copy may be synced when the second one fails.
TEST_F(RefusedPolicies, AtAnySyncLeaveTheFormerOneAndTheEnd) {
  for (const Code code : {Code::kIo, Code::kOutOfMemory}) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{2}, UINT64_MAX}) {
      SCOPED_TRACE(count);
      EXPECT_GE(FailEachOf(io::kFaultSync, count, code), 3u);
    }
  }
}

TEST_F(RefusedStreams, InvalidNamesAreRefused) {
  const std::vector<std::string> before = Tree();
  EXPECT_CODE(OpenWriter(*disk_, "/place", "a/b", 0, SmallLog(64 << 10)).status(),
              Code::kInvalidArgument);
  EXPECT_FALSE(OpenLocalReader(*disk_, "/place", "store", 0).ok());
  EXPECT_FALSE(OpenWriter(*disk_, "/absent/place", "store", 0, SmallLog(64 << 10)).ok());
  EXPECT_EQ(Tree(), before);
}

TEST_F(RefusedStreams, AStreamThatHasAWriterIsRefused) {
  const auto writer = OpenWriter(*disk_, "/place", "store", 0, SmallLog(64 << 10));
  ASSERT_OK(writer.status());
  const std::vector<std::string> before = Tree();
  EXPECT_CODE(Open(), Code::kBusy);
  EXPECT_EQ(Tree(), before);
}

}  // namespace
}  // namespace quire::stream::refused_streams_test
