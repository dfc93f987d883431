/// What the tests of checkpoints, restarts and redistributions share.
///
/// Layer      kv (tests)
/// Threads    pure functions
#pragma once

#include <memory>

#include "kv/sim_cluster_testing.h"
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

}  // namespace quire::kv
