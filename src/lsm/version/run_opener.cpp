#include "lsm/version/run_opener.h"

#include <utility>

#include "lsm/version/lazy_table.h"
#include "lsm/version/manifest.h"

namespace quire::lsm {
namespace {

bool SameTable(const table::TableInfo& a, const table::TableInfo& b) {
  return a.file_id == b.file_id && a.file_bytes == b.file_bytes &&
         a.range_tombstone_count == b.range_tombstone_count;
}

std::string PathOf(const TablePlace& place, const table::TableInfo& info) {
  return place.directory + "/" + TableName(info.ssid);
}

std::shared_ptr<const LazyTable::Source> LazySource(const TablePlace& place) {
  if (!place.open_lazily) return nullptr;
  auto source = std::make_shared<LazyTable::Source>();
  source->options = *place.options;
  source->place = place;
  source->place.options = &source->options;
  return source;
}

Result<std::shared_ptr<TableHandle>> LazyHandle(std::shared_ptr<const LazyTable::Source> source,
                                                const table::TableInfo& info) {
  const TablePlace& place = source->place;
  return std::make_shared<TableHandle>(std::make_shared<LazyTable>(info, std::move(source)),
                                       PathOf(place, info), place.obsolete_files);
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

Result<std::shared_ptr<table::Table>> OpenListed(const TablePlace& place,
                                                 const table::TableInfo& info) {
  const std::string path = PathOf(place, info);
  // An owner removes a table's file only after the last reader of the table.
  const auto mode =
      place.open_lazily ? io::FileOpenMode::kReadNamed : io::FileOpenMode::kReadImmutable;
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file, place.fs->Open(path, mode));
  QUIRE_ASSIGN_OR_RETURN(
      std::shared_ptr<table::Table> table,
      table::Table::OpenIn(std::move(file), info.ssid, *place.options, place.cache));
  if (!SameTable(table->info(), info)) {
    return Status(Code::kCorruption, path + " is not the table that the manifest lists (it has " +
                                         std::to_string(table->info().file_bytes) + " bytes, not " +
                                         std::to_string(info.file_bytes) +
                                         ", or another identity); restore the right one");
  }
  return table;
}

Result<std::shared_ptr<TableHandle>> OpenTable(const TablePlace& place,
                                               const table::TableInfo& info) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<table::Table> table, OpenListed(place, info));
  return std::make_shared<TableHandle>(std::move(table), PathOf(place, info), place.obsolete_files);
}

Result<std::vector<std::shared_ptr<const Run>>> OpenRuns(
    const TablePlace& place, const std::vector<std::vector<table::TableInfo>>& runs,
    KnownTables* known) {
  const std::shared_ptr<const LazyTable::Source> late = LazySource(place);
  std::vector<std::shared_ptr<const Run>> opened;
  for (const std::vector<table::TableInfo>& tables : runs) {
    std::vector<std::shared_ptr<TableHandle>> handles;
    for (const table::TableInfo& info : tables) {
      std::shared_ptr<TableHandle>& handle = (*known)[info.ssid];
      if (handle == nullptr || !SameTable(handle->info(), info)) {
        QUIRE_ASSIGN_OR_RETURN(handle, late == nullptr || info.range_tombstone_count != 0
                                           ? OpenTable(place, info)
                                           : LazyHandle(late, info));
      }
      handles.push_back(handle);
    }
    opened.push_back(std::make_shared<const Run>(std::move(handles)));
  }
  return opened;
}

}  // namespace quire::lsm
