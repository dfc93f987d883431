/// The table of channels and their services.
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
/// The number of other removed channels that the table remembers individually.
constexpr size_t kTakenAwayMax = 1024;

/// The services of channels. A request to a removed channel is refused; one to a channel that has
/// had no service yet waits for it. A channel number is used in the call that allocates it, or
/// never, and numbers rise. So if more than kTakenAwayMax channels were removed, the lowest are
/// forgotten: from then on each lower channel without a service counts as removed.
class ServiceTable {
 public:
  /// Makes `service` handle the channel from now on; the previous one no longer runs when this
  /// returns.
  void Set(uint32_t channel, Service service);
  /// Does the same as Set, for a service whose requests may stay unfinished; `order` as in
  /// Exchange::ServePatiently.
  void SetPatient(uint32_t channel, uint32_t order, PatientService service);
  /// Removes the channel: its service no longer runs when this returns. Allocates no memory if
  /// there was a service.
  void TakeAway(uint32_t channel);
  /// Returns whether a service was ever set, even if it was removed.
  bool Has(uint32_t channel);
  /// Returns the number of channels that it remembers.
  size_t size();
  /// Returns the order of the channel's requests; 0 if there is none, or no service.
  uint32_t OrderOf(uint32_t channel);
  /// Runs the channel's service; kNotFound if it was taken away. If it throws: kOutOfMemory for
  /// std::bad_alloc, kInvalidArgument with the text for all else. `*rest`, null at first, becomes
  /// the rest of the request if it is unfinished: its status comes later.
  Status Run(uint32_t channel, int source, Slice request, std::string* answer,
             std::unique_ptr<UnfinishedRequest>* rest);
  /// Continues `*rest`. Sets it to null if the request is finished, with the result that Run would
  /// return.
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
