#include "loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace quire::bench {
namespace {

Status SystemError(const char* call) {
  return Status(Code::kIo, std::string(call) + ": " + std::strerror(errno));
}

bool SendAll(int socket, const char* from, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    const ssize_t sent = ::send(socket, from + done, size - done, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += static_cast<uint64_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, char* to, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    const ssize_t received = ::recv(socket, to + done, size - done, 0);
    if (received <= 0) return false;
    done += static_cast<uint64_t>(received);
  }
  return true;
}

}  // namespace

Status TcpSource::Open() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return SystemError("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  client_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (client_ >= 0 && ::bind(listener, generic, size) == 0 && ::listen(listener, 1) == 0 &&
      ::getsockname(listener, generic, &size) == 0 && ::connect(client_, generic, size) == 0) {
    server_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  }
  const Status status = server_ < 0 ? SystemError("a connection over loopback") : Status();
  ::close(listener);
  if (!status.ok()) return status;
  const int on = 1;
  ::setsockopt(client_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  thread_ = std::thread([this] { Serve(); });
  return Status();
}

// Ends when the other end is closed.
void TcpSource::Serve() {
  uint64_t size = 0;
  while (ReceiveAll(server_, reinterpret_cast<char*>(&size), sizeof(size))) {
    if (size > bytes_.size() || !SendAll(server_, bytes_.data(), size)) return;
  }
}

Status TcpSource::Fetch(char* to, uint64_t size) {
  if (SendAll(client_, reinterpret_cast<const char*>(&size), sizeof(size)) &&
      ReceiveAll(client_, to, size)) {
    return Status();
  }
  return SystemError("a transfer over loopback");
}

TcpSource::~TcpSource() {
  if (client_ >= 0) ::shutdown(client_, SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  if (client_ >= 0) ::close(client_);
  if (server_ >= 0) ::close(server_);
}

Result<Program> Program::Start(const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t id = -1;
  const int error = ::posix_spawnp(&id, words[0], nullptr, nullptr, words.data(), environ);
  if (error != 0) return Status(Code::kNotFound, arguments[0] + ": " + std::strerror(error));
  return Program(id);
}

Program::Program(Program&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

Program& Program::operator=(Program&& other) noexcept {
  std::swap(id_, other.id_);
  return *this;
}

Program::~Program() {
  if (id_ < 0) return;
  ::kill(id_, SIGTERM);
  ::waitpid(id_, nullptr, 0);
}

}  // namespace quire::bench
