/// quire-bench partition: its settings, and the figures of FilterKV that it measures.
///
/// Layer      bench
/// Threads    one thread of each rank
/// Source     FilterKV, CMU-PDL-19-104, figures 7 to 10
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/status.h"
#include "ranks.h"

namespace quire::bench {

struct PartitionSettings {
  int figure = 7;
  ParallelSettings parallel;
  std::vector<std::string> formats;  ///< empty: all of the figure

  // Figure 7
  uint64_t keys = 16'000'000;
  std::vector<uint32_t> partitions = {1u << 10, 1u << 12, 1u << 14, 1u << 16,
                                      1u << 18, 1u << 20, 1u << 22, 1u << 24};
  uint64_t questions = 1'000'000;

  // Figures 8, 9, 10
  std::vector<size_t> pair_bytes;   ///< empty: as in the figure
  uint64_t rank_bytes = 64 << 20;   ///< of pairs, in each epoch
  uint64_t buffer_bytes = 8 << 20;  ///< DatasetOptions::table_bytes and partition_bytes
  double network_mb_per_s = 0;      ///< limit for each node; 0: no limit
  std::vector<int> residual_percent = {50, 75};
  uint32_t epochs = 4;  ///< figure 10
  uint64_t queries = 200;

  /// Returns the chosen formats, or `all`.
  std::vector<std::string> FormatsOf(const std::vector<std::string>& all) const {
    return formats.empty() ? all : formats;
  }
};

/// Measures figure 7: maps from keys to ranks. On one rank.
Status RunMaps(const PartitionSettings& settings);
/// Measures figures 8 and 9: how much slower a rank is than if it wrote files of its own.
/// Collective.
Status RunWrites(const PartitionSettings& settings);
/// Measures figure 10c: the time of a query. Collective.
Status RunQueries(const PartitionSettings& settings);

}  // namespace quire::bench
