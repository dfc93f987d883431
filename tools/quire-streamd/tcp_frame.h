/// The frames that daemons send each other over TCP. Each is bound to its connection, its direction
/// and its place in it by the seed of its checksums.
///
/// Layer      tools
/// Encoding   docs/format/message-stream.md
/// Threads    pure functions; a Channel belongs to one thread at a time
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "io/ipc/socket.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::streamd {

enum class TcpFrameKind : uint8_t {
  kHello = 1,      // client: its nonce
  kChallenge = 2,  ///< server: its nonce
  kProof = 3,      // client: that it has the token
  kWelcome = 4,    // server: that it has the token
  kRequest = 5,
  kAnswer = 6,
};

constexpr uint32_t kFrameHeadBytes = 40;

struct FrameHead {
  TcpFrameKind kind = TcpFrameKind::kHello;
  uint64_t id = 0;
  uint32_t size = 0;  ///< of the payload
};

/// The seed of the checksums of one direction of a connection.
struct FrameSeed {
  uint64_t key = 0;       // 0 until both sides have proved that they have the token
  uint64_t sequence = 0;  ///< frames before this one
};

/// Encodes the head, with both checksums.
std::string EncodeFrameHead(const FrameHead& head, Slice payload, const FrameSeed& seed);
/// kCorruption : it is invalid, belongs elsewhere, or announces more than its kind may have.
Result<FrameHead> DecodeFrameHead(Slice head, const FrameSeed& seed);
Status CheckPayload(Slice head, Slice payload, const FrameSeed& seed);

/// The deadlines of a transfer: the first detects a peer that has stopped, the second one that is
/// too slow.
struct Pace {
  uint64_t piece_ns = 0;     // each 32nd of them, of 256 KiB to 1 MiB
  uint64_t deadline_ns = 0;  ///< all of them
};

/// A connection whose two sides have proved that they have the token.
class Channel {
 public:
  Channel(io::Socket socket, uint64_t send_key, uint64_t receive_key)
      : socket_(std::move(socket)), sent_{send_key, 0}, received_{receive_key, 0} {}

  Status Send(TcpFrameKind kind, uint64_t id, Slice payload, uint64_t deadline_ns);
  /// Receives the head of the next frame; ReceivePayload must follow, with room for its size.
  Result<FrameHead> ReceiveHead(uint64_t deadline_ns);
  Status ReceivePayload(const FrameHead& head, char* to, uint64_t deadline_ns);
  /// Receives a whole frame, which must have this kind and number.
  Result<std::string> Receive(TcpFrameKind kind, uint64_t id, uint64_t deadline_ns);
  /// Sends bytes without a frame, without copying them; the receiver stores them directly at their
  /// destination, and receives their stream::DataHash, computed while they are in the caches.
  Status SendBytes(Slice bytes, const Pace& pace);
  /// `came` is called after each piece with the number of bytes that have arrived.
  using Came = std::function<void(uint64_t bytes)>;
  Result<uint64_t> ReceiveBytes(char* to, uint64_t size, const Pace& pace, const Came& came = {});

  io::Socket& socket() { return socket_; }

 private:
  io::Socket socket_;
  FrameSeed sent_;
  FrameSeed received_;
  std::string head_;  ///< of the frame that is being received
};

}  // namespace quire::streamd
