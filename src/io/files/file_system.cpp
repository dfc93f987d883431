#include "io/files/file_system.h"

#include <algorithm>

#include "base/core/out_of_memory.h"
#include "io/memory/guarded_copy.h"

namespace quire::io {
namespace {

constexpr size_t kNameBytesMax = 255;

// Stores the same byte again. Volatile, because a compiler may omit an exchange of a byte with
// itself. If another thread stores in between, its store has the same effect. ThreadSanitizer takes
// this for a store that other threads could see.
__attribute__((no_sanitize("thread"))) void StoreSame(volatile char* byte) {
  char same = *byte;
  __atomic_compare_exchange_n(byte, &same, same, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

Status OpenInto(FileSystem& fs, const std::string& path, std::unique_ptr<OpenDirectory>* opened) {
  QUIRE_ASSIGN_OR_RETURN(*opened, fs.OpenForSync(path));
  return Status();
}

bool IsNameByte(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

std::string DirectoryOf(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = path.find_last_of('/', end);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status MappedFile::GrowRoom(uint64_t end) {
  const std::lock_guard<std::mutex> lock(growing_);
  const uint64_t begin = room_.load(std::memory_order_relaxed);
  if (end <= begin) return Status();
  QUIRE_RETURN_IF_ERROR(SetAside(begin, end));
  room_.store(end, std::memory_order_release);
  return Status();
}

Status MappedFile::StoreAgain(uint64_t offset, uint64_t size) {
  if (in_memory_ || size == 0 || offset >= size_) return Status();
  size = std::min(size, size_ - offset);
  QUIRE_RETURN_IF_ERROR(MakePresent(offset, size));
  const uint64_t first = offset / kSmallestPageBytes * kSmallestPageBytes;
  for (uint64_t at = first; at < offset + size; at += kSmallestPageBytes) StoreSame(data_ + at);
  Stored(offset, size);
  return Status();
}

Status MappedFile::TouchReadable(uint64_t offset, uint64_t size) {
  if (offset >= size_) return Status();
  size = std::min(size, size_ - offset);
  return CanGuard() && GuardedTouch(data_ + offset, size) ? Status() : MakeReadable(offset, size);
}

bool MappedFile::TryCopy(uint64_t offset, size_t size, char* to) const {
  if (offset > size_ || size > size_ - offset) return false;
  return CanGuard() && GuardedCopy(data_ + offset, size, to);
}

Status FileSystem::RemoveTree(const std::string& directory) {
  size_t all = SIZE_MAX;
  return RemoveSome(directory, &all).status();
}

Result<bool> FileSystem::RemoveSome(const std::string& directory, size_t* most) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<FileInfo> entries, List(directory));
  for (const FileInfo& entry : entries) {
    if (*most == 0) return false;
    const std::string path = directory + "/" + entry.name;
    if (entry.is_directory) {
      const Result<bool> gone = RemoveSome(path, most);
      if (gone.ok() ? !*gone : gone.status().code() != Code::kNotFound) return gone;
      continue;
    }
    const Status removed = Unlink(path);
    if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
    --*most;
  }
  if (*most == 0) return false;
  QUIRE_RETURN_IF_ERROR(RemoveDirectory(directory));
  --*most;
  return true;
}

Result<std::unique_ptr<OpenDirectory>> FileSystem::OpenForSync(const std::string& directory) {
  class Named : public OpenDirectory {
   public:
    Named(FileSystem& fs, std::string directory) : fs_(fs), directory_(std::move(directory)) {}
    Status Sync() override { return fs_.SyncDirectory(directory_); }

   private:
    FileSystem& fs_;
    const std::string directory_;
  };
  return std::unique_ptr<OpenDirectory>(std::make_unique<Named>(*this, directory));
}

Status WriteFile(FileSystem& fs, const std::string& path, Slice bytes) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path, FileOpenMode::kCreate));
  QUIRE_RETURN_IF_ERROR(file->WriteAt(0, bytes));
  return file->Sync();
}

Status ReplaceFile(FileSystem& fs, const std::string& path, Slice bytes) {
  const std::string temporary = path + ".tmp";
  const Status unlinked = fs.Unlink(temporary);  // what a crash may have left
  if (!unlinked.ok() && unlinked.code() != Code::kNotFound) return unlinked;
  Status status = WriteFile(fs, temporary, bytes);
  // Opened before the new contents are in place: afterwards no lack of descriptors or memory may
  // keep them from becoming durable, as the caller could not find out which contents count.
  std::unique_ptr<OpenDirectory> directory;
  if (status.ok()) status = OpenInto(fs, DirectoryOf(path), &directory);
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) {
    // The first error counts. A temporary file that stays is removed by the next call.
    static_cast<void>(fs.Unlink(temporary));
    return status;
  }
  const auto sync = [&] { return directory->Sync(); };
  Status synced = base::OrOutOfMemory(sync);  // the first try may lack memory only for a log line
  if (synced.code() == Code::kOutOfMemory) synced = base::OrOutOfMemory(sync);
  if (synced.ok()) return synced;
  status = base::OrOutOfMemory([&] { return Status(Code::kIo, synced.message()); });
  return status.code() == Code::kIo ? status : Status(Code::kIo);
}

Status MakeDurableDirectory(FileSystem& fs, const std::string& path) {
  QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(path));
  // Also if it existed: the process that made it may have died before its name was durable.
  return fs.SyncDirectory(DirectoryOf(path));
}

Result<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t size_max) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path, FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size > size_max) {
    return Status(Code::kCorruption, path + " has " + std::to_string(size) +
                                         " bytes; at most " + std::to_string(size_max) +
                                         " were expected");
  }
  std::string bytes(size, '\0');
  QUIRE_RETURN_IF_ERROR(file->ReadAt(0, bytes.size(), bytes.data()));
  return bytes;
}

Status CheckName(Slice name) {
  std::string problem;
  if (name.empty() || name.size() > kNameBytesMax) {
    problem = "has " + std::to_string(name.size()) + " bytes";
  } else if (name[0] == '.' || name[0] == '-') {
    problem = std::string("begins with '") + name[0] + "'";
  } else {
    for (char c : name) {
      if (!IsNameByte(c)) problem = "contains byte " + std::to_string(static_cast<uint8_t>(c));
    }
  }
  if (problem.empty()) return Status();
  return Status(Code::kInvalidArgument,
                "name \"" + std::string(name.substr(0, kNameBytesMax)) + "\" " + problem +
                    "; use 1 to 255 of A-Z a-z 0-9 . _ - and begin with none of . and -");
}

}  // namespace quire::io
