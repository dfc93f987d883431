// A database of more files than the process may have open, on a real file system.
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lsm/db/db_testing.h"
#include "tests/support/resource_limit.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm::db_descriptors_test {
namespace {

constexpr rlim_t kLimit = 64;
constexpr int kRounds = 120;        // each makes a table
constexpr int kKeysPerRound = 8;    // the last of them with a value in a value segment
constexpr size_t kValueBytes = 12'000;
constexpr size_t kSeparateBytes = 40'000;

// Tables of one block that is too large to be copied from a mapping, and no merge unasked.
StorageOptions ManyTables() {
  StorageOptions options;
  options.memtable_bytes = 512 << 10;
  options.block_bytes = 1 << 20;
  options.value_separation_bytes_min = kSeparateBytes;
  options.value_segment_bytes = 64 << 10;
  options.table_bytes_max = 256 << 10;
  options.compaction = CompactionPolicy::kEveryNth;
  options.compaction_trigger = 1000;
  options.cache_bytes = 0;
  return options;
}

std::string KeyOf(int i) { return "key" + std::to_string(100'000 + i); }
std::string ValueOf(int i) {
  const bool separate = i % kKeysPerRound == kKeysPerRound - 1;
  return std::to_string(i) + std::string(separate ? kSeparateBytes : kValueBytes,
                                         static_cast<char>('a' + i % 26));
}
constexpr int kKeys = kRounds * kKeysPerRound;

class ManyTablesTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) address_space_.emplace(RLIMIT_AS, test::kUnmappedAddressSpace);
    Open();
  }
  void Open() {
    engine::EngineEnvironment environment;
    environment.fs = &io::PosixFileSystem();
    environment.executor = executor_.get();
    auto opened =
        Db::Open(environment, directory_ / "db", ManyTables(), engine::OpenFlags::kOpenOrCreate);
    ASSERT_OK(opened.status());
    db_ = std::move(*opened);
  }
  void Write() {
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_OK(db_->Put(KeyOf(i), ValueOf(i)));
      if (i % kKeysPerRound == kKeysPerRound - 1) ASSERT_OK(db_->Flush());
    }
    ASSERT_GE(db_->Statistics().table_count, static_cast<uint64_t>(kRounds));
  }
  int CountWrong() const {
    int wrong = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::string text = GetText(*db_, KeyOf(i));
      if (text == ValueOf(i)) continue;
      if (wrong++ == 0) ADD_FAILURE() << KeyOf(i) << " has " << text.substr(0, 300);
    }
    return wrong;
  }

  std::optional<test::ResourceLimit> address_space_;
  const test::ResourceLimit descriptors_{RLIMIT_NOFILE, kLimit};
  test::TempDirectory directory_;
  std::unique_ptr<base::Executor> executor_ = base::NewThreadPool(2, "tables").value();
  std::unique_ptr<Db> db_;
};

INSTANTIATE_TEST_SUITE_P(Files, ManyTablesTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Mapped" : "Unmapped"; });

TEST_P(ManyTablesTest, AreReadWithFewDescriptors) {
  ASSERT_NO_FATAL_FAILURE(Write());
  EXPECT_EQ(CountWrong(), 0);
  db_.reset();
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(CountWrong(), 0);
}

TEST_P(ManyTablesTest, AreReadByManyThreadsWhileAMergeRemovesThem) {
  ASSERT_NO_FATAL_FAILURE(Write());
  const std::unique_ptr<engine::Iterator> before = db_->NewIterator({});
  before->SeekToFirst();
  std::atomic<bool> over = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      do {
        wrong += CountWrong();
      } while (!over.load());
    });
  }
  for (int merge = 0; merge < 2; ++merge) {
    EXPECT_OK(db_->Put(KeyOf(merge), ValueOf(merge)));
    EXPECT_OK(db_->Compact());
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  // An iterator holds the tables that it began with.
  int seen = 0;
  for (; before->Valid(); before->Next(), ++seen) {
    ASSERT_EQ(before->key(), KeyOf(seen));
    ASSERT_EQ(before->value(), ValueOf(seen)) << before->status().ToString();
  }
  EXPECT_OK(before->status());
  EXPECT_EQ(seen, kKeys);
}

// Copies of another database's tables, as a restore into a directory in use would bring them.
TEST_P(ManyTablesTest, AreNeverTakenForFilesThatTookTheirPlaces) {
  ASSERT_NO_FATAL_FAILURE(Write());
  std::vector<std::string> tables;
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "db")) {
    if (entry.path().extension() == ".sst") tables.push_back(entry.path());
  }
  for (const std::string& table : tables) {
    std::filesystem::copy_file(tables[0], table + ".new");
    std::filesystem::rename(table + ".new", table);
  }
  int right = 0;
  for (int i = 0; i < kKeys; ++i) {
    std::string value;
    const Status status = db_->Get(KeyOf(i), &value);
    if (status.ok()) {
      EXPECT_EQ(value, ValueOf(i));
      ++right;
    } else {
      EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
      EXPECT_NE(status.message().find("was replaced"), std::string::npos) << status.ToString();
    }
  }
  if (GetParam()) {
    EXPECT_EQ(right, kKeys);
  }
}

}  // namespace
}  // namespace quire::lsm::db_descriptors_test
