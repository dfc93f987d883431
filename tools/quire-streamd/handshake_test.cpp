#include "tools/quire-streamd/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <string>
#include <thread>
#include <utility>

#include "io/files/machine.h"
#include "io/ipc/poller.h"
#include "stream/log/delta.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::streamd::handshake_test {
namespace {

constexpr uint64_t kLongNs = 20'000'000'000;

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

Token TokenOf(char c) {
  return *Token::From(std::string(32, c));
}

// Returns the two ends of a TCP connection.
std::pair<io::Socket, io::Socket> Ends() {
  auto listener = io::Socket::ListenTcp("127.0.0.1:0");
  EXPECT_OK(listener.status());
  auto client = io::Socket::ConnectTcp(*listener->LocalAddress(), In(kLongNs));
  EXPECT_OK(client.status());
  auto poller = io::Poller::New();
  EXPECT_OK((*poller)->Add(listener->fd(), 1));
  EXPECT_OK((*poller)->Wait(20'000).status());
  auto server = listener->Accept();
  EXPECT_OK(server.status());
  return {std::move(*client), std::move(*server)};
}

// Serves a handshake by waiting; the listener does the same without waiting.
Result<std::unique_ptr<Channel>> Serve(io::Socket socket, const Token& token) {
  ServerHandshake handshake(token, NewNonce());
  while (!handshake.done()) {
    std::string frame(kHandshakeFrameBytes, '\0');
    QUIRE_RETURN_IF_ERROR(socket.ReadAll(frame.data(), frame.size(), In(kLongNs)));
    QUIRE_ASSIGN_OR_RETURN(const std::string answer, handshake.Consume(frame));
    QUIRE_RETURN_IF_ERROR(socket.WriteAll(answer, {}, In(kLongNs)));
  }
  return std::make_unique<Channel>(std::move(socket), handshake.keys().to_client,
                                   handshake.keys().to_server);
}

struct Pair {
  Result<std::unique_ptr<Channel>> client = Status(Code::kNotFound);
  Result<std::unique_ptr<Channel>> server = Status(Code::kNotFound);
};

Pair Connect(const Token& of_client, const Token& of_server) {
  auto [client, server] = Ends();
  Pair pair;
  std::thread thread([&, socket = std::move(server)]() mutable {
    pair.server = Serve(std::move(socket), of_server);
  });
  pair.client = CallAsClient(std::move(client), of_client, In(kLongNs));
  thread.join();
  return pair;
}

TEST(Handshake, LetsInAPeerWithTheTokenAndCarriesFramesBothWays) {
  Pair pair = Connect(TokenOf('a'), TokenOf('a'));
  ASSERT_OK(pair.client.status());
  ASSERT_OK(pair.server.status());
  for (uint64_t id : {1, 2}) {
    ASSERT_OK((*pair.client)->Send(TcpFrameKind::kRequest, id, "question", In(kLongNs)));
    EXPECT_EQ(*(*pair.server)->Receive(TcpFrameKind::kRequest, id, In(kLongNs)), "question");
    ASSERT_OK((*pair.server)->Send(TcpFrameKind::kAnswer, id, "answer", In(kLongNs)));
    EXPECT_EQ(*(*pair.client)->Receive(TcpFrameKind::kAnswer, id, In(kLongNs)), "answer");
  }
}

TEST(Handshake, KeepsOutAPeerWithAnotherToken) {
  Pair pair = Connect(TokenOf('b'), TokenOf('a'));
  EXPECT_EQ(pair.client.status().code(), Code::kPeerFailed);
  EXPECT_EQ(pair.server.status().code(), Code::kInvalidArgument);
}

TEST(Handshake, DoesNotBelieveAServerThatLacksTheToken) {
  auto [client, server] = Ends();
  std::thread impostor([&, socket = std::move(server)]() mutable {
    // It accepts every client, and answers as a right server does, as far as it can.
    ServerHandshake handshake(TokenOf('x'), NewNonce());
    std::string frame(kHandshakeFrameBytes, '\0');
    EXPECT_OK(socket.ReadAll(frame.data(), frame.size(), In(kLongNs)));
    EXPECT_OK(socket.WriteAll(*handshake.Consume(frame), {}, In(kLongNs)));
    EXPECT_OK(socket.ReadAll(frame.data(), frame.size(), In(kLongNs)));
    const std::string proof = frame.substr(kFrameHeadBytes);
    const std::string head = EncodeFrameHead({TcpFrameKind::kWelcome, 0, 32}, proof, {0, 1});
    EXPECT_OK(socket.WriteAll(head, proof, In(kLongNs)));  // the client's own proof, sent back
  });
  const auto channel = CallAsClient(std::move(client), TokenOf('a'), In(kLongNs));
  impostor.join();
  EXPECT_EQ(channel.status().code(), Code::kPeerFailed);
}

TEST(Handshake, AcceptsNoProofOfAnotherConnection) {
  const Token token = TokenOf('a');
  ServerHandshake first(token, std::string(32, '1'));
  ServerHandshake second(token, std::string(32, '2'));
  const std::string nonce(32, 'n');
  const std::string hello = EncodeFrameHead({TcpFrameKind::kHello, 0, 32}, nonce, {0, 0}) + nonce;
  ASSERT_OK(first.Consume(hello).status());
  ASSERT_OK(second.Consume(hello).status());
  const std::string proof = token.Digest("quire-streamd 1 client", nonce, std::string(32, '1'));
  const std::string frame = EncodeFrameHead({TcpFrameKind::kProof, 0, 32}, proof, {0, 1}) + proof;
  EXPECT_EQ(second.Consume(frame).status().code(), Code::kInvalidArgument);
  EXPECT_OK(first.Consume(frame).status());
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
}

TEST(Frame, IsRefusedWhereAnyBitOfItIsAnother) {
  const std::string payload = "payload";
  const std::string good = EncodeFrameHead({TcpFrameKind::kAnswer, 3, 7}, payload, {9, 5});
  ASSERT_OK(DecodeFrameHead(good, {9, 5}).status());
  ASSERT_OK(CheckPayload(good, payload, {9, 5}));
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeFrameHead(bad, {9, 5}).ok()) << bit;
  }
  EXPECT_EQ(CheckPayload(good, "paYload", {9, 5}).code(), Code::kCorruption);
}

TEST(Frame, IsRefusedInAnotherPlaceOrConnection) {
  const std::string good = EncodeFrameHead({TcpFrameKind::kAnswer, 3, 0}, {}, {9, 5});
  EXPECT_EQ(DecodeFrameHead(good, {9, 6}).status().code(), Code::kCorruption);
  EXPECT_EQ(DecodeFrameHead(good, {8, 5}).status().code(), Code::kCorruption);
}

TEST(Frame, AnnouncesNoMoreThanItsKindMayHave) {
  const std::pair<TcpFrameKind, uint32_t> limits[] = {{TcpFrameKind::kHello, 32},
                                                      {TcpFrameKind::kRequest, 16 << 10},
                                                      {TcpFrameKind::kAnswer, 64 << 10}};
  for (const auto& [kind, size] : limits) {
    EXPECT_OK(DecodeFrameHead(EncodeFrameHead({kind, 0, size}, {}, {}), {}).status());
    EXPECT_EQ(DecodeFrameHead(EncodeFrameHead({kind, 0, size + 1}, {}, {}), {}).status().code(),
              Code::kCorruption);
  }
}

void ExpectCarries(size_t size, const Pair& pair) {
  SCOPED_TRACE(size);
  std::string bytes(size, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 3);
  std::thread sender([&] { EXPECT_OK((*pair.server)->SendBytes(bytes, {kLongNs, In(kLongNs)})); });
  std::string got(bytes.size(), '\0');
  const auto hash = (*pair.client)->ReceiveBytes(got.data(), got.size(), {kLongNs, In(kLongNs)});
  sender.join();
  ASSERT_OK(hash.status());
  EXPECT_TRUE(got == bytes);
  EXPECT_EQ(*hash, stream::DataHash(bytes));
  // More frames can follow the bytes.
  ASSERT_OK((*pair.server)->Send(TcpFrameKind::kAnswer, 5, "answer", In(kLongNs)));
  EXPECT_EQ(*(*pair.client)->Receive(TcpFrameKind::kAnswer, 5, In(kLongNs)), "answer");
}

TEST(Channel, CarriesBytesAndReturnsTheirHash) {
  const Pair pair = Connect(TokenOf('a'), TokenOf('a'));
  ASSERT_OK(pair.server.status());
  for (const size_t size : {1, (5 << 20) + 12'345, 32 << 20, (40 << 20) + 1}) {
    ExpectCarries(size, pair);
  }
}

// A receiver that waits for a piece of a MiB is woken even if the system buffers only part of one.
TEST(Channel, CarriesPiecesLargerThanTheSystemTakesIn) {
  const Pair pair = Connect(TokenOf('a'), TokenOf('a'));
  ASSERT_OK(pair.server.status());
  const int small = 64 << 10;
  ::setsockopt((*pair.client)->socket().fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  ExpectCarries(40 << 20, pair);
}

TEST(Token, IsMadeOnceAndReadOnlyIfNoOtherUserCanReadIt) {
  const test::TempDirectory place;
  const std::string path = place / ".token";
  io::FileSystem& fs = io::PosixFileSystem();
  EXPECT_EQ(Token::Load(fs, path, false).status().code(), Code::kNotFound);
  auto made = Token::Load(fs, path, true);
  ASSERT_OK(made.status());
  auto again = Token::Load(fs, path, true);
  ASSERT_OK(again.status());
  EXPECT_EQ(made->Digest("p", "c", "s"), again->Digest("p", "c", "s"));
  EXPECT_NE(made->Digest("p", "c", "s"), TokenOf('a').Digest("p", "c", "s"));
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(Token::Load(fs, path, true).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Token::From("short").status().code(), Code::kInvalidArgument);
}

TEST(Token, MakesTheDigestOfTheStandard) {
  // The HMAC-SHA256 by another implementation (Python's hmac), of 1 "p" 1 "c" 1 "s" under 32 times
  // "a".
  const std::string digest = TokenOf('a').Digest("p", "c", "s");
  std::string hex;
  for (const char c : digest) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    hex += two;
  }
  EXPECT_EQ(hex, "da97f22c10be23d9ef47f884165768bf9b99ea74b68bc9622f3ae4aadfb2d522");
}

}  // namespace
}  // namespace quire::streamd::handshake_test
