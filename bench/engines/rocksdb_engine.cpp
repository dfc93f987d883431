// RocksDB with the options that all engines share. Beyond its defaults: as much memory for writes
// as the other engines may use (one MemTable and two that wait), one background job for each core
// of a small machine, and, as a separate variant, values apart from keys (blob files), which suits
// large values.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <chrono>
#include <thread>

#include "engines/engine.h"
#include "workspace.h"

namespace quire::bench {
namespace {

Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) return Status();
  if (status.IsNotFound()) return Status(Code::kNotFound);
  return Status(Code::kIo, "RocksDB: " + status.ToString());
}

rocksdb::Slice ToSlice(Slice bytes) {
  return {bytes.data(), bytes.size()};
}

class RocksDbReader : public EngineReader {
 public:
  RocksDbReader(rocksdb::DB* db, bool verify) : db_(db) { options_.verify_checksums = verify; }

  Status Get(Slice key, Slice* value) override {
    value_.Reset();
    const rocksdb::Status status =
        db_->Get(options_, db_->DefaultColumnFamily(), ToSlice(key), &value_);
    *value = Slice(value_.data(), value_.size());
    return ToStatus(status);
  }

  Status Scan(Slice from, int next_count, ScanTotals* totals) override {
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(options_));
    ScanPairs(iterator.get(), ToSlice(from), next_count, totals);
    return ToStatus(iterator->status());
  }

 private:
  rocksdb::DB* db_;
  rocksdb::ReadOptions options_;
  rocksdb::PinnableSlice value_;
};

class RocksDbEngine : public Engine {
 public:
  Status Open(const EngineOptions& options, bool blob_files) {
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(options.cache_bytes);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(options.bloom_bits_per_key));
    rocksdb::Options settings;
    settings.create_if_missing = true;
    settings.write_buffer_size = options.write_buffer_bytes;
    settings.max_write_buffer_number = 3;
    settings.max_background_jobs = 2;
    settings.compression = rocksdb::kNoCompression;
    settings.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    settings.enable_blob_files = blob_files;
    settings.min_blob_size = 1024;
    settings.enable_blob_garbage_collection = blob_files;
    verify_ = options.verify_checksums;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(settings, options.directory, &db);
    db_.reset(db);
    return ToStatus(status);
  }

  Status Put(Slice key, Slice value) override {
    return ToStatus(db_->Put(rocksdb::WriteOptions(), ToSlice(key), ToSlice(value)));
  }
  std::unique_ptr<EngineReader> NewReader() override {
    return std::make_unique<RocksDbReader>(db_.get(), verify_);
  }

  Status Settle() override {
    while (Count(rocksdb::DB::Properties::kMemTableFlushPending) +
               Count(rocksdb::DB::Properties::kNumRunningFlushes) +
               Count(rocksdb::DB::Properties::kCompactionPending) +
               Count(rocksdb::DB::Properties::kNumRunningCompactions) >
           0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return WaitUntilQuiet(600);
  }
  uint64_t MappedBytes() const override { return 0; }

 private:
  uint64_t Count(const std::string& property) const {
    uint64_t count = 0;
    return db_->GetIntProperty(property, &count) ? count : 0;
  }

  std::unique_ptr<rocksdb::DB> db_;
  bool verify_ = true;
};

}  // namespace

Result<std::unique_ptr<Engine>> OpenRocksDbEngine(const EngineOptions& options, bool blob_files) {
  auto engine = std::make_unique<RocksDbEngine>();
  QUIRE_RETURN_IF_ERROR(engine->Open(options, blob_files));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace quire::bench
