#include "tools/quire-streamd/part_registry.h"

#include <algorithm>

#include "base/core/log_sink.h"
#include "base/text/units.h"

namespace quire::streamd {
namespace {

constexpr uint64_t kTtlMsMax = 60'000;

}  // namespace

// Returns whether another address has registered the same part with newer versions. If both have
// equally new ones, the last to register wins, for example a restarted daemon at another port.
bool PartRegistry::Older(const stream::RegisteredPart& told, const std::string& address,
                         uint64_t now_ns, Entry* known) {
  if (known->until_ns <= now_ns || known->address == address) return false;
  const bool older = told.newest_ns < known->newest_ns;
  if (told.newest_ns != known->newest_ns && !known->told) {
    known->told = true;
    base::Log(LogLevel::kWarning,
              told.part.store + "/" + std::to_string(told.part.rank) + " is at " + known->address +
                  " and at " + address + ": readers are sent to " +
                  (older ? known->address : address) + ", where it was written last");
  }
  return older;
}

Status PartRegistry::Register(const std::vector<stream::RegisteredPart>& parts,
                              const std::string& address, uint64_t now_ns, uint64_t ttl_ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const stream::RegisteredPart& told : parts) {
    const auto known = entries_.find(told.part);
    if (ttl_ms == 0) {
      if (known != entries_.end() && known->second.address == address) entries_.erase(known);
      continue;
    }
    if (known == entries_.end() && entries_.size() >= parts_max_) {
      ForgetOld(now_ns);
      if (entries_.size() >= parts_max_) {
        return Status(Code::kNoSpace, "the metadata service knows as many parts as it can");
      }
    }
    Entry& entry = entries_[told.part];
    if (Older(told, address, now_ns, &entry)) continue;
    entry.address = address;
    entry.until_ns = now_ns + std::min(ttl_ms, kTtlMsMax) * base::kNsPerMs;
    entry.newest_ns = told.newest_ns;
  }
  return Status();
}

Result<std::string> PartRegistry::Lookup(const stream::StorePart& part, uint64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(part);
  if (found == entries_.end()) return Status(Code::kNotFound);
  if (found->second.until_ns > now_ns) return found->second.address;
  entries_.erase(found);
  return Status(Code::kNotFound);
}

size_t PartRegistry::size() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

void PartRegistry::ForgetOld(uint64_t now_ns) {
  std::erase_if(entries_, [now_ns](const auto& entry) { return entry.second.until_ns <= now_ns; });
}

}  // namespace quire::streamd
