// Arbitrary bytes from a stranger, in arbitrary frames: no client is admitted that has not proved
// that it has the token, and frames after that have bounded sizes.
//
// Input: one byte of choices, then the bytes that arrive. Choices: bit 0: the checksums of the
// supposed head are corrected first, so that more of it is read; bits 1 and 2: the bytes are the
// first frame, the second frame, or a frame of an established connection.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "stream/remote/request.h"
#include "tools/quire-streamd/handshake.h"
#include "tools/quire-streamd/tcp_frame.h"

namespace quire::streamd {
namespace {

constexpr uint64_t kKey = 42;

std::string Forge(std::string bytes, const FrameSeed& seed) {
  if (bytes.size() < kFrameHeadBytes) return bytes;
  const auto checksum = [&seed](Slice part, uint64_t payload) {
    return base::Checksum(part, base::ChecksumSeed(base::ChecksumKind::kStreamMessage, seed.key,
                                                   2 * seed.sequence + payload));
  };
  base::StoreLe<uint64_t>(bytes.data() + 24, checksum(Slice(bytes).substr(kFrameHeadBytes), 1));
  base::StoreLe<uint64_t>(bytes.data() + 32, checksum(Slice(bytes).substr(0, 32), 0));
  return bytes;
}

void RunStranger(int frames_before, bool forge, Slice input) {
  static const Token token = *Token::From(std::string(32, 't'));
  ServerHandshake handshake(token, std::string(kDigestBytes, 'n'));
  const std::string nonce(kDigestBytes, 'c');
  if (frames_before > 0) {
    const std::string hello =
        EncodeFrameHead({TcpFrameKind::kHello, 0, kDigestBytes}, nonce, {0, 0});
    QUIRE_CHECK(handshake.Consume(hello + nonce).ok());
  }
  const FrameSeed seed{0, static_cast<uint64_t>(frames_before)};
  const std::string frame = forge ? Forge(std::string(input), seed) : std::string(input);
  const auto answer = handshake.Consume(frame);
  QUIRE_CHECK(!handshake.done() && (!answer.ok() || frames_before == 0));
  if (answer.ok()) QUIRE_CHECK(answer->size() == kHandshakeFrameBytes);
}

void RunPeer(bool forge, Slice input) {
  const FrameSeed seed{kKey, 3};
  const std::string frame = forge ? Forge(std::string(input), seed) : std::string(input);
  const Slice head_bytes = Slice(frame).substr(0, kFrameHeadBytes);
  const auto head = DecodeFrameHead(head_bytes, seed);
  if (!head.ok()) return;
  QUIRE_CHECK(head->size <= stream::kAnswerBytesMax);
  const Slice payload = Slice(frame).substr(kFrameHeadBytes);
  if (payload.size() != head->size || !CheckPayload(head_bytes, payload, seed).ok()) return;
  if (head->kind == TcpFrameKind::kRequest) {
    (void)stream::DecodeRequest(payload).ok();
  } else if (const auto body = stream::DecodeAnswer(payload); body.ok()) {
    (void)stream::DecodeFetch(*body).ok();
  }
}

}  // namespace
}  // namespace quire::streamd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::vector<char> bytes(data + 1, data + size);
  const quire::Slice input(bytes.data(), bytes.size());
  const bool forge = (data[0] & 1) != 0;
  const int state = data[0] >> 1 & 3;
  if (state < 2) {
    quire::streamd::RunStranger(state, forge, input);
  } else {
    quire::streamd::RunPeer(forge, input);
  }
  return 0;
}
