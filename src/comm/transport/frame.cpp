#include "comm/transport/frame.h"

#include <cstring>
#include <string>

#include "base/hash/hash.h"
#include "base/text/coding.h"

namespace quire::comm {
namespace {

constexpr uint32_t kFrameMagic = 0x31465551;  // "QUF1"
constexpr size_t kChecksumBytes = 8;

uint64_t FrameChecksum(const FramePath& path, uint64_t sequence, Slice frame) {
  const uint64_t pair = (static_cast<uint64_t>(static_cast<uint32_t>(path.source)) << 32) |
                        static_cast<uint32_t>(path.destination);
  const uint64_t seed = base::ChecksumSeed(base::ChecksumKind::kMessage, pair, sequence);
  return base::Checksum(frame.substr(kChecksumBytes), seed);
}

Status DamagedFrame(const std::string& what) {
  return Status(Code::kCorruption, "received a frame with " + what);
}

}  // namespace

char* JoinParts(const FrameParts& parts, char* to) {
  for (Slice part : {parts.header, parts.head, parts.body}) {
    if (part.empty()) continue;
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  return to;
}

void SealFrame(const FramePath& path, const FrameHeader& header, char* frame) {
  base::StoreLe<uint32_t>(frame + 8, kFrameMagic);
  base::StoreLe<uint32_t>(frame + 12, header.size);
  base::StoreLe<uint32_t>(frame + 16, header.session);
  base::StoreLe<uint32_t>(frame + 20, static_cast<uint32_t>(header.kind));
  base::StoreLe<uint64_t>(frame + 24, header.sequence);
  base::StoreLe<uint64_t>(frame + 32, header.acknowledged);
  const Slice whole(frame, kFrameHeaderBytes + header.size);
  base::StoreLe<uint64_t>(frame, FrameChecksum(path, header.sequence, whole));
}

Result<FrameHeader> DecodeFrameHeader(Slice frame) {
  if (frame.size() < kFrameHeaderBytes) {
    return DamagedFrame(std::to_string(frame.size()) + " bytes, less than its header");
  }
  const auto magic = base::LoadLe<uint32_t>(frame.data() + 8);
  if (magic != kFrameMagic) return DamagedFrame("magic " + std::to_string(magic));
  FrameHeader header;
  header.size = base::LoadLe<uint32_t>(frame.data() + 12);
  header.session = base::LoadLe<uint32_t>(frame.data() + 16);
  const auto kind = base::LoadLe<uint32_t>(frame.data() + 20);
  header.sequence = base::LoadLe<uint64_t>(frame.data() + 24);
  header.acknowledged = base::LoadLe<uint64_t>(frame.data() + 32);
  if (kind != static_cast<uint32_t>(FrameKind::kData) &&
      kind != static_cast<uint32_t>(FrameKind::kCredit)) {
    return DamagedFrame("kind " + std::to_string(kind));
  }
  header.kind = static_cast<FrameKind>(kind);
  if (header.size > kFrameBytesMax || header.size != frame.size() - kFrameHeaderBytes) {
    return DamagedFrame("a body of " + std::to_string(header.size) + " bytes where " +
                        std::to_string(frame.size() - kFrameHeaderBytes) + " came");
  }
  return header;
}

Status VerifyFrame(const FramePath& path, const FrameHeader& header, Slice frame) {
  const auto stored = base::LoadLe<uint64_t>(frame.data());
  if (stored == FrameChecksum(path, header.sequence, frame)) return Status();
  return DamagedFrame("a wrong checksum (from rank " + std::to_string(path.source) + " to rank " +
                      std::to_string(path.destination) + ", number " +
                      std::to_string(header.sequence) + ")");
}

}  // namespace quire::comm
