/// The environment variables of PapyrusKV, and the options of Quire that follow from them, from the
/// flags of an open and from its option struct.
///
/// Layer      api
/// Source     PapyrusKV, SC17, artifact description; docs/papyruskv.md
/// Threads    plain values; only ReadSettings reads the environment
#pragma once

#include <cstdint>
#include <optional>

#include "papyrus/kv.h"
#include "quire/database.h"

namespace quire::compat {

/// The settings, one field for each variable. Empty: the variable is not set, and Quire's default
/// is used.
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

/// Errors  kInvalidArgument  A variable is no number, or out of range; the text names it.
Result<Settings> ReadSettings();

/// Errors  kInvalidArgument  The flags contradict each other, or do not exist.
Result<DatabaseOptions> OptionsOf(const Settings& settings, int flags,
                                  const papyruskv_option_t* option);

/// Returns DatabaseOptions::memory_percent_max for a database if `open_count` are open already.
int MemoryPercent(const Settings& settings, int open_count);

/// Returns the protection or consistency with PapyrusKV's number.
Result<Protection> ProtectionOf(int number);
Result<Consistency> ConsistencyOf(int number);
/// Returns the higher of the levels in `number`, which must contain at least one.
Result<Level> LevelOf(int number);

/// Returns `function` as a partitioner; empty if it is null.
Partitioner PartitionerOf(papyruskv_hash_fn_t function);

}  // namespace quire::compat
