// Changes of a program to its own process while Quire is open in it: another working directory, and
// no standard streams.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/sanitizer.h"
#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/reader.h"
#include "quire/stream.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

constexpr int kPairs = 3000;

// Two directories that a run may have as its own; the test begins in the first.
class WorkingDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(one());
    std::filesystem::create_directory(two());
    std::filesystem::current_path(one());
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  std::string one() const { return root_ / "one"; }
  std::string two() const { return root_ / "two"; }

  // Nothing came to be in the directory that the program went to.
  void ExpectNothingInTwo() { EXPECT_TRUE(std::filesystem::is_empty(two())); }

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
  test::TempDirectory root_;
};

DatabaseOptions Small() {
  DatabaseOptions options;
  options.storage.memtable_bytes = 128 << 10;
  return options;
}

void PutAll(Database& database, const std::string& value) {
  for (int i = 0; i < kPairs; ++i) ASSERT_OK(database.Put("k" + std::to_string(i), value));
}

void ExpectAll(const std::string& repository, const std::string& value) {
  auto context = Context::OpenSerial(repository);
  ASSERT_OK(context.status());
  auto database = (*context)->Open("db", Small());
  ASSERT_OK(database.status());
  std::string got;
  for (int i = 0; i < kPairs; ++i) {
    ASSERT_OK((*database)->Get("k" + std::to_string(i), &got));
    ASSERT_EQ(got, value) << i;
  }
}

void Write(const std::string& value) {
  auto context = Context::OpenSerial("repo");
  ASSERT_OK(context.status());
  auto database = (*context)->Open("db", Small());
  ASSERT_OK(database.status());
  PutAll(**database, value);
  EXPECT_OK((*database)->Close());
}

TEST_F(WorkingDirectory, ADatabaseStaysInTheOneOfItsOpening) {
  std::filesystem::current_path(two());
  Write(std::string(100, 't'));
  std::filesystem::current_path(one());
  Write(std::string(100, 'o'));
  {
    auto context = Context::OpenSerial("repo");
    ASSERT_OK(context.status());
    EXPECT_EQ((*context)->repository(), std::filesystem::current_path().string() + "/repo");
    auto database = (*context)->Open("db", Small());
    ASSERT_OK(database.status());
    std::filesystem::current_path(two());
    PutAll(**database, std::string(100, 'n'));
    EXPECT_OK((*database)->Close());
    auto later = (*context)->Open("later", Small());
    ASSERT_OK(later.status());
    EXPECT_OK((*later)->Close());
  }
  EXPECT_TRUE(std::filesystem::exists(one() + "/repo/later"));
  EXPECT_FALSE(std::filesystem::exists(two() + "/repo/later"));
  ExpectAll(one() + "/repo", std::string(100, 'n'));
  ExpectAll(two() + "/repo", std::string(100, 't'));
}

TEST_F(WorkingDirectory, AReaderOfADatabaseStaysInTheOneOfItsOpening) {
  Write("first");
  auto reader = DatabaseReader::Open("repo/db");
  ASSERT_OK(reader.status());
  std::filesystem::current_path(two());
  std::string got;
  ASSERT_OK((*reader)->Get("k1", &got));
  EXPECT_EQ(got, "first");
  EXPECT_OK((*reader)->Refresh());
  EXPECT_EQ(DatabaseReader::Open("repo/db").status().code(), Code::kNotFound);
  EXPECT_EQ(DatabaseReader::Open("").status().code(), Code::kInvalidArgument);
}

void WriteEpoch(DatasetWriter& writer, uint64_t epoch) {
  ASSERT_OK(writer.BeginEpoch(epoch));
  ASSERT_OK(writer.Put("key", "value of " + std::to_string(epoch)));
  ASSERT_OK(writer.EndEpoch());
}

TEST_F(WorkingDirectory, DatasetsStayInTheOneOfTheirOpening) {
  auto context = Context::OpenSerial("repo");
  ASSERT_OK(context.status());
  auto writer = DatasetWriter::Open(**context, "set");
  ASSERT_OK(writer.status());
  WriteEpoch(**writer, 1);
  auto reader = DatasetReader::Open("repo/set");
  ASSERT_OK(reader.status());
  std::filesystem::current_path(two());
  WriteEpoch(**writer, 2);
  EXPECT_OK((*reader)->Refresh());
  for (uint64_t epoch = 1; epoch <= 2; ++epoch) {
    std::vector<DatasetValue> values;
    ASSERT_OK((*reader)->Get(epoch, "key", &values));
    ASSERT_EQ(values.size(), 1u);
    EXPECT_EQ(values[0].value, "value of " + std::to_string(epoch));
  }
  EXPECT_EQ(DatasetReader::Open("").status().code(), Code::kInvalidArgument);
  ExpectNothingInTwo();
}

TEST_F(WorkingDirectory, StreamsStayInTheOneOfTheirOpening) {
  StreamOptions options;
  options.log_bytes = 1 << 20;
  options.keep_versions = 4;
  auto writer = StreamWriter::Open("place", "store", 0, options);
  ASSERT_OK(writer.status());
  const auto memory = (*writer)->Create("key", 3);
  ASSERT_OK(memory.status());
  ASSERT_OK((*writer)->Put("key").status());
  auto reader = StreamReader::Open("place", "store", 0);
  ASSERT_OK(reader.status());
  std::filesystem::current_path(two());
  std::memcpy(*memory, "two", 3);
  ASSERT_OK((*writer)->Put("key").status());
  std::string got;
  ASSERT_OK((*reader)->Get("key", 0, &got));
  EXPECT_EQ(got, "two");
  EXPECT_OK((*writer)->Finish());
  ExpectNothingInTwo();
  std::filesystem::current_path(one());
  EXPECT_EQ(*StreamStores("place"), std::vector<std::string>{"store"});
  EXPECT_EQ(*StreamRanks("place", "store"), std::vector<uint32_t>{0});
}

TEST_F(WorkingDirectory, ACheckpointIsNotPlacedByIt) {
  auto context = Context::OpenSerial("repo");
  ASSERT_OK(context.status());
  auto database = (*context)->Open("db", Small());
  ASSERT_OK(database.status());
  EXPECT_EQ((*database)->Checkpoint("copies", {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ((*context)->Restart("copies", "db", {}).status().code(), Code::kInvalidArgument);
}

// Objects that this program has already open, in another context: no process must be ended because
// of them.
class OpenHere : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = Context::OpenSerial(repository());
    ASSERT_OK(context.status());
    context_ = *std::move(context);
    auto database = context_->Open("db", Small());
    ASSERT_OK(database.status());
    database_ = *std::move(database);
    const Result<std::unique_ptr<Event>> checkpoint = database_->Checkpoint(copies(), {});
    ASSERT_OK(checkpoint.status());
    ASSERT_OK((*checkpoint)->Wait());
  }
  std::string repository() const { return root_ / "repo"; }
  std::string copies() const { return root_ / "copies"; }
  std::string place() const { return root_ / "place"; }
  static void ExpectSaidSo(const char* what, const Status& status) {
    EXPECT_CODE(status, Code::kBusy) << what << ": " << status.ToString();
    const std::string& text = status.message();
    EXPECT_NE(text.find(" is locked by this process ("), std::string::npos) << text;
    EXPECT_NE(text.find("which has it open already; close it there first"), std::string::npos)
        << text;
    EXPECT_EQ(text.find("end it"), std::string::npos) << text;
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Database> database_;

 private:
  test::TempDirectory root_;
};

TEST_F(OpenHere, ADatabaseIsRefusedAndItsHolderNamed) {
  auto other = Context::OpenSerial(repository());
  ASSERT_OK(other.status());
  for (Context* context : {context_.get(), other->get()}) {
    ExpectSaidSo("open", context->Open("db", Small()).status());
    ExpectSaidSo("destroy", context->Destroy("db"));
    RestartOptions options;
    options.replace = true;
    Result<std::unique_ptr<Event>> restart = context->Restart(copies(), "db", options);
    ExpectSaidSo("restart", restart.ok() ? (*restart)->Wait() : restart.status());
  }
  EXPECT_OK(database_->Close());
  auto again = (*other)->Open("db", Small());
  EXPECT_OK(again.status());
}

TEST_F(OpenHere, ADatasetIsRefusedAndItsHolderNamed) {
  auto writer = DatasetWriter::Open(*context_, "set");
  ASSERT_OK(writer.status());
  auto other = Context::OpenSerial(repository());
  ASSERT_OK(other.status());
  for (Context* context : {context_.get(), other->get()}) {
    ExpectSaidSo("dataset", DatasetWriter::Open(*context, "set").status());
  }
}

TEST_F(OpenHere, AStreamIsRefusedAndItsHolderNamed) {
  StreamOptions options;
  options.log_bytes = 1 << 20;
  auto writer = StreamWriter::Open(place(), "store", 0, options);
  ASSERT_OK(writer.status());
  ExpectSaidSo("stream", StreamWriter::Open(place(), "store", 0, options).status());
}

// Captures the output of the program while 0, 1 and 2 are closed, and what is in them afterwards.
class ClosedStreams {
 public:
  ClosedStreams() {
    for (int fd = 0; fd < 3; ++fd) {
      kept_.push_back(::fcntl(fd, F_DUPFD_CLOEXEC, 100));
      ::close(fd);
    }
  }
  ~ClosedStreams() {
    for (int fd = 0; fd < 3; ++fd) {
      ::dup2(kept_[static_cast<size_t>(fd)], fd);
      ::close(kept_[static_cast<size_t>(fd)]);
    }
  }
  static void Print() {
    for (int fd = 0; fd < 3; ++fd) {
      [[maybe_unused]] const ssize_t written = ::write(fd, "a line of the program's log\n", 28);
    }
  }

 private:
  std::vector<int> kept_;
};

TEST(StandardStreams, OutputOfAProgramWithoutThemOverwritesNothing) {
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "the sanitizer opens pipes at descriptors 0 to 2";
  test::TempDirectory directory;
  const std::string value(100, 'v');
  std::vector<Status> failed;
  {
    const ClosedStreams closed;
    auto context = Context::OpenSerial(directory / "repo");
    auto database = (*context)->Open("db", Small());
    for (int i = 0; i < kPairs; ++i) {
      const Status put = (*database)->Put("k" + std::to_string(i), value);
      if (!put.ok()) failed.push_back(put);
      ClosedStreams::Print();
    }
    const Status closed_well = (*database)->Close();
    if (!closed_well.ok()) failed.push_back(closed_well);
  }
  for (const Status& status : failed) EXPECT_OK(status);
  ExpectAll(directory / "repo", value);
}

}  // namespace
}  // namespace quire
