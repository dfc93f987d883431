#include "lsm/run_opener.h"

#include <utility>

#include "lsm/manifest.h"

namespace quire::lsm {
namespace {

bool SameTable(const table::TableInfo& a, const table::TableInfo& b) {
  return a.file_id == b.file_id && a.file_bytes == b.file_bytes;
}

}  // namespace

KnownTables TablesOf(const std::vector<std::shared_ptr<const Run>>& runs) {
  KnownTables tables;
  for (const std::shared_ptr<const Run>& run : runs) {
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      tables[table->info().ssid] = table;
    }
  }
  return tables;
}

Result<std::shared_ptr<TableHandle>> OpenTable(const TablePlace& place,
                                               const table::TableInfo& info) {
  const std::string path = place.directory + "/" + TableName(info.ssid);
  QUIRE_ASSIGN_OR_RETURN(
      std::shared_ptr<table::Table> table,
      table::Table::Open(*place.fs, path, info.ssid, *place.options, place.cache));
  if (!SameTable(table->info(), info)) {
    return Status(Code::kCorruption, path + " is not the table that the manifest lists (it has " +
                                         std::to_string(table->info().file_bytes) + " bytes, not " +
                                         std::to_string(info.file_bytes) +
                                         ", or another identity); restore the right one");
  }
  return std::make_shared<TableHandle>(std::move(table), path, place.trash);
}

Result<std::vector<std::shared_ptr<const Run>>> OpenRuns(
    const TablePlace& place, const std::vector<std::vector<table::TableInfo>>& runs,
    KnownTables* known) {
  std::vector<std::shared_ptr<const Run>> opened;
  for (const std::vector<table::TableInfo>& tables : runs) {
    std::vector<std::shared_ptr<TableHandle>> handles;
    for (const table::TableInfo& info : tables) {
      std::shared_ptr<TableHandle>& handle = (*known)[info.ssid];
      if (handle == nullptr || !SameTable(handle->info(), info)) {
        QUIRE_ASSIGN_OR_RETURN(handle, OpenTable(place, info));
      }
      handles.push_back(handle);
    }
    opened.push_back(std::make_shared<const Run>(std::move(handles)));
  }
  return opened;
}

}  // namespace quire::lsm
