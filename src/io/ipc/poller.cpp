#include "io/ipc/poller.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "io/files/posix_error.h"

namespace quire::io {
namespace {

constexpr uint64_t kWakeToken = UINT64_MAX;
constexpr int kEventsMax = 64;

Status PollerStatus(const char* action) {
  return ErrnoStatus(errno, action, "a set of sockets");
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::New() {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.ok() || !wake.ok()) return PollerStatus("make");
  std::unique_ptr<Poller> poller(new Poller(std::move(epoll), std::move(wake)));
  QUIRE_RETURN_IF_ERROR(poller->Add(poller->wake_.get(), kWakeToken));
  return poller;
}

Status Poller::Add(int fd, uint64_t token, bool once) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | (once ? EPOLLONESHOT : 0u);
  event.data.u64 = token;
  const bool added = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  return added ? Status() : PollerStatus("watch");
}

Status Poller::Rearm(int fd, uint64_t token, bool writable) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT | (writable ? EPOLLOUT : 0u);
  event.data.u64 = token;
  const bool changed = ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
  return changed ? Status() : PollerStatus("watch");
}

void Poller::Remove(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);  // it may be absent
}

Result<std::vector<uint64_t>> Poller::Wait(uint64_t timeout_ms) {
  epoll_event events[kEventsMax];
  const int timeout = static_cast<int>(std::min<uint64_t>(timeout_ms, INT_MAX));
  const int count = ::epoll_wait(epoll_.get(), events, kEventsMax, timeout);
  if (count < 0 && errno != EINTR) return PollerStatus("wait for");
  std::vector<uint64_t> tokens;
  for (int i = 0; i < count; ++i) {
    const uint64_t token = events[i].data.u64;
    if (token != kWakeToken) {
      tokens.push_back(token);
      continue;
    }
    uint64_t calls = 0;
    if (::read(wake_.get(), &calls, sizeof calls) < 0 && errno != EAGAIN) {
      return PollerStatus("wake");
    }
  }
  return tokens;
}

void Poller::Wake() {
  const uint64_t one = 1;
  // Fails only if the counter is full, and then wakes anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

Result<FileDescriptor> StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigset_t blocked = signals;
  sigaddset(&blocked, SIGPIPE);
  const int error = ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  if (error != 0) return ErrnoStatus(error, "block", "signals");
  FileDescriptor fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.ok()) return ErrnoStatus(errno, "listen for", "signals");
  return fd;
}

}  // namespace quire::io
