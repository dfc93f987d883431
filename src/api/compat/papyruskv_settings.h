/// The environment variables of PapyrusKV, and the options of Quire that follow from them, from the
/// flags of an open and from its option struct.
///
/// Layer      api
/// Source     PapyrusKV, SC17, artifact description; docs/papyruskv.md
/// Threads    plain values; the environment is read by ReadSettings alone
#pragma once

#include <cstdint>
#include <optional>

#include "papyrus/kv.h"
#include "quire/database.h"

namespace quire::compat {

/// One variable each. Empty: it is not set, and Quire's own default is as good.
struct Settings {
  std::optional<int64_t> group_size;  ///< -1: every rank its own
  Consistency consistency = Consistency::kRelaxed;
  std::optional<SearchMode> search;
  uint64_t local_cache_bytes = 0;
  uint64_t remote_cache_bytes = 0;
  bool bloom = true;
  std::optional<uint64_t> memtable_bytes;
  std::optional<uint64_t> batch_bytes;
  bool redistribute = false;
  bool destroy_repository = true;
};

/// Errors  kInvalidArgument  A variable is no number, or not one of those it may be: named.
Result<Settings> ReadSettings();

/// Errors  kInvalidArgument  Flags that contradict each other, or that there are none of.
Result<DatabaseOptions> OptionsOf(const Settings& settings, int flags,
                                  const papyruskv_option_t* option);

/// DatabaseOptions::memory_percent_max of a database where so many are open already.
int MemoryPercent(const Settings& settings, int open_count);

/// The protection or consistency with PapyrusKV's number.
Result<Protection> ProtectionOf(int number);
Result<Consistency> ConsistencyOf(int number);
/// The higher of the levels in `number`, which has one at least.
Result<Level> LevelOf(int number);

/// Returns `function` as a partitioner; empty if it is null.
Partitioner PartitionerOf(papyruskv_hash_fn_t function);

}  // namespace quire::compat
