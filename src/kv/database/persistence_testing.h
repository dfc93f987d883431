/// Helpers of the tests of checkpoints, restarts and redistributions.
///
/// Layer      kv (tests)
/// Threads    pure functions
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string_view>

#include "base/threads/sync_point.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/protocol/descriptor.h"
#include "quire/database.h"

namespace quire::kv {

/// The end of what was begun, or why it was not.
inline Status WaitFor(Result<std::unique_ptr<Event>> event) {
  return event.ok() ? (*event)->Wait() : event.status();
}

/// Opens a database that is there; `redistribute`: and waits until its pairs have moved.
inline DatabaseOptions Existing(bool redistribute = false) {
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.mode = OpenMode::kMustExist;
  options.redistribute = redistribute;
  return options;
}

/// At the sync point `at`, moves the directory of the database "db" away, and makes another
/// database in its place.
class MovesTheDatabase final : public base::SyncPointListener {
 public:
  MovesTheDatabase(io::FileSystem& fs, std::string_view at) : fs_(fs), at_(at) {
    other_.generations = {{1, 2, "hash", ""}};
  }
  void Reach(const char* name) override {
    if (name != at_ || moved_.exchange(true)) return;
    EXPECT_TRUE(fs_.Rename(kDirectory, "/repository/old").ok());
    EXPECT_TRUE(fs_.MakeDirectory(kDirectory).ok());
    EXPECT_TRUE(WriteDescriptor(fs_, kDirectory, other_).ok());
  }
  void ExpectOther() {
    const auto stored = ReadDescriptor(fs_, kDirectory);
    ASSERT_TRUE(stored.ok()) << stored.status().ToString();
    EXPECT_EQ(EncodeDescriptor(*stored), EncodeDescriptor(other_));
  }

 private:
  static constexpr char kDirectory[] = "/repository/db";

  io::FileSystem& fs_;
  const std::string_view at_;
  DatabaseDescriptor other_;
  std::atomic<bool> moved_{false};
  base::ScopedSyncPoints installed_{this};
};

/// One job of any number of ranks after another, over the same files. The parameter: by turns, else
/// by threads.
class JobsOverOneDisk : public testing::TestWithParam<bool> {
 protected:
  SimCluster::Options Ranks(int size) {
    SimCluster::Options ranks;
    ranks.rank_count = size;
    ranks.deterministic = GetParam();
    ranks.seed = ++seed_;
    ranks.file_system = [this](int) { return disk_.get(); };
    return ranks;
  }
  void Job(int size, const DatabaseOptions& options, const SimCluster::DatabaseProgram& program) {
    SimCluster(Ranks(size)).RunDatabase(options, program);
  }

  std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  uint64_t seed_ = 0;
};

}  // namespace quire::kv
