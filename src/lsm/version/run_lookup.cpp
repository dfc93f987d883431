#include "lsm/version/run_lookup.h"

#include <algorithm>
#include <array>

namespace quire::lsm {
namespace {

// Tables whose filters are asked for ahead of the answers.
constexpr size_t kTablesAhead = 32;

RunLookup::State RunState(log::RecordType type) {
  if (type == log::RecordType::kDelete) return RunLookup::State::kDeleted;
  return type == log::RecordType::kValueRef ? RunLookup::State::kValueRef
                                            : RunLookup::State::kValue;
}

// A tombstone of a range in a run hides every older version, and so all that the runs behind it
// have.
Status LookupRun(const Run& run, const table::Table& table, Slice key, uint64_t hash, uint64_t lsn,
                 RunLookup* found) {
  const uint64_t hidden = run.has_range_tombstones() ? table.CoveringTombstone(key, lsn) : 0;
  if (!table.MayContain(hash)) {
    ++found->filter_skips;
  } else {
    table::TableLookup lookup;
    QUIRE_RETURN_IF_ERROR(table.Get(key, hash, lsn, &lookup));
    if (lookup.state == table::TableLookup::State::kFound && lookup.lsn > hidden) {
      found->state = RunState(lookup.type);
      found->value = lookup.value;
      found->block = lookup.block;
      return Status();
    }
    if (lookup.state == table::TableLookup::State::kAbsent) ++found->filter_false;
  }
  if (hidden != 0) found->state = RunLookup::State::kDeleted;
  return Status();
}

}  // namespace

Status LookupRuns(const std::vector<std::shared_ptr<const Run>>& runs, Slice key, uint64_t hash,
                  uint64_t lsn, RunLookup* found) {
  std::array<const table::Table*, kTablesAhead> tables;
  for (size_t i = 0; i < runs.size() && found->state == RunLookup::State::kAbsent; ++i) {
    if (i % kTablesAhead == 0) {
      const size_t end = std::min(runs.size(), i + kTablesAhead);
      for (size_t j = i; j < end; ++j) {
        tables[j % kTablesAhead] = runs[j]->Find(key);
        tables[j % kTablesAhead]->PrefetchFilter(hash);
      }
    }
    QUIRE_RETURN_IF_ERROR(LookupRun(*runs[i], *tables[i % kTablesAhead], key, hash, lsn, found));
  }
  return Status();
}

}  // namespace quire::lsm
