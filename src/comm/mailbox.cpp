#include "comm/mailbox.h"

namespace quire::comm {
namespace {

constexpr uint32_t kSignalKindsMax = 65536;
// A rank can be one collective ahead of us, of at most 32 rounds.
constexpr uint32_t kPartsMax = 128;

}  // namespace

bool SignalBox::Add(int signal, int source) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [entry, is_new] = counts_.try_emplace({signal, source}, 0);
  if (is_new && ++kinds_[source] > kSignalKindsMax) {
    counts_.erase(entry);
    --kinds_[source];
    return false;
  }
  ++entry->second;
  return true;
}

bool SignalBox::TakeAll(int signal, const std::vector<int>& ranks, int* missing) {
  std::map<int, uint64_t> wanted;
  for (int rank : ranks) ++wanted[rank];
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [rank, count] : wanted) {
    const auto entry = counts_.find({signal, rank});
    if (entry != counts_.end() && entry->second >= count) continue;
    *missing = rank;
    return false;
  }
  for (const auto& [rank, count] : wanted) {
    const auto entry = counts_.find({signal, rank});
    entry->second -= count;
    if (entry->second != 0) continue;
    counts_.erase(entry);
    --kinds_[rank];
  }
  return true;
}

bool CollectiveBox::Add(int source, uint64_t number, std::string payload) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (number < below_) return true;
  uint32_t& count = counts_[source];
  if (count >= kPartsMax) return false;
  const uint64_t bytes = payload.size();
  if (!parts_.try_emplace({source, number}, std::move(payload)).second) return false;
  ++count;
  bytes_ += bytes;
  return true;
}

bool CollectiveBox::Take(int source, uint64_t number, std::string* payload) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto part = parts_.find({source, number});
  if (part == parts_.end()) return false;
  *payload = std::move(part->second);
  bytes_ -= payload->size();
  parts_.erase(part);
  if (--counts_[source] == 0) counts_.erase(source);
  return true;
}

void CollectiveBox::Forget(uint64_t below) {
  const std::lock_guard<std::mutex> lock(mutex_);
  below_ = below;
  for (auto part = parts_.begin(); part != parts_.end();) {
    if (part->first.second >= below) {
      ++part;
      continue;
    }
    bytes_ -= part->second.size();
    if (--counts_[part->first.first] == 0) counts_.erase(part->first.first);
    part = parts_.erase(part);
  }
}

uint64_t CollectiveBox::buffered_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace quire::comm
