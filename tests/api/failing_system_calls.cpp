// The functions below take the place of those of the C library, which they call.
#undef _FORTIFY_SOURCE
#include "failing_system_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>

namespace {

enum class Kind { kNone, kDescriptor, kMapping };

thread_local Kind failing = Kind::kNone;
thread_local int64_t countdown = -1;

bool Fails(Kind kind, int error) {
  if (failing != kind || countdown < 0 || countdown-- > 0) return false;
  errno = error;
  return true;
}

void Fail(Kind kind, int64_t n) {
  failing = kind;
  countdown = n;
}

// Returns the result of the C library's function.
template <typename Function, typename... Arguments>
auto CallNext(Function* /*in_its_place*/, const char* name, Arguments... arguments) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name))(arguments...);
}

template <typename Function, typename... Arguments>
int Descriptor(Function* in_its_place, const char* name, Arguments... arguments) {
  if (Fails(Kind::kDescriptor, EMFILE)) return -1;
  return CallNext(in_its_place, name, arguments...);
}

bool TakesMode(int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

}  // namespace

namespace quire::test {

void FailDescriptorHere(int64_t n) {
  Fail(Kind::kDescriptor, n);
}

void FailMappingHere(int64_t n) {
  Fail(Kind::kMapping, n);
}

bool SystemCallFailed() {
  const bool failed = countdown < 0;
  Fail(Kind::kNone, -1);
  return failed;
}

}  // namespace quire::test

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  va_list rest;
  va_start(rest, flags);
  if (TakesMode(flags)) mode = va_arg(rest, mode_t);
  va_end(rest);
  return Descriptor(&open, "open", path, flags, mode);
}
int openat(int directory, const char* path, int flags, ...) {
  mode_t mode = 0;
  va_list rest;
  va_start(rest, flags);
  if (TakesMode(flags)) mode = va_arg(rest, mode_t);
  va_end(rest);
  return Descriptor(&openat, "openat", directory, path, flags, mode);
}
int socket(int domain, int type, int protocol) noexcept {
  return Descriptor(&socket, "socket", domain, type, protocol);
}
int accept4(int fd, struct sockaddr* address, socklen_t* size, int flags) {
  return Descriptor(&accept4, "accept4", fd, address, size, flags);
}
int epoll_create1(int flags) noexcept {
  return Descriptor(&epoll_create1, "epoll_create1", flags);
}
int eventfd(unsigned int count, int flags) noexcept {
  return Descriptor(&eventfd, "eventfd", count, flags);
}
int memfd_create(const char* name, unsigned int flags) noexcept {
  return Descriptor(&memfd_create, "memfd_create", name, flags);
}
int pipe2(int fds[2], int flags) noexcept {
  return Descriptor(&pipe2, "pipe2", fds, flags);
}
int signalfd(int fd, const sigset_t* signals, int flags) noexcept {
  return Descriptor(&signalfd, "signalfd", fd, signals, flags);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  if (Fails(Kind::kMapping, ENOMEM)) return MAP_FAILED;
  return CallNext(&mmap, "mmap", at, size, protection, flags, fd, offset);
}

// If a long has 64 bits, these are the same functions.
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
int openat64(int directory, const char* path, int flags, ...) __attribute__((alias("openat")));
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) noexcept
    __attribute__((alias("mmap")));

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
