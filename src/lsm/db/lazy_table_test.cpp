// Tables that are opened at their first use, and the errors that this can report.
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lsm/db/db_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::lazy_table_test {
namespace {

// Some tables, all in one run.
class LazyTables : public testing::Test {
 protected:
  LazyTables() : test_(SmallOptions()), watched_(io::NewFaultFileSystem(test_.fs())) {}
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

TEST_F(LazyTables, AreOpenedWhereTheyAreReadFirst) {
  Watch();
  ASSERT_OK(test_.Open());
  EXPECT_TRUE(opened_.empty()) << *opened_.begin();
  EXPECT_EQ(GetText(test_.db(), Key(0)), value_);
  EXPECT_EQ(opened_.size(), 1u);
  EXPECT_EQ(GetText(test_.db(), Key(kKeys - 1)), value_);
  EXPECT_EQ(opened_.size(), 2u);
}

TEST_F(LazyTables, TablesWithRangeTombstonesAreOpenedAtOnce) {
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

TEST_F(LazyTables, TablesThatCannotBeOpenedFailReadsUntilTheyCan) {
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
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
  EXPECT_EQ(iterator->key(), Key(0));
}

TEST_F(LazyTables, AFailedOpenOfTheOnlyTableOfARunMayBeRetried) {
  TestDb small{SmallOptions()};
  ASSERT_OK(small.Open());
  ASSERT_OK(small->Put(Key(0), value_));
  ASSERT_OK(small->Flush());
  small.Close();
  const std::unique_ptr<io::FaultFileSystem> faults = io::NewFaultFileSystem(small.fs());
  small.environment().fs = faults.get();
  ASSERT_OK(small.Open());
  faults->FailAt(io::kFaultOpen, 1, UINT64_MAX, Code::kOutOfMemory);
  auto iterator = small->NewIterator({});
  iterator->SeekToFirst();
  EXPECT_EQ(iterator->status().code(), Code::kOutOfMemory);
  faults->FailAt(io::kFaultOpen, 1, 0, Code::kOutOfMemory);
  iterator->SeekToFirst();
  EXPECT_TRUE(iterator->Valid()) << iterator->status().ToString();
  iterator.reset();
  small.Close();
}

TEST_F(LazyTables, AreOpenedOnceByConcurrentFirstReaders) {
  ASSERT_OK(test_.Open());
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([this] {
      for (int i = 0; i < kKeys; i += 100) EXPECT_EQ(GetText(test_.db(), Key(i)), value_);
    });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_F(LazyTables, TablesThatCannotBeOpenedFailAMergeAndStay) {
  ASSERT_OK(test_.Open());
  ASSERT_OK(test_->Put(Key(0), "newer"));
  ASSERT_OK(test_->Flush());
  watched_->FailAt(io::kFaultOpen, 1, UINT64_MAX, Code::kIo);
  EXPECT_FALSE(test_->Compact().ok());
  watched_->FailAt(io::kFaultOpen, 1, 0, Code::kIo);
  test_.Close();
  ASSERT_OK(test_.Open());
  EXPECT_EQ(GetText(test_.db(), Key(0)), "newer");
  EXPECT_EQ(GetText(test_.db(), Key(1)), value_);
  EXPECT_EQ(GetText(test_.db(), Key(kKeys - 1)), value_);
}

TEST_F(LazyTables, TablesThatVanishAreDamageAndNotAbsentKeys) {
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

}  // namespace
}  // namespace quire::lsm::lazy_table_test
