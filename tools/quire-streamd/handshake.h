/// How two daemons show one another that both have the token, without sending it; and the keys of
/// their connection, which follow from what each has drawn for it.
///
/// Layer      tools
/// Encoding   docs/format/message-stream.md
/// Threads    an object belongs to one thread at a time
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "io/ipc/socket.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "tools/quire-streamd/tcp_frame.h"

namespace quire::streamd {

constexpr size_t kDigestBytes = 32;
constexpr uint32_t kHandshakeFrameBytes = kFrameHeadBytes + kDigestBytes;

/// A secret that the daemons of one user share. Never shown, logged or sent.
class Token {
 public:
  /// At least 32 bytes, of which nothing is assumed.
  static Result<Token> From(Slice secret);
  /// From a file that only its user can read; where `make` and there is none, one of 32 random
  /// bytes.
  static Result<Token> Load(io::FileSystem& fs, const std::string& path, bool make);
  ~Token();
  Token(const Token&) = default;
  Token& operator=(const Token&) = default;

  /// HMAC-SHA256 of `purpose` and both nonces under the secret.
  std::string Digest(Slice purpose, Slice client_nonce, Slice server_nonce) const;

 private:
  explicit Token(std::string secret) : secret_(std::move(secret)) {}
  std::string secret_;
};

/// The keys of a connection's directions.
struct ChannelKeys {
  uint64_t to_server = 0;
  uint64_t to_client = 0;
};

/// The called side: receives two frames of kHandshakeFrameBytes and answers each. It does not wait
/// and takes no memory for what comes, so that strangers cost nothing.
class ServerHandshake {
 public:
  ServerHandshake(const Token& token, std::string nonce)
      : token_(token), nonce_(std::move(nonce)) {}
  /// The frame to send back. After a failure the connection is to be closed.
  Result<std::string> Consume(Slice frame);
  bool done() const { return done_; }
  const ChannelKeys& keys() const { return keys_; }

 private:
  Result<std::string> Welcome(Slice proof);

  const Token& token_;
  const std::string nonce_;
  std::string client_nonce_;
  uint64_t frames_ = 0;
  bool done_ = false;
  ChannelKeys keys_;
};

/// The calling side. kPeerFailed: the other side has another token, or is no daemon.
Result<std::unique_ptr<Channel>> CallAsClient(io::Socket socket, const Token& token,
                                              uint64_t deadline_ns);

/// 32 random bytes.
std::string NewNonce();

}  // namespace quire::streamd
