#include "file_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

namespace quire::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = 128 * 1024;  // cp's
constexpr size_t kRangeBytesMax = 1ull << 30;

Status SystemError(const std::string& call, const std::string& path) {
  return Status(Code::kIo, call + " " + path + ": " + std::strerror(errno));
}

class OpenFile {
 public:
  OpenFile(std::string path, int flags)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0600)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  bool ok() const { return descriptor_ >= 0; }
  Status Failure(const std::string& call) const { return SystemError(call, path_); }

 private:
  const std::string path_;
  const int descriptor_;
};

Result<uint64_t> ReadAndWrite(const OpenFile& from, const OpenFile& to) {
  std::vector<char> buffer(kBufferBytes);
  uint64_t copied = 0;
  for (;;) {
    const ssize_t got = ::read(from.descriptor(), buffer.data(), buffer.size());
    if (got < 0) return from.Failure("read");
    if (got == 0) return copied;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put =
          ::write(to.descriptor(), buffer.data() + done, static_cast<size_t>(got - done));
      if (put < 0) return to.Failure("write");
      done += put;
    }
    copied += static_cast<uint64_t>(got);
  }
}

Result<uint64_t> CopyFile(const fs::path& source, const fs::path& target) {
  const OpenFile from(source, O_RDONLY);
  if (!from.ok()) return from.Failure("open");
  const OpenFile to(target, O_WRONLY | O_CREAT | O_EXCL);
  if (!to.ok()) return to.Failure("open");
  uint64_t copied = 0;
  for (;;) {
    const ssize_t got =
        ::copy_file_range(from.descriptor(), nullptr, to.descriptor(), nullptr, kRangeBytesMax, 0);
    if (got == 0) return copied;
    if (got < 0 && copied > 0) return to.Failure("copy_file_range");
    if (got < 0) return ReadAndWrite(from, to);
    copied += static_cast<uint64_t>(got);
  }
}

Status Sync(const std::string& path, int flags) {
  const OpenFile file(path, flags);
  if (!file.ok()) return file.Failure("open");
  return ::fsync(file.descriptor()) == 0 ? Status() : file.Failure("fsync");
}

Status ForEachFile(const std::string& directory,
                   const std::function<Status(const std::string& path)>& visit) {
  std::error_code error;
  fs::recursive_directory_iterator at(directory, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at->is_regular_file()) QUIRE_RETURN_IF_ERROR(visit(at->path()));
  }
  return error ? Status(Code::kIo, "list " + directory + ": " + error.message()) : Status();
}

// Returns whether the file is a log, whose size is fixed whatever it contains.
bool IsLog(const std::string& path) {
  return fs::path(path).filename().string().rfind("log-", 0) == 0;
}

Status ReadThrough(const OpenFile& file) {
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = ::read(file.descriptor(), buffer.data(), buffer.size());
    if (got < 0) return file.Failure("read");
    if (got == 0) return Status();
  }
}

Status DropPages(const OpenFile& file) {
  errno = ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  return errno == 0 ? Status() : file.Failure("posix_fadvise");
}

}  // namespace

Result<uint64_t> CopyFiles(const std::string& from, const std::string& to, bool sync) {
  if (::mkdir(to.c_str(), 0700) != 0) return SystemError("mkdir", to);
  std::vector<std::string> copies;
  uint64_t bytes = 0;
  QUIRE_RETURN_IF_ERROR(ForEachFile(from, [&](const std::string& path) -> Status {
    if (IsLog(path)) return Status();
    copies.push_back(to + "/" + fs::path(path).filename().string());
    QUIRE_ASSIGN_OR_RETURN(const uint64_t copied, CopyFile(path, copies.back()));
    bytes += copied;
    return Status();
  }));
  if (!sync) return bytes;
  for (const std::string& copy : copies) QUIRE_RETURN_IF_ERROR(Sync(copy, O_RDONLY));
  QUIRE_RETURN_IF_ERROR(Sync(to, O_RDONLY | O_DIRECTORY));
  return bytes;
}

Status SetPageCache(const std::string& directory, bool in_cache) {
  return ForEachFile(directory, [in_cache](const std::string& path) {
    if (IsLog(path)) return Status();
    const OpenFile file(path, O_RDONLY);
    if (!file.ok()) return file.Failure("open");
    if (in_cache) return ReadThrough(file);
    // Reads the file from the device once in any case: below a virtual disk there is another cache.
    QUIRE_RETURN_IF_ERROR(DropPages(file));
    QUIRE_RETURN_IF_ERROR(ReadThrough(file));
    return DropPages(file);
  });
}

Status TouchPageCache(const std::string& path, uint64_t bytes) {
  const OpenFile file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.ok()) return file.Failure("create");
  if (::unlink(path.c_str()) != 0) return file.Failure("unlink");
  const std::vector<char> buffer(kBufferBytes, 't');
  for (uint64_t done = 0; done < bytes; done += buffer.size()) {
    if (::write(file.descriptor(), buffer.data(), buffer.size()) < 0) return file.Failure("write");
  }
  return Status();
}

Status RemoveTree(const std::string& directory) {
  std::error_code error;
  fs::remove_all(directory, error);
  return error ? Status(Code::kIo, "remove " + directory + ": " + error.message()) : Status();
}

Result<FileBytes> CountFileBytes(const std::string& directory) {
  FileBytes bytes;
  QUIRE_RETURN_IF_ERROR(ForEachFile(directory, [&bytes](const std::string& path) {
    if (IsLog(path)) return Status();
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return SystemError("stat", path);
    bytes.all += static_cast<uint64_t>(info.st_size);
    if (info.st_nlink == 1) bytes.single += static_cast<uint64_t>(info.st_size);
    return Status();
  }));
  return bytes;
}

}  // namespace quire::bench
