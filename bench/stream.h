/// quire-bench stream: what it may be told, and what of NVStream's evaluation it measures.
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
  std::string place = "/dev/shm";    ///< where streams lie, and what they are compared with
  std::vector<std::string> methods;  ///< empty: all that the figure has

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

  /// Those that were chosen, or `all`. kInvalidArgument: the figure has neither in `all` nor in
  /// `more` what was chosen.
  Result<std::vector<std::string>> MethodsOf(const std::vector<std::string>& all,
                                             const std::vector<std::string>& more = {}) const;
};

/// Figures 5 and 6, and snapshots of small variables: volume per second. Collective.
Status RunStreamVolume(const StreamSettings& settings);
/// Figures 7 and 10: steps of a simulation most of whose blocks rest. Collective.
Status RunStreamSteps(const StreamSettings& settings);
/// Figure 8: reads of a stream whose writer has it open and rests. On one rank.
Status RunStreamReads(const StreamSettings& settings);
/// Figure 9: what deltas save. On one rank.
Status RunStreamDeltas(const StreamSettings& settings);
/// From a commit until a process that waits has seen it. On two ranks of one node.
Status RunStreamWait(const StreamSettings& settings);
/// Gets of another node's versions, beside TCP alone. On one rank.
Status RunStreamRemote(const StreamSettings& settings);

/// Tells people what was to be reached and what was: "aim: WHAT >= 0.9: 0.97, met".
void TellAim(const std::string& what, const std::string& relation, double aim, double reached);

}  // namespace quire::bench
