// The counts and sizes of one rank, by the names of docs/statistics.md.
#include "kv/database/database_impl.h"
#include "runtime/memory_plan.h"

namespace quire::kv {
Statistics DatabaseImpl::GetStatistics() const {
  if (!admission_.process().MayCall()) return {};  // a log sink may run under a mutex
  Statistics all;
  if (!admission_.is_open()) return all;
  store_->engine().AddStatistics(&all);
  for (const auto& [counter, name] : kCounterNames) all[name] = counters_->Sum(counter);
  const comm::ExchangeStatistics messages = context_->exchange->Statistics();
  all["messages.requests_sent"] = messages.requests_sent;
  all["messages.requests_handled"] = messages.requests_handled;
  all["messages.frames_sent"] = messages.frames_sent;
  all["messages.bytes_sent"] = messages.bytes_sent;
  all["messages.bytes_received"] = messages.bytes_received;
  all["messages.send_stalls"] = messages.send_stalls;
  all["direct.neighbours"] = static_cast<uint64_t>(read_path_.neighbour_count());
  all["memory.limit"] = context_->budget->limit_bytes();
  const runtime::MemoryPlan plan = runtime::PlanFor(options_, context_->size());
  all["memory.planned"] = plan.total();
  all["memory.block_cache_max"] = plan.block_cache;
  all["memory.value_segments_max"] = plan.value_segments;
  all["memory.merging_max"] = plan.merging;
  all["memory.messages_max"] = context_->budget->messages_bytes();
  all["memory.local_cache"] = store_->cache().charged_bytes();
  all["memory.remote_cache"] = read_path_.remote_cache().charged_bytes();
  all["memory.messages"] = messages.buffered_bytes;
  if (dispatcher_ != nullptr) {
    all["memory.staging"] = dispatcher_->remote_memtable().staged_bytes();
    all["memory.staging_idle"] = dispatcher_->remote_memtable().idle_bytes();
  }
  return all;
}

}  // namespace quire::kv
