/// What a storage engine promises, tried on every engine that can do it: a scenario runs on each
/// kind whose Capabilities have what it needs.
///
/// Threads    as the tests
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/executor.h"
#include "engine/engine_kind.h"
#include "io/sim/sim_file_system.h"
#include "tests/support/status_asserts.h"

namespace quire::scenarios {

/// All kinds of engines.
std::vector<const engine::EngineKind*> AllEngines();
/// Those that can do `what`.
std::vector<const engine::EngineKind*> EnginesWith(bool engine::Capabilities::*what);

std::string NameOf(const testing::TestParamInfo<const engine::EngineKind*>& info);

/// Absent keys have none.
std::optional<std::string> Get(const engine::StorageEngine& engine, const std::string& key,
                               const engine::Snapshot* snapshot = nullptr);

using Pairs = std::map<std::string, std::string>;
/// By Next from the first, and by Prev from the last: the same.
Pairs AllOf(engine::StorageEngine& engine, const engine::IteratorOptions& options = {});

/// An engine on a simulated machine of its own, small enough that an LSM-tree flushes and merges.
class Machine {
 public:
  explicit Machine(const engine::EngineKind& kind);
  ~Machine();

  engine::StorageEngine& operator*() { return *engine_; }
  engine::StorageEngine* operator->() { return engine_.get(); }

  Status Open(engine::OpenFlags flags, std::shared_ptr<const engine::BackingStore> base = nullptr);
  void Close();
  /// The machine loses power: files have what is durable.
  void LosePower();
  /// Background work that is due.
  void RunBackground();
  io::FileSystem& fs() { return *fs_; }

 private:
  const engine::EngineKind& kind_;
  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  std::unique_ptr<engine::StorageEngine> engine_;
};

class OnEngine : public testing::TestWithParam<const engine::EngineKind*> {
 protected:
  OnEngine() : engine_(*GetParam()) {}

  Machine engine_;
};

}  // namespace quire::scenarios
