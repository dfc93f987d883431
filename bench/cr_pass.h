/// One repetition of the `cr` benchmark: a database is filled, saved, changed, saved again, and
/// brought back in every way there is, and its files are copied as cp does.
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
  int elastic_ranks = 0;   ///< that open what all wrote, and write what all open; 0: half
  std::string cache = "warm";
};

/// By case and by quantity ("restart", "seconds"): a value for each repetition. The same quantities
/// of one repetition stand at the same place.
using CrSamples = std::map<std::string, std::map<std::string, std::vector<double>>>;

/// What several steps of the benchmark need.
class CrBench {
 public:
  CrBench(Ranks& ranks, const CrSettings& settings);

  /// A new database `name` with `count` pairs of each rank, closed.
  Status Fill(const std::string& name, uint64_t count);
  /// Everything is on the device, and `directory` in the page cache or out of it, as asked for;
  /// memory for as much as the ranks have put is at hand.
  Status Settle(const std::string& directory);
  std::string DatabaseDirectory(const std::string& name) const;
  std::string CheckpointPath() const { return ranks_.folder() + "/checkpoints"; }

  Ranks& ranks() { return ranks_; }
  const CrSettings& settings() const { return settings_; }

 private:
  Ranks& ranks_;
  const CrSettings& settings_;
};

/// One repetition of everything but opens; samples are added.
Status RunCrPass(CrBench& bench, int repetition, CrSamples* samples);

}  // namespace quire::bench
