/// Helpers of the database's tests: a database over a simulated machine, and values that show their
/// keys.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/core/random.h"
#include "base/threads/epoch.h"
#include "base/threads/executor.h"
#include "io/sim/sim_file_system.h"
#include "lsm/db/db.h"
#include "lsm/db/small_options_testing.h"

namespace quire::lsm {

/// A database on a machine of its own.
class TestDb {
 public:
  explicit TestDb(const StorageOptions& options, int threads = 0)
      : options_(options),
        executor_(threads == 0 ? base::NewManualExecutor()
                               : base::NewThreadPool(threads, "test").value()) {
    environment_.fs = fs_.get();
    environment_.executor = executor_.get();
  }

  Status Open(engine::OpenFlags flags = engine::OpenFlags::kOpenOrCreate) {
    Result<std::unique_ptr<Db>> opened = Db::Open(environment_, "/db", options_, flags);
    if (opened.ok()) db_ = std::move(*opened);
    return opened.status();
  }
  Status Reopen() {
    Close();
    return Open();
  }
  void Close() {
    db_.reset();
    while (executor_->RunOne()) {
    }
  }
  Db& db() { return *db_; }
  Db* operator->() { return db_.get(); }
  io::SimFileSystem& fs() { return *fs_; }
  base::Executor& executor() { return *executor_; }
  StorageOptions& options() { return options_; }
  engine::EngineEnvironment& environment() { return environment_; }

 private:
  StorageOptions options_;
  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::unique_ptr<base::Executor> executor_;
  engine::EngineEnvironment environment_;
  std::unique_ptr<Db> db_;
};

/// The value of `key`, or what went wrong in angle brackets.
inline std::string GetText(const Db& db, Slice key, const engine::Snapshot* snapshot = nullptr) {
  std::string value;
  const Status status = db.Get(key, &value, snapshot);
  if (status.ok()) return value;
  return status.code() == Code::kNotFound ? "<absent>" : "<" + status.ToString() + ">";
}

/// Whether guards that were entered before are left soon.
inline bool NoGuardIsHeld() {
  const auto synchronized = std::make_shared<std::promise<void>>();
  std::future<void> done = synchronized->get_future();
  std::thread([synchronized] {
    base::EpochSynchronize();
    synchronized->set_value();
  }).detach();
  return done.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

using Model = std::map<std::string, std::string>;

/// "key=value " of everything that `iterator` shows.
inline Model AllOf(engine::Iterator& iterator) {
  Model all;
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    all[std::string(iterator.key())] = std::string(iterator.value());
  }
  EXPECT_TRUE(iterator.status().ok()) << iterator.status().ToString();
  return all;
}

}  // namespace quire::lsm
