#include "lsm/version/run_lookup.h"

#include <algorithm>
#include <array>

namespace quire::lsm {
namespace {

// Tables whose filters are asked for ahead of the answers.
constexpr size_t kTablesAhead = 32;

struct Wanted {
  Slice key;
  uint64_t hash;
  uint64_t lsn;
};

// A tombstone of a range in a run hides every older version, and so all that the runs behind it
// have.
Status LookupRun(const Run& run, const table::Table& table, const Wanted& wanted,
                 table::LookupResult* found, FilterCounts* counts) {
  const uint64_t hidden =
      run.has_range_tombstones() ? table.CoveringTombstone(wanted.key, wanted.lsn) : 0;
  if (!table.MayContain(wanted.hash)) {
    ++counts->skips;
  } else {
    QUIRE_RETURN_IF_ERROR(table.Get(wanted.key, wanted.hash, wanted.lsn, found));
    if (found->state == table::KeyState::kAbsent) {
      ++counts->misses;
    } else if (found->lsn > hidden) {
      return Status();
    }
  }
  if (hidden != 0) *found = {table::KeyState::kDeleted, {}, hidden, nullptr};
  return Status();
}

}  // namespace

Status LookupRuns(const std::vector<std::shared_ptr<const Run>>& runs, Slice key, uint64_t hash,
                  uint64_t lsn, table::LookupResult* found, FilterCounts* counts) {
  std::array<const table::Table*, kTablesAhead> tables;
  for (size_t i = 0; i < runs.size() && found->state == table::KeyState::kAbsent; ++i) {
    if (i % kTablesAhead == 0) {
      const size_t end = std::min(runs.size(), i + kTablesAhead);
      for (size_t j = i; j < end; ++j) {
        tables[j % kTablesAhead] = runs[j]->Find(key);
        tables[j % kTablesAhead]->PrefetchFilter(hash);
      }
    }
    QUIRE_RETURN_IF_ERROR(
        LookupRun(*runs[i], *tables[i % kTablesAhead], {key, hash, lsn}, found, counts));
  }
  return Status();
}

}  // namespace quire::lsm
