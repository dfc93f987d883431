/// Pairs in memory; new ones evict the least recently used ones. Used as the local cache (pairs
/// read from tables of this rank) and the remote cache (pairs of other ranks, while no rank
/// writes).
///
/// Layer      kv
/// Source     PapyrusKV, SC17, sections 2.3 (caches), 2.4 (stale entries are evicted), 3.2
///            (protection)
/// Threads    any
/// Invariants charged bytes <= capacity; no entry is older than the last write of its key that has
///            returned: a pair is inserted only if no write of its key began or ended since the
///            reader took its Ticket.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "quire/buffer_allocator.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::kv {

class PairCache {
 public:
  /// `capacity_bytes` 0: a cache that is always off.
  explicit PairCache(uint64_t capacity_bytes);

  /// The count of writes of a key that a reader saw before its search.
  struct Ticket {
    uint64_t generation = 0;  ///< how often the cache was switched, or a count was restarted
    uint64_t writes_ended = 0;
    bool usable = false;  ///< no write of the key was under way, and the cache is on
  };

  bool on() const { return on_.load(std::memory_order_acquire); }
  /// Switches the cache. Off: every entry is dropped, and none is inserted.
  void SetOn(bool on);

  /// Returns a ticket for a reader, which takes it before it searches MemTables.
  Ticket Look(uint64_t hash) const;
  /// Copies the value of `key` into the memory that `allocate` returns; calls it without a lock.
  /// kNotFound: not here. kOutOfMemory: `allocate` returned none.
  Status Get(Slice key, uint64_t hash, const Ticket& ticket, const BufferAllocator& allocate);
  /// Inserts the pair, unless a write of the key has come since `ticket`, or it is too large for
  /// the cache.
  void Insert(Slice key, Slice value, uint64_t hash, const Ticket& ticket);

  /// A guard around a write of `key` at this rank. Cheap while the cache is off.
  class WriteGuard {
   public:
    WriteGuard(PairCache& cache, Slice key, uint64_t hash);
    ~WriteGuard();
    WriteGuard(const WriteGuard&) = delete;
    WriteGuard& operator=(const WriteGuard&) = delete;

   private:
    PairCache* cache_;
    Slice key_;
    uint64_t hash_;
  };

  uint64_t charged_bytes() const;
  uint64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  friend class WriteGuard;
  struct Entry {
    std::string key;
    std::shared_ptr<const std::string> value;  // readers copy it without the mutex
  };
  struct Shard {
    mutable std::mutex mutex;
    std::list<Entry> entries;  // most recently used first
    std::unordered_map<Slice, std::list<Entry>::iterator> index;
    uint64_t charged_bytes = 0;
  };
  // Writes of the keys that share this mark: how many are under way (low 32 bits), how many have
  // ended.
  struct WriteMark {
    std::atomic<uint64_t> state{0};
  };
  static constexpr size_t kMarkCount = 1024;

  Shard& ShardOf(uint64_t hash) const { return shards_[(hash >> 32) % shard_count_]; }
  WriteMark& MarkOf(uint64_t hash) const { return marks_[(hash >> 16) % kMarkCount]; }
  std::shared_ptr<const std::string> Find(Slice key, uint64_t hash);
  void Erase(Shard& shard, Slice key);

  const uint64_t capacity_bytes_;
  const size_t shard_count_;
  std::unique_ptr<Shard[]> shards_;
  std::unique_ptr<WriteMark[]> marks_;
  std::atomic<bool> on_{false};
  std::atomic<uint64_t> generation_{0};  // tickets of another generation are not valid
};

}  // namespace quire::kv
