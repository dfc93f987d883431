// The statistics of the database, and its verification.
#include "lsm/db/db_impl.h"
#include "lsm/db/verify.h"
#include "table/block_cache.h"

namespace quire::lsm {

DbStatistics DbImpl::Statistics() const {
  DbStatistics statistics;
  const std::shared_ptr<const Version> version = versions_.Pin();
  statistics.user_bytes = counters_.Sum(StorageCounter::kUserBytes);
  statistics.log_bytes =
      counters_.Sum(StorageCounter::kLogBytes) + version->active->table().data_bytes();
  statistics.flush_bytes = counters_.Sum(StorageCounter::kFlushBytes);
  statistics.compaction_read_bytes = counters_.Sum(StorageCounter::kCompactionReadBytes);
  statistics.compaction_write_bytes = counters_.Sum(StorageCounter::kCompactionWriteBytes);
  statistics.flush_count = counters_.Sum(StorageCounter::kFlushCount);
  statistics.compaction_count = counters_.Sum(StorageCounter::kCompactionCount);
  statistics.stall_ns = counters_.Sum(StorageCounter::kStallNs);
  statistics.run_count = version->runs.size();
  for (const std::shared_ptr<const Run>& run : version->runs) {
    statistics.table_count += run->tables().size();
    statistics.table_bytes += run->bytes();
  }
  for (const ValueSegmentInfo& segment : opened_.values->Segments()) {
    statistics.value_segment_bytes += segment.file_bytes;
  }
  statistics.value_log_bytes = counters_.Sum(StorageCounter::kValueLogBytes);
  statistics.value_log_call_bytes = opened_.values->call_bytes();
  statistics.log_segment_bytes =
      options_.wal == WalMode::kOff ? 0 : opened_.pool->segment_file_bytes();
  statistics.memtable_hits = counters_.Sum(StorageCounter::kMemoryHits);
  statistics.table_hits = counters_.Sum(StorageCounter::kTableHits);
  statistics.filter_skips = counters_.Sum(StorageCounter::kFilterSkips);
  statistics.filter_false = counters_.Sum(StorageCounter::kFilterFalse);
  statistics.memory_bytes = opened_.pool->segment_file_bytes() + opened_.pool->region().bytes();
  const table::CacheStatistics cache = cache_->Statistics();
  statistics.block_cache_bytes = cache.charged_bytes;
  statistics.block_cache_hits = cache.hits;
  statistics.block_cache_misses = cache.misses;
  statistics.newest_ssid = versions_.newest_ssid();
  statistics.recovered_records = opened_.recovered_records;
  statistics.recovered_holes = opened_.recovered_holes;
  statistics.recovered_torn_bytes = opened_.recovered_torn_bytes;
  return statistics;
}

void Db::AddStatistics(quire::Statistics* to) const {
  const DbStatistics db = Statistics();
  to->insert({
      {"bytes.user", db.user_bytes},
      {"bytes.log", db.log_bytes},
      {"bytes.value_log", db.value_log_bytes},
      {"bytes.flush", db.flush_bytes},
      {"bytes.compaction_read", db.compaction_read_bytes},
      {"bytes.compaction_write", db.compaction_write_bytes},
      {"flushes", db.flush_count},
      {"compactions", db.compaction_count},
      {"stall_ns", db.stall_ns},
      {"tables", db.table_count},
      {"runs", db.run_count},
      {"space.tables", db.table_bytes},
      {"space.value_segments", db.value_segment_bytes},
      {"space.log_segments", db.log_segment_bytes},
      {"hits.memtable", db.memtable_hits},
      {"hits.tables", db.table_hits},
      {"filter.skips", db.filter_skips},
      {"filter.false", db.filter_false},
      {"memory.memtables", db.memory_bytes},
      {"memory.block_cache", db.block_cache_bytes},
      {"cache.blocks.hits", db.block_cache_hits},
      {"cache.blocks.misses", db.block_cache_misses},
      {"ssid.newest", db.newest_ssid},
      {"recovered.records", db.recovered_records},
      {"recovered.holes", db.recovered_holes},
      {"recovered.torn_bytes", db.recovered_torn_bytes},
  });
}

Status DbImpl::Verify() {
  QUIRE_ASSIGN_OR_RETURN(const Manifest stored, ReadManifest(fs_, directory_));
  const std::shared_ptr<const Version> version = versions_.Pin();
  const ValueCheck check = [this](const log::ValueRef& reference) {
    return opened_.values->Check(reference);
  };
  for (const std::shared_ptr<const Run>& run : version->runs) {
    QUIRE_RETURN_IF_ERROR(VerifyRun(*run, check));
  }
  QUIRE_RETURN_IF_ERROR(VerifyMemory(*version->active, directory_, check));
  for (const std::shared_ptr<PooledMemTable>& memory : version->immutables) {
    QUIRE_RETURN_IF_ERROR(VerifyMemory(*memory, directory_, check));
  }
  return Status();
}

}  // namespace quire::lsm
