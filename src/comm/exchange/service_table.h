/// Which service handles which channel.
///
/// Layer      comm
/// Threads    any
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "comm/exchange/exchange.h"

namespace quire::comm {

/// Channels below this are found without a lock.
constexpr uint32_t kQuickChannels = 256;

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
    PatientService service;  ///< guarded by `running`; empty: taken away
  };
  Entry* Find(uint32_t channel);
  template <typename Body>
  static Status Guarded(uint32_t channel, int source, std::string* answer, const Body& body);
  static Status Refused(int source, uint32_t channel, const char* thrown, std::string* answer);

  std::mutex mutex_;
  std::unordered_map<uint32_t, std::unique_ptr<Entry>> entries_;  ///< never taken out again
  std::array<std::atomic<Entry*>, kQuickChannels> quick_{};       ///< those of the low channels
};

}  // namespace quire::comm
