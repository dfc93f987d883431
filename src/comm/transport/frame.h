/// The header in front of each frame, and the checksum that binds a frame to its sender, receiver
/// and place in their order.
///
/// Layer      comm
/// Encoding   docs/format/frame.md
/// Threads    pure functions
#pragma once

#include <cstdint>

#include "comm/transport/transport.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

constexpr size_t kFrameHeaderBytes = 40;

enum class FrameKind : uint32_t {
  kData = 1,
  kCredit = 2,  ///< no body: carries `acknowledged` alone
};

struct FrameHeader {
  uint32_t size = 0;  ///< bytes of the body
  uint32_t session =
      0;  ///< of the transport: strangers (left over from an earlier one) are recognized by it
  FrameKind kind = FrameKind::kData;
  uint64_t sequence = 0;      ///< data frames of this pair before it
  uint64_t acknowledged = 0;  ///< data frames of the other direction taken so far (MPI; else 0)
};

/// The path to which a frame's checksum is bound.
struct FramePath {
  int source = 0;
  int destination = 0;
};

/// Writes the header of a body that is already at `frame` + kFrameHeaderBytes.
void SealFrame(const FramePath& path, const FrameHeader& header, char* frame);
/// Copies the pieces in order; returns the end of the copy.
char* JoinParts(const FrameParts& parts, char* to);

/// Returns the header of `frame`, which may be any bytes. Checks magic, kind and size (it must fill
/// `frame` exactly), but not the checksum. kCorruption.
Result<FrameHeader> DecodeFrameHeader(Slice frame);
/// Returns kCorruption unless the checksum is right for this path.
Status VerifyFrame(const FramePath& path, const FrameHeader& header, Slice frame);

}  // namespace quire::comm
