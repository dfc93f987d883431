// Pages that go from under the mappings of a database's files, as where a device cannot give them:
// an error of what reads them, never the end of the program.
#include <filesystem>
#include <memory>
#include <string>

#include "lsm/db/db_testing.h"
#include "lsm/vlog/value_files.h"
#include "tests/support/shortened_maps.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm::lost_pages_test {
namespace {

constexpr int kKeys = 3000;
constexpr char kLog[] = "log-";

std::string KeyOf(int i) { return "key" + std::to_string(i); }
std::string ValueOf(int i) { return std::string(200, static_cast<char>('a' + i % 26)); }

class LostPages : public ::testing::Test {
 protected:
  Status Open() {
    StorageOptions options = SmallOptions();
    options.memtable_bytes = 2 << 20;
    engine::EngineEnvironment environment;
    environment.fs = &fs_;
    environment.executor = executor_.get();
    auto opened = Db::Open(environment, place_, options, engine::OpenFlags::kOpenOrCreate);
    if (opened.ok()) db_ = std::move(*opened);
    return opened.status();
  }
  // Leaves a log with all pairs, as a process that dies does.
  void LeaveALog() {
    ASSERT_OK(Open());
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(db_->Put(KeyOf(i), ValueOf(i)));
    std::filesystem::copy(place_, directory_ / "left");
    db_.reset();
    ComeBack();
  }
  void ComeBack() {
    std::filesystem::remove_all(place_);
    std::filesystem::copy(directory_ / "left", place_);
  }

  const test::TempDirectory directory_;
  const std::string place_ = directory_ / "db";
  test::ShortenedMaps fs_;
  std::unique_ptr<base::Executor> executor_ = base::NewThreadPool(1, "lost pages").value();
  std::unique_ptr<Db> db_;
};

TEST_F(LostPages, LostPagesOfALogFailTheOpen) {
  ASSERT_NO_FATAL_FAILURE(LeaveALog());
  for (const uint64_t bytes : {0, 4096, 40'000, 400'000}) {
    fs_.Shorten(kLog, bytes);
    const Status status = Open();
    EXPECT_EQ(status.code(), Code::kIo) << status.ToString();
    EXPECT_NE(status.message().find("log-0.seg"), std::string::npos) << status.ToString();
    ComeBack();
  }
  EXPECT_EQ(fs_.shortened(), 4);
  fs_.Shorten("", 0);
  ASSERT_OK(Open());
  for (int i = 0; i < kKeys; ++i) ASSERT_EQ(GetText(*db_, KeyOf(i)), ValueOf(i));
}

class LostValues : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(0); }
  void Reopen(uint64_t next_id) {
    log_.reset();
    ValueLogStart start;
    start.next_id = next_id + 1;
    auto log = ValueLog::Open(fs_, directory_.path(), StorageOptions(), *executor_, start);
    ASSERT_OK(log.status());
    log_ = std::move(*log);
  }
  log::ValueRef Append(const std::string& value) {
    log::ValueRef ref{};
    EXPECT_OK(log_->Append("key", value, &ref));
    return ref;
  }
  std::string Path(const log::ValueRef& ref) const {
    return directory_ / ValueSegmentName(ref.segment_id);
  }
  static Status Read(const ValueLog& log, const log::ValueRef& ref, std::string* value) {
    return log.Read(ref, Into(value));
  }

  const test::TempDirectory directory_;
  test::ShortenedMaps fs_;
  const std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  std::unique_ptr<ValueLog> log_;
};

TEST_F(LostValues, LostPagesOfALargeValueFailItsCheck) {
  const std::string value(3'500'000, 'v');
  const log::ValueRef ref = Append(value);
  Reopen(ref.segment_id);
  EXPECT_OK(log_->Check(ref));
  fs_.Shorten("val-", 1 << 20);
  EXPECT_OK(log_->Check(ref));
  EXPECT_EQ(fs_.shortened(), 0) << "nothing is mapped";
  std::filesystem::resize_file(Path(ref), ref.offset + (2 << 20));
  EXPECT_EQ(log_->Check(ref).code(), Code::kCorruption);
}

TEST_F(LostValues, LostPagesOfTheActiveSegmentFailTheGet) {
  const std::string value(20'000, 'v');
  log::ValueRef ref = Append(value);
  for (int i = 0; i < 4; ++i) ref = Append(value);
  std::string got;
  EXPECT_OK(Read(*log_, ref, &got));
  EXPECT_EQ(got, value);
  const uint64_t size = std::filesystem::file_size(Path(ref));
  std::filesystem::resize_file(Path(ref), ref.offset);
  EXPECT_EQ(Read(*log_, ref, &got).code(), Code::kCorruption);
  std::filesystem::resize_file(Path(ref), size);
}

}  // namespace
}  // namespace quire::lsm::lost_pages_test
