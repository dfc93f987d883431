// What opening a closed database costs: its manifest, whatever its tables hold; and what their first
// use tells.
#include <map>
#include <memory>
#include <set>
#include <string>

#include "lsm/db_test_support.h"
#include "lsm/reader.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm {
namespace {

StorageOptions LargeTables() {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 4 << 20;
  options.table_bytes_max = 64 << 20;
  return options;
}

// A closed database with `keys` pairs in one table.
void Fill(TestDb& test, int keys) {
  ASSERT_OK(test.Open());
  for (int i = 0; i < keys; ++i) ASSERT_OK(test->Put("key " + std::to_string(i), "value"));
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Compact());
  ASSERT_EQ(test->Statistics().table_count, 1u);
  test.Close();
}

TEST(DbOpening, MakesTheSameCallsWhateverTheTableHolds) {
  std::map<int, std::map<std::string, int>> calls;  // by number of keys, by path
  for (const int keys : {1'000, 40'000}) {
    TestDb test(LargeTables());
    Fill(test, keys);
    const auto watched = io::NewFaultFileSystem(test.fs());
    watched->BeforeCalls(io::kFaultAll, [&](const std::string& path) { ++calls[keys][path]; });
    test.environment().fs = watched.get();
    ASSERT_OK(test.Open());
    watched->BeforeCalls(io::kFaultAll, {});
    EXPECT_EQ(GetText(test.db(), "key " + std::to_string(keys - 1)), "value");
    test.Close();
  }
  EXPECT_EQ(calls[1'000], calls[40'000]);
}

// Some tables, all in one run.
class LateTables : public testing::Test {
 protected:
  LateTables() : test_(SmallOptions()), watched_(io::NewFaultFileSystem(test_.fs())) {}
  void SetUp() override {
    ASSERT_OK(test_.Open());
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(test_->Put(Key(i), value_));
    ASSERT_OK(test_->Compact());
    ASSERT_GE(test_->Statistics().table_count, 4u);
    test_.Close();
    test_.environment().fs = watched_.get();
  }
  void TearDown() override { test_.Close(); }
  static std::string Key(int i) { return "key " + std::to_string(10'000 + i); }
  void Watch() {
    opened_.clear();
    watched_->BeforeCalls(io::kFaultAll, [this](const std::string& path) {
      if (path.find("/t-") != std::string::npos) opened_.insert(path);
    });
  }

  static constexpr int kKeys = 4000;
  const std::string value_ = std::string(100, 'v');
  TestDb test_;
  std::set<std::string> opened_;
  std::unique_ptr<io::FaultFileSystem> watched_;
};

TEST_F(LateTables, AreOpenedWhereTheyAreReadFirst) {
  Watch();
  ASSERT_OK(test_.Open());
  EXPECT_TRUE(opened_.empty()) << *opened_.begin();
  EXPECT_EQ(GetText(test_.db(), Key(0)), value_);
  EXPECT_EQ(opened_.size(), 1u);
  EXPECT_EQ(GetText(test_.db(), Key(kKeys - 1)), value_);
  EXPECT_EQ(opened_.size(), 2u);
}

TEST_F(LateTables, WithTombstonesOfRangesAreOpenedAtOnce) {
  ASSERT_OK(test_.Open());
  ASSERT_OK(test_->DeleteRange(Key(0), Key(kKeys / 2)));
  ASSERT_OK(test_->Flush());
  test_.Close();
  Watch();
  ASSERT_OK(test_.Open());
  EXPECT_EQ(opened_.size(), 1u);
  EXPECT_EQ(GetText(test_.db(), Key(0)), "<absent>");
  const auto iterator = test_->NewIterator({});
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), Key(kKeys / 2));
}

TEST_F(LateTables, ThatCannotBeOpenedSaySoUntilTheyCan) {
  ASSERT_OK(test_.Open());
  std::string value;
  watched_->FailAt(io::kFaultOpen, 1, UINT64_MAX, Code::kIo);
  EXPECT_EQ(test_->Get(Key(0), &value).code(), Code::kIo);
  EXPECT_EQ(test_->Get("absent", &value).code(), Code::kIo) << "it may be there";
  const auto iterator = test_->NewIterator({});
  iterator->SeekToFirst();
  EXPECT_FALSE(iterator->Valid());
  EXPECT_EQ(iterator->status().code(), Code::kIo);
  EXPECT_EQ(test_->Verify().code(), Code::kIo);
  watched_->FailAt(io::kFaultOpen, 1, 0, Code::kIo);
  EXPECT_EQ(GetText(test_.db(), Key(0)), value_);
}

TEST_F(LateTables, ThatVanishAreDamageAndNotAbsentKeys) {
  ASSERT_OK(test_.Open());
  const auto files = test_.fs().List("/db");
  ASSERT_OK(files.status());
  for (const io::FileInfo& file : *files) {
    if (file.name.rfind("t-", 0) == 0) ASSERT_OK(test_.fs().Unlink("/db/" + file.name));
  }
  std::string value;
  const Status read = test_->Get(Key(0), &value);
  EXPECT_EQ(read.code(), Code::kCorruption) << read.ToString();
  EXPECT_NE(read.message().find("/db/t-"), std::string::npos) << read.ToString();
}

// A reader copies what of the log is in no table: of a closed database nothing, of a killed one the
// segment that was in use, though nothing is in it either.
TEST(DbOpening, AReaderOfAClosedDatabaseCopiesNoLog) {
  std::map<bool, int> calls;
  for (const bool closed : {true, false}) {
    TestDb test(SmallOptions());
    ASSERT_OK(test.Open());
    ASSERT_OK(test->Put("a", "1"));
    ASSERT_OK(test->Flush());
    if (!closed) test.fs().CrashAfter(0);
    test.Close();
    if (!closed) {
      test.fs().Restart(io::CrashKind::kProcess, 1);
      test.fs().CrashAfter(UINT64_MAX);
    }
    const auto watched = io::NewFaultFileSystem(test.fs());
    watched->BeforeCalls(io::kFaultRead, [&](const std::string& path) {
      if (path.find("log-") != std::string::npos) ++calls[closed];
    });
    const auto reader = Reader::Open(*watched, "/db", {SmallOptions(), nullptr});
    ASSERT_OK(reader.status());
    EXPECT_EQ((*reader)->State().log_records, 0u);
  }
  EXPECT_EQ(calls[true] + 3, calls[false]) << "its size, its header, and all of it";
}

}  // namespace
}  // namespace quire::lsm
