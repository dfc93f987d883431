/// Which service handles which channel.
///
/// Layer      comm
/// Threads    any
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "comm/exchange/exchange.h"

namespace quire::comm {

/// Channels below this are found without a lock.
constexpr uint32_t kQuickChannels = 256;
/// The table remembers so many other channels, which were taken away, one by one.
constexpr size_t kTakenAwayMax = 1024;

/// A request to a channel that was taken away is refused; one to a channel that has had no service
/// yet waits for it. A number for channels is used in the call that takes it, or never, and numbers
/// rise. So of more than kTakenAwayMax channels that were taken away the lowest are forgotten: from
/// then on each channel up to there that has no service counts as taken away.
class ServiceTable {
 public:
  /// `service` handles the channel from now on; the one before it runs no more when this returns.
  void Set(uint32_t channel, Service service);
  /// The same with one whose requests may stay unfinished; `order` as in Exchange::ServePatiently.
  void SetPatient(uint32_t channel, uint32_t order, PatientService service);
  /// The channel's service runs no more when this returns. Needs no memory if there was one.
  void TakeAway(uint32_t channel);
  /// True where a service was ever set, even if it was taken away.
  bool Has(uint32_t channel);
  /// Channels that it remembers.
  size_t size();
  /// The order of the channel's requests; 0: none, or no service.
  uint32_t OrderOf(uint32_t channel);
  /// Runs the channel's service; kNotFound if it was taken away. If it throws: kOutOfMemory for
  /// std::bad_alloc, kInvalidArgument with the text for all else. `*rest`, given null, becomes what
  /// is left of the request: its status comes later.
  Status Run(uint32_t channel, int source, Slice request, std::string* answer,
             std::unique_ptr<UnfinishedRequest>* rest);
  /// Goes on with `*rest`; null then: it is finished, with what Run would give.
  Status GoOn(uint32_t channel, int source, std::string* answer,
              std::unique_ptr<UnfinishedRequest>* rest);

 private:
  struct Entry {
    explicit Entry(uint32_t its_order) : order(its_order) {}
    const uint32_t order;
    std::mutex running;
    PatientService service;   ///< guarded by `running`; empty: taken away
    bool taken_away = false;  ///< guarded by mutex_
  };
  std::shared_ptr<Entry> Find(uint32_t channel);
  void NoteTakenAway(Entry& entry);
  void ForgetLowest();
  template <typename Body>
  static Status Guarded(uint32_t channel, int source, std::string* answer, const Body& body);
  static Status Refused(int source, uint32_t channel, const char* thrown, std::string* answer);

  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Entry>> entries_;  ///< guarded by mutex_
  size_t taken_away_ = 0;  ///< guarded by mutex_: of entries_, without the low channels
  /// Guarded by mutex_: a channel below it that has no entry was taken away, unless it is low.
  uint32_t taken_below_ = 0;
  std::array<std::atomic<Entry*>, kQuickChannels> quick_{};  ///< of the low channels, which stay
};

}  // namespace quire::comm
