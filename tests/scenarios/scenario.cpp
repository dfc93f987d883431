#include "tests/scenarios/scenario.h"

#include "engine/memory_engine_testing.h"
#include "lsm/db/db_testing.h"
#include "lsm/offline/lsm_engine.h"

namespace quire::scenarios {
namespace {

// A key of the largest size fits a MemTable.
StorageOptions SmallOptions() {
  StorageOptions options = lsm::SmallOptions();
  options.memtable_bytes = 256 << 10;
  return options;
}

}  // namespace

std::vector<const engine::EngineKind*> AllEngines() {
  return {&lsm::LsmEngine(), &engine::MemoryEngine()};
}

std::vector<const engine::EngineKind*> EnginesWith(bool engine::Capabilities::*what) {
  std::vector<const engine::EngineKind*> kinds;
  for (const engine::EngineKind* const kind : AllEngines()) {
    if (kind->capabilities().*what) kinds.push_back(kind);
  }
  return kinds;
}

std::string NameOf(const testing::TestParamInfo<const engine::EngineKind*>& info) {
  return info.param->name();
}

std::optional<std::string> Get(const engine::StorageEngine& engine, const std::string& key,
                               const engine::Snapshot* snapshot) {
  std::string value;
  const Status status = engine.Get(key, &value, snapshot);
  if (status.code() == Code::kNotFound) return std::nullopt;
  EXPECT_OK(status);
  return value;
}

Pairs AllOf(engine::StorageEngine& engine, const engine::IteratorOptions& options) {
  const std::unique_ptr<engine::Iterator> walk = engine.NewIterator(options);
  std::vector<std::pair<std::string, std::string>> forward;
  std::vector<std::pair<std::string, std::string>> backward;
  for (walk->SeekToFirst(); walk->Valid(); walk->Next()) {
    forward.emplace_back(walk->key(), walk->value());
  }
  for (walk->SeekToLast(); walk->Valid(); walk->Prev()) {
    backward.emplace_back(walk->key(), walk->value());
  }
  EXPECT_OK(walk->status());
  EXPECT_EQ(forward, std::vector(backward.rbegin(), backward.rend()));
  Pairs pairs(forward.begin(), forward.end());
  EXPECT_EQ(forward, decltype(forward)(pairs.begin(), pairs.end())) << "by rising key, each once";
  return pairs;
}

Machine::Machine(const engine::EngineKind& kind) : kind_(kind) {
  EXPECT_OK(Open(engine::OpenFlags::kOpenOrCreate));
}

Machine::~Machine() {
  Close();
}

Status Machine::Open(engine::OpenFlags flags, std::shared_ptr<const engine::BackingStore> base) {
  engine::EngineEnvironment environment;
  environment.fs = fs_.get();
  environment.executor = executor_.get();
  environment.base = std::move(base);
  auto opened = kind_.Open(environment, "/part", SmallOptions(), flags);
  if (opened.ok()) engine_ = std::move(*opened);
  return opened.status();
}

void Machine::Close() {
  engine_.reset();
  RunBackground();
}

void Machine::LosePower() {
  fs_->Restart(io::CrashKind::kPower, 1);
  Close();
}

void Machine::RunBackground() {
  while (executor_->RunOne()) {
  }
}

}  // namespace quire::scenarios
