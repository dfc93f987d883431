// Repositories on the real file system that a job of several ranks may not use: each rank receives
// the same error, which says what is wrong, where, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "io/files/machine.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::kv::repository_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kSomebodyElse = 12345;

// Makes this process a user without special rights, if it runs as root.
class AsPlainUser {
 public:
  AsPlainUser() : root_(::geteuid() == 0) {
    if (root_) {
      EXPECT_EQ(::seteuid(kSomebodyElse), 0);
    }
  }
  ~AsPlainUser() {
    if (root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  const bool root_;
};

class Repositories : public testing::Test {
 protected:
  void SetUp() override {
    // The plain user may look in, and write into nothing but what is given to it.
    ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  }
  void TearDown() override { ::chmod((root_ + "/locked").c_str(), 0700); }

  // A directory of the plain user's.
  std::string Own(const std::string& name, mode_t mode) {
    const std::string path = root_ + "/" + name;
    std::filesystem::create_directory(path);
    if (::geteuid() == 0) {
      EXPECT_EQ(::chown(path.c_str(), kSomebodyElse, kSomebodyElse), 0);
    }
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  // Returns the errors of three ranks: from a Context on `repository`, or else from Open in it, or
  // else from a checkpoint at `checkpoints`, if given.
  std::vector<Status> Try(const std::string& repository, const std::string& checkpoints = "") {
    const AsPlainUser plain;
    SimCluster::Options options;
    options.rank_count = 3;
    options.repository = repository;
    options.file_system = [](int) { return &io::PosixFileSystem(); };
    SimCluster cluster(options);
    std::mutex mutex;
    std::vector<Status> told;
    cluster.RunRaw([&](int, Result<std::unique_ptr<Context>> context) {
      const Status status = context.ok() ? TryIn(**context, checkpoints) : context.status();
      const std::lock_guard<std::mutex> lock(mutex);
      told.push_back(status);
    });
    return told;
  }

  static Status TryIn(Context& context, const std::string& checkpoints) {
    QUIRE_ASSIGN_OR_RETURN(const auto db, context.Open("db", SimCluster::SmallDatabase()));
    return checkpoints.empty() ? Status() : db->Checkpoint(checkpoints, {}).status();
  }

  void ExpectRefused(const std::string& repository, Code code, const std::string& what,
                     const std::string& path, const std::string& advice) {
    ExpectSame(Try(repository), code, what, path, advice);
  }
  static void ExpectSame(const std::vector<Status>& told, Code code, const std::string& what,
                         const std::string& path, const std::string& advice) {
    ASSERT_EQ(told.size(), 3u);
    for (const Status& status : told) {
      EXPECT_EQ(status.code(), code) << status.ToString();
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr("rank 0"), HasSubstr(what), HasSubstr(path), HasSubstr(advice)));
      EXPECT_EQ(status.message(), told[0].message()) << "the same on all ranks";
    }
  }

  test::TempDirectory directory_;
  const std::string root_ = *io::AbsolutePath(directory_.path());  // as errors name it
};

TEST_F(Repositories, ARepositoryThatCannotBeMadeIsReported) {
  const std::string locked = Own("locked", 0500);
  ExpectRefused(locked + "/repository", Code::kIo, "cannot make the directory",
                locked + "/repository", "check its owner and permissions");
}

TEST_F(Repositories, ADatabaseIsNone) {
  const std::string repository = Own("repository", 0700);
  for (const std::string file : {"DATABASE", "DATASET"}) {
    const std::string inner = Own("repository/" + file + "-inside", 0700);
    std::ofstream(inner + "/" + file) << "any";
    for (const Status& status : Try(inner)) {
      EXPECT_CODE(status, Code::kInvalidArgument);
      EXPECT_THAT(status.message(), AllOf(HasSubstr(inner), HasSubstr("not a repository"),
                                          HasSubstr("lies in, " + repository)));
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(inner), {}), 1);
  }
  // A database may have such a name.
  Own("repository/DATABASE", 0700);
  for (const Status& status : Try(repository)) EXPECT_OK(status);
}

TEST_F(Repositories, ARepositoryThatIsNotWritableIsReported) {
  const std::string locked = Own("locked", 0500);
  ExpectRefused(locked, Code::kIo, "cannot make the directory", locked + "/db",
                "check its owner and permissions");
}

TEST_F(Repositories, ARepositoryThatAllUsersMayWriteIsRefused) {
  const std::string open = Own("open", 0777);
  ExpectRefused(open, Code::kInvalidArgument, "may be written by everybody", open, "chmod go-w");
}

// Whatever is in it already.
TEST_F(Repositories, ACheckpointDirectoryThatAllUsersMayWriteIsRefused) {
  const std::string repository = Own("repository", 0700);
  const std::string open = Own("open", 0777);
  for (const char* name : {"open/db", "open/db/1"}) Own(name, 0700);
  ExpectSame(Try(repository, open), Code::kInvalidArgument, "may be written by everybody", open,
             "chmod go-w");
  ASSERT_EQ(::chmod(open.c_str(), 0755), 0);
  for (const Status& status : Try(repository, open)) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(Repositories, OneOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  const std::string path = root_ + "/of root";
  std::filesystem::create_directory(path);
  ExpectRefused(path, Code::kInvalidArgument, "belongs to", path, "choose a directory of your own");
  EXPECT_TRUE(std::filesystem::is_empty(path));
}

TEST_F(Repositories, ADatabaseOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  const std::string repository = Own("repository", 0700);
  std::filesystem::create_directory(repository + "/db");
  ExpectRefused(repository, Code::kInvalidArgument, "belongs to", repository + "/db",
                "choose a directory of your own");
  EXPECT_TRUE(std::filesystem::is_empty(repository + "/db"));
}

TEST_F(Repositories, ADatabaseOfAnotherUserIsNotDestroyed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a directory of another user";
  SimCluster::Options options;
  options.repository = root_ + "/repository";
  options.file_system = [](int) { return &io::PosixFileSystem(); };
  SimCluster cluster(options);
  cluster.RunDatabase(SimCluster::SmallDatabase(),
                      [](int, Context&, Database& db) { ASSERT_OK(db.Close()); });
  const std::string path = options.repository + "/db";
  ASSERT_EQ(::chown(path.c_str(), kSomebodyElse, kSomebodyElse), 0);
  DatabaseOptions existing = SimCluster::SmallDatabase();
  existing.mode = OpenMode::kMustExist;
  cluster.Run([&](int, Context& context) {
    for (const Status& status : {context.Open("db", existing).status(), context.Destroy("db")}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
      EXPECT_THAT(status.message(), AllOf(HasSubstr("belongs to"), HasSubstr(path)));
    }
  });
  EXPECT_TRUE(std::filesystem::exists(path + "/DATABASE"));
}

TEST_F(Repositories, ADatabaseWhoseFilesMayNotBeReadIsReported) {
  const std::string repository = Own("repository", 0700);
  for (const Status& status : Try(repository)) ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_EQ(::chmod((repository + "/db/DATABASE").c_str(), 0), 0);
  ExpectRefused(repository, Code::kIo, "cannot open", repository + "/db/DATABASE",
                "check its owner and permissions");
}

TEST(Repository, RanksOfOneNodeGiveTheSame) {
  comm::SimNetwork::Options network;
  network.rank_count = 3;
  network.deterministic = true;
  const auto disk = io::NewSimFileSystem();
  comm::SimNetwork::Create(network)->Run([&](int rank, std::unique_ptr<comm::Transport> transport) {
    runtime::Environment environment;
    environment.fs = disk.get();
    const std::string repository = rank == 2 ? "/other" : "/repository";
    const Status status = NewContext(environment, std::move(transport), repository, {}).status();
    EXPECT_CODE(status, Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("rank 0 gives /repository, rank 2 gives /other"));
  });
}

}  // namespace
}  // namespace quire::kv::repository_test
