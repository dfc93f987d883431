// Hostile clients harm no other client: whatever they do, clients that have the token are served.
#include "tools/quire-streamd/connection_listener.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text/coding.h"
#include "io/files/machine.h"
#include "stream/remote/daemon_client.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"
#include "tools/quire-streamd/place_files.h"
#include "tools/quire-streamd/workers.h"

namespace quire::streamd::connection_listener_test {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLongNs = 20'000 * kMs;

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

// A listener that sends every request back, and counts every ring of a bell.
class ConnectionListenerTest : public ::testing::Test {
 protected:
  void Start(const ListenerLimits& limits) {
    auto listener = ConnectionListener::Open("127.0.0.1:0", place_.path(), token_, limits);
    ASSERT_OK(listener.status());
    listener_ = std::move(*listener);
    events_.on_request = [this](uint64_t id, std::shared_ptr<Channel> channel) {
      workers_.Run([this, id, channel] {
        const std::shared_lock<std::shared_mutex> held(held_);
        const Status status = Echo(*channel);
        listener_->Resume(id, status.ok());
      });
    };
    events_.on_bell = [this](std::shared_ptr<stream::QueueServer> queue) {
      for (const auto& asked : queue->Take()) {
        queue->Answer(asked.slot, stream::EncodeAnswer(Status(), "heard"));
      }
    };
    events_.on_tick = [this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++ticks_;
      ticked_.notify_all();
    };
    thread_ = std::thread([this] { EXPECT_OK(listener_->Run(events_)); });
  }
  void TearDown() override {
    if (listener_) listener_->Stop();
    if (thread_.joinable()) thread_.join();
  }

  static Status Echo(Channel& channel) {
    QUIRE_ASSIGN_OR_RETURN(const FrameHead head, channel.ReceiveHead(In(2000 * kMs)));
    std::string bytes(head.size, '\0');
    QUIRE_RETURN_IF_ERROR(channel.ReceivePayload(head, bytes.data(), In(2000 * kMs)));
    return channel.Send(TcpFrameKind::kAnswer, head.id, bytes, In(kLongNs));
  }
  Result<io::Socket> Come() { return io::Socket::ConnectTcp(listener_->address(), In(kLongNs)); }
  Result<std::unique_ptr<Channel>> ComeWith(const Token& token) {
    auto socket = Come();
    if (!socket.ok()) return socket.status();
    return CallAsClient(std::move(*socket), token, In(kLongNs));
  }
  static Status Ask(Channel& channel, uint64_t id) {
    QUIRE_RETURN_IF_ERROR(channel.Send(TcpFrameKind::kRequest, id, "hello", In(kLongNs)));
    QUIRE_ASSIGN_OR_RETURN(const std::string answer,
                           channel.Receive(TcpFrameKind::kAnswer, id, In(kLongNs)));
    return answer == "hello" ? Status() : Status(Code::kCorruption, "another answer");
  }
  Status ComeAndAsk() {
    QUIRE_ASSIGN_OR_RETURN(const auto channel, ComeWith(token_));
    return Ask(*channel, 1);
  }
  // Returns whether the listener closes this connection before the test gives up.
  static bool IsClosed(io::Socket& socket) {
    char byte = 0;
    return socket.ReadAll(&byte, 1, In(kLongNs)).code() == Code::kPeerFailed;
  }
  // Waits until the listener has handled all that came before.
  void AwaitTicks(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int until = ticks_ + count;
    ASSERT_TRUE(ticked_.wait_for(lock, std::chrono::seconds(20), [&] { return ticks_ >= until; }));
  }
  static ListenerLimits Quick() {
    ListenerLimits limits;
    limits.handshake_ms = 2000;  // on a busy machine a peer with the token needs some hundreds
    limits.tick_ms = 20;
    return limits;
  }

  const test::TempDirectory place_;
  const Token token_ = *Token::From(std::string(32, 't'));
  std::unique_ptr<ConnectionListener> listener_;
  ListenerEvents events_;
  std::thread thread_;
  std::shared_mutex held_;  // locked by a test: no request is answered
  std::mutex mutex_;
  std::condition_variable ticked_;
  int ticks_ = 0;
  Workers workers_{8};
};

TEST_F(ConnectionListenerTest, ServesAPeerWithTheTokenAgainAndAgain) {
  Start(Quick());
  auto channel = ComeWith(token_);
  ASSERT_OK(channel.status());
  for (uint64_t id = 1; id < 100; ++id) ASSERT_OK(Ask(**channel, id));
  AwaitTicks(2);
  EXPECT_EQ(listener_->counts().peers, 1u);
  EXPECT_EQ(listener_->counts().strangers, 0u);
}

TEST_F(ConnectionListenerTest, ClosesTheConnectionOfAWrongToken) {
  Start(Quick());
  auto friendly = ComeWith(token_);
  ASSERT_OK(friendly.status());
  EXPECT_EQ(ComeWith(*Token::From(std::string(32, 'x'))).status().code(), Code::kPeerFailed);
  EXPECT_OK(Ask(**friendly, 1));
  AwaitTicks(2);
  EXPECT_EQ(listener_->counts().strangers, 0u);
}

TEST_F(ConnectionListenerTest, ClosesAtOnceOnLengthsAndBytesThatCannotBe) {
  ListenerLimits limits = Quick();
  limits.handshake_ms = 1'000'000;  // so that no connection ends by time
  Start(limits);
  const std::string nonce(32, 'n');
  std::string huge = EncodeFrameHead({TcpFrameKind::kHello, 0, 0xffffffff}, nonce, {}) + nonce;
  std::string request = EncodeFrameHead({TcpFrameKind::kRequest, 0, 32}, nonce, {}) + nonce;
  for (const std::string& bytes : {huge, request, std::string(4096, 'x'), std::string(72, '\0')}) {
    auto socket = Come();
    ASSERT_OK(socket.status());
    (void)socket->WriteAll(bytes, {}, In(kLongNs)).ok();  // it may be closed already
    EXPECT_TRUE(IsClosed(*socket));
  }
  EXPECT_OK(ComeAndAsk());
}

TEST_F(ConnectionListenerTest, ClosesOnALengthThatCannotBeAlsoWhereTheTokenWasRight) {
  Start(Quick());
  auto channel = ComeWith(token_);
  ASSERT_OK(channel.status());
  ASSERT_OK((*channel)->socket().WriteAll(std::string(100, '\xff'), {}, In(kLongNs)));
  EXPECT_TRUE(IsClosed((*channel)->socket()));
  EXPECT_OK(ComeAndAsk());
}

TEST_F(ConnectionListenerTest, DoesNotWaitForTheSlow) {
  Start(Quick());
  auto silent = Come();
  auto slow = Come();
  ASSERT_OK(slow->WriteAll("Q", {}, In(kLongNs)));
  auto half = ComeWith(token_);  // a request that never ends
  ASSERT_OK(half.status());
  ASSERT_OK((*half)->socket().WriteAll("Q", {}, In(kLongNs)));
  EXPECT_OK(ComeAndAsk());
  EXPECT_TRUE(IsClosed(*silent));
  EXPECT_TRUE(IsClosed(*slow));
  EXPECT_TRUE(IsClosed((*half)->socket()));
}

TEST_F(ConnectionListenerTest, ForgetsAConnectionThatEndsInTheMiddle) {
  Start(Quick());
  for (int i = 0; i < 50; ++i) {
    auto socket = Come();
    ASSERT_OK(socket.status());
    if (i % 2 == 0) ASSERT_OK(socket->WriteAll("half a frame", {}, In(kLongNs)));
  }
  { ASSERT_OK(ComeWith(token_).status()); }
  EXPECT_OK(ComeAndAsk());
  AwaitTicks(2);
  EXPECT_EQ(listener_->counts().strangers, 0u);
  EXPECT_EQ(listener_->counts().peers, 0u);
}

TEST_F(ConnectionListenerTest, LetsInAPeerWithTheTokenWhileThousandsWait) {
  ListenerLimits limits = Quick();
  limits.strangers_max = 32;
  limits.handshake_ms = 1'000'000;
  Start(limits);
  auto friendly = ComeWith(token_);
  ASSERT_OK(friendly.status());
  std::vector<io::Socket> crowd;
  for (int i = 0; i < 3000; ++i) {
    auto socket = Come();
    ASSERT_OK(socket.status());
    if (crowd.size() < 200) {
      crowd.push_back(std::move(*socket));
    } else {
      crowd[static_cast<size_t>(i) % crowd.size()] = std::move(*socket);
    }
    if (i % 500 == 0) EXPECT_OK(ComeAndAsk());
  }
  EXPECT_OK(Ask(**friendly, 1));
  AwaitTicks(2);
  EXPECT_LE(listener_->counts().strangers, 32u);
}

TEST_F(ConnectionListenerTest, ClosesThePeerThatWasIdleLongestIfThereIsNoMoreRoom) {
  ListenerLimits limits = Quick();
  limits.peers_max = 4;
  Start(limits);
  std::vector<std::unique_ptr<Channel>> peers;
  for (int i = 0; i < 4; ++i) {
    auto channel = ComeWith(token_);
    ASSERT_OK(channel.status());
    ASSERT_OK(Ask(**channel, 1));
    AwaitTicks(2);  // its answer has gone by then: it is idle from here on
    peers.push_back(std::move(*channel));
  }
  ASSERT_OK(Ask(*peers[0], 2));
  AwaitTicks(2);
  EXPECT_OK(ComeAndAsk());
  EXPECT_TRUE(IsClosed(peers[1]->socket()));
  for (const size_t stays : {0, 2, 3}) EXPECT_OK(Ask(*peers[stays], 3));
  AwaitTicks(2);
  EXPECT_LE(listener_->counts().peers, 4u);
}

TEST_F(ConnectionListenerTest, TakesNoConnectionAwayWhoseRequestIsUnderWay) {
  ListenerLimits limits = Quick();
  limits.peers_max = 1;
  Start(limits);
  auto busy = ComeWith(token_);
  ASSERT_OK(busy.status());
  held_.lock();  // its request is not answered yet
  ASSERT_OK((*busy)->Send(TcpFrameKind::kRequest, 1, "hello", In(kLongNs)));
  AwaitTicks(2);
  EXPECT_EQ(ComeWith(token_).status().code(), Code::kPeerFailed);
  held_.unlock();
  EXPECT_OK((*busy)->Receive(TcpFrameKind::kAnswer, 1, In(kLongNs)).status());
  AwaitTicks(2);
  EXPECT_OK(ComeAndAsk());
}

TEST_F(ConnectionListenerTest, RefusesAReaderIfThereIsNoRoomForIt) {
  ListenerLimits limits = Quick();
  limits.readers_max = 1;
  Start(limits);
  stream::Request request;
  request.part = {"store", 0};
  stream::DaemonClient first(place_.path());
  ASSERT_OK(first.Call(request, In(kLongNs)).status());
  const Status refused = stream::DaemonClient(place_.path()).Call(request, In(kLongNs)).status();
  EXPECT_EQ(refused.code(), Code::kBusy);
  EXPECT_NE(refused.message().find("as many readers"), std::string::npos) << refused.ToString();
  EXPECT_OK(first.Call(request, In(kLongNs)).status());
}

TEST_F(ConnectionListenerTest, GivesAReaderAQueueAndForgetsItWithTheReader) {
  Start(Quick());
  {
    stream::DaemonClient reader(place_.path());
    stream::Request request;
    request.part = {"store", 0};
    auto answer = reader.Call(request, In(kLongNs));
    ASSERT_OK(answer.status());
    EXPECT_EQ(*answer, "heard");
    AwaitTicks(2);
    EXPECT_EQ(listener_->counts().readers, 1u);
  }
  AwaitTicks(2);
  EXPECT_EQ(listener_->counts().readers, 0u);
}

TEST_F(ConnectionListenerTest, IsFoundByAReaderWhoseOwnDaemonWasTheSecond) {
  auto& fs = io::PosixFileSystem();
  io::MadePaths made;
  auto lock = LockPlace(fs, place_.path(), &made);
  ASSERT_OK(lock.status());
  ::setenv(stream::kDaemonVariable, "/bin/false", 1);
  std::thread reader([this] {
    stream::DaemonClient client(place_.path());
    stream::Request request;
    request.part = {"store", 0};
    EXPECT_OK(client.Call(request, In(kLongNs)).status());
  });
  // The first daemon takes some time between locking the place and listening there.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  Start(Quick());
  reader.join();
  // If no daemon has locked the place, either, there is no daemon.
  lock->reset();
  const test::TempDirectory empty;
  stream::DaemonClient client(empty.path());
  EXPECT_EQ(client.Call({}, In(kLongNs)).status().code(), Code::kNotFound);
  ::unsetenv(stream::kDaemonVariable);
}

}  // namespace
}  // namespace quire::streamd::connection_listener_test
