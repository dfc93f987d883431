#include "kv/database/sim_cluster_testing.h"

#include <gtest/gtest.h>

#include <utility>

namespace quire::kv {

SimCluster::SimCluster(const Options& options)
    : options_(options),
      own_disks_(options.own_disks),
      killed_(static_cast<size_t>(options.rank_count)) {
  const int disk_count = own_disks_ ? options.rank_count : 1;
  for (int i = 0; i < disk_count; ++i) disks_.push_back(io::NewSimFileSystem());
}

DatabaseOptions SimCluster::SmallDatabase() {
  DatabaseOptions options;
  options.storage.memtable_bytes = 64 * 1024;
  options.storage.value_segment_bytes = 64 * 1024;
  options.storage.cache_bytes = 1 << 20;
  options.remote_cache_bytes = 1 << 20;
  options.migrate_batch_bytes = 1024;
  options.remote_memtable_bytes = 64 * 1024;
  return options;
}

void SimCluster::RunRaw(const std::function<void(int, Result<std::unique_ptr<Context>>)>& program) {
  comm::SimNetwork::Options network;
  network.rank_count = options_.rank_count;
  network.seed = options_.seed * 1000 + run_count_++;
  network.deterministic = options_.deterministic;
  network.share_memory = direct_reads();
  killed_.assign(killed_.size(), 0);
  network.on_kill = [this](int rank) {
    killed_[static_cast<size_t>(rank)] = 1;
    if (own_disks_) disk(rank).CrashAfter(0);
    if (options_.on_kill) options_.on_kill(rank);
  };
  network_ = comm::SimNetwork::Create(network);
  for (const Kill& kill : std::exchange(kills_, {})) network_->KillAfter(kill.rank, kill.calls);
  network_->Run([&](int rank, std::unique_ptr<comm::Transport> transport) {
    runtime::Environment environment;
    environment.fs = options_.file_system ? options_.file_system(rank) : &disk(rank);
    environment.background_threads = !options_.deterministic;
    environment.machine_bytes = 64ull << 30;
    if (options_.own_machines) environment.machine_id = static_cast<uint64_t>(rank) + 1;
    program(rank,
            NewContext(environment, std::move(transport), options_.repository, options_.context));
  });
  for (size_t i = 0; own_disks_ && i < killed_.size(); ++i) {
    if (killed_[i] != 0) disks_[i]->Restart(options_.crash, network.seed);
  }
}

void SimCluster::Run(const Program& program) {
  RunRaw([&](int rank, Result<std::unique_ptr<Context>> context) {
    ASSERT_TRUE(context.ok()) << context.status().ToString();
    program(rank, **context);
  });
}

void SimCluster::RunDatabase(const DatabaseOptions& options, const DatabaseProgram& program) {
  Run([&](int rank, Context& context) {
    auto opened = context.Open("db", options);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    program(rank, context, **opened);
  });
}

std::string SimCluster::KeyOwnedBy(const Database& db, int owner, const std::string& prefix) {
  std::string key = prefix;
  while (db.Owner(key) != owner) key += "k";
  return key;
}

std::string SimCluster::ValueOf(Database& db, Slice key) {
  std::string value;
  const Status status = db.Get(key, &value);
  return status.ok() ? value : "<" + status.ToString() + ">";
}

}  // namespace quire::kv
