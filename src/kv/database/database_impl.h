/// The parallel database on one rank: it admits each call and passes it to the part that does the
/// work; it has the calls of all ranks together, and the order in which its parts begin and end.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, sections 2 and 3, figures 2 and 3
/// Threads    as quire::Database
/// Invariants no lock is held while the Exchange is called, except RemoteMemTable::SendMutex
///            (services and answers run inside its calls); one load, in Admission, decides what a
///            call may do
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kv/database/admission.h"
#include "kv/database/read_path.h"
#include "kv/database/write_path.h"
#include "kv/generations/redistribution.h"
#include "kv/group/file_group_reader.h"
#include "kv/group/shared_memory_group_reader.h"
#include "kv/migration/dispatcher.h"
#include "kv/owner/local_iterator.h"
#include "kv/owner/local_store.h"
#include "kv/owner/service.h"
#include "kv/persistence/checkpoint.h"
#include "kv/protocol/counters.h"
#include "kv/protocol/owner_finder.h"
#include "quire/database.h"
#include "runtime/context_state.h"
#include "runtime/partitioning.h"

namespace quire::kv {

/// The parts of an open database, as database_open.cpp puts them together.
struct DatabaseParts {
  std::string name;
  std::string directory;    ///< this rank's
  runtime::Partitioning partitioning;
  uint32_t number = 0;
  DatabaseOptions options;
  runtime::MemoryShare memory;
  std::shared_ptr<engine::StorageEngine> engine;
  std::unique_ptr<SharedMemoryGroupReader> direct;
  std::shared_ptr<FileGroupReader> group;
};

class DatabaseImpl final : public Database, public runtime::ProgressClient {
 public:
  DatabaseImpl(std::shared_ptr<runtime::ContextState> context, DatabaseParts parts);
  ~DatabaseImpl() override;
  /// Accepts requests of other ranks from now on. Called once, before any other call.
  ///
  /// Errors     kOutOfMemory  The dispatcher's thread or memory was refused.
  Status Begin();
  /// Holds rank 0's lock over the whole database until it is closed.
  void Keep(std::unique_ptr<io::FileLock> lock) { lock_ = std::move(lock); }

  const std::string& name() const override { return name_; }
  int Owner(Slice key) const override { return owners_.Find(key).owner; }

  Status Put(Slice key, Slice value) override;
  Status Delete(Slice key) override;
  Status Get(Slice key, const BufferAllocator& allocate) override;
  std::unique_ptr<PendingGet> GetAsync(Slice key) override;

  Status PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) override;
  Status DeleteMany(const std::vector<Slice>& keys) override;
  Status GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                 std::vector<bool>* found) override;
  Status Write(const Batch& batch) override;

  Status RegisterUpdate(uint32_t id, UpdateFunction function) override;
  Status Update(Slice key, uint32_t id, Slice argument) override;
  Status RegisterAnsweringUpdate(uint32_t id, AnsweringUpdateFunction function) override;
  Status UpdateAndAnswer(Slice key, uint32_t id, Slice argument, std::string* answer) override;

  Status Fence() override;
  Status Flush() override;
  Status Barrier(Level level) override;
  Status SetConsistency(Consistency consistency) override;
  Status Protect(Protection protection) override;

  Result<std::unique_ptr<Event>> Checkpoint(const std::string& path,
                                            const CheckpointOptions& options) override;
  std::unique_ptr<LocalIterator> NewLocalIterator() override;
  Status Compact() override;
  Statistics GetStatistics() const override;
  Status Close() override;

  /// Returns the redistribution of the pairs of older generations. It begins after Begin.
  Redistribution& redistribution() { return redistribution_; }
  /// Closes without other ranks, if the Context is being destroyed, or Close was not called.
  void Shutdown() override;
  /// Sends lingering batches if there is no dispatcher thread.
  void Progress() override;

 private:
  Status ChangeMode(const Admission::Mode& mode);
  void SwitchCaches(Protection protection);
  Status FlushToClose();
  void Teardown();
  Status CloseTogether(comm::Exchange& exchange);
  // Numbers of channels: every rank takes them before anything can fail on one rank alone.
  struct CheckpointNumbers {
    uint32_t checkpoint;
    uint32_t redistribution;
  };
  Result<std::unique_ptr<Event>> BeginCheckpoint(const CheckpointNumbers& numbers,
                                                 const std::string& path,
                                                 const CheckpointOptions& options);
  void LeaveAll();

  std::shared_ptr<runtime::ContextState> context_;
  const std::string name_;
  const std::string directory_;
  const OwnerFinder owners_;
  const uint32_t number_;
  const DatabaseOptions options_;
  runtime::MemoryShare memory_;
  Admission admission_;
  OpenIterators iterators_;
  /// Shared with gets under way.
  const std::shared_ptr<DatabaseCounters> counters_ = std::make_shared<DatabaseCounters>();
  std::unique_ptr<LocalStore> store_;
  std::unique_ptr<OwnerService> service_;
  std::shared_ptr<Dispatcher> dispatcher_;  ///< null on one rank
  WritePath write_path_;
  ReadPath read_path_;
  std::unique_ptr<io::FileLock> lock_;
  Redistribution redistribution_;
  RunningCheckpoints checkpoints_;
};

}  // namespace quire::kv
