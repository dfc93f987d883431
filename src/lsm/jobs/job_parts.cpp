#include "lsm/jobs/job_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"

namespace quire::lsm {
namespace {

// Opens the new tables; those that are kept stay beside them.
Status BuildOutput(const TablePlace& place, const std::vector<table::TableInfo>& tables,
                   RunEdit* edit) {
  std::vector<std::shared_ptr<TableHandle>> handles = edit->kept;
  for (const table::TableInfo& info : tables) {
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<TableHandle> handle, OpenTable(place, info));
    handles.push_back(std::move(handle));
  }
  std::sort(handles.begin(), handles.end(), [](const auto& a, const auto& b) {
    return a->info().smallest_key < b->info().smallest_key;
  });
  edit->output = handles.empty() ? nullptr : std::make_shared<const Run>(std::move(handles));
  return Status();
}

}  // namespace

RunWriter NewRunWriter(const JobParts& parts, SegmentTracker::Protection protection) {
  return RunWriter(
      *parts.tables.fs, parts.tables.directory, *parts.tables.options, parts.check_held,
      [versions = parts.versions] { return versions->TakeSsid(); }, std::move(protection));
}

Result<uint64_t> PublishRun(const JobParts& parts, RunWriter& writer, RunEdit* edit) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<table::TableInfo> tables, writer.Finish());
  const Status status = base::OrOutOfMemory([&]() -> Status {
    if (!tables.empty()) {
      QUIRE_RETURN_IF_ERROR(parts.tables.fs->SyncDirectory(parts.tables.directory));
    }
    QUIRE_RETURN_IF_ERROR(BuildOutput(parts.tables, tables, edit));
    return parts.versions->Publish(*edit);
  });
  if (!status.ok() && !parts.versions->in_doubt()) writer.Remove();
  QUIRE_RETURN_IF_ERROR(status);
  uint64_t bytes = 0;
  for (const table::TableInfo& table : tables) bytes += table.file_bytes;
  return bytes;
}

}  // namespace quire::lsm
