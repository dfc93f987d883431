/// The pairs that this rank owns: its storage engine behind the local cache, and the update
/// functions that run on them.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, sections 2.4 to 2.6 (local put and get), figures 2 and 3
/// Threads    any
/// Invariants a get searches MemTables, immutable MemTables, local cache and tables, in this order;
///            a write evicts its key from the local cache
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/hash/hashed_key.h"
#include "engine/storage_engine.h"
#include "kv/owner/pair_cache.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/update_registry.h"
#include "kv/protocol/wire.h"

namespace quire::kv {

class LocalStore {
 public:
  /// `name` is for messages.
  LocalStore(std::shared_ptr<engine::StorageEngine> engine, uint64_t local_cache_bytes, int rank,
             DatabaseCounters* counters);

  Status Put(const base::HashedKey& key, Slice value) {
    const PairCache::WriteGuard guard(cache_, key.key, key.hash);
    return engine_->Put(key, value);
  }
  Status Delete(const base::HashedKey& key) {
    const PairCache::WriteGuard guard(cache_, key.key, key.hash);
    return engine_->Delete(key);
  }
  /// Copies the value into the memory that `allocate` returns. kNotFound: absent.
  Status Get(const base::HashedKey& key, const BufferAllocator& allocate);
  /// Gets a value for a rank that reads this one's tables itself. Returns the value, or kNotFound:
  /// `tables` names the tables that may contain it, or is empty if the key is absent.
  Status GetInGroup(const base::HashedKey& key, const BufferAllocator& allocate,
                    std::optional<NamedTables>* tables);
  /// Runs update `id`. Returns the function's result, except for kNotFound (nothing to write). Its
  /// answer goes to `answer`, unless that is null.
  Status Update(const base::HashedKey& key, uint32_t id, Slice argument,
                std::string* answer = nullptr) {
    engine::WriteProgress progress;
    return Update(key, id, argument, answer, &progress);
  }

  // For other ranks. If `progress` says that the write waits, it is unfinished: the same call with
  // the same arguments continues it.
  Status Update(const base::HashedKey& key, uint32_t id, Slice argument, std::string* answer,
                engine::WriteProgress* progress);
  /// Applies records of another rank, one after another; those that could not be applied are
  /// counted in `failures`. kCorruption: the bytes are not records.
  Status Apply(Slice records, engine::WriteProgress* progress, ApplyFailures* failures);
  /// Fails the rest of such records, because of `why`.
  Status GiveUp(Slice records, const engine::WriteProgress& progress, const Status& why,
                ApplyFailures* failures) const;
  /// Applies all of the records or none.
  Status Write(Slice records, engine::WriteProgress* progress);
  /// Applies records of older generations, each only if its key is unknown here. Gets saw these
  /// values before, so the cache stays right. kUnsupported: the engine is not Backable.
  Status Fill(Slice records, engine::WriteProgress* progress);
  /// Returns a capture, as Capturable::NewCapture. kUnsupported: the engine is not Capturable.
  Result<std::shared_ptr<const engine::Capture>> NewCapture();

  engine::StorageEngine& engine() { return *engine_; }
  const engine::StorageEngine& engine() const { return *engine_; }
  std::shared_ptr<engine::StorageEngine> shared_engine() const { return engine_; }
  PairCache& cache() { return cache_; }
  const PairCache& cache() const { return cache_; }
  UpdateRegistry& updates() { return updates_; }

 private:
  Status ApplyRest(Slice records, engine::WriteProgress* progress, ApplyFailures* failures);
  Status RunUpdate(uint32_t id, Slice key, const Slice* present, Slice argument,
                   std::string* updated, std::string* answer) const;
  Status GetThroughCache(const base::HashedKey& key, const BufferAllocator& allocate);

  const std::shared_ptr<engine::StorageEngine> engine_;
  engine::NeighbourReadable* const neighbours_;  ///< null: this engine does not implement it
  PairCache cache_;
  UpdateRegistry updates_;
  const int rank_;
  DatabaseCounters* const counters_;
};

/// Returns the number of records in a batch, by its headers; kCorruption if these are impossible.
Result<uint64_t> CountRecords(Slice records);

}  // namespace quire::kv
