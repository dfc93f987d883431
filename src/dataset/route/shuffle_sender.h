/// Sends batches and sees to it that each is taken: several under way, those that were refused
/// ("busy") once more, until all are answered.
///
/// Layer      dataset
/// Source     docs/decisions/0011-partitioned-datasets.md
/// Threads    any
/// Invariants every batch is taken by its destination once, or the first failure is kept; a batch
///            is held until it is answered
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
    uint64_t held_bytes_max = 0;  ///< from then on it is full
    uint64_t timeout_ms = 0;
    /// Batches for one destination are taken in the order in which they were queued: one of
    /// them is under way at a time.
    bool in_order = false;
    /// Takes a batch that is for this rank.
    std::function<Status(Slice batch)> deliver;
    /// Does work of this rank that other ranks may wait for; true if there was some.
    std::function<bool()> work;
  };
  explicit ShuffleSender(Options options) : options_(std::move(options)) {}

  void Queue(std::vector<ShuffleBatch> batches);
  /// Sends what is queued and may be sent, until something is refused. Waits for no answer, only
  /// for room in the exchange.
  void Pump();
  /// The same if no caller takes a failure: it is kept.
  void TryPump();
  /// Something went wrong with a batch: nothing more is sent before Drop.
  void Fail(const Status& why);
  bool HasQueued() const;
  /// No more should be queued before there is room.
  bool Full() const { return held_bytes_.load() > options_.held_bytes_max; }
  /// Sends until there is room, or, for `all`, until all is answered.
  ///
  /// Errors  the first failure of a batch; kTimedOut: for so long none was taken.
  Status Wait(bool all);
  Status status() const;
  /// Forgets what is queued, the failure, and what comes of batches that are under way.
  void Drop();
  /// Nothing is sent any more, and no answer touches what the options name.
  void Stop();
  ShuffleSenderCounts counts() const;
  /// Bytes of batches that are queued or in flight.
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
  std::shared_mutex pumps_;  ///< shared by those who send
  mutable std::mutex mutex_;
  std::deque<ShuffleBatch> queue_;
  std::vector<uint32_t> under_way_;  ///< destinations
  std::set<uint32_t> refusing_;      ///< those that have no room: one batch at a time asks again
  uint64_t life_ = 0;                ///< rises with Drop and Stop: older answers mean nothing
  bool stopped_ = false;
  uint64_t taken_count_ = 0;
  ShuffleSenderCounts counts_;
  Status status_;
  std::atomic<uint64_t> held_bytes_{0};
};

}  // namespace quire::dataset
