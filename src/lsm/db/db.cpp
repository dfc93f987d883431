#include "lsm/db/db.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/core/log_sink.h"
#include "io/files/machine.h"
#include "log/record.h"
#include "lsm/db/db_impl.h"
#include "lsm/version/manifest.h"
#include "lsm/version/recovery.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kMemTableBytesMin = 64 << 10;
constexpr uint64_t kMemTableBytesMax = 16ull << 30;
constexpr uint64_t kMemTableBytesStep = 4 << 10;
constexpr uint64_t kTableBytesLeast = 64 << 10;
constexpr int kQueueLengthMax = 64;
// Files: some ms, also of a parallel file system.
constexpr int kRemovedAtOnce = 8;

Status Refuse(const std::string& option, const std::string& range) {
  return Status(Code::kInvalidArgument, option + " must be in " + range);
}

// Checks what the storage itself relies on; the option table states every range for users.
Status CheckOptions(const StorageOptions& options) {
  if (options.memtable_bytes < kMemTableBytesMin || options.memtable_bytes > kMemTableBytesMax) {
    return Refuse("memtable_bytes", "64 KiB to 16 GiB");
  }
  if (options.flushing_queue_length < 1 || options.flushing_queue_length > kQueueLengthMax) {
    return Refuse("flushing_queue_length", "1 to 64");
  }
  if (options.table_bytes_max < kTableBytesLeast) {
    return Refuse("table_bytes_max", "64 KiB to 64 GiB");
  }
  if (options.compaction_trigger < 2) return Refuse("compaction_trigger", "2 to 1000");
  if (options.dead_percent_max < 1) return Refuse("dead_percent_max", "10 to 1000");
  return Status();
}

// A MemTable is of whole pages, and no larger than its caller planned.
StorageOptions InWholePages(StorageOptions options) {
  options.memtable_bytes -= options.memtable_bytes % kMemTableBytesStep;
  return options;
}

Status UnlinkIfThere(io::FileSystem& fs, const std::string& path) {
  const Status status = fs.Unlink(path);
  return status.code() == Code::kNotFound ? Status() : status;
}

// The last one is to go first.
std::vector<std::string> FilesToRemove(const DirectoryContents& contents,
                                       const std::string& directory) {
  std::vector<std::string> files;
  for (const uint64_t slot : contents.logs) {
    files.push_back(directory + "/" + LogSegmentName(static_cast<int>(slot)));
  }
  for (const StoredSegment& segment : contents.value_segments) {
    files.push_back(directory + "/" + ValueSegmentName(segment.id));
  }
  for (const uint64_t ssid : contents.tables) files.push_back(directory + "/" + TableName(ssid));
  files.insert(files.end(), contents.leftovers.begin(), contents.leftovers.end());
  // Without its manifest the rest is no database: an interrupted removal is reported as damage.
  files.push_back(directory + "/" + ManifestName());
  return files;
}

// Files of other programs (.nfs* of a file that is still open elsewhere, core) must not be removed,
// and must not keep the name from being used again.
Status RemoveOrSetAside(io::FileSystem& fs, const std::string& directory) {
  const Status removed = fs.RemoveDirectory(directory);
  if (removed.ok()) return removed;
  const Result<std::vector<io::FileInfo>> rest = fs.List(directory);
  const auto is_lock = [&](const io::FileInfo& file) {
    return directory + "/" + file.name == LockPath(directory);  // a process is opening it
  };
  if (!rest.ok() || rest->empty() || std::any_of(rest->begin(), rest->end(), is_lock)) {
    return removed;
  }
  const std::string left = directory + ".left-" + std::to_string(io::RandomU64());
  QUIRE_RETURN_IF_ERROR(fs.Rename(directory, left));
  if (base::LogEnabled()) {
    base::Log(LogLevel::kWarning, "files that are not Quire's (" + rest->front().name +
                                      ") stay of a database that was removed: look at " + left +
                                      ", and remove it");
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<Db>> Db::Open(const engine::EngineEnvironment& environment,
                                     const std::string& directory, const StorageOptions& options,
                                     engine::OpenFlags flags) {
  QUIRE_RETURN_IF_ERROR(CheckOptions(options));
  io::FileSystem& fs = *environment.fs;
  if (flags == engine::OpenFlags::kMustExist) {
    QUIRE_ASSIGN_OR_RETURN(const bool exists, fs.Exists(directory + "/" + ManifestName()));
    if (!exists) return Status(Code::kNotFound, "there is no database in " + directory);
  }
  QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(directory));
  const std::string holder =
      environment.holder.empty() ? io::ProcessDescription() : environment.holder;
  Result<std::unique_ptr<io::FileLock>> lock = fs.Lock(LockPath(directory), holder);
  if (!lock.ok()) return lock.status().WithContext("open the database in " + directory);
  auto db = std::make_unique<DbImpl>(environment, directory, InWholePages(options));
  QUIRE_RETURN_IF_ERROR(db->Start(std::move(*lock), flags));
  return std::unique_ptr<Db>(std::move(db));
}

DbRemoval::DbRemoval(io::FileSystem& fs, std::string directory, std::unique_ptr<io::FileLock> lock)
    : fs_(fs), directory_(std::move(directory)), lock_(std::move(lock)) {}

Result<bool> DbRemoval::Advance() {
  if (!begun_) {
    QUIRE_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(directory_));
    if (!exists) return true;
    QUIRE_RETURN_IF_ERROR(Begin());
  }
  for (int i = 0; i < kRemovedAtOnce && !files_.empty(); ++i) {
    QUIRE_RETURN_IF_ERROR(UnlinkIfThere(fs_, files_.back()));
    files_.pop_back();
  }
  if (!files_.empty()) return false;
  QUIRE_RETURN_IF_ERROR(UnlinkIfThere(fs_, LockPath(directory_)));
  QUIRE_RETURN_IF_ERROR(RemoveOrSetAside(fs_, directory_));
  return true;
}

Status DbRemoval::Begin() {
  if (lock_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(lock_, fs_.Lock(LockPath(directory_), io::ProcessDescription()));
  }
  QUIRE_ASSIGN_OR_RETURN(const DirectoryContents contents, ReadDirectory(fs_, directory_));
  files_ = FilesToRemove(contents, directory_);
  begun_ = true;
  return Status();
}

Status DestroyDb(io::FileSystem& fs, const std::string& directory) {
  return DbRemoval(fs, directory).Run();
}

}  // namespace quire::lsm
