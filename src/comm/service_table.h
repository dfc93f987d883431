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

#include "comm/exchange.h"

namespace quire::comm {

/// Channels below this are found without a lock.
constexpr uint32_t kQuickChannels = 256;

class ServiceTable {
 public:
  /// `service` handles the channel from now on; the one before it runs no more when this returns.
  void Set(uint32_t channel, Service service);
  /// The channel's service runs no more when this returns. Takes no memory where there was one.
  void TakeAway(uint32_t channel);
  /// True where a service was ever set, even if it was taken away.
  bool Has(uint32_t channel);
  /// Runs the channel's service; kNotFound if it was taken away. If it throws: kOutOfMemory for
  /// std::bad_alloc, kInvalidArgument with the text for all else.
  Status Run(uint32_t channel, int source, Slice request, std::string* answer);

 private:
  struct Entry {
    std::mutex running;
    Service service;  ///< guarded by `running`; empty: taken away
  };
  Entry* Find(uint32_t channel);
  static Status Refused(int source, uint32_t channel, const char* thrown, std::string* answer);

  std::mutex mutex_;
  std::unordered_map<uint32_t, std::unique_ptr<Entry>> entries_;  ///< never taken out again
  std::array<std::atomic<Entry*>, kQuickChannels> quick_{};       ///< those of the low channels
};

/// True on a thread that runs a service, or the callback of a call, right now.
bool InService();

/// While one lives, InService() is true on its thread.
class ServiceScope {
 public:
  ServiceScope();
  ~ServiceScope();
  ServiceScope(const ServiceScope&) = delete;
  ServiceScope& operator=(const ServiceScope&) = delete;

 private:
  const bool before_;
};

}  // namespace quire::comm
