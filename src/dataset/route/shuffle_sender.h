/// Sends batches until each is accepted: several are in flight at once, and refused ("busy")
/// batches are sent again until all are acknowledged.
///
/// Layer      dataset
/// Source     docs/decisions/0011-partitioned-datasets.md
/// Threads    any
/// Invariants its destination accepts every batch once, or the first failure is stored; a batch is
///            held until it is acknowledged
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "comm/exchange/exchange.h"
#include "dataset/route/shuffle_batcher.h"
#include "quire/status.h"

namespace quire::dataset {

struct ShuffleSenderCounts {
  uint64_t batches = 0;
  uint64_t bytes = 0;
  uint64_t refused = 0;
};

class ShuffleSender : public std::enable_shared_from_this<ShuffleSender> {
 public:
  struct Options {
    comm::Exchange* exchange = nullptr;
    uint32_t channel = 0;
    uint64_t held_bytes_max = 0;  ///< above this, Full() is true
    uint64_t timeout_ms = 0;
    /// Batches for one destination are accepted in the order in which they were queued: only one of
    /// them is in flight at a time.
    bool in_order = false;
    /// Takes a batch that is for this rank.
    std::function<Status(Slice batch)> deliver;
    /// Does work of this rank for which other ranks may wait; returns true if there was some.
    std::function<bool()> work;
  };
  explicit ShuffleSender(Options options) : options_(std::move(options)) {}

  void Queue(std::vector<ShuffleBatch> batches);
  /// Sends queued batches that may be sent, until one is refused. Waits for no answer, only for
  /// room in the exchange.
  void Pump();
  /// Calls Pump and stores a failure, for callers that cannot return it.
  void TryPump();
  /// Records the failure of a batch: nothing more is sent before Drop.
  void Fail(const Status& why);
  bool HasQueued() const;
  /// Returns whether callers should queue no more until there is room.
  bool Full() const { return held_bytes_.load() > options_.held_bytes_max; }
  /// Sends until there is room, or, if `all`, until all batches are acknowledged.
  ///
  /// Errors  the first failure of a batch; kTimedOut: no batch was accepted for the length of a
  ///         deadline.
  Status Wait(bool all);
  Status status() const;
  /// Drops queued batches and the failure, and ignores the answers to batches in flight.
  void Drop();
  /// Stops sending: afterwards no answer uses the objects that the options refer to.
  void Stop();
  ShuffleSenderCounts counts() const;
  /// Returns the bytes of batches that are queued or in flight.
  uint64_t held_bytes() const { return held_bytes_.load(); }

 private:
  struct Flight {
    uint64_t life;
    ShuffleBatch batch;
  };
  struct Sendable {
    uint64_t life;
    std::vector<ShuffleBatch> batches;
  };
  Sendable TakeSendable();
  bool MaySend(uint32_t destination) const;
  void Send(uint64_t life, ShuffleBatch batch);
  void Settle(const std::shared_ptr<Flight>& flight, const Status& status);
  bool Done(bool all) const;
  int Missing(bool all, uint64_t refused_before) const;
  Status WaitForAnswers(bool all);
  uint64_t TakenCount() const;

  const Options options_;
  std::shared_mutex pumps_;  ///< shared by sending threads
  mutable std::mutex mutex_;
  std::deque<ShuffleBatch> queue_;
  std::vector<uint32_t> under_way_;  ///< destinations
  std::set<uint32_t> refusing_;      ///< those that have no room: one batch at a time is retried
  uint64_t life_ = 0;                ///< rises with Drop and Stop: older answers are ignored
  bool stopped_ = false;
  uint64_t taken_count_ = 0;
  ShuffleSenderCounts counts_;
  Status status_;
  std::atomic<uint64_t> held_bytes_{0};
};

}  // namespace quire::dataset
