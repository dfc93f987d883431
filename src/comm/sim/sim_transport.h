/// N ranks in one process: free-running threads, or a seeded scheduler that runs one rank at a
/// time, delays and reorders frames (never within a sender-receiver pair), and kills ranks. Same
/// seed, same run.
///
/// A killed rank continues to run, but its actions have no effect any more: its sends fail with
/// kPeerFailed, it sees all other ranks as gone, and its waits end. So its program ends on the
/// ordinary path of an error, whatever locks it holds; no exception passes through it, and no
/// thread stays behind. Its effects outside of the transport (files) must be cut off in `on_kill`.
///
/// Layer      comm (tests only)
/// Source     FoundationDB's and TigerBeetle's simulation
/// Threads    deterministic: each rank is one thread, and everything it shares with others is safe
///            between two transport calls. Free-running: as Transport
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "comm/transport/transport.h"

namespace quire::comm {

class SimNetwork {
 public:
  struct Options {
    int rank_count = 2;
    uint64_t seed = 1;
    bool deterministic = true;          ///< false: real threads, real time (ThreadSanitizer)
    bool share_memory = false;          ///< what SharesMemory answers
    int window_frames = 8;              ///< frames under way per pair before TrySend says no room
    uint64_t delay_ns_max = 1'000'000;  ///< of a frame, and of the news of a death; virtual
    /// Runs when a rank is killed, before any rank can notice, on the killer's thread.
    std::function<void(int rank)> on_kill;
  };
  static std::unique_ptr<SimNetwork> Create(const Options& options);
  virtual ~SimNetwork() = default;
  /// Runs `program(rank, transport)` on every rank to its end; deterministic mode passes the turn
  /// at every transport call. Once per network. A rank whose transport is destroyed has left: the
  /// others see it as a death, after its last frame.
  virtual void Run(
      const std::function<void(int rank, std::unique_ptr<Transport> transport)>& program) = 0;
  /// Kills `rank` now; any rank's program may call it. Loses a seeded part of its frames in flight.
  virtual void Kill(int rank) = 0;
  /// Kills `rank` after it has made `calls` more transport calls.
  virtual void KillAfter(int rank, uint64_t calls) = 0;
  virtual bool Killed(int rank) const = 0;
  /// Gives `rank` no turn for `ns` (a stopped process): virtual time, or real time if free-running.
  virtual void Stop(int rank, uint64_t ns) = 0;
  /// Stops `rank` for `ns` after it has made `calls` more transport calls.
  virtual void StopAfter(int rank, uint64_t calls, uint64_t ns) = 0;
  /// Damages the next frame from `source` to `destination`.
  virtual void Damage(int source, int destination) = 0;
};

}  // namespace quire::comm
