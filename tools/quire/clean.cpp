// quire clean: removes what dead processes of this user left behind.
#include <iostream>

#include "base/text/printable.h"
#include "io/files/machine.h"
#include "kv/persistence/checkpoint_files.h"
#include "tools/quire/catalog.h"
#include "tools/quire/host_info.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

// A region loses its name once all ranks of its node have it. A region that has its name for longer
// waits for a slow rank, or was left behind. Its creator may live in a container whose processes
// this process does not see.
constexpr uint64_t kRegionAgeSecondsMin = 60;

constexpr char kSharedMemoryName[] = "shared memory";
constexpr char kLock[] = "lock";

struct Leftover {
  std::string kind;
  std::string path;
  std::string why;
  uint64_t bytes = 0;
  bool removed = false;
};

Result<uint64_t> BytesBelow(io::FileSystem& fs, const std::string& directory) {
  uint64_t bytes = 0;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(directory));
  for (const io::FileInfo& entry : entries) {
    if (!entry.is_directory) {
      bytes += entry.size;
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const uint64_t below, BytesBelow(fs, directory + "/" + entry.name));
    bytes += below;
  }
  return bytes;
}

void FindRegions(const std::string& directory, std::vector<Leftover>* found) {
  for (const SharedMemoryFile& region : FindSharedMemoryFiles(directory)) {
    if (region.creator_alive || region.age_seconds < kRegionAgeSecondsMin) continue;
    found->push_back({kSharedMemoryName, region.path,
                      "process " + std::to_string(region.creator) + " is gone", region.bytes});
  }
}

// Returns whether the directory contains only an unlocked LOCK, and nothing of a database.
Result<bool> IsBareLock(io::FileSystem& fs, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(directory));
  return entries.size() == 1 && !entries[0].is_directory && entries[0].name == "LOCK";
}

Status AddCheckpoints(io::FileSystem& fs, const std::string& home, std::vector<Leftover>* found) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<kv::CheckpointFound> all, kv::FindCheckpoints(fs, home));
  for (const kv::CheckpointFound& one : all) {
    const bool dropped = one.state == kv::CheckpointState::kDropped;
    if (!dropped && one.state != kv::CheckpointState::kFailed) continue;
    QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, BytesBelow(fs, one.directory));
    found->push_back({dropped ? "dropped checkpoint" : "interrupted checkpoint", one.directory,
                      dropped ? "its removal was cut short" : "nobody writes it", bytes});
  }
  return Status();
}

// Searches a repository, or a directory of checkpoints: one level down, and those of a single
// database.
Status FindBelow(io::FileSystem& fs, const std::string& directory, std::vector<Leftover>* found) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(directory));
  QUIRE_RETURN_IF_ERROR(AddCheckpoints(fs, directory, found));
  for (const io::FileInfo& entry : entries) {
    if (!entry.is_directory || entry.name.front() == '.') continue;
    const std::string path = directory + "/" + entry.name;
    QUIRE_RETURN_IF_ERROR(AddCheckpoints(fs, path, found));
    QUIRE_ASSIGN_OR_RETURN(const bool bare, IsBareLock(fs, path));
    QUIRE_ASSIGN_OR_RETURN(const std::string holder, fs.LockHolder(DatabaseLockPath(path)));
    if (!bare || !holder.empty()) continue;
    found->push_back(
        {kLock, path, "no program holds it, and the directory contains nothing else", 0});
  }
  return Status();
}

// Removes a leftover, under the lock of a program that would go on with it. Returns false if a
// program has used it since: a directory with only a lock became a database, which is closed by
// now.
Result<bool> RemoveLocked(io::FileSystem& fs, const Leftover& leftover) {
  QUIRE_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::FileLock> lock,
      fs.Lock(DatabaseLockPath(leftover.path), io::ProcessDescription() + ", quire clean"));
  if (leftover.kind == kLock) {
    QUIRE_ASSIGN_OR_RETURN(const bool bare, IsBareLock(fs, leftover.path));
    if (!bare) return false;
  }
  QUIRE_RETURN_IF_ERROR(fs.RemoveTree(leftover.path));
  return true;
}

Result<bool> Remove(io::FileSystem& fs, const Leftover& leftover) {
  if (leftover.kind != kSharedMemoryName) return RemoveLocked(fs, leftover);
  QUIRE_RETURN_IF_ERROR(fs.Unlink(leftover.path));
  return true;
}

// Removes all leftovers. Those that a program uses again are taken out of `found`. Returns the
// first failure; the others are removed all the same.
Status RemoveAll(io::FileSystem& fs, std::vector<Leftover>* found) {
  std::vector<Leftover> left;
  Status first;
  for (Leftover& leftover : *found) {
    const Result<bool> removed = Remove(fs, leftover);
    leftover.removed = removed.status().code() == Code::kNotFound || (removed.ok() && *removed);
    if (!removed.ok() && !leftover.removed && first.ok()) first = removed.status();
    if (leftover.removed || !removed.ok()) left.push_back(std::move(leftover));
  }
  found->swap(left);
  return first;
}

void Print(const std::vector<Leftover>& found, bool yes, const Status& removed, bool json) {
  Json list = Json::array();
  for (const Leftover& one : found) {
    if (!json) {
      const char* const stays = yes ? "not removed: " : "to be removed: ";
      std::cout << (one.removed ? "removed " : stays) << one.kind << " "
                << base::Legible(one.path) << " (" << one.why << ", " << ShowSize(one.bytes)
                << ")\n";
    }
    list.push_back({{"kind", one.kind},
                    {"path", one.path},
                    {"why", one.why},
                    {"bytes", one.bytes},
                    {"removed", one.removed}});
  }
  if (json) return PrintJson({{"done", yes && removed.ok()}, {"found", list}});
  if (found.empty()) std::cout << "nothing was left behind\n";
  if (!found.empty() && !yes) std::cout << "nothing was changed: --yes does it\n";
}

}  // namespace

int Clean(const CleanOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  std::vector<Leftover> found;
  FindRegions(options.shared_memory, &found);
  for (const std::string& path : options.paths) {
    const Status looked = FindBelow(fs, path, &found);
    if (!looked.ok()) return Fail(looked);
  }
  const Status removed = options.yes ? RemoveAll(fs, &found) : Status();
  Print(found, options.yes, removed, options.json);
  if (!removed.ok()) return Fail(removed);
  return found.empty() || options.yes ? kFine : kFoundWrong;
}

}  // namespace quire::tool
