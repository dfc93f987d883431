#include "io/ipc/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>

#include "base/text/units.h"
#include "io/files/machine.h"
#include "io/files/posix_error.h"

namespace quire::io {
namespace {

constexpr int kBacklog = 256;
constexpr char kRefusal = 'F';  // sent instead of a descriptor
// A reader that waits for less than `kBulkBytes` is woken by every packet, else by `kWakeBytes`.
constexpr size_t kBulkBytes = 64 << 10;
constexpr size_t kWakeBytes = 1 << 20;

bool WouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

Status SocketStatus(int error, const std::string& action) {
  switch (error) {
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENOTCONN:
    case ETIMEDOUT:
      return Status(Code::kPeerFailed, "cannot " + action + ": " + ErrnoText(error));
    case EMFILE:
    case ENFILE:
      return Status(Code::kOutOfMemory, "cannot " + action + ": " + ErrnoText(error) +
                                            "; raise the limit on open files (ulimit -n)");
    case ENOBUFS:
    case ENOMEM:
      return Status(Code::kOutOfMemory, "cannot " + action + ": " + ErrnoText(error));
    default:
      return Status(Code::kIo, "cannot " + action + ": " + ErrnoText(error));
  }
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// A name service that cannot be reached at this moment proves nothing about the name.
Status ResolverStatus(int error, const std::string& address) {
  const bool unasked = error == EAI_AGAIN || error == EAI_FAIL || error == EAI_SYSTEM;
  const std::string text = ::gai_strerror(error);
  if (unasked)
    return Status(Code::kPeerFailed, "the name of " + address + " is not known: " + text);
  if (error == EAI_MEMORY) return Status(Code::kOutOfMemory, text);
  return Status(Code::kInvalidArgument, "the address " + address + " means nothing here: " + text);
}

Result<AddressList> Resolve(const std::string& address, int flags) {
  QUIRE_ASSIGN_OR_RETURN(const auto parts, SplitAddress(address));
  addrinfo wanted = {};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(parts.first.c_str(), parts.second.c_str(), &wanted, &found);
  if (error != 0) return ResolverStatus(error, address);
  return AddressList(found, ::freeaddrinfo);
}

FileDescriptor NewSocket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void SetOption(int fd, int level, int option) {
  const int on = 1;
  ::setsockopt(fd, level, option, &on, sizeof on);  // may fail: it only makes things faster
}

// Sends answers at once, and notices in the end that the peer's machine has vanished.
void TuneTcp(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE);
}

Result<std::string> NameOf(const sockaddr_storage& name, socklen_t size, bool port) {
  char host[NI_MAXHOST];
  char service[NI_MAXSERV];
  const auto* const address = reinterpret_cast<const sockaddr*>(&name);
  if (::getnameinfo(address, size, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return Status(Code::kIo, "a socket has no address that can be shown");
  }
  std::string text(host);
  if (text.find(':') != std::string::npos) text = "[" + text + "]";
  return port ? text + ":" + service : text;
}

// A local socket's name has room for 107 bytes, so it is reached through the directory's
// descriptor.
struct LocalName {
  FileDescriptor directory{-1};
  sockaddr_un address = {};

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

Result<LocalName> NameIn(const std::string& directory, const std::string& name) {
  LocalName local;
  local.directory = FileDescriptor::Open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (!local.directory.ok()) return ErrnoStatus(errno, "open the directory", directory);
  const std::string path = "/proc/self/fd/" + std::to_string(local.directory.get()) + "/" + name;
  local.address.sun_family = AF_UNIX;
  if (path.size() >= sizeof local.address.sun_path) {
    return Status(Code::kInvalidArgument, "the name of the socket " + name + " is too long");
  }
  std::memcpy(local.address.sun_path, path.c_str(), path.size() + 1);
  return local;
}

}  // namespace

Result<std::pair<std::string, std::string>> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return Status(Code::kInvalidArgument, "\"" + address + "\" is no address: HOST:PORT");
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return std::pair(std::move(host), address.substr(colon + 1));
}

uint32_t UserId() {
  return ::geteuid();
}

Result<Socket> Socket::ListenTcp(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(const AddressList list, Resolve(address, AI_PASSIVE));
  FileDescriptor fd = NewSocket(list->ai_family);
  if (!fd.ok()) return SocketStatus(errno, "make a socket");
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR);  // for a daemon that restarts
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const Status failed = SocketStatus(errno, "listen at " + address);
    return errno == EADDRINUSE ? Status(Code::kBusy, std::string(failed.message())) : failed;
  }
  return Socket(std::move(fd));
}

// Tries all addresses: a name may have several, and a listener may have only one of them.
Result<Socket> Socket::ConnectTcp(const std::string& address, uint64_t deadline_ns) {
  QUIRE_ASSIGN_OR_RETURN(const AddressList list, Resolve(address, 0));
  Status failed(Code::kPeerFailed, "nothing is known by the name of " + address);
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    Socket socket(NewSocket(one->ai_family));
    failed = socket.ok() ? Status() : SocketStatus(errno, "make a socket");
    if (failed.ok()) failed = socket.Connect(*one, deadline_ns).WithContext(address);
    if (!failed.ok()) continue;
    TuneTcp(socket.fd());
    return socket;
  }
  return failed;
}

Status Socket::Connect(const addrinfo& to, uint64_t deadline_ns) {
  if (::connect(fd_.get(), to.ai_addr, to.ai_addrlen) == 0) return Status();
  if (errno != EINPROGRESS) return SocketStatus(errno, "connect");
  QUIRE_RETURN_IF_ERROR(Await(POLLOUT, deadline_ns));
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? Status() : SocketStatus(error, "connect");
}

Result<Socket> Socket::ListenLocal(const std::string& directory, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const LocalName local, NameIn(directory, name));
  FileDescriptor fd = NewSocket(AF_UNIX);
  if (!fd.ok()) return SocketStatus(errno, "make a socket");
  ::unlink(local.address.sun_path);  // it may be absent
  // Sets the mode before the socket has its name, so that no other user ever sees it open.
  if (::fchmod(fd.get(), 0600) != 0 || ::bind(fd.get(), local.get(), sizeof local.address) != 0 ||
      ::chmod(local.address.sun_path, 0600) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return SocketStatus(errno, "listen at " + directory + "/" + name);
  }
  return Socket(std::move(fd));
}

Result<Socket> Socket::ConnectLocal(const std::string& directory, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const LocalName local, NameIn(directory, name));
  Socket socket(NewSocket(AF_UNIX));
  if (!socket.ok()) return SocketStatus(errno, "make a socket");
  if (::connect(socket.fd(), local.get(), sizeof local.address) == 0) return socket;
  if (errno == ENOENT || errno == ECONNREFUSED) return Status(Code::kNotFound);
  if (WouldBlock(errno)) return Status(Code::kBusy, "too many connect at once");
  return SocketStatus(errno, "connect to " + directory + "/" + name);
}

Result<Socket> Socket::Accept() {
  FileDescriptor fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.ok()) {
    TuneTcp(fd.get());
    return Socket(std::move(fd));
  }
  if (WouldBlock(errno) || errno == ECONNABORTED || errno == EPROTO) return Status(Code::kNotFound);
  return SocketStatus(errno, "accept a connection");
}

Result<size_t> Socket::ReadSome(char* to, size_t size) {
  const ssize_t got = ::recv(fd_.get(), to, size, 0);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0 && size > 0) return Status(Code::kPeerFailed, "the peer has closed the connection");
  if (got == 0 || WouldBlock(errno)) return size_t{0};
  return SocketStatus(errno, "receive");
}

Result<size_t> Socket::WriteSome(Slice bytes) {
  const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (WouldBlock(errno)) return size_t{0};
  return SocketStatus(errno, "send");
}

Status Socket::ReadAll(char* to, size_t size, uint64_t deadline_ns) {
  Status status;
  while (size > 0 && status.ok()) {
    QUIRE_ASSIGN_OR_RETURN(const size_t got, ReadSome(to, size));
    to += got;
    size -= got;
    if (got != 0) continue;
    WakeAt(size < kBulkBytes ? 1 : std::min(size, kWakeBytes));
    status = Await(POLLIN, deadline_ns);
  }
  WakeAt(1);  // the next read may need fewer bytes
  return status;
}

// An error is ignored, because this only saves time. The kernel also makes room for that many
// bytes.
void Socket::WakeAt(size_t bytes) {
  const int wanted = static_cast<int>(bytes);
  if (wanted == wake_at_) return;
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) == 0) {
    wake_at_ = wanted;
  }
}

Status Socket::WriteAll(Slice head, Slice body, uint64_t deadline_ns) {
  while (!head.empty() || !body.empty()) {
    iovec parts[2] = {{const_cast<char*>(head.data()), head.size()},
                      {const_cast<char*>(body.data()), body.size()}};
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!WouldBlock(errno)) return SocketStatus(errno, "send");
      QUIRE_RETURN_IF_ERROR(Await(POLLOUT, deadline_ns));
      continue;
    }
    const size_t of_head = std::min(static_cast<size_t>(sent), head.size());
    head.remove_prefix(of_head);
    body.remove_prefix(static_cast<size_t>(sent) - of_head);
  }
  return Status();
}

Status Socket::Await(short events, uint64_t deadline_ns) const {
  for (;;) {
    const uint64_t now = RealClock().NowNs();
    if (now >= deadline_ns) return Status(Code::kTimedOut, "the peer did not answer in time");
    const uint64_t left = deadline_ns - now;
    const timespec timeout = {static_cast<time_t>(left / base::kNsPerSecond),
                              static_cast<long>(left % base::kNsPerSecond)};
    pollfd wanted = {fd_.get(), events, 0};
    const int ready = ::ppoll(&wanted, 1, &timeout, nullptr);
    if (ready > 0) return Status();
    if (ready < 0 && errno != EINTR) return SocketStatus(errno, "wait for a peer");
  }
}

bool Socket::PeerGone() const {
  pollfd wanted = {fd_.get(), POLLRDHUP, 0};
  return ::poll(&wanted, 1, 0) > 0 && (wanted.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Result<std::string> Socket::LocalAddress() const {
  sockaddr_storage name;
  socklen_t size = sizeof name;
  if (::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return SocketStatus(errno, "ask for a socket's address");
  }
  return NameOf(name, size, true);
}

Result<std::string> Socket::PeerHost() const {
  sockaddr_storage name;
  socklen_t size = sizeof name;
  if (::getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return SocketStatus(errno, "ask for a peer's address");
  }
  return NameOf(name, size, false);
}

Result<uint32_t> Socket::PeerUser() const {
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SocketStatus(errno, "ask who a peer is");
  }
  return static_cast<uint32_t>(credentials.uid);
}

Status Socket::AskPeerToEnd() const {
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SocketStatus(errno, "ask who a peer is");
  }
  const std::string process = "process " + std::to_string(credentials.pid);
  if (credentials.uid != ::geteuid()) {
    return Status(Code::kInvalidArgument, process + " belongs to user " +
                                              std::to_string(credentials.uid) +
                                              "; only that user may end it");
  }
  if (credentials.pid <= 1) {
    return Status(Code::kInvalidArgument,
                  "the peer is in a container whose processes are not seen here; end it there");
  }
  const FileDescriptor living(static_cast<int>(::syscall(SYS_pidfd_open, credentials.pid, 0)));
  const bool known = living.ok() || errno == ENOSYS;  // kernels before 5.3 know only the number
  if (!known && errno != ESRCH) return ErrnoStatus(errno, "end", process);
  // Its connection stands, so its number has not been given to another process.
  if (!known || PeerGone()) return Status(Code::kNotFound);
  const long sent = living.ok()
                        ? ::syscall(SYS_pidfd_send_signal, living.get(), SIGTERM, nullptr, 0)
                        : ::kill(credentials.pid, SIGTERM);
  if (sent == 0) return Status();
  return errno == ESRCH ? Status(Code::kNotFound) : ErrnoStatus(errno, "end", process);
}

Status Socket::SendDescriptor(int fd) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  if (::sendmsg(fd_.get(), &message, MSG_NOSIGNAL) == 1) return Status();
  return SocketStatus(errno, "hand over memory");
}

Status Socket::SendRefusal() {
  QUIRE_ASSIGN_OR_RETURN(const size_t sent, WriteSome(Slice(&kRefusal, 1)));
  return sent == 1 ? Status() : Status(Code::kPeerFailed, "the peer reads nothing");
}

Result<FileDescriptor> Socket::ReceiveDescriptor(uint64_t deadline_ns) {
  QUIRE_RETURN_IF_ERROR(Await(POLLIN, deadline_ns));
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return SocketStatus(errno, "take over memory");
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (got == 1 && head == nullptr && byte == kRefusal) {
    return Status(Code::kBusy, "the peer has as many connections as it takes");
  }
  if (got != 1 || head == nullptr || head->cmsg_level != SOL_SOCKET ||
      head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status(Code::kPeerFailed, "the peer handed over no memory");
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return FileDescriptor(fd);
}

}  // namespace quire::io
