/// One rank's database, composed of its parts. Writes, updates, lookups, captures and verification
/// are here; opening, room, syncs and background work are classes of their own.
///
/// Layer      lsm (internal)
/// Source     PapyrusKV, SC17, sections 2.4 to 2.6; LevelDB and RocksDB for what background work
///            may assume
/// Threads    see the parts, which share mutex_. Lock order: that of publications, that of
///            log_sync_, mutex_. Under mutex_ no thread waits, reads or writes a file, calls
///            EpochRetire or EpochCollect, or drops the last reference of anything.
/// Invariants no job runs when the destructor ends the parts
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/hash/hashed_key.h"
#include "lsm/db/db.h"
#include "lsm/db/key_locks.h"
#include "lsm/db/log_sync.h"
#include "lsm/db/opening.h"
#include "lsm/db/value_separator.h"
#include "lsm/db/write_room.h"
#include "lsm/jobs/background_jobs.h"
#include "lsm/jobs/cleaner.h"
#include "lsm/jobs/compaction_schedule.h"
#include "lsm/jobs/counters.h"
#include "lsm/jobs/flusher.h"
#include "lsm/jobs/job_parts.h"
#include "lsm/jobs/merger.h"
#include "lsm/jobs/write_health.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/snapshot_list.h"
#include "lsm/version/version.h"
#include "lsm/version/version_set.h"
#include "lsm/vlog/value_log.h"
#include "lsm/vlog/value_resolver.h"
#include "table/block_cache.h"

namespace quire::lsm {

struct IteratorSources;

/// The result of a lookup in a Version, inside the caller's EpochGuard.
struct Found : table::LookupResult {
  /// The MemTable that contains the value; null: a table contains it.
  const std::shared_ptr<PooledMemTable>* memory = nullptr;
};

class DbImpl final : public Db {
 public:
  DbImpl(const engine::EngineEnvironment& environment, std::string directory,
         const StorageOptions& options);
  ~DbImpl() override;
  /// Does the rest of Db::Open, for the directory that `lock` locks.
  Status Start(std::unique_ptr<io::FileLock> lock, engine::OpenFlags flags);

  Status Put(const base::HashedKey& key, Slice value) override;
  Status Delete(const base::HashedKey& key) override;
  Status DeleteRange(Slice begin, Slice end) override;
  using engine::StorageEngine::Write;
  Status Write(const engine::WriteBatch& batch, engine::WriteProgress* progress) override;
  Status Apply(Slice batch_bytes, const WireUpdateFn& update,
               engine::WriteProgress* progress) override;
  Status Fill(Slice batch_bytes, engine::WriteProgress* progress) override;
  void DetachBackingStore() override;
  using engine::StorageEngine::Update;
  Status Update(const base::HashedKey& key, const engine::UpdateFn& update,
                engine::WriteProgress* progress) override;
  using engine::StorageEngine::Get;
  Status Get(const base::HashedKey& key, const engine::Snapshot* snapshot,
             const BufferAllocator& allocate) const override;
  Status GetFromMemory(const base::HashedKey& key, const BufferAllocator& allocate, bool* decided,
                       engine::TablesPosition* tables) const override;
  std::unique_ptr<engine::Snapshot> NewSnapshot() override;
  std::unique_ptr<engine::Iterator> NewIterator(const engine::IteratorOptions& options) override;
  Status Flush() override { return room_.Flush(); }
  Result<std::shared_ptr<const engine::Capture>> NewCapture() override;
  Status SyncLog() override;
  Status Compact() override;
  Status WaitIdle() override;
  Status Verify() override;
  Status background_status() const override;
  DbStatistics Statistics() const override;
  std::string region_name() const override { return opened_.pool->region().name(); }
  uint64_t region_bytes() const override { return opened_.pool->region().bytes(); }
  void UnlinkRegion() override { opened_.pool->region().Unlink(); }

 private:
  // db_open.cpp
  Merger::Calls CallsOfMerges();
  Flusher::Parts PartsOfWork();
  void AttachParts();
  bool NothingInTheLogLocked() const;
  Status FreeLog(uint64_t active_number);

  // db_write.cpp
  Status CheckWrite(Slice key, uint64_t value_size) const;
  Status CheckOp(const engine::WriteOp& op) const;
  Status WriteOne(log::RecordType type, const base::HashedKey& key, Slice value);
  Status WriteGroup(const std::vector<engine::WriteOp>& ops, bool atomic,
                    engine::WriteProgress* progress);
  Status AddGroup(const std::vector<engine::WriteOp>& ops, bool atomic,
                  engine::WriteProgress* progress, uint64_t* lsn);
  struct GroupOutcome {
    bool added = false;  // false: no room
    bool full = false;   // added, and no more should be
    uint64_t lsn = 0;
  };
  Status TryGroup(const Version& version, const std::vector<engine::WriteOp>& ops, bool atomic,
                  GroupOutcome* outcome);
  Status TryInline(const Version& version, const std::vector<engine::WriteOp>& ops,
                   uint64_t value_bytes, bool atomic, GroupOutcome* outcome);
  Status Committed(uint64_t user_bytes, uint64_t lsn);
  KeyLocks::Set LocksOf(const std::vector<engine::WriteOp>& ops) const;

  // db_update.cpp
  Status GetAboveBackingStore(const base::HashedKey& key, const engine::Snapshot* snapshot,
                              const BufferAllocator& allocate,
                              std::shared_ptr<const engine::BackingStore>* base) const;
  Status FindAboveBackingStore(const base::HashedKey& key, const engine::Snapshot* snapshot,
                               const BufferAllocator& allocate,
                               std::shared_ptr<const engine::BackingStore>* base,
                               LateValue* late) const;
  bool HasBackingStore() const;
  struct UpdateCall;
  Status AskBackingStore(Slice key, UpdateCall& call) const;
  uint64_t PinSources(IteratorSources* sources);
  uint64_t PinTables(IteratorSources* sources);
  Status RunUpdate(const base::HashedKey& key, UpdateCall& call);
  struct UpdateOutcome {
    bool done = false;
    bool full = false;        // done, and the MemTable takes no more values
    uint64_t generation = 0;  // of the MemTable, unless the base is to be asked
  };
  Status TryUpdate(const base::HashedKey& key, UpdateCall& call, UpdateOutcome* outcome);
  Status LookForUpdate(const base::HashedKey& key, UpdateCall& call, const std::string** present,
                       LateValue* late, bool* done) const;
  Status AddUpdated(engine::WriteOp op, uint64_t hash, UpdateCall& call, UpdateOutcome* outcome);
  Status AddLargeUpdated(const engine::WriteOp& op, UpdateCall& call, UpdateOutcome* outcome);
  class Applier;

  // db_read.cpp
  Status Lookup(const Version& version, const base::HashedKey& key, uint64_t lsn,
                Found* found) const;
  bool LookupMemory(const Version& version, const base::HashedKey& key, uint64_t lsn,
                    Found* found) const;
  Status LookupTables(const Version& version, const base::HashedKey& key, uint64_t lsn,
                      Found* found) const;
  Status ReadValue(const log::ValueRef& reference, const BufferAllocator& allocate) const;
  Status Deliver(const Found& found, const BufferAllocator& allocate, LateValue* late) const;

  class CaptureImpl;

  engine::EngineEnvironment environment_;
  io::FileSystem& fs_;
  base::Executor& executor_;
  const std::string directory_;
  const StorageOptions options_;
  const std::shared_ptr<table::BlockCache> cache_;
  const std::shared_ptr<ObsoleteFiles> obsolete_files_;
  std::unique_ptr<io::FileLock> lock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // what the mutex guards changed
  WriteHealth health_;
  LogSync log_sync_;
  BackgroundJobs jobs_;
  VersionSet versions_;
  CompactionSchedule compactions_;  // guarded by mutex_
  OpenedDirectory opened_;          // set by Start
  const ValueResolver resolver_;
  SnapshotList snapshots_;
  mutable StorageCounters counters_;
  ValueSeparator separator_;
  WriteRoom room_;
  JobParts job_parts_;  // set by Start
  Cleaner cleaner_;
  Flusher flusher_;
  Merger merger_;
  KeyLocks key_locks_;
};

}  // namespace quire::lsm
