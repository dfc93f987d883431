// quire doctor: checks whether this machine, and a place on it, are ready; each finding says what
// to do.
#include <chrono>
#include <functional>
#include <iostream>

#include "base/text/printable.h"
#include "io/files/file_system.h"
#include "io/files/file_system_type.h"
#include "io/files/machine.h"
#include "tools/quire/findings.h"
#include "tools/quire/host_info.h"
#include "tools/quire/output.h"

namespace quire::tool {
namespace {

constexpr char kSharedMemoryPath[] = "/dev/shm";
constexpr uint64_t kFreeBytesMin = 1ull << 30;
constexpr uint64_t kSharedBytesMin = 256ull << 20;
constexpr uint64_t kOpenFilesMin = 4096;
constexpr uint64_t kProcessesMin = 1024;
constexpr uint64_t kProbeBytes = 1 << 20;
constexpr double kSyncMsMax = 100;

void CheckMachine(Findings* findings) {
  const Status machine = io::CheckMachine();
  findings->Judge(machine.ok(), "processor", machine.ok() ? KernelName() : machine.message(),
                  "use another machine");
  findings->Fine("cores", std::to_string(io::CoreCount()));
  findings->Fine("memory", ShowSize(io::MemoryLimitBytes()));
}

void CheckLimit(Limit limit, const char* name, uint64_t least, const char* todo,
                Findings* findings) {
  const std::optional<uint64_t> value = LimitOf(limit);
  findings->Judge(!value || *value >= least, name, value ? std::to_string(*value) : "unlimited",
                  todo);
}

void CheckLimits(Findings* findings) {
  CheckLimit(Limit::kOpenFiles, "open files (ulimit -n)", kOpenFilesMin,
             "raise it to 4096 or more (ulimit -n 4096): tables take up to half of it", findings);
  CheckLimit(Limit::kProcesses, "processes (ulimit -u)", kProcessesMin,
             "raise it to 1024 or more: every rank has threads of its own", findings);
  const std::optional<uint64_t> locked = LimitOf(Limit::kLockedBytes);
  if (!locked) return findings->Fine("locked memory (ulimit -l)", "unlimited");
  findings->Note("locked memory (ulimit -l)", ShowSize(*locked),
                 "Quire locks none; an MPI over InfiniBand or Slingshot may want unlimited");
}

void CheckSharedMemory(io::FileSystem& fs, Findings* findings) {
  const Result<uint64_t> free = fs.FreeBytes(kSharedMemoryPath);
  if (!free.ok()) {
    return findings->Wrong("shared memory", free.status().message(),
                           "mount /dev/shm; without it ranks of a node use MPI only");
  }
  findings->Judge(*free >= kSharedBytesMin, "shared memory", ShowSize(*free) + " free in /dev/shm",
                  "give it 256 MiB or more (in a container: --shm-size=1g)");
  uint64_t left = 0;
  for (const SharedMemoryFile& region : FindSharedMemoryFiles(kSharedMemoryPath))
    left += region.creator_alive ? 0 : 1;
  if (left == 0) return;
  findings->Note("shared memory left behind", std::to_string(left) + " regions",
                 "quire clean --yes removes them");
}

// Tries out what a repository needs of its file system, in a directory of its own.
class Probe {
 public:
  Probe(io::FileSystem& fs, const std::string& path, Findings* findings)
      : fs_(fs),
        directory_(path + "/.quire-doctor-" + std::to_string(io::ProcessId())),
        findings_(findings) {}

  void Run() {
    const Status made = fs_.MakeDirectory(directory_);
    findings_->Judge(made.ok(), "writable", made.ok() ? directory_ : made.message(),
                     "choose a directory that is yours, on a device that can be written");
    if (!made.ok()) return;
    Try(
        "room set aside (fallocate)", [this] { return SetRoomAside(); },
        "use another file system: without it a full device is found out too late");
    Try(
        "mapped files", [this] { return MapAndSync(); }, "use another file system, or wal = off");
    Try(
        "locks", [this] { return LockTwice(); },
        "use another file system, or mount it with locks: two jobs could open one database");
    Try(
        "rename", [this] { return fs_.Rename(File("a"), File("b")); }, "use another file system");
    Try(
        "directory sync", [this] { return fs_.SyncDirectory(directory_); },
        "use another file system: a power loss may take new files");
    TrySync();
    TryLinks();
    Clear();
  }

 private:
  std::string File(const char* name) const { return directory_ + "/" + name; }

  void Try(const char* name, const std::function<Status()>& probe, const char* todo) {
    const Status status = probe();
    findings_->Judge(status.ok(), name, status.ok() ? "works" : status.message(), todo);
  }

  Status SetRoomAside() {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                           fs_.Open(File("a"), io::FileOpenMode::kReadWriteCreate));
    return file->Allocate(kProbeBytes);
  }
  Status MapAndSync() {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::MappedFile> map,
                           fs_.Map(File("a"), kProbeBytes, io::MapMode::kReadWrite));
    map->data()[0] = 'q';
    return map->Sync(0, 1);
  }
  Status LockTwice() {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::FileLock> lock,
                           fs_.Lock(File("LOCK"), "quire doctor"));
    if (fs_.Lock(File("LOCK"), "once more").status().code() == Code::kBusy) return Status();
    return Status(Code::kUnsupported, "two locks on one file are held at once");
  }

  void TrySync() {
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kSyncs = 5;
    for (int i = 0; i < kSyncs; ++i) {
      const Status status = io::ReplaceFile(fs_, File("c"), std::to_string(i));
      if (!status.ok()) return findings_->Wrong("sync", status.message(), "check the device");
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    const double ms = took.count() / kSyncs;
    const std::string what = std::to_string(ms).substr(0, 5) + " ms to replace a file durably";
    if (ms <= kSyncMsMax) return findings_->Fine("sync", what);
    findings_->Note("sync", what, "wal = sync will be slow here; wal = on does not wait for it");
  }

  void TryLinks() {
    const Status linked = fs_.Link(File("c"), File("d"));
    if (linked.ok()) {
      findings_->Fine("hard links", "work");
    } else {
      findings_->Note("hard links", linked.message(),
                      "checkpoints here are copies, each of full size");
    }
    if (MakesNamelessFiles(directory_)) {
      findings_->Fine("nameless files (O_TMPFILE)", "work");
    } else {
      findings_->Note("nameless files (O_TMPFILE)", "do not work", "nothing: none are needed");
    }
  }

  void Clear() {
    for (const char* name : {"a", "b", "c", "d", "LOCK"}) {
      const Status removed = fs_.Unlink(File(name));
      if (removed.ok() || removed.code() == Code::kNotFound) continue;
      findings_->Wrong("removing", removed.message(), "remove " + directory_);
    }
    const Status removed = fs_.RemoveDirectory(directory_);
    if (!removed.ok()) {
      findings_->Wrong("removing", removed.message(), "remove " + directory_);
    }
  }

  io::FileSystem& fs_;
  const std::string directory_;
  Findings* const findings_;
};

void CheckPlace(io::FileSystem& fs, const std::string& path, Findings* findings) {
  const Result<uint64_t> free = fs.FreeBytes(path);
  if (!free.ok()) {
    return findings->Wrong("directory", free.status().message(), "make it, or name another");
  }
  const std::string type = io::FileSystemType(path);
  if (io::IsSharedType(type)) {
    findings->Note("file system", type + ", which machines share",
                   "good for checkpoints; a repository is faster on a node's own device");
  } else if (type == "zfs") {
    findings->Note("file system", type + ", which writes each page to a new place",
                   "keep room free: if it runs full, a program can end with SIGBUS");
  } else if (type == "btrfs") {
    findings->Fine("file system", type + "; logs are made without copy-on-write");
  } else {
    findings->Fine("file system", type);
  }
  findings->Judge(*free >= kFreeBytesMin, "free space",
                  ShowSize(*free) + " of " + ShowSize(FileSystemBytes(path)),
                  "make room, or use another device");
  Probe(fs, path, findings).Run();
}

}  // namespace

int Doctor(const DoctorOptions& options) {
  io::FileSystem& fs = io::PosixFileSystem();
  Findings findings;
  CheckMachine(&findings);
  CheckMpi(&findings);
  CheckLimits(&findings);
  CheckSharedMemory(fs, &findings);
  CheckPlace(fs, options.path, &findings);
  Json list = Json::array();
  bool ready = true;
  for (const Check& check : findings.all()) {
    ready = ready && check.level != Check::Level::kWrong;
    const char* level = kLevelNames[static_cast<int>(check.level)];
    list.push_back(
        {{"check", check.name}, {"level", level}, {"what", check.what}, {"todo", check.todo}});
    if (options.json) continue;
    std::cout << level << "\t" << check.name << ": " << base::Legible(check.what) << "\n";
    if (!check.todo.empty() && check.level != Check::Level::kFine) {
      std::cout << "\t  " << base::Legible(check.todo) << "\n";
    }
  }
  if (options.json) {
    PrintJson({{"ready", ready}, {"checks", list}});
  } else {
    std::cout << (ready ? "ready\n" : "not ready\n");
  }
  return ready ? kFine : kFoundWrong;
}

}  // namespace quire::tool
