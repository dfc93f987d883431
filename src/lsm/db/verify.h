/// Verifies runs and MemTables: every checksum of their contents, and of the separated values to
/// which they refer.
///
/// Layer      lsm (internal)
/// Threads    pure functions
#pragma once

#include <functional>
#include <string>

#include "log/record.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/version.h"
#include "quire/status.h"

namespace quire::lsm {

/// A check whether the separated value at `reference` is sound.
using ValueCheck = std::function<Status(const log::ValueRef& reference)>;

/// Verifies the tables of `run` and the values to which they refer. Calls `verified` for each
/// undamaged table.
/// Errors  kCorruption (names file and offset), kIo; those of `check`.
Status VerifyRun(const Run& run, const ValueCheck& check,
                 const std::function<void(const table::TableInfo& table)>& verified = {});
/// Verifies the records of a MemTable of the database in `directory`, as a replay would, and the
/// values to which they refer. Errors as of VerifyRun.
Status VerifyMemory(PooledMemTable& memory, const std::string& directory, const ValueCheck& check);

}  // namespace quire::lsm
