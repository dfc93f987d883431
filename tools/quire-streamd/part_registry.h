/// The metadata service: which daemon has which part of a store. The daemons register repeatedly.
/// Registrations expire, and a restarted service soon knows all parts again. If two daemons
/// register the same part (for example, after a job moved to other nodes), lookups return the more
/// recently written one.
///
/// Layer      tools
/// Source     NVStream, HPDC18, section 6.1
/// Threads    any
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "quire/status.h"
#include "stream/remote/request.h"

namespace quire::streamd {

class PartRegistry {
 public:
  explicit PartRegistry(size_t parts_max = 1 << 20) : parts_max_(parts_max) {}

  /// Registers `parts` at `address` until `now_ns` + `ttl_ms`; a `ttl_ms` of 0 deregisters them. A
  /// registration that is older than that of another address is ignored. kNoSpace.
  Status Register(const std::vector<stream::RegisteredPart>& parts, const std::string& address,
                  uint64_t now_ns, uint64_t ttl_ms);
  /// kNotFound.
  Result<std::string> Lookup(const stream::StorePart& part, uint64_t now_ns);
  size_t size();

 private:
  struct Entry {
    std::string address;
    uint64_t until_ns = 0;
    uint64_t newest_ns = 0;
    bool told = false;  ///< a warning that another address has the part, too, was logged
  };
  bool Older(const stream::RegisteredPart& told, const std::string& address, uint64_t now_ns,
             Entry* known);
  void ForgetOld(uint64_t now_ns);

  const size_t parts_max_;
  std::mutex mutex_;
  std::map<stream::StorePart, Entry> entries_;
};

}  // namespace quire::streamd
