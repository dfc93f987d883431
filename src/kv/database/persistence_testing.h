/// Helpers of the tests of checkpoints, restarts and redistributions.
///
/// Layer      kv (tests)
/// Threads    pure functions
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "kv/database/sim_cluster_testing.h"
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
