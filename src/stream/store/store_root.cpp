#include "stream/store/store_root.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/core/out_of_memory.h"
#include "io/files/machine.h"

namespace quire::stream {
namespace {

constexpr uint64_t kTimeoutNs = 10'000'000'000;
constexpr uint64_t kRootPauseNs = 1'000'000;
constexpr char kText[] = "quire stream store, version 1\n";

}  // namespace

// A file that cannot be removed stays: the call that failed reports why.
StoreRoot::~StoreRoot() {
  static_cast<void>(base::OrOutOfMemory([this] { return Remove(); }));
}

Status StoreRoot::Make() {
  QUIRE_ASSIGN_OR_RETURN(const bool lock_there, fs_.Exists(lock_path()));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock, Lock());
  lock_made_ = !lock_there;
  QUIRE_ASSIGN_OR_RETURN(const bool there, fs_.Exists(path()));
  if (there) return Status();
  made_ = true;
  return io::ReplaceFile(fs_, path(), kText);
}

void StoreRoot::Keep() {
  made_ = false;
  lock_made_ = false;
}

Result<std::unique_ptr<io::FileLock>> StoreRoot::Lock() {
  const uint64_t deadline = io::RealClock().NowNs() + kTimeoutNs;
  while (true) {
    auto lock = fs_.Lock(lock_path(), io::ProcessDescription());
    const bool wait = lock.status().code() == Code::kBusy && io::RealClock().NowNs() < deadline;
    if (!wait) return lock;
    io::RealClock().SleepNs(kRootPauseNs);
  }
}

Status StoreRoot::Remove() {
  if (!made_ && !lock_made_) return Status();
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock, Lock());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs_.List(directory_));
  const bool alone = std::all_of(files.begin(), files.end(), [](const io::FileInfo& file) {
    return file.name == "ROOT" || file.name == "ROOT.lock";
  });
  Status removed = made_ && alone ? fs_.Unlink(path()) : Status();
  if (removed.code() == Code::kNotFound) removed = Status();  // there was no room for it
  QUIRE_RETURN_IF_ERROR(removed);
  return lock_made_ ? fs_.Unlink(lock_path()) : Status();
}

}  // namespace quire::stream
