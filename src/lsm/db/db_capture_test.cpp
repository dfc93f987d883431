// Captures: one moment of a database, whose files stay whatever it does afterwards.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "lsm/db/db_test_support.h"
#include "lsm/version/manifest.h"
#include "lsm/offline/reader.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::db_capture_test {
namespace {

// Makes `directory` a database of a capture's files.
void CopyOut(TestDb& test, const Capture& capture, const std::string& directory) {
  io::SimFileSystem& fs = test.fs();
  ASSERT_OK(fs.MakeDirectory(directory));
  for (const Capture::File& file : capture.files()) {
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
  std::shared_ptr<const Capture> capture;
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
  auto copy = Db::Open(test.environment(), "/copy", test.options(), OpenFlags::kMustExist);
  ASSERT_OK(copy.status());
  ASSERT_OK((*copy)->Put("key 1", "later"));
  then["key 1"] = "later";
  EXPECT_EQ(AllOf(*(*copy)->NewIterator({})), then);
}

TEST(DbCapture, OfAnEmptyDatabaseIsEmpty) {
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

}  // namespace
}  // namespace quire::lsm::db_capture_test
