/// N ranks in one process: free-running threads, or a seeded scheduler that runs one rank at a time, delays and reorders
/// frames (never within a sender-receiver pair), and kills ranks. Same seed, same run.
///
/// Layer      comm (tests only)
/// Source     FoundationDB's and TigerBeetle's simulation
/// Threads    each rank's transport belongs to that rank's thread(s)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/transport.h"

namespace quire::comm {

class SimNetwork {
 public:
  struct Options {
    int rank_count = 2;
    uint64_t seed = 1;
    bool deterministic = true;    ///< one rank at a time under the seeded scheduler; false: real threads (ThreadSanitizer)
    bool share_memory = false;    ///< what SharesMemory answers
    int window_frames = 8;        ///< frames under way per pair before TrySend says no room
    uint64_t delay_ns_max = 1'000'000;  ///< virtual
  };
  static std::unique_ptr<SimNetwork> Create(const Options& options);
  virtual ~SimNetwork() = default;
  /// Runs `program(rank, transport)` on every rank to its end; deterministic mode passes the turn at every transport call.
  virtual void Run(const std::function<void(int rank, std::unique_ptr<Transport> transport)>& program) = 0;
  /// From the program of any rank: `rank` dies now (its next transport call throws RankKilled inside, ends its program).
  virtual void Kill(int rank) = 0;
  /// Kills `rank` after it has made `calls` more transport calls.
  virtual void KillAfter(int rank, uint64_t calls) = 0;
  /// `rank` gets no turn for `ns` of virtual time (a stopped process).
  virtual void Stop(int rank, uint64_t ns) = 0;
};

}  // namespace quire::comm
