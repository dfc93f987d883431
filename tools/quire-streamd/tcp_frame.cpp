#include "tools/quire-streamd/tcp_frame.h"

#include <algorithm>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "io/files/machine.h"
#include "stream/remote/request.h"

namespace quire::streamd {
namespace {

constexpr uint32_t kMagic = 0x31445351;  // "QSD1"
constexpr uint8_t kVersion = 1;
constexpr uint32_t kHandshakeBytes = 32;
constexpr size_t kPayloadSumAt = 24;
constexpr size_t kHeadSumAt = 32;
// Sizes that stay in the caches between their arrival and their checksum.
constexpr uint64_t kPieceBytesMin = 256 << 10;
constexpr uint64_t kPieceBytesMax = 1 << 20;
constexpr uint64_t kPieces = 32;

uint64_t Seed(const FrameSeed& seed, bool payload) {
  return base::ChecksumSeed(base::ChecksumKind::kStreamMessage, seed.key,
                            2 * seed.sequence + (payload ? 1 : 0));
}

uint32_t SizeMax(TcpFrameKind kind) {
  switch (kind) {
    case TcpFrameKind::kRequest:
      return stream::kRequestBytesMax;
    case TcpFrameKind::kAnswer:
      return stream::kAnswerBytesMax;
    default:
      return kHandshakeBytes;
  }
}

uint64_t PieceDeadline(const Pace& pace) {
  return std::min(io::RealClock().NowNs() + pace.piece_ns, pace.deadline_ns);
}

// Each piece wakes its receiver: large data has few pieces, and small data has some, so that the
// first is hashed while the last is on its way.
uint64_t PieceBytes(uint64_t bytes) {
  return std::clamp(bytes / kPieces, kPieceBytesMin, kPieceBytesMax);
}

Status Damaged(const char* what) {
  return Status(Code::kCorruption, std::string("a frame of a stream daemon has ") + what);
}

}  // namespace

std::string EncodeFrameHead(const FrameHead& head, Slice payload, const FrameSeed& seed) {
  std::string bytes;
  base::PutFixed(&bytes, kMagic);
  base::PutFixed(&bytes, kVersion);
  base::PutFixed(&bytes, static_cast<uint8_t>(head.kind));
  base::PutFixed(&bytes, uint16_t{0});
  base::PutFixed(&bytes, head.id);
  base::PutFixed(&bytes, head.size);
  base::PutFixed(&bytes, uint32_t{0});
  base::PutFixed(&bytes, base::Checksum(payload, Seed(seed, true)));
  base::PutFixed(&bytes, base::Checksum(bytes, Seed(seed, false)));
  return bytes;
}

Result<FrameHead> DecodeFrameHead(Slice bytes, const FrameSeed& seed) {
  if (bytes.size() != kFrameHeadBytes) return Damaged("another length");
  const char* const at = bytes.data();
  if (base::LoadLe<uint32_t>(at) != kMagic) return Damaged("another beginning");
  if (base::LoadLe<uint8_t>(at + 4) != kVersion) {
    return Status(Code::kUnsupported, "the daemon at the other end is of another version");
  }
  if (base::LoadLe<uint64_t>(at + kHeadSumAt) !=
      base::Checksum(bytes.substr(0, kHeadSumAt), Seed(seed, false))) {
    return Damaged("a wrong checksum, or belongs elsewhere");
  }
  const auto kind = base::LoadLe<uint8_t>(at + 5);
  const bool zeros = base::LoadLe<uint16_t>(at + 6) == 0 && base::LoadLe<uint32_t>(at + 20) == 0;
  if (!zeros || kind < static_cast<uint8_t>(TcpFrameKind::kHello) ||
      kind > static_cast<uint8_t>(TcpFrameKind::kAnswer)) {
    return Damaged("an unknown kind");
  }
  const FrameHead head{static_cast<TcpFrameKind>(kind), base::LoadLe<uint64_t>(at + 8),
                       base::LoadLe<uint32_t>(at + 16)};
  if (head.size > SizeMax(head.kind)) return Damaged("an impossible length");
  return head;
}

Status CheckPayload(Slice head, Slice payload, const FrameSeed& seed) {
  const auto sum = base::LoadLe<uint64_t>(head.data() + kPayloadSumAt);
  return sum == base::Checksum(payload, Seed(seed, true)) ? Status() : Damaged("damaged contents");
}

Status Channel::Send(TcpFrameKind kind, uint64_t id, Slice payload, uint64_t deadline_ns) {
  const std::string head =
      EncodeFrameHead({kind, id, static_cast<uint32_t>(payload.size())}, payload, sent_);
  ++sent_.sequence;
  return socket_.WriteAll(head, payload, deadline_ns);
}

Result<FrameHead> Channel::ReceiveHead(uint64_t deadline_ns) {
  head_.resize(kFrameHeadBytes);
  QUIRE_RETURN_IF_ERROR(socket_.ReadAll(head_.data(), head_.size(), deadline_ns));
  return DecodeFrameHead(head_, received_);
}

Status Channel::ReceivePayload(const FrameHead& head, char* to, uint64_t deadline_ns) {
  QUIRE_RETURN_IF_ERROR(socket_.ReadAll(to, head.size, deadline_ns));
  QUIRE_RETURN_IF_ERROR(CheckPayload(head_, Slice(to, head.size), received_));
  ++received_.sequence;
  return Status();
}

Result<std::string> Channel::Receive(TcpFrameKind kind, uint64_t id, uint64_t deadline_ns) {
  QUIRE_ASSIGN_OR_RETURN(const FrameHead head, ReceiveHead(deadline_ns));
  if (head.kind != kind || head.id != id) return Damaged("not what was asked for");
  std::string payload(head.size, '\0');
  QUIRE_RETURN_IF_ERROR(ReceivePayload(head, payload.data(), deadline_ns));
  return payload;
}

Status Channel::SendBytes(Slice bytes, const Pace& pace) {
  const uint64_t piece_bytes = PieceBytes(bytes.size());
  while (!bytes.empty()) {
    const Slice piece = bytes.substr(0, piece_bytes);
    QUIRE_RETURN_IF_ERROR(socket_.WriteAll({}, piece, PieceDeadline(pace)));
    bytes.remove_prefix(piece.size());
  }
  return Status();
}

Result<uint64_t> Channel::ReceiveBytes(char* to, uint64_t size, const Pace& pace,
                                       const Came& came) {
  base::PiecewiseChecksum hash(stream::DataSeed());
  const uint64_t piece_bytes = PieceBytes(size);
  for (uint64_t at = 0; at < size;) {
    const Slice piece(to + at, std::min(size - at, piece_bytes));
    QUIRE_RETURN_IF_ERROR(socket_.ReadAll(to + at, piece.size(), PieceDeadline(pace)));
    at += piece.size();
    if (came) came(at);
    hash.Add(piece);
  }
  return hash.Sum();
}

}  // namespace quire::streamd
