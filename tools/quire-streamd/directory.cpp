#include "tools/quire-streamd/directory.h"

#include <algorithm>

namespace quire::streamd {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kTtlMsMax = 60'000;

}  // namespace

Status Directory::Register(const std::vector<stream::StorePart>& parts, const std::string& address,
                           uint64_t now_ns, uint64_t ttl_ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const stream::StorePart& part : parts) {
    const auto known = entries_.find(part);
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
    entries_[part] = {address, now_ns + std::min(ttl_ms, kTtlMsMax) * kNsPerMs};
  }
  return Status();
}

Result<std::string> Directory::Lookup(const stream::StorePart& part, uint64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(part);
  if (found == entries_.end()) return Status(Code::kNotFound);
  if (found->second.until_ns > now_ns) return found->second.address;
  entries_.erase(found);
  return Status(Code::kNotFound);
}

size_t Directory::size() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

void Directory::ForgetOld(uint64_t now_ns) {
  std::erase_if(entries_, [now_ns](const auto& entry) { return entry.second.until_ns <= now_ns; });
}

}  // namespace quire::streamd
