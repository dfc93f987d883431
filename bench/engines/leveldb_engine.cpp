// LevelDB with the options that all engines share, and its own defaults otherwise.
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include "engines/engine.h"
#include "workspace.h"

namespace quire::bench {
namespace {

Status ToStatus(const leveldb::Status& status) {
  if (status.ok()) return Status();
  if (status.IsNotFound()) return Status(Code::kNotFound);
  return Status(Code::kIo, "LevelDB: " + status.ToString());
}

leveldb::Slice ToSlice(Slice bytes) {
  return {bytes.data(), bytes.size()};
}

class LevelDbReader : public EngineReader {
 public:
  LevelDbReader(leveldb::DB* db, bool verify) : db_(db) { options_.verify_checksums = verify; }

  Status Get(Slice key, Slice* value) override {
    const leveldb::Status status = db_->Get(options_, ToSlice(key), &value_);
    *value = value_;
    return ToStatus(status);
  }

  Status Scan(Slice from, int next_count, ScanTotals* totals) override {
    const std::unique_ptr<leveldb::Iterator> iterator(db_->NewIterator(options_));
    ScanPairs(iterator.get(), ToSlice(from), next_count, totals);
    return ToStatus(iterator->status());
  }

 private:
  leveldb::DB* db_;
  leveldb::ReadOptions options_;
  std::string value_;
};

class LevelDbEngine : public Engine {
 public:
  Status Open(const EngineOptions& options) {
    cache_.reset(leveldb::NewLRUCache(options.cache_bytes));
    filter_.reset(leveldb::NewBloomFilterPolicy(options.bloom_bits_per_key));
    leveldb::Options settings;
    settings.create_if_missing = true;
    settings.write_buffer_size = options.write_buffer_bytes;
    settings.block_cache = cache_.get();
    settings.filter_policy = filter_.get();
    settings.compression = leveldb::kNoCompression;
    verify_ = options.verify_checksums;
    leveldb::DB* db = nullptr;
    const leveldb::Status status = leveldb::DB::Open(settings, options.directory, &db);
    db_.reset(db);
    return ToStatus(status);
  }

  Status Put(Slice key, Slice value) override {
    return ToStatus(db_->Put(leveldb::WriteOptions(), ToSlice(key), ToSlice(value)));
  }
  std::unique_ptr<EngineReader> NewReader() override {
    return std::make_unique<LevelDbReader>(db_.get(), verify_);
  }
  // LevelDB does not report whether a compaction is due.
  Status Settle() override { return WaitUntilQuiet(600); }
  uint64_t MappedBytes() const override { return 0; }

 private:
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::DB> db_;
  bool verify_ = true;
};

}  // namespace

Result<std::unique_ptr<Engine>> OpenLevelDbEngine(const EngineOptions& options) {
  auto engine = std::make_unique<LevelDbEngine>();
  QUIRE_RETURN_IF_ERROR(engine->Open(options));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace quire::bench
