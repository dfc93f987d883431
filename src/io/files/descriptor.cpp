#include "io/files/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "io/files/descriptor_cache.h"

namespace quire::io {

namespace {

bool NoneIsFree(int error) { return error == EMFILE || error == ENFILE; }

}  // namespace

FileDescriptor::~FileDescriptor() {
  // Ignores errors of close: Sync has reported them, or the caller was promised nothing.
  if (fd_ >= 0) ::close(fd_);
}

FileDescriptor FileDescriptor::Open(const std::string& path, int flags, unsigned permissions) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags, permissions);
  } while (fd < 0 && (errno == EINTR || (NoneIsFree(errno) && CloseIdleDescriptor())));
  return FileDescriptor(fd);
}

FileDescriptor FileDescriptor::Duplicate(int fd) {
  return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, kFirst));
}

std::pair<FileDescriptor, FileDescriptor> FileDescriptor::Pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return {FileDescriptor(-1), FileDescriptor(-1)};
  std::pair<FileDescriptor, FileDescriptor> pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  if (pipe.first.ok() && pipe.second.ok()) return pipe;
  errno = EMFILE;
  return {FileDescriptor(-1), FileDescriptor(-1)};
}

int FileDescriptor::Moved(int fd) {
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirst);
  // fcntl sets EINVAL if the limit on open files is 3 or less.
  const int error = errno == EINVAL ? EMFILE : errno;
  ::close(fd);
  errno = error;
  return moved;
}

void OpenStandardStreams() {
  // The kernel returns the lowest free number. Standard input is opened for writing only, and the
  // others for reading only, so that their use fails as it did while they were closed.
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) {
    fd = ::open("/dev/null", ::fcntl(STDIN_FILENO, F_GETFD) < 0 ? O_WRONLY : O_RDONLY);
  }
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace quire::io
