#include "tools/quire/checkpoints.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "io/files/machine.h"
#include "io/paths/made_paths.h"
#include "kv/persistence/file_copier.h"
#include "tools/quire/catalog.h"

namespace quire::tool {
namespace {

constexpr uint64_t kTextBytesMax = 1ull << 30;

std::string PartIn(const std::string& directory, size_t rank) {
  return directory + "/" + kv::kPartDirectoryPrefix + std::to_string(rank);
}

Status AddHome(io::FileSystem& fs, const std::string& home, std::vector<CheckpointPlace>* places) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<kv::CheckpointFound> all, kv::FindCheckpoints(fs, home));
  // If directories have numbers for names, but none has a commit record, this is no directory of
  // checkpoints.
  const bool is_home = std::any_of(all.begin(), all.end(), [](const kv::CheckpointFound& one) {
    return one.state != kv::CheckpointState::kUnrecorded;
  });
  if (!is_home) return Status();
  for (const kv::CheckpointFound& found : all) places->push_back({LastPart(home), home, found});
  return Status();
}

Status VerifyFile(io::FileSystem& fs, const std::string& path, const kv::StoredFile& wanted,
                  const std::function<void(uint64_t bytes)>& advance) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<io::File> file,
                         fs.Open(path, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size != wanted.bytes) {
    return Status(Code::kCorruption, path + " has " + std::to_string(size) + " bytes, not " +
                                         std::to_string(wanted.bytes) + "; use another checkpoint");
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t sum, kv::SumOfFile(*file, size, advance));
  if (sum == wanted.sum) return Status();
  return Status(Code::kCorruption,
                path + " does not have the sum that was noted; use another checkpoint");
}

// One running export.
class Exporter {
 public:
  Exporter(io::FileSystem& fs, const CheckpointPlace& place, const std::string& target,
           const std::function<void(uint64_t, uint64_t)>& progress)
      : fs_(fs),
        place_(place),
        target_(target),
        home_(kv::CheckpointHome(target, place.database)),
        partial_(kv::PartialDirectory(home_, place.found.number)),
        directory_(kv::CheckpointDirectory(home_, place.found.number)),
        progress_(progress) {}

  Result<std::string> Run() {
    const Status exported = Export();
    // A failed export leaves nothing. The directory of all files goes first, while it is locked.
    if (!exported.ok() && lock_ != nullptr) static_cast<void>(fs_.RemoveTree(partial_));
    QUIRE_RETURN_IF_ERROR(exported);
    made_.Keep();
    return directory_;
  }

 private:
  Status Export() {
    QUIRE_ASSIGN_OR_RETURN(const kv::CommitRecord record,
                           kv::ReadCommitRecord(fs_, place_.found.directory));
    for (const kv::CommitRecord::Part& part : record.parts) total_ += part.bytes;
    QUIRE_RETURN_IF_ERROR(Prepare());
    for (size_t rank = 0; rank < record.parts.size(); ++rank) {
      QUIRE_RETURN_IF_ERROR(CopyPart(rank, record.parts[rank]));
    }
    return Publish();
  }

  Status Prepare() {
    QUIRE_RETURN_IF_ERROR(made_.MakeDirectory(fs_, target_));
    QUIRE_RETURN_IF_ERROR(made_.MakeDirectory(fs_, home_));
    QUIRE_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(directory_));
    QUIRE_ASSIGN_OR_RETURN(const bool begun, fs_.Exists(partial_));
    if (exists || begun) {
      return Status(Code::kInvalidArgument, (exists ? directory_ : partial_) +
                                                " is there already; choose another directory, or "
                                                "remove it (quire checkpoint drop, quire clean)");
    }
    QUIRE_RETURN_IF_ERROR(made_.MakeDirectory(fs_, partial_));
    QUIRE_ASSIGN_OR_RETURN(lock_, made_.Lock(fs_, DatabaseLockPath(partial_),
                                             io::ProcessDescription() + ", quire export"));
    return Status();
  }

  Status CopyPart(size_t rank, const kv::CommitRecord::Part& part) {
    const std::string from = PartIn(place_.found.directory, rank);
    const std::string to = PartIn(partial_, rank);
    QUIRE_ASSIGN_OR_RETURN(const kv::FileList list, kv::ReadFileList(fs_, from, part));
    QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(fs_, to));
    std::vector<kv::FileCopier::Item> items;
    for (const auto& [name, file] : list.files) items.push_back({name, "", file, true});
    kv::FileCopier copier(fs_, from, to, std::move(items), &done_);
    for (bool all = false; !all;) {
      QUIRE_ASSIGN_OR_RETURN(all, copier.Advance());
      progress_(done_.load(), total_);
    }
    return CopyText(from, to, kv::kFilesName);  // now all names in it are durable
  }

  Status CopyText(const std::string& from, const std::string& to, const std::string& name) {
    QUIRE_ASSIGN_OR_RETURN(const std::string text,
                           io::ReadFile(fs_, from + "/" + name, kTextBytesMax));
    return io::ReplaceFile(fs_, to + "/" + name, text);
  }

  // The export exists from the rename on. Until then it is locked, because other programs remove
  // what no process holds.
  Status Publish() {
    QUIRE_RETURN_IF_ERROR(CopyText(place_.found.directory, partial_, kv::kCommitName));
    QUIRE_RETURN_IF_ERROR(fs_.Rename(partial_, directory_));
    const Status durable = fs_.SyncDirectory(home_);
    if (!durable.ok()) {
      static_cast<void>(fs_.Rename(directory_, partial_));  // if this fails, too, it is complete
      return durable;
    }
    static_cast<void>(fs_.Unlink(DatabaseLockPath(directory_)));  // a file that stays has no effect
    return Status();
  }

  io::FileSystem& fs_;
  const CheckpointPlace& place_;
  const std::string target_;
  const std::string home_;
  const std::string partial_;
  const std::string directory_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  std::unique_ptr<io::FileLock> lock_;
  io::MadePaths made_;  // under lock_
  std::atomic<uint64_t> done_{0};
  uint64_t total_ = 0;
};

}  // namespace

Result<std::vector<CheckpointPlace>> FindCheckpointPlaces(io::FileSystem& fs,
                                                          const std::string& named) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(named));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, fs.List(path));
  std::vector<CheckpointPlace> places;
  QUIRE_RETURN_IF_ERROR(AddHome(fs, path, &places));
  if (!places.empty()) return places;
  Result<CheckpointPlace> itself = FindCheckpointPlace(fs, path);
  if (itself.ok()) {
    places.push_back(std::move(*itself));
    return places;
  }
  for (const io::FileInfo& entry : entries) {
    if (entry.is_directory) {
      QUIRE_RETURN_IF_ERROR(AddHome(fs, path + "/" + entry.name, &places));
    }
  }
  return places;
}

Result<CheckpointPlace> FindCheckpointPlace(io::FileSystem& fs, const std::string& named) {
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(named));
  std::vector<CheckpointPlace> beside;
  QUIRE_RETURN_IF_ERROR(AddHome(fs, io::DirectoryOf(path), &beside));
  for (CheckpointPlace& place : beside) {
    const bool recorded = place.found.state != kv::CheckpointState::kUnrecorded;
    if (place.found.directory == path && recorded) return std::move(place);
  }
  return Status(Code::kNotFound, path + " is no checkpoint: there is no " + path + "/" +
                                     kv::kCommitName + "; quire checkpoint list shows them");
}

std::vector<CheckpointFinding> VerifyCheckpoint(
    io::FileSystem& fs, const std::string& directory,
    const std::function<void(uint64_t done, uint64_t total)>& progress, uint64_t* bytes) {
  std::vector<CheckpointFinding> findings;
  const Result<kv::CommitRecord> record = kv::ReadCommitRecord(fs, directory);
  if (!record.ok()) return {{directory + "/" + kv::kCommitName, record.status()}};
  uint64_t total = 0;
  for (const kv::CommitRecord::Part& part : record->parts) total += part.bytes;
  const auto advance = [&](uint64_t more) {
    *bytes += more;
    progress(*bytes, total);
  };
  for (size_t rank = 0; rank < record->parts.size(); ++rank) {
    const std::string part = PartIn(directory, rank);
    const Result<kv::FileList> list = kv::ReadFileList(fs, part, record->parts[rank]);
    if (!list.ok()) {
      findings.push_back({part + "/" + kv::kFilesName, list.status()});
      continue;
    }
    for (const auto& [name, file] : list->files) {
      const Status sound = VerifyFile(fs, part + "/" + name, file, advance);
      if (!sound.ok()) findings.push_back({part + "/" + name, sound});
    }
  }
  return findings;
}

Result<std::string> ExportCheckpoint(
    io::FileSystem& fs, const CheckpointPlace& place, const std::string& target,
    const std::function<void(uint64_t done, uint64_t total)>& progress) {
  if (place.found.state != kv::CheckpointState::kComplete) {
    return Status(Code::kInvalidArgument, place.found.directory + " is not complete");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(target));
  return Exporter(fs, place, path, progress).Run();
}

}  // namespace quire::tool
