#include "io/paths/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/files/posix_error.h"
#include "io/files/posix_file.h"

namespace quire::io {

Result<std::string> ReadPrivateFile(const std::string& path, uint64_t size_max) {
  FileDescriptor fd = FileDescriptor::Open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (!fd.ok()) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "ask about", path);
  std::string problem;
  if (!S_ISREG(info.st_mode)) {
    problem = " is not a regular file";
  } else if (info.st_uid != ::geteuid()) {
    problem = " belongs to another user";
  } else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    problem = " is open to other users; run: chmod 600 " + path;
  } else if (static_cast<uint64_t>(info.st_size) > size_max) {
    problem = " is too long for what it should hold";
  }
  if (!problem.empty()) return Status(Code::kInvalidArgument, path + problem);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  const PosixFile file(std::move(fd), path);
  QUIRE_RETURN_IF_ERROR(file.ReadAt(0, bytes.size(), bytes.data()));
  return bytes;
}

}  // namespace quire::io
