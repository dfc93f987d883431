#include "io/ipc/socket.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "io/files/machine.h"
#include "io/ipc/poller.h"
#include "io/paths/private_file.h"
#include "io/paths/process.h"
#include "io/ipc/sealed_memory.h"
#include "tests/support/resource_limit.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::io::socket_test {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLongNs = 20'000 * kMs;

uint64_t In(uint64_t ns) {
  return RealClock().NowNs() + ns;
}

// Waits for a connection and accepts it.
Result<Socket> AcceptOne(Socket& listener) {
  QUIRE_ASSIGN_OR_RETURN(const auto poller, Poller::New());
  QUIRE_RETURN_IF_ERROR(poller->Add(listener.fd(), 1));
  QUIRE_RETURN_IF_ERROR(poller->Wait(20'000).status());
  return listener.Accept();
}

std::pair<Socket, Socket> TcpPair() {
  auto listener = Socket::ListenTcp("127.0.0.1:0");
  EXPECT_OK(listener.status());
  auto address = listener->LocalAddress();
  auto client = Socket::ConnectTcp(*address, In(kLongNs));
  EXPECT_OK(client.status());
  auto server = AcceptOne(*listener);
  EXPECT_OK(server.status());
  return {std::move(*client), std::move(*server)};
}

TEST(Socket, CarriesBytesOfAnySizeOverTcp) {
  auto [client, server] = TcpPair();
  const std::string head = "head";
  const std::string body(5 << 20, 'x');  // more than a socket holds
  std::thread sender([&] { EXPECT_OK(client.WriteAll(head, body, In(kLongNs))); });
  std::string got(head.size() + body.size(), '\0');
  EXPECT_OK(server.ReadAll(got.data(), got.size(), In(kLongNs)));
  sender.join();
  EXPECT_TRUE(got == head + body);
  EXPECT_EQ(*server.PeerHost(), "127.0.0.1");
}

TEST(Socket, IsReadableAtOneByteAlsoAfterALargePiece) {
  auto [client, server] = TcpPair();
  std::string got(1 << 20, '\0');
  std::thread reader([&] { EXPECT_OK(server.ReadAll(got.data(), got.size(), In(kLongNs))); });
  for (size_t at = 0; at < got.size(); at += 1000) {
    const std::string part(std::min<size_t>(1000, got.size() - at), 'x');
    EXPECT_OK(client.WriteAll({}, part, In(kLongNs)));
  }
  reader.join();
  EXPECT_TRUE(got == std::string(got.size(), 'x'));
  auto poller = Poller::New();
  ASSERT_OK((*poller)->Add(server.fd(), 1));
  ASSERT_OK(client.WriteAll("x", {}, In(kLongNs)));
  EXPECT_EQ(*(*poller)->Wait(20'000), std::vector<uint64_t>{1});
}

TEST(Socket, NoCallWaitsBeyondItsDeadline) {
  auto [client, server] = TcpPair();
  char byte = 0;
  EXPECT_EQ(server.ReadAll(&byte, 1, In(5 * kMs)).code(), Code::kTimedOut);
  const std::string much(64 << 20, 'x');  // which the peer does not read
  EXPECT_EQ(client.WriteAll("", much, In(20 * kMs)).code(), Code::kTimedOut);
  EXPECT_FALSE(server.PeerGone());
}

TEST(Socket, AReadFailsOnceThePeerHasGone) {
  auto [client, server] = TcpPair();
  client = Socket();
  char byte = 0;
  EXPECT_EQ(server.ReadAll(&byte, 1, In(kLongNs)).code(), Code::kPeerFailed);
  EXPECT_TRUE(server.PeerGone());
}

TEST(Socket, RefusesAddressesThatAreNone) {
  for (const char* address : {"", "127.0.0.1", ":80", "host:", "256.0.0.1:x"}) {
    EXPECT_EQ(Socket::ListenTcp(address).status().code(), Code::kInvalidArgument) << address;
  }
  auto listener = Socket::ListenTcp("127.0.0.1:0");
  EXPECT_EQ(Socket::ListenTcp(*listener->LocalAddress()).status().code(), Code::kBusy);
}

TEST(Socket, FindsAListenerByAnyAddressOfAName) {
  auto listener = Socket::ListenTcp("127.0.0.1:0");
  ASSERT_OK(listener.status());
  const std::string port = SplitAddress(*listener->LocalAddress())->second;
  EXPECT_OK(Socket::ConnectTcp("localhost:" + port, In(kLongNs)).status());
  const std::string closed = *listener->LocalAddress();
  *listener = Socket();
  EXPECT_EQ(Socket::ConnectTcp(closed, In(kLongNs)).status().code(), Code::kPeerFailed);
}

TEST(Socket, PeerUserNamesTheUserOfALocalConnection) {
  const test::TempDirectory place;
  auto listener = Socket::ListenLocal(place.path(), "sock");
  ASSERT_OK(listener.status());
  auto client = Socket::ConnectLocal(place.path(), "sock");
  ASSERT_OK(client.status());
  auto server = AcceptOne(*listener);
  ASSERT_OK(server.status());
  EXPECT_EQ(*server->PeerUser(), UserId());
  EXPECT_EQ(*client->PeerUser(), UserId());
  EXPECT_EQ(listener->Accept().status().code(), Code::kNotFound);
}

TEST(Socket, IsFoundAtAPathOfAnyLengthAndTakesTheNameFromOneThatDied) {
  const test::TempDirectory place;
  const std::string deep = place / std::string(200, 'd');
  ASSERT_OK(PosixFileSystem().MakeDirectory(deep));
  EXPECT_EQ(Socket::ConnectLocal(deep, "sock").status().code(), Code::kNotFound);
  { ASSERT_OK(Socket::ListenLocal(deep, "sock").status()); }
  EXPECT_EQ(Socket::ConnectLocal(deep, "sock").status().code(), Code::kNotFound);
  auto listener = Socket::ListenLocal(deep, "sock");
  ASSERT_OK(listener.status());
  EXPECT_OK(Socket::ConnectLocal(deep, "sock").status());
}

TEST(Socket, HandsOverMemoryThatBothSee) {
  const test::TempDirectory place;
  auto listener = Socket::ListenLocal(place.path(), "sock");
  auto client = Socket::ConnectLocal(place.path(), "sock");
  auto server = AcceptOne(*listener);
  ASSERT_OK(server.status());
  auto mine = SealedMemory::Create(8192);
  ASSERT_OK(mine.status());
  ASSERT_OK(server->SendDescriptor((*mine)->fd()));
  auto fd = client->ReceiveDescriptor(In(kLongNs));
  ASSERT_OK(fd.status());
  auto theirs = SealedMemory::Map(std::move(*fd), 8192);
  ASSERT_OK(theirs.status());
  std::memcpy((*mine)->data() + 8000, "here", 5);
  EXPECT_STREQ((*theirs)->data() + 8000, "here");
  EXPECT_NE(::ftruncate((*theirs)->fd(), 0), 0) << "its size is sealed";
}

TEST(SealedMemory, RefusesWhatCouldBePulledAway) {
  FileDescriptor open(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 4096), 0);
  EXPECT_EQ(SealedMemory::Map(std::move(open), 4096).status().code(), Code::kCorruption);
  auto small = SealedMemory::Create(4096);
  FileDescriptor copy(::dup((*small)->fd()));
  EXPECT_EQ(SealedMemory::Map(std::move(copy), 8192).status().code(), Code::kCorruption);
}

TEST(Socket, RefusesAPeerThatHandsOverNothing) {
  const test::TempDirectory place;
  auto listener = Socket::ListenLocal(place.path(), "sock");
  auto client = Socket::ConnectLocal(place.path(), "sock");
  auto server = AcceptOne(*listener);
  ASSERT_OK(server->WriteAll("x", "", In(kLongNs)));
  EXPECT_EQ(client->ReceiveDescriptor(In(kLongNs)).status().code(), Code::kPeerFailed);
}

TEST(Socket, ARefusalArrivesAsBusy) {
  const test::TempDirectory place;
  auto listener = Socket::ListenLocal(place.path(), "sock");
  auto client = Socket::ConnectLocal(place.path(), "sock");
  auto server = AcceptOne(*listener);
  ASSERT_OK(server->SendRefusal());
  EXPECT_EQ(client->ReceiveDescriptor(In(kLongNs)).status().code(), Code::kBusy);
}

// As for files: this is no lack of space, and passes once descriptors are closed.
TEST(Socket, WithoutDescriptorsMemoryIsShort) {
  auto listener = Socket::ListenTcp("127.0.0.1:0");
  ASSERT_OK(listener.status());
  auto address = listener->LocalAddress();
  ASSERT_OK(address.status());
  auto client = Socket::ConnectTcp(*address, In(kLongNs));
  ASSERT_OK(client.status());
  {
    const test::ResourceLimit none(RLIMIT_NOFILE, 0);
    const Status made = Socket::ListenTcp("127.0.0.1:0").status();
    EXPECT_CODE(made, Code::kOutOfMemory);
    EXPECT_NE(made.message().find("ulimit -n"), std::string::npos) << made.message();
    EXPECT_CODE(listener->Accept().status(), Code::kOutOfMemory);
  }
  EXPECT_OK(AcceptOne(*listener).status());
}

TEST(Poller, SaysOnceWhatIsToBeSaidOnceUntilItIsRearmed) {
  auto [client, server] = TcpPair();
  auto poller = Poller::New();
  ASSERT_OK((*poller)->Add(server.fd(), 7, true));
  ASSERT_OK(client.WriteAll("x", "", In(kLongNs)));
  EXPECT_EQ(*(*poller)->Wait(20'000), std::vector<uint64_t>{7});
  EXPECT_TRUE((*poller)->Wait(0)->empty());
  ASSERT_OK((*poller)->Rearm(server.fd(), 7));
  EXPECT_EQ(*(*poller)->Wait(20'000), std::vector<uint64_t>{7});
  (*poller)->Wake();
  EXPECT_TRUE((*poller)->Wait(20'000)->empty());
}

TEST(PrivateFile, AReadFailsIfOtherUsersHaveAccess) {
  const test::TempDirectory place;
  const std::string path = place / "secret";
  EXPECT_EQ(ReadPrivateFile(path, 100).status().code(), Code::kNotFound);
  ASSERT_OK(WriteFile(PosixFileSystem(), path, "secret"));
  auto bytes = ReadPrivateFile(path, 6);
  ASSERT_OK(bytes.status());
  EXPECT_EQ(*bytes, "secret");
  EXPECT_EQ(ReadPrivateFile(path, 5).status().code(), Code::kInvalidArgument);
  for (const mode_t mode : {0640, 0604, 0620}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(ReadPrivateFile(path, 100).status().code(), Code::kInvalidArgument) << mode;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(::symlink(path.c_str(), (place / "link").c_str()), 0);
  EXPECT_FALSE(ReadPrivateFile(place / "link", 100).ok());
  EXPECT_FALSE(ReadPrivateFile(place.path(), 100).ok());
}

TEST(Process, StartDetachedReportsHowTheStartEnded) {
  const std::string shell = FindProgram("sh");
  ASSERT_FALSE(shell.empty());
  EXPECT_OK(StartDetached(shell, {"-c", "exit 0"}, In(kLongNs)));
  EXPECT_EQ(StartDetached(shell, {"-c", "exit 3"}, In(kLongNs)).code(), Code::kPeerFailed);
  EXPECT_EQ(StartDetached("/absent/program", {}, In(kLongNs)).code(), Code::kNotFound);
  EXPECT_EQ(FindProgram("quire-no-such-program"), "");
}

}  // namespace
}  // namespace quire::io::socket_test
