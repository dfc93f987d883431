// Directories to which a group, or all users, may write: each call that leads into them is refused,
// and the text contains the command that corrects it (docs/security.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/reader.h"
#include "quire/stream.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

// Files and directories of a program whose user has no umask at all.
class GroupWritable : public testing::Test {
 protected:
  void SetUp() override {
    const mode_t umask = ::umask(0);
    MakeAll();
    ::umask(umask);
  }

  void MakeAll() {
    const auto context = Context::OpenSerial(repository_);
    ASSERT_OK(context.status());
    auto db = (*context)->Open("db", {});
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Put("key", "value"));
    ASSERT_OK(Wait((*db)->Checkpoint(checkpoints_, {})));
    ASSERT_OK((*db)->Close());
    auto set = DatasetWriter::Open(**context, "set");
    ASSERT_OK(set.status());
    ASSERT_OK((*set)->BeginEpoch(1));
    ASSERT_OK((*set)->Put("key", "value"));
    ASSERT_OK((*set)->EndEpoch());
    ASSERT_OK((*set)->Finish());
    auto stream = StreamWriter::Open(place_, "store", 0);
    ASSERT_OK(stream.status());
    ASSERT_OK((*stream)->Create("key", 64).status());
    ASSERT_OK((*stream)->Put("key").status());
    ASSERT_OK((*stream)->Finish());
  }

  static Status Wait(const Result<std::unique_ptr<Event>>& event) {
    return event.ok() ? (*event)->Wait() : event.status();
  }
  Status InContext(const std::function<Status(Context&)>& call) const {
    const auto context = Context::OpenSerial(repository_);
    return context.ok() ? call(**context) : context.status();
  }
  Status OpenDatabase() const {
    return InContext([](Context& context) {
      const auto db = context.Open("db", {});
      return db.ok() ? (*db)->Close() : db.status();
    });
  }
  Status ReadDatabase(const std::string& directory) const {
    const auto reader = DatabaseReader::Open(directory);
    std::string value;
    return reader.ok() ? (*reader)->Get("key", &value) : reader.status();
  }
  Status OpenDataset() const {
    return InContext([](Context& context) {
      const auto set = DatasetWriter::Open(context, "set");
      return set.ok() ? (*set)->Finish() : set.status();
    });
  }
  Status Restart(bool in_place) const {
    RestartOptions options;
    options.number = 1;
    options.replace = true;
    options.in_place = in_place;
    return InContext([&](Context& context) {
      return Wait(context.Restart(checkpoints_, "db", options));
    });
  }
  Status Checkpoint() const {
    return InContext([&](Context& context) {
      const auto db = context.Open("db", {});
      if (!db.ok()) return db.status();
      const Status written = Wait((*db)->Checkpoint(checkpoints_, {}));
      const Status closed = (*db)->Close();
      return written.ok() ? closed : written;
    });
  }
  Status WriteStream() const {
    const auto writer = StreamWriter::Open(place_, "store", 0);
    return writer.ok() ? (*writer)->Finish() : writer.status();
  }
  Status ReadStream() const { return StreamReader::Open(place_, "store", 0).status(); }

  const test::TempDirectory directory_;
  const std::string home_ = std::filesystem::canonical(directory_.path()).string();
  const std::string repository_ = home_ + "/repository";
  const std::string checkpoints_ = home_ + "/checkpoints";
  const std::string place_ = home_ + "/place";
};

TEST_F(GroupWritable, IsNothingThatQuireMakes) {
  size_t seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path())) {
    struct stat info;
    ASSERT_EQ(::lstat(entry.path().c_str(), &info), 0) << entry.path();
    EXPECT_EQ(info.st_mode & kOthersMayWrite, 0u) << entry.path();
    ++seen;
  }
  EXPECT_GT(seen, 20u);
}

TEST_F(GroupWritable, ADirectoryIsRefusedAtEveryDoorWithTheCommandThatMendsIt) {
  const std::function<Status()> open = [this] { return OpenDatabase(); };
  const std::function<Status()> read = [this] { return ReadDatabase(repository_ + "/db"); };
  const std::function<Status()> set = [this] { return OpenDataset(); };
  const std::function<Status()> read_set = [this] {
    return DatasetReader::Open(repository_ + "/set").status();
  };
  const std::function<Status()> write_checkpoint = [this] { return Checkpoint(); };
  const std::function<Status()> restart = [this] { return Restart(false); };
  const std::function<Status()> restart_in_place = [this] { return Restart(true); };
  const std::function<Status()> read_checkpoint = [this] {
    return ReadDatabase(checkpoints_ + "/db/1");
  };
  const std::function<Status()> write = [this] { return WriteStream(); };
  const std::function<Status()> read_stream = [this] { return ReadStream(); };
  const std::map<std::string, std::vector<std::function<Status()>>> doors = {
      {repository_, {open, set, restart}},
      {repository_ + "/db", {open, read, restart}},
      {repository_ + "/db/gen-1", {open, read, restart}},
      {repository_ + "/db/gen-1/rank-0", {open, read}},
      {repository_ + "/set", {set, read_set}},
      {checkpoints_, {write_checkpoint, restart, restart_in_place}},
      {checkpoints_ + "/db", {write_checkpoint, restart, restart_in_place}},
      {checkpoints_ + "/db/1", {restart, restart_in_place, read_checkpoint}},
      {checkpoints_ + "/db/1/rank-0", {restart, restart_in_place, read_checkpoint}},
      {place_, {write, read_stream}},
      {place_ + "/store", {write, read_stream}},
  };
  for (const auto& [path, calls] : doors) {
    for (const mode_t mode : {0770, 0777}) {
      ASSERT_EQ(::chmod(path.c_str(), mode), 0) << path;
      for (size_t i = 0; i < calls.size(); ++i) {
        const Status status = calls[i]();
        EXPECT_CODE(status, Code::kInvalidArgument) << path << ", call " << i;
        EXPECT_THAT(status.message(),
                    HasSubstr((mode == 0770 ? "chmod g-w " : "chmod go-w ") + path));
      }
    }
    ASSERT_EQ(::chmod(path.c_str(), 0750), 0) << path;
  }
  for (const auto& call : {open, read, set, read_set, read_checkpoint, write, read_stream, restart,
                           open, write_checkpoint, restart_in_place, open}) {
    EXPECT_OK(call());
  }
}

// `chmod g-w` of the directories alone leaves the files of a copy that was made under umask 002.
TEST_F(GroupWritable, AFileIsRefusedToo) {
  const auto files = [](const std::string& directory) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
    return paths;
  };
  const auto in_turn = [&](const std::string& directory, const std::function<Status()>& call) {
    size_t refused = 0;
    for (const std::string& path : files(directory)) {
      if (!std::filesystem::exists(path)) continue;
      ASSERT_EQ(::chmod(path.c_str(), 0660), 0) << path;
      const Status status = call();
      ASSERT_EQ(::chmod(path.c_str(), 0600), 0) << path;
      if (status.ok()) continue;  // it does not open this one
      EXPECT_CODE(status, Code::kInvalidArgument) << path;
      EXPECT_THAT(status.message(), HasSubstr("chmod -R g-w ")) << path;
      EXPECT_OK(call());
      ++refused;
    }
    EXPECT_GT(refused, 0u) << directory;
  };
  in_turn(repository_ + "/db", [this] { return OpenDatabase(); });
  in_turn(repository_ + "/set", [this] { return OpenDataset(); });
}

// A checkpoint that a restart uses in place is read until the database has taken it over.
TEST_F(GroupWritable, ACheckpointThatADatabaseUsesIsRefusedToo) {
  ASSERT_OK(Restart(true));
  for (const std::string& path : {checkpoints_ + "/db/1", checkpoints_ + "/db/1/rank-0"}) {
    ASSERT_EQ(::chmod(path.c_str(), 0770), 0) << path;
    EXPECT_CODE(ReadDatabase(repository_ + "/db"), Code::kInvalidArgument) << path;
    EXPECT_CODE(OpenDatabase(), Code::kInvalidArgument) << path;
    ASSERT_EQ(::chmod(path.c_str(), 0700), 0) << path;
  }
  EXPECT_OK(OpenDatabase());
}

}  // namespace
}  // namespace quire
