#include "kv/owner/local_store.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/core/program_call.h"
#include "base/hash/hash.h"
#include "base/threads/sync_point.h"
#include "log/record.h"

namespace quire::kv {
namespace {

// Marks all keys of a batch as being written, if there is a cache to keep right.
class BatchGuard {
 public:
  BatchGuard(PairCache& cache, const std::vector<engine::WriteOp>& operations) {
    for (const engine::WriteOp& operation : operations) {
      guards_.emplace_back(cache, operation.key, base::HashKey(operation.key));
    }
  }

 private:
  std::deque<PairCache::WriteGuard> guards_;
};

}  // namespace

Result<uint64_t> CountRecords(Slice records) {
  uint64_t count = 0;
  while (records.size() >= sizeof(log::RecordHeader)) {
    // The header as it travels: sizes at 12 and 20 (docs/format/record.md).
    uint32_t value_size = 0;
    uint16_t key_size_minus_1 = 0;
    std::memcpy(&value_size, records.data() + offsetof(log::RecordHeader, value_size), 4);
    std::memcpy(&key_size_minus_1, records.data() + offsetof(log::RecordHeader, key_size_minus_1),
                2);
    const uint64_t size = log::RecordSize(uint64_t{key_size_minus_1} + 1, value_size);
    if (size > records.size()) break;
    records.remove_prefix(size);
    ++count;
  }
  if (records.empty()) return count;
  return Status(Code::kCorruption, "a batch of another rank ends inside a record");
}

LocalStore::LocalStore(std::shared_ptr<engine::StorageEngine> engine, uint64_t local_cache_bytes,
                       int rank, DatabaseCounters* counters)
    : engine_(std::move(engine)),
      neighbours_(engine_->neighbour_readable()),
      cache_(neighbours_ == nullptr ? 0 : local_cache_bytes),
      rank_(rank),
      counters_(counters) {}

Status LocalStore::Get(const base::HashedKey& key, const BufferAllocator& allocate) {
  if (cache_.on()) return GetThroughCache(key, allocate);
  return engine_->Get(key, nullptr, allocate);
}

Status LocalStore::GetThroughCache(const base::HashedKey& key, const BufferAllocator& allocate) {
  const PairCache::Ticket ticket = cache_.Look(key.hash);
  bool decided = false;
  const Status in_memory = neighbours_->GetFromMemory(key, allocate, &decided, nullptr);
  if (decided) return in_memory;
  base::SyncPoint("kv.local.not_in_memory");
  const Status cached = cache_.Get(key.key, key.hash, ticket, allocate);
  if (cached.code() != Code::kNotFound) {
    counters_->Add(DatabaseCounter::kLocalCacheHits);
    return cached;
  }
  char* at = nullptr;
  size_t value_size = 0;
  const Status status = engine_->Get(key, nullptr, [&](size_t size) {
    value_size = size;
    return at = allocate(size);
  });
  if (status.ok()) cache_.Insert(key.key, Slice(at, value_size), key.hash, ticket);
  return status;
}

Status LocalStore::GetInGroup(const base::HashedKey& key, const BufferAllocator& allocate,
                              std::optional<NamedTables>* tables) {
  if (neighbours_ == nullptr) return Get(key, allocate);
  engine::TablesPosition position;
  bool decided = false;
  const Status status = neighbours_->GetFromMemory(key, allocate, &decided, &position);
  if (decided || status.code() != Code::kNotFound) return status;
  if (position.has_base) return Get(key, allocate);
  *tables = NamedTables{position.store_id, position.edition};
  return status;
}

Status LocalStore::Fill(Slice records, engine::WriteProgress* progress) {
  engine::Backable* const backable = engine_->backable();
  if (backable != nullptr) return backable->Fill(records, progress);
  return Status(Code::kUnsupported, "the storage engine takes no pairs of other generations");
}

Result<std::shared_ptr<const engine::Capture>> LocalStore::NewCapture() {
  engine::Capturable* const capturable = engine_->capturable();
  if (capturable != nullptr) return capturable->NewCapture();
  return Status(Code::kUnsupported, "the storage engine has no checkpoints");
}

Status LocalStore::RunUpdate(uint32_t id, Slice key, const Slice* present, Slice argument,
                             std::string* updated, std::string* answer) const {
  const AnsweringUpdateFunction* const function = updates_.Find(id);
  if (function == nullptr) {
    return Status(Code::kInvalidArgument,
                  "update function " + std::to_string(id) + " is not registered on rank " +
                      std::to_string(rank_) + ": call RegisterUpdate on all ranks first");
  }
  std::string unheard;
  if (answer == nullptr) answer = &unheard;
  answer->clear();
  return base::CallProgram(
      [id] { return "update function " + std::to_string(id); },
      [&] { return (*function)(key, present, argument, updated, answer); });
}

Status LocalStore::Update(const base::HashedKey& key, uint32_t id, Slice argument,
                          std::string* answer, engine::WriteProgress* progress) {
  const PairCache::WriteGuard guard(cache_, key.key, key.hash);
  struct {
    const LocalStore* store;
    uint32_t id;
    Slice argument;
    std::string* answer;
    Status outcome;
  } call{this, id, argument, answer, {}};
  const Status status = engine_->Update(
      key,
      [&call](Slice of_key, const Slice* present, std::string* updated) {
        call.outcome =
            call.store->RunUpdate(call.id, of_key, present, call.argument, updated, call.answer);
        return call.outcome.ok();
      },
      progress);
  QUIRE_RETURN_IF_ERROR(status);
  return call.outcome.code() == Code::kNotFound ? Status() : call.outcome;
}

Status LocalStore::Apply(Slice records, engine::WriteProgress* progress, ApplyFailures* failures) {
  const Status status = base::OrOutOfMemory([&] { return ApplyRest(records, progress, failures); });
  return status.ok() || progress->waits ? status : GiveUp(records, *progress, status, failures);
}

Status LocalStore::ApplyRest(Slice records, engine::WriteProgress* progress,
                             ApplyFailures* failures) {
  progress->waits = false;
  std::vector<engine::WriteOp> operations;
  if (cache_.capacity_bytes() != 0) {
    QUIRE_ASSIGN_OR_RETURN(operations, engine::DecodeBatch(records));
  }
  const BatchGuard guard(cache_, operations);
  // A function that refuses loses its own operation, not those behind it.
  const auto update = [&](uint32_t id, Slice argument, Slice key, const Slice* present,
                          std::string* updated, bool* write) {
    const Status outcome = RunUpdate(id, key, present, argument, updated, nullptr);
    *write = outcome.ok();
    if (outcome.ok() || outcome.code() == Code::kNotFound) return Status();
    if (failures->first.ok()) failures->first = outcome;
    ++failures->lost_count;
    return Status();
  };
  return engine_->Apply(records, update, progress);
}

Status LocalStore::GiveUp(Slice records, const engine::WriteProgress& progress, const Status& why,
                          ApplyFailures* failures) const {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t count, CountRecords(records));
  if (failures->first.ok()) failures->first = why;
  // If nothing counts as applied, `count` contains the operations that functions refused.
  failures->lost_count = std::min(count, failures->lost_count + count - progress.applied);
  return Status();
}

Status LocalStore::Write(Slice records, engine::WriteProgress* progress) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<engine::WriteOp> operations,
                         engine::DecodeBatch(records));
  engine::WriteBatch batch;
  for (const engine::WriteOp& operation : operations) {
    batch.Add(operation.type, operation.key, operation.value);
  }
  const BatchGuard guard(cache_, operations);
  return engine_->Write(batch, progress);
}

}  // namespace quire::kv
