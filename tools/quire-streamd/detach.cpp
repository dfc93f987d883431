#include "tools/quire-streamd/detach.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "io/files/posix_error.h"

namespace quire::streamd {

Result<Background> Background::Enter() {
  auto [from, into] = io::FileDescriptor::Pipe();
  if (!from.ok()) return io::ErrnoStatus(errno, "make", "a pipe");
  const pid_t pid = ::fork();
  if (pid < 0) return io::ErrnoStatus(errno, "start", "a process in the background");
  if (pid == 0) {
    from = io::FileDescriptor(-1);
    ::setsid();
    return Background(std::move(into));
  }
  into = io::FileDescriptor(-1);
  char ready = 0;
  ssize_t got = 0;
  do {
    got = ::read(from.get(), &ready, 1);
  } while (got < 0 && errno == EINTR);
  ::_exit(got == 1 ? 0 : 1);
}

void Background::Ready() {
  const io::FileDescriptor null = io::FileDescriptor::Open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; null.ok() && fd <= STDERR_FILENO; ++fd) ::dup2(null.get(), fd);
  const char byte = 1;
  // The program that waited may be gone: the daemon goes on without it.
  [[maybe_unused]] const ssize_t written = ::write(pipe_.get(), &byte, 1);
  pipe_ = io::FileDescriptor(-1);
}

}  // namespace quire::streamd
