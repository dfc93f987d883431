#include "kv/owner/pair_cache.h"
#include "base/threads/sync_point.h"

#include <algorithm>
#include <cstring>

namespace quire::kv {
namespace {

constexpr uint64_t kShardBytesMin = 1ull << 20;
constexpr uint64_t kShardsMax = 16;
// List node, hash node, two string headers, the value's block of references.
constexpr uint64_t kEntryOverheadBytes = 176;
// More writes than memory has room for their guards, so the count never reaches the other half.
constexpr uint64_t kUnderWayMask = 0xFFFFFFFF;
constexpr int kEndedShift = 32;
constexpr uint64_t kEndedOne = uint64_t{1} << kEndedShift;

uint64_t ChargeOf(Slice key, Slice value) {
  return key.size() + value.size() + kEntryOverheadBytes;
}

}  // namespace

PairCache::PairCache(uint64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes),
      shard_count_(std::clamp<uint64_t>(capacity_bytes / kShardBytesMin, 1, kShardsMax)) {
  if (capacity_bytes == 0) return;
  shards_ = std::make_unique<Shard[]>(shard_count_);
  marks_ = std::make_unique<WriteMark[]>(kMarkCount);
}

void PairCache::SetOn(bool on) {
  if (capacity_bytes_ == 0) return;
  generation_.fetch_add(1);
  on_.store(on, std::memory_order_release);
  base::SyncPoint("kv.cache.before_clear");
  for (size_t i = 0; i < shard_count_; ++i) {
    const std::lock_guard<std::mutex> lock(shards_[i].mutex);
    shards_[i].index.clear();
    shards_[i].entries.clear();
    shards_[i].charged_bytes = 0;
  }
}

PairCache::Ticket PairCache::Look(uint64_t hash) const {
  if (!on()) return {};
  const uint64_t generation = generation_.load();
  const uint64_t state = MarkOf(hash).state.load();
  return {generation, state >> kEndedShift, (state & kUnderWayMask) == 0};
}

Status PairCache::Get(Slice key, uint64_t hash, const Ticket& ticket,
                      const BufferAllocator& allocate) {
  if (!ticket.usable) return Status(Code::kNotFound);
  const std::shared_ptr<const std::string> value = Find(key, hash);
  if (value == nullptr) return Status(Code::kNotFound);
  char* const to = allocate(value->size());
  if (to == nullptr) return Status(Code::kOutOfMemory, "no memory for a value of the cache");
  if (!value->empty()) std::memcpy(to, value->data(), value->size());
  return Status();
}

std::shared_ptr<const std::string> PairCache::Find(Slice key, uint64_t hash) {
  Shard& shard = ShardOf(hash);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  const auto found = shard.index.find(key);
  if (found == shard.index.end()) return nullptr;
  shard.entries.splice(shard.entries.begin(), shard.entries, found->second);
  return found->second->value;
}

void PairCache::Insert(Slice key, Slice value, uint64_t hash, const Ticket& ticket) {
  const uint64_t charge = ChargeOf(key, value);
  const uint64_t shard_capacity = capacity_bytes_ / shard_count_;
  if (!ticket.usable || charge > shard_capacity / 2) return;
  base::SyncPoint("kv.cache.before_fill");
  std::list<Entry> fresh;
  fresh.push_front({std::string(key), std::make_shared<const std::string>(value)});
  Shard& shard = ShardOf(hash);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  // Under the lock: a write that begins after this look erases what is inserted here.
  const Ticket now = Look(hash);
  if (!now.usable || now.generation != ticket.generation ||
      now.writes_ended != ticket.writes_ended) {
    return;
  }
  base::SyncPoint("kv.cache.filling");
  Erase(shard, key);
  while (shard.charged_bytes + charge > shard_capacity) Erase(shard, shard.entries.back().key);
  shard.index.emplace(fresh.front().key, fresh.begin());  // without memory nothing has changed
  shard.entries.splice(shard.entries.begin(), fresh);
  shard.charged_bytes += charge;
}

void PairCache::Erase(Shard& shard, Slice key) {
  const auto found = shard.index.find(key);
  if (found == shard.index.end()) return;
  const auto entry = found->second;
  shard.charged_bytes -= ChargeOf(entry->key, *entry->value);
  shard.index.erase(found);
  shard.entries.erase(entry);
}

uint64_t PairCache::charged_bytes() const {
  uint64_t sum = 0;
  for (size_t i = 0; capacity_bytes_ != 0 && i < shard_count_; ++i) {
    const std::lock_guard<std::mutex> lock(shards_[i].mutex);
    sum += shards_[i].charged_bytes;
  }
  return sum;
}

PairCache::WriteGuard::WriteGuard(PairCache& cache, Slice key, uint64_t hash)
    : cache_(cache.capacity_bytes_ == 0 ? nullptr : &cache), key_(key), hash_(hash) {
  if (cache_ == nullptr) return;
  cache_->MarkOf(hash).state.fetch_add(1);
  base::SyncPoint("kv.cache.marked");
  if (!cache_->on()) return;  // what comes in later sees the mark
  Shard& shard = cache_->ShardOf(hash);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  cache_->Erase(shard, key);
}

PairCache::WriteGuard::~WriteGuard() {
  if (cache_ == nullptr) return;
  base::SyncPoint("kv.cache.before_unmark");
  // One more write has ended, one less is under way.
  const uint64_t before = cache_->MarkOf(hash_).state.fetch_add(kEndedOne - 1);
  // The count of ended writes restarts: no earlier ticket may equal a later one.
  if ((before >> kEndedShift) == kUnderWayMask) [[unlikely]]
    cache_->generation_.fetch_add(1);
}

}  // namespace quire::kv
