// Captures: one moment of a database, whose files stay whatever it does afterwards.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <map>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"
#include "lsm/db/db_testing.h"
#include "lsm/offline/reader.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::db_capture_test {
namespace {

// Makes `directory` a database of a capture's files.
void CopyOut(TestDb& test, const engine::Capture& capture, const std::string& directory) {
  io::SimFileSystem& fs = test.fs();
  ASSERT_OK(fs.MakeDirectory(directory));
  for (const engine::Capture::File& file : capture.files()) {
    const auto bytes = io::ReadFile(fs, "/db/" + file.name, 1 << 24);
    ASSERT_OK(bytes.status());
    EXPECT_EQ(bytes->size(), file.file_bytes) << file.name;
    ASSERT_OK(io::ReplaceFile(fs, directory + "/" + file.name, *bytes));
  }
  ASSERT_OK(io::ReplaceFile(fs, directory + "/" + ManifestName(), capture.manifest()));
}

Model ContentsOf(TestDb& test, const std::string& directory) {
  const auto reader = Reader::Open(test.fs(), directory, {test.options(), nullptr});
  EXPECT_OK(reader.status());
  if (!reader.ok()) return {};
  EXPECT_OK((*reader)->Verify({}));
  return AllOf(*(*reader)->NewIterator({}));
}

std::string Value(int round, int i) {
  return std::string(i % 7 == 0 ? 700 : 20, static_cast<char>('a' + round % 26)) +
         std::to_string(i);
}

TEST(DbCapture, HoldsOneMomentWhateverTheDatabaseDoesNext) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  Model then;
  std::shared_ptr<const engine::Capture> capture;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 300; ++i) {
      const std::string key = "key " + std::to_string(i);
      ASSERT_OK(test->Put(key, Value(round, i)));
      if (round == 1) then[key] = Value(round, i);
    }
    if (round == 1) {
      auto made = test->NewCapture();
      ASSERT_OK(made.status());
      capture = *made;
    }
    ASSERT_OK(test->Compact());
  }
  CopyOut(test, *capture, "/copy");
  EXPECT_EQ(ContentsOf(test, "/copy"), then);
  // The copy is a database that goes on.
  capture.reset();
  auto copy = Db::Open(test.environment(), "/copy", test.options(), engine::OpenFlags::kMustExist);
  ASSERT_OK(copy.status());
  ASSERT_OK((*copy)->Put("key 1", "later"));
  then["key 1"] = "later";
  EXPECT_EQ(AllOf(*(*copy)->NewIterator({})), then);
}

TEST(DbCapture, ACaptureOfAnEmptyDatabaseIsEmpty) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  const auto capture = test->NewCapture();
  ASSERT_OK(capture.status());
  EXPECT_TRUE((*capture)->files().empty());
  CopyOut(test, **capture, "/copy");
  EXPECT_EQ(ContentsOf(test, "/copy"), Model());
}

TEST(DbCapture, IsWholeWhileOthersWrite) {
  TestDb test(SmallOptions(), /*threads=*/2);
  ASSERT_OK(test.Open());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      ASSERT_OK(test->Put("other " + std::to_string(i % 500), Value(i, i)));
    }
  });
  for (int round = 0; round < 5; ++round) {
    const std::string mine = "mine " + std::to_string(round);
    ASSERT_OK(test->Put(mine, "there"));
    const auto capture = test->NewCapture();
    ASSERT_OK(capture.status());
    const std::string directory = "/copy" + std::to_string(round);
    CopyOut(test, **capture, directory);
    EXPECT_EQ(ContentsOf(test, directory)[mine], "there");
  }
  stop = true;
  writer.join();
}

// A program may hold many: the memory of MemTables is for writers and iterators.
TEST(DbCapture, HoldsNoMemTable) {
  TestDb test(SmallOptions());
  test.environment().pinned_wait_ms_max = 1;
  ASSERT_OK(test.Open());
  std::vector<std::shared_ptr<const engine::Capture>> captures;
  for (int i = 0; i < 40; ++i) {
    ASSERT_OK(test->Put("key " + std::to_string(i), Value(0, i)));
    auto capture = test->NewCapture();
    ASSERT_OK(capture.status());
    captures.push_back(*std::move(capture));
  }
  for (int i = 0; i < 5000; ++i) ASSERT_OK(test->Put("key " + std::to_string(i), Value(1, i)));
}

// Runs `work` on a thread of its own whenever a capture passes one of its places.
class WhileItCaptures final : public base::SyncPointListener {
 public:
  explicit WhileItCaptures(std::function<void()> work) : work_(std::move(work)) {}
  const std::map<std::string, int>& passed() const { return passed_; }
  void Reach(const char* name) override {
    if (!std::string_view(name).starts_with("lsm.capture.")) return;
    ++passed_[name];
    std::thread(work_).join();
  }

 private:
  const std::function<void()> work_;
  std::map<std::string, int> passed_;  // by the thread that captures
  const base::ScopedSyncPoints installed_{this};
};

// Each time the open value segment gets into a table again, and those before it are collected.
TEST(DbCapture, TakesOneAttemptHoweverFastOthersWrite) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  int round = 0;
  Model now;
  const auto overwrite = [&] {
    ++round;
    for (int i = 0; i < 300; ++i) {
      const std::string key = "key " + std::to_string(i);
      now[key] = Value(round, i);
      ASSERT_OK(test->Put(key, now[key]));
    }
    ASSERT_OK(test->Compact());
    ASSERT_OK(test->Put("key 0", now["key 0"]));
    ASSERT_OK(test->Flush());
  };
  overwrite();
  Model then;
  std::shared_ptr<const engine::Capture> capture;
  {
    const WhileItCaptures busy([&] {
      overwrite();
      if (then.empty()) then = now;
    });
    const auto made = test->NewCapture();
    ASSERT_OK(made.status());
    capture = *made;
    const std::map<std::string, int> once = {{"lsm.capture.flushed", 1}, {"lsm.capture.open", 1}};
    EXPECT_EQ(busy.passed(), once);
  }
  overwrite();
  CopyOut(test, *capture, "/copy");
  EXPECT_EQ(ContentsOf(test, "/copy"), then);
}

// Values to which a table of the captured moment refers are overwritten, sealed and collected,
// until the list of segments would no longer name their segment.
TEST(DbCapture, KnowsTheSizesOfSegmentsThatWereOpen) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  Model now;
  const auto overwrite = [&](int round) {
    for (int i = 0; i < 100; ++i) {
      const std::string key = "key " + std::to_string(i);
      now[key] = std::string(1000, static_cast<char>('a' + round)) + std::to_string(i);
      ASSERT_OK(test->Put(key, now[key]));
    }
    ASSERT_OK(test->Flush());
  };
  overwrite(0);
  Model then;
  std::shared_ptr<const engine::Capture> capture;
  {
    const WhileItCaptures busy([&] {
      overwrite(1);
      if (then.empty()) {
        then = now;
        return;
      }
      for (int round = 2; round < 20; ++round) {
        overwrite(round);
        ASSERT_OK(test->Compact());
        base::EpochSynchronize();
      }
    });
    const auto made = test->NewCapture();
    ASSERT_OK(made.status());
    capture = *made;
    EXPECT_EQ(busy.passed().count("lsm.capture.open"), 1u);
  }
  CopyOut(test, *capture, "/copy");
  EXPECT_EQ(ContentsOf(test, "/copy"), then);
}

}  // namespace
}  // namespace quire::lsm::db_capture_test
