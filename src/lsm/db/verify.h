/// Whether runs and MemTables are sound: every checksum of what they hold, and of the separated
/// values that they refer to.
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

/// Whether the separated value at `reference` is sound.
using ValueCheck = std::function<Status(const log::ValueRef& reference)>;

/// The tables of `run`, and the values that they refer to. `verified` is called for each undamaged
/// table.
/// Errors  kCorruption (names file and offset), kIo; what `check` says.
Status VerifyRun(const Run& run, const ValueCheck& check,
                 const std::function<void(const table::TableInfo& table)>& verified = {});
/// The records of a MemTable of the database in `directory`, as a replay would verify them, and the
/// values that they refer to. Errors as of VerifyRun.
Status VerifyMemory(PooledMemTable& memory, const std::string& directory, const ValueCheck& check);

}  // namespace quire::lsm
