/// The handshake by which two daemons prove to each other that they have the token, without sending
/// it; and the keys of their connection, derived from a random number of each side.
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
  /// Creates a token from a secret of at least 32 bytes with any content.
  static Result<Token> From(Slice secret);
  /// Reads a token from a file that only its user can read. If there is none and `make` is set,
  /// creates one with 32 random bytes.
  static Result<Token> Load(io::FileSystem& fs, const std::string& path, bool make);
  ~Token();
  Token(const Token&) = default;
  Token& operator=(const Token&) = default;

  /// Returns HMAC-SHA256 of `purpose` and both nonces under the secret.
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

/// The called side: receives two frames of kHandshakeFrameBytes and answers each. It does not wait,
/// and allocates no memory for received bytes, so that peers without the token cost nothing.
class ServerHandshake {
 public:
  ServerHandshake(const Token& token, std::string nonce)
      : token_(token), nonce_(std::move(nonce)) {}
  /// Returns the frame to send back. After a failure the caller must close the connection.
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

/// Does the handshake of the calling side. kPeerFailed: the other side has another token, or is no
/// daemon.
Result<std::unique_ptr<Channel>> CallAsClient(io::Socket socket, const Token& token,
                                              uint64_t deadline_ns);

/// Returns 32 random bytes.
std::string NewNonce();

}  // namespace quire::streamd
