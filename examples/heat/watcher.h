// Waits for the snapshots of a simulation, wherever it runs: beside this process, on another node,
// or not any more.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "quire/stream.h"
#include "snapshot.h"

namespace quire::heat {

struct Watched {
  uint64_t versions = 0;
  uint64_t skipped = 0;  ///< gone before they could be read, or stored before this process began
  uint64_t last_step = 0;
  size_t ranks = 0;
};

class Watcher {
 public:
  using Use = std::function<Status(uint64_t number, const Assembled& snapshot)>;

  /// `patience` is how long it waits for a simulation to begin, for the next snapshot, and for one
  /// that was killed to be started again.
  Watcher(std::string place, std::chrono::milliseconds patience)
      : place_(std::move(place)), patience_(patience) {}

  /// Hands each snapshot that all ranks have to `use`, in order, until the simulation has finished.
  ///
  /// Errors   kTimedOut, kPeerFailed, kNotFound  Patience has ended. kCorruption: as Assemble.
  Result<Watched> Run(const Use& use);

 private:
  // What a call on the streams came to where it is neither progress nor the end.
  bool IsWorthAnotherTry(const Status& status) const;
  Status Open();
  // All there is until some rank has nothing more: kNotFound, it has finished.
  Status ReadAll(const Use& use);
  Result<uint64_t> WaitForAll();
  Status ReadUpTo(uint64_t newest, const Use& use);
  uint64_t PatienceMs() const;

  std::string place_;
  std::chrono::milliseconds patience_;
  std::chrono::steady_clock::time_point progress_;
  Readers ranks_;
  uint64_t seen_ = 0;  // the newest snapshot that was read, or is gone
  Watched watched_;
};

}  // namespace quire::heat
