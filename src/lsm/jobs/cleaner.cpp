#include "lsm/jobs/cleaner.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/epoch.h"
#include "base/threads/sync_point.h"

namespace quire::lsm {

void Cleaner::CleanUp() noexcept {
  base::SyncPoint("lsm.cleanup.before");
  base::EpochCollect();
  health_.LogFailure(base::OrOutOfMemory([&] { return RemoveUnreachable(); }));
}

Status Cleaner::RemoveUnreachable() {
  ObsoleteFiles& obsolete = *parts_.tables.obsolete_files;
  const std::vector<std::string> tables = obsolete.TakeTables();
  const std::vector<uint64_t> segments = obsolete.TakeSegments();
  if (tables.empty() && segments.empty() && !pool_->HasStray()) return Status();
  const Status held = parts_.check_held();
  if (!held.ok()) {
    if (IsAnothers(held)) return held;
    // There is no descriptor or memory to look with: the next time.
    for (const std::string& path : tables) obsolete.AddTable(path);
    for (const uint64_t id : segments) obsolete.AddSegment(id);
    return held;
  }
  for (const std::string& path : tables) health_.LogFailure(parts_.tables.fs->Unlink(path));
  for (const uint64_t id : segments) health_.LogFailure(parts_.values->Remove(id));
  return pool_->RemoveStray();
}

}  // namespace quire::lsm
