// Quire's own storage, as the parallel database uses it.
#include <string>

#include "base/threads/executor.h"
#include "engines/engine.h"
#include "io/files/file_system.h"
#include "lsm/db/db.h"

namespace quire::bench {
namespace {

class LsmReader : public EngineReader {
 public:
  explicit LsmReader(lsm::Db* db) : db_(db) {}

  Status Get(Slice key, Slice* value) override {
    const Status status = db_->Get(key, nullptr, Into(&value_));
    *value = value_;
    return status;
  }

  Status Scan(Slice from, int next_count, ScanTotals* totals) override {
    const std::unique_ptr<engine::Iterator> iterator = db_->NewIterator(engine::IteratorOptions());
    ScanPairs(iterator.get(), from, next_count, totals);
    return iterator->status();
  }

 private:
  lsm::Db* db_;
  std::string value_;
};

class LsmEngine : public Engine {
 public:
  Status Open(const EngineOptions& options) {
    executor_ = base::NewThreadPool(2, "bench").value();
    engine::EngineEnvironment environment;
    environment.fs = &io::PosixFileSystem();
    environment.executor = executor_.get();
    environment.holder = "quire-bench";
    StorageOptions storage;
    storage.memtable_bytes = options.write_buffer_bytes;
    storage.cache_bytes = options.cache_bytes;
    storage.bloom_bits_per_key = options.bloom_bits_per_key;
    storage.verify_checksums = options.verify_checksums;
    storage.compaction = options.compaction;
    storage.compaction_trigger = options.compaction_trigger;
    storage.dead_percent_max = options.dead_percent_max;
    QUIRE_ASSIGN_OR_RETURN(db_, lsm::Db::Open(environment, options.directory, storage,
                                              engine::OpenFlags::kMustNotExist));
    return Status();
  }

  Status Put(Slice key, Slice value) override { return db_->Put(key, value); }
  std::unique_ptr<EngineReader> NewReader() override {
    return std::make_unique<LsmReader>(db_.get());
  }
  Status Settle() override {
    QUIRE_RETURN_IF_ERROR(db_->WaitIdle());
    return db_->background_status();
  }
  // The log and values of moderate size are written through mappings; tables and large values by
  // calls.
  uint64_t MappedBytes() const override {
    const lsm::DbStatistics statistics = db_->Statistics();
    return statistics.log_bytes + statistics.value_log_bytes - statistics.value_log_call_bytes;
  }
  uint64_t RunCount() const override { return db_->Statistics().run_count; }

 private:
  std::unique_ptr<base::Executor> executor_;
  std::unique_ptr<lsm::Db> db_;
};

}  // namespace

Result<std::unique_ptr<Engine>> OpenLsmEngine(const EngineOptions& options) {
  auto engine = std::make_unique<LsmEngine>();
  QUIRE_RETURN_IF_ERROR(engine->Open(options));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace quire::bench
