// Waits for the snapshots of a simulation that runs on this node or on another one, or that has
// ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "quire/stream.h"
#include "snapshot.h"

namespace quire::heat {

struct Watched {
  uint64_t versions = 0;
  uint64_t skipped = 0;  ///< collected before they could be read, or stored before this process
                         ///< began
  uint64_t last_step = 0;
  size_t ranks = 0;
};

class Watcher {
 public:
  using Use = std::function<Status(uint64_t number, const Assembled& snapshot)>;

  /// `patience` is how long it waits for a simulation to begin, for the next snapshot, and for the
  /// restart of a killed simulation.
  Watcher(std::string place, std::chrono::milliseconds patience)
      : place_(std::move(place)), patience_(patience) {}

  /// Passes each snapshot that all ranks have to `use`, in order, until the simulation has
  /// finished.
  ///
  /// Errors   kTimedOut, kPeerFailed, kNotFound  Patience has ended. kCorruption: as Assemble.
  Result<Watched> Run(const Use& use);

 private:
  // Returns whether to retry after a call on the streams that was neither progress nor the end.
  bool IsWorthAnotherTry(const Status& status) const;
  Status Open();
  // Reads all snapshots until some rank has no more. kNotFound: the simulation has finished.
  Status ReadAll(const Use& use);
  Result<uint64_t> WaitForAll();
  Status ReadUpTo(uint64_t newest, const Use& use);
  uint64_t PatienceMs() const;

  std::string place_;
  std::chrono::milliseconds patience_;
  std::chrono::steady_clock::time_point progress_;
  Readers ranks_;
  uint64_t seen_ = 0;  // the newest snapshot that was read or collected
  Watched watched_;
};

}  // namespace quire::heat
