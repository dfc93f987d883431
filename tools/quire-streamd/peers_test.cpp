// Peers that have the token and yet send wrong answers.
#include "tools/quire-streamd/peers.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/files/machine.h"
#include "io/ipc/poller.h"
#include "stream/log/delta.h"
#include "tests/support/status_asserts.h"

namespace quire::streamd::peers_test {
namespace {

constexpr uint64_t kLongNs = 20'000'000'000;

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

// Fetches a version of `sent.bytes` bytes from a daemon that answers the request with `answer`.
class PeersTest : public ::testing::Test {
 protected:
  using Answer = std::function<Status(Channel& channel, uint64_t id)>;

  Status Fetch(const Answer& answer) {
    auto listener = io::Socket::ListenTcp("127.0.0.1:0");
    EXPECT_OK(listener.status());
    std::thread daemon([&] { EXPECT_OK(Serve(*listener, answer)); });
    stream::Request request;
    request.operation = stream::RequestOperation::kFetch;
    request.part = {"field", 3};
    request.key = "T";
    Peers peers(token_);
    const Status status = peers
                              .Fetch(*listener->LocalAddress(), request, In(kLongNs),
                                     {[this](const StreamVersion& v) {
                                        got_.assign(v.bytes, '-');
                                        return Result<char*>(got_.data());
                                      },
                                      [this](uint64_t bytes) { came_.push_back(bytes); }})
                              .status();
    daemon.join();
    return status;
  }
  // Serves one connection with one request.
  Status Serve(io::Socket& listener, const Answer& answer) {
    QUIRE_ASSIGN_OR_RETURN(const auto poller, io::Poller::New());
    QUIRE_RETURN_IF_ERROR(poller->Add(listener.fd(), 1));
    QUIRE_RETURN_IF_ERROR(poller->Wait(20'000).status());
    QUIRE_ASSIGN_OR_RETURN(io::Socket socket, listener.Accept());
    ServerHandshake handshake(token_, NewNonce());
    while (!handshake.done()) {
      std::string frame(kHandshakeFrameBytes, '\0');
      QUIRE_RETURN_IF_ERROR(socket.ReadAll(frame.data(), frame.size(), In(kLongNs)));
      QUIRE_ASSIGN_OR_RETURN(const std::string reply, handshake.Consume(frame));
      QUIRE_RETURN_IF_ERROR(socket.WriteAll(reply, {}, In(kLongNs)));
    }
    Channel channel(std::move(socket), handshake.keys().to_client, handshake.keys().to_server);
    QUIRE_ASSIGN_OR_RETURN(const FrameHead head, channel.ReceiveHead(In(kLongNs)));
    std::string request(head.size, '\0');
    QUIRE_RETURN_IF_ERROR(channel.ReceivePayload(head, request.data(), In(kLongNs)));
    return answer(channel, head.id);
  }
  // Announces `bytes`, and sends `sent`.
  static Status Send(Channel& channel, uint64_t id, const std::string& bytes, Slice sent) {
    stream::FetchBody body;
    body.version.version = 4;
    body.version.bytes = bytes.size();
    body.hash = stream::DataHash(bytes);
    const std::string answer = stream::EncodeAnswer(Status(), stream::EncodeFetch(body));
    QUIRE_RETURN_IF_ERROR(channel.Send(TcpFrameKind::kAnswer, id, answer, In(kLongNs)));
    return channel.SendBytes(sent, {kLongNs, In(kLongNs)});
  }

  const Token token_ = *Token::From(std::string(32, 't'));
  std::string got_;
  std::vector<uint64_t> came_;
};

TEST_F(PeersTest, FetchBytesThatAreWhatTheAnswerSays) {
  const std::string bytes(1 << 20, 'b');
  EXPECT_OK(Fetch([&](Channel& channel, uint64_t id) { return Send(channel, id, bytes, bytes); }));
  EXPECT_TRUE(got_ == bytes);
  EXPECT_EQ(came_, (std::vector<uint64_t>{256 << 10, 512 << 10, 768 << 10, 1 << 20}));
}

TEST_F(PeersTest, AFetchFailsIfTheBytesDiffer) {
  const std::string bytes(1 << 20, 'b');
  for (const size_t at : {size_t{0}, size_t{500'000}, bytes.size() - 1}) {
    std::string wrong = bytes;
    wrong[at] = 'c';
    const Status status =
        Fetch([&](Channel& channel, uint64_t id) { return Send(channel, id, bytes, wrong); });
    EXPECT_EQ(status.code(), Code::kCorruption) << at;
  }
}

TEST_F(PeersTest, AFetchFailsIfBytesAreMissing) {
  const std::string bytes(1 << 20, 'b');
  for (const size_t size : {size_t{0}, size_t{300'000}, bytes.size() - 1}) {
    const Status status = Fetch([&](Channel& channel, uint64_t id) {
      return Send(channel, id, bytes, Slice(bytes).substr(0, size));
    });
    EXPECT_EQ(status.code(), Code::kPeerFailed) << size;
  }
}

TEST_F(PeersTest, AFetchFailsIfTheAnswerIsMalformed) {
  const Status none = Fetch([](Channel& channel, uint64_t id) {
    return channel.Send(TcpFrameKind::kAnswer, id, "\x01\x02\x03", In(kLongNs));
  });
  EXPECT_EQ(none.code(), Code::kCorruption);
  const Status raw = Fetch([](Channel& channel, uint64_t) {
    return channel.SendBytes(std::string(4096, 'Q'), {kLongNs, In(kLongNs)});
  });
  EXPECT_EQ(raw.code(), Code::kCorruption);
}

}  // namespace
}  // namespace quire::streamd::peers_test
