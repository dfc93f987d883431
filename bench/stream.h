/// quire-bench stream: its settings, and the parts of NVStream's evaluation that it measures.
///
/// Layer      bench
/// Threads    one thread of each rank
/// Source     NVStream, HPDC18, figures 5 to 10
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/status.h"
#include "ranks.h"

namespace quire::bench {

struct StreamSettings {
  std::string figure = "5";
  ParallelSettings parallel;
  std::string place = "/dev/shm";    ///< the directory of streams, and of the ways with which they
                                     ///< are compared
  std::vector<std::string> methods;  ///< empty: all of the figure

  // Figures 5, 6 and small
  uint64_t total_mib = 400;              ///< of each rank, in each iteration
  std::vector<uint64_t> variable_bytes;  ///< empty: as in the figure
  uint64_t variables = 1000;             ///< small

  // Figures 7 and 10
  uint32_t blocks = 400;
  uint32_t edge = 32;  ///< cells along each edge of a block
  uint32_t sweeps = 20;
  uint32_t steps = 20;
  std::vector<double> changed_percent;  ///< empty: as in the figure; also of figure 9

  // Figures 8, 9, remote
  uint64_t object_mib = 64;
  std::vector<uint64_t> object_bytes;
  uint64_t count = 1000;  ///< wait, views
  std::string daemon;     ///< remote: the program quire-streamd; empty: beside this one

  /// Returns the chosen methods, or `all`. kInvalidArgument: a chosen method is neither in `all`
  /// nor in `more`.
  Result<std::vector<std::string>> MethodsOf(const std::vector<std::string>& all,
                                             const std::vector<std::string>& more = {}) const;
};

/// Measures figures 5 and 6, and snapshots of small variables: volume per second. Collective.
Status RunStreamVolume(const StreamSettings& settings);
/// Measures figures 7 and 10: steps of a simulation most of whose blocks do not change. Collective.
Status RunStreamSteps(const StreamSettings& settings);
/// Measures figure 8: reads of a stream whose writer has it open but is idle. On one rank.
Status RunStreamReads(const StreamSettings& settings);
/// Measures figure 9: the savings of deltas. On one rank.
Status RunStreamDeltas(const StreamSettings& settings);
/// Measures the time from a commit until a waiting process has seen it. On two ranks of one node.
Status RunStreamWait(const StreamSettings& settings);
/// Measures gets of another node's versions, and TCP alone. On one rank.
Status RunStreamRemote(const StreamSettings& settings);

/// Prints an aim and the result: "aim: WHAT >= 0.9: 0.97, met".
void TellAim(const std::string& what, const std::string& relation, double aim, double reached);

}  // namespace quire::bench
