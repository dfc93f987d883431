/// Opens the tables that a manifest lists, for the owner (at their first use), its neighbours and
/// readers.
///
/// Layer      lsm (internal)
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "lsm/version/version.h"
#include "quire/options.h"
#include "quire/status.h"
#include "table/table.h"

namespace quire::lsm {

/// The place of tables, and how they are read.
struct TablePlace {
  io::FileSystem* fs = nullptr;
  std::string directory;
  const StorageOptions* options = nullptr;
  std::shared_ptr<table::BlockCache> cache;
  std::shared_ptr<ObsoleteFiles> obsolete_files;  ///< null: the opener removes no files
  /// Open tables on first use. Only for the owner, which alone removes files. Tables with range
  /// tombstones are always opened at once.
  bool open_lazily = false;
};

/// Open tables by SSID.
using KnownTables = std::map<uint64_t, std::shared_ptr<TableHandle>>;

KnownTables TablesOf(const std::vector<std::shared_ptr<const Run>>& runs);

/// Opens the table that a manifest lists as `info`.
/// Errors  kNotFound: the file does not exist. kCorruption: it is damaged, or another table.
Result<std::shared_ptr<table::Table>> OpenListed(const TablePlace& place,
                                                 const table::TableInfo& info);
Result<std::shared_ptr<TableHandle>> OpenTable(const TablePlace& place,
                                               const table::TableInfo& info);

/// Opens the runs of a manifest. A table in `known` is not opened again; each opened table is added
/// to `known`, so that a failed call can be repeated for the rest. Errors as of OpenTable.
Result<std::vector<std::shared_ptr<const Run>>> OpenRuns(
    const TablePlace& place, const std::vector<std::vector<table::TableInfo>>& runs,
    KnownTables* known);

}  // namespace quire::lsm
