// Arbitrary frames, one after the other, from a peer that has the token: the daemon answers each by
// one frame, or ends the connection.
//
// Input: for each frame one byte of choices, two of length, and the bytes of that length. Choices:
// bits 0 to 3: the kind; bit 7: the bytes are sent as they are, without a valid head before them.
#include <stdlib.h>
#include <sys/socket.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/check.h"
#include "base/text/coding.h"
#include "io/files/machine.h"
#include "tools/quire-streamd/daemon.h"
#include "tools/quire-streamd/daemon_testing.h"

namespace quire::streamd {
namespace {

constexpr uint64_t kToServer = 42;
constexpr uint64_t kToClient = 43;
// Less than the system buffers at once.
constexpr size_t kBytesMax = 64 << 10;
constexpr uint64_t kLongNs = 5'000'000'000;

// Returns the metadata service, with a part that no program writes any more, so that no reader
// waits for it.
std::unique_ptr<Daemon> NewDaemon() {
  const auto part = std::make_shared<FakePart>();
  part->Put("T", "one");
  part->Put("T", std::string(3000, 'L'));
  part->Put("U", "");
  part->finished = true;
  Streams streams;
  streams.open_part = [part](const stream::StorePart& asked) {
    return asked.store == "f" ? Result<std::unique_ptr<StreamReader>>(NewFakeReader(part))
                              : Status(Code::kNotFound);
  };
  std::string place = "/tmp/quire-peer-fuzz-XXXXXX";
  QUIRE_CHECK(::mkdtemp(place.data()) != nullptr);
  DaemonOptions options;
  options.place = place;
  options.metadata_here = true;
  auto daemon = Daemon::Open(options, *Token::From(std::string(32, 't')), std::move(streams));
  QUIRE_CHECK(daemon.ok());
  std::filesystem::remove_all(place);
  return std::move(*daemon);
}

// Returns all that the peer sends, at once.
std::string FramesOf(Slice input, uint64_t* frames) {
  std::string bytes;
  FrameSeed seed{kToServer, 0};
  while (input.size() >= 3 && bytes.size() < kBytesMax) {
    const auto choices = static_cast<uint8_t>(input[0]);
    const auto size = base::LoadLe<uint16_t>(input.data() + 1);
    input.remove_prefix(3);
    const Slice payload = input.substr(0, size);
    input.remove_prefix(payload.size());
    if ((choices & 0x80) == 0) {
      const auto kind = static_cast<TcpFrameKind>(choices & 0xf);
      bytes +=
          EncodeFrameHead({kind, *frames, static_cast<uint32_t>(payload.size())}, payload, seed);
    }
    bytes += payload;
    ++seed.sequence;
    ++*frames;
  }
  return bytes;
}

// Receives the answer to a request: a frame, and a version's bytes if the frame announces them.
void TakeAnswer(Channel& channel) {
  const uint64_t now = io::RealClock().NowNs();
  const auto head = channel.ReceiveHead(now + kLongNs);
  QUIRE_CHECK(head.ok() && head->kind == TcpFrameKind::kAnswer);
  std::string answer(head->size, '\0');
  QUIRE_CHECK(channel.ReceivePayload(*head, answer.data(), now + kLongNs).ok());
  const auto body = stream::DecodeAnswer(answer);
  if (!body.ok()) {
    QUIRE_CHECK(body.status().code() != Code::kOk);
    return;
  }
  const auto fetch = stream::DecodeFetch(*body);
  char more = 0;
  const bool follow = ::recv(channel.socket().fd(), &more, 1, MSG_PEEK) > 0;
  if (!follow) return;
  QUIRE_CHECK(fetch.ok() && fetch->hash);
  std::string bytes(fetch->version.bytes, '\0');
  const auto hash = channel.ReceiveBytes(bytes.data(), bytes.size(), {kLongNs, now + kLongNs});
  QUIRE_CHECK(hash.ok() && *hash == *fetch->hash);
  QUIRE_CHECK(::recv(channel.socket().fd(), &more, 1, MSG_PEEK) <= 0);
}

void Run(Slice input) {
  static const std::unique_ptr<Daemon> daemon = NewDaemon();
  int ends[2];
  QUIRE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Channel server(io::Socket(io::FileDescriptor(ends[0])), kToClient, kToServer);
  Channel peer(io::Socket(io::FileDescriptor(ends[1])), kToServer, kToClient);
  uint64_t frames = 0;
  const std::string bytes = FramesOf(input, &frames);
  const auto sent = peer.socket().WriteSome(bytes);
  QUIRE_CHECK(sent.ok() && *sent == bytes.size());
  QUIRE_CHECK(::shutdown(ends[1], SHUT_WR) == 0);
  // Raw bytes may contain frames, which are more than were counted; but serving ends.
  for (uint64_t served = 0; daemon->ServePeer(server).ok(); ++served) {
    QUIRE_CHECK(served <= bytes.size() / kFrameHeadBytes);
    TakeAnswer(peer);
  }
}

}  // namespace
}  // namespace quire::streamd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<char> bytes(data, data + size);
  quire::streamd::Run(quire::Slice(bytes.data(), bytes.size()));
  return 0;
}
