/// One repetition of the `cr` benchmark: a database is filled, saved, changed, saved again, and
/// restored in every possible way, and its files are copied as by cp.
///
/// Layer      bench
/// Source     PapyrusKV, SC17, figure 10
/// Threads    one thread per rank; all calls are collective
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ranks.h"

namespace quire::bench {

struct CrSettings {
  ParallelSettings parallel;
  size_t key_bytes = 16;
  size_t value_bytes = 128 * 1024;
  uint64_t count = 2'000;  ///< pairs per rank
  int change_percent = 1;  ///< of the pairs, before the second checkpoint
  int elastic_ranks = 0;   ///< ranks that open the database that all ranks wrote, and write the one
                           ///< that all ranks open; 0: half
  std::string cache = "warm";
};

/// By case and by quantity ("restart", "seconds"): a value for each repetition. Values of one
/// repetition have the same index.
using CrSamples = std::map<std::string, std::map<std::string, std::vector<double>>>;

/// The state that several steps of the benchmark share.
class CrBench {
 public:
  CrBench(Ranks& ranks, const CrSettings& settings);

  /// Creates a database `name` with `count` pairs of each rank, and closes it.
  Status Fill(const std::string& name, uint64_t count);
  /// Writes everything to the device, brings `directory` into the page cache or drops it from it,
  /// as requested, and makes memory available for as much as the ranks have put.
  Status Settle(const std::string& directory);
  std::string DatabaseDirectory(const std::string& name) const;
  std::string CheckpointPath() const { return ranks_.folder() + "/checkpoints"; }

  Ranks& ranks() { return ranks_; }
  const CrSettings& settings() const { return settings_; }

 private:
  Ranks& ranks_;
  const CrSettings& settings_;
};

/// Runs one repetition of everything except opens; adds the samples.
Status RunCrPass(CrBench& bench, int repetition, CrSamples* samples);

}  // namespace quire::bench
