// The counts and sizes of one rank, by the names of docs/statistics.md.
#include "kv/database/database_impl.h"
#include "runtime/memory_plan.h"

namespace quire::kv {
namespace {

void AddStorage(const lsm::DbStatistics& db, Statistics* to) {
  *to = {
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
  };
}

}  // namespace

Statistics DatabaseImpl::GetStatistics() const {
  if (!process_.MayCall()) return {};  // a log sink may run under a mutex
  Statistics all;
  if ((allowed_.load() & kOpen) == 0) return all;
  AddStorage(store_->db().Statistics(), &all);
  for (const auto& [counter, name] : kCounterNames) all[name] = counters_.Sum(counter);
  const comm::ExchangeStatistics messages = context_->exchange->Statistics();
  all["messages.requests_sent"] = messages.requests_sent;
  all["messages.requests_handled"] = messages.requests_handled;
  all["messages.frames_sent"] = messages.frames_sent;
  all["messages.bytes_sent"] = messages.bytes_sent;
  all["messages.bytes_received"] = messages.bytes_received;
  all["messages.send_stalls"] = messages.send_stalls;
  all["direct.neighbours"] =
      direct_ == nullptr ? 0 : static_cast<uint64_t>(direct_->attached_count());
  all["memory.limit"] = context_->budget->limit_bytes();
  const runtime::MemoryPlan plan = runtime::PlanFor(options_, size_);
  all["memory.planned"] = plan.total();
  all["memory.block_cache_max"] = plan.block_cache;
  all["memory.value_segments_max"] = plan.value_segments;
  all["memory.merging_max"] = plan.merging;
  all["memory.messages_max"] = context_->budget->messages_bytes();
  all["memory.local_cache"] = store_->cache().charged_bytes();
  all["memory.remote_cache"] = remote_cache_->charged_bytes();
  all["memory.messages"] = messages.buffered_bytes;
  if (dispatcher_ != nullptr) {
    all["memory.staging"] = dispatcher_->remote_memtable().staged_bytes();
    all["memory.staging_idle"] = dispatcher_->remote_memtable().idle_bytes();
  }
  return all;
}

}  // namespace quire::kv
