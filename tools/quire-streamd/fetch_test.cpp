// Versions of a real log are sent to peers that do not take them as they should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "io/files/machine.h"
#include "stream/remote/remote_reader.h"
#include "stream/store/local_reader.h"
#include "stream/store/mirror.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"
#include "tools/quire-streamd/daemon.h"
#include "tools/quire-streamd/handshake.h"

namespace quire::streamd::fetch_test {
namespace {

constexpr uint64_t kLongNs = 20'000'000'000;
// More than the system buffers for a peer.
constexpr uint64_t kVersionBytes = 16 << 20;

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

// A place with a writing program and a daemon.
class FetchTest : public ::testing::Test {
 protected:
  void OpenWriter() {
    StreamOptions options;
    options.log_bytes = 5 * kVersionBytes;
    options.wait_ms = 10'000;
    auto writer = stream::OpenWriter(io::PosixFileSystem(), place_.path(), "field", 0, options);
    ASSERT_OK(writer.status());
    writer_ = std::move(*writer);
    const Result<char*> memory = writer_->Create("T", kVersionBytes);
    ASSERT_OK(memory.status());
    memory_ = *memory;
  }
  void SetUp() override {
    OpenWriter();
    ASSERT_OK(writer_->Put("T").status());
    DaemonOptions daemon;
    daemon.place = place_.path();
    daemon.metadata_here = true;
    auto opened =
        Daemon::Open(daemon, token_, StreamsOf(io::PosixFileSystem(), place_.path(), 1 << 20));
    ASSERT_OK(opened.status());
    daemon_ = std::move(*opened);
    thread_ = std::thread([this] { EXPECT_OK(daemon_->Run()); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    daemon_->Stop();
    thread_.join();
    EXPECT_TRUE(daemon_->Finish(20'000));
  }

  // Requests the newest version, whose bytes are on their way when this returns.
  Result<std::unique_ptr<Channel>> AskForTheNewest() {
    QUIRE_ASSIGN_OR_RETURN(io::Socket socket,
                           io::Socket::ConnectTcp(daemon_->address(), In(kLongNs)));
    const int small = 64 << 10;
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    QUIRE_ASSIGN_OR_RETURN(auto channel, CallAsClient(std::move(socket), token_, In(kLongNs)));
    stream::Request request;
    request.operation = stream::RequestOperation::kFetch;
    request.part = {"field", 0};
    request.key = "T";
    QUIRE_RETURN_IF_ERROR(
        channel->Send(TcpFrameKind::kRequest, 1, stream::EncodeRequest(request), In(kLongNs)));
    QUIRE_ASSIGN_OR_RETURN(const std::string answer,
                           channel->Receive(TcpFrameKind::kAnswer, 1, In(kLongNs)));
    QUIRE_RETURN_IF_ERROR(stream::DecodeAnswer(answer).status());
    return channel;
  }

  const test::TempDirectory place_;
  const Token token_ = *Token::From(std::string(32, 't'));
  std::unique_ptr<StreamWriter> writer_;
  char* memory_ = nullptr;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
};

// The peer reads 640 KiB in each second: no piece is late, and the whole version would take half a
// minute.
TEST_F(FetchTest, HoldsTheWritersLogNoLongerForAPeerThatTakesItSlowly) {
  auto channel = AskForTheNewest();
  ASSERT_OK(channel.status());
  uint64_t taken = 0;
  std::thread peer([&] {
    std::string piece(16 << 10, '\0');
    while ((*channel)->socket().ReadAll(piece.data(), piece.size(), In(kLongNs)).ok()) {
      taken += piece.size();
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
  });
  for (int i = 0; i < 8; ++i) EXPECT_OK(writer_->Put("T").status());
  EXPECT_GT(writer_->Statistics().pinned_waits, 0u) << "it held nothing";
  ::shutdown((*channel)->socket().fd(), SHUT_RDWR);
  peer.join();
  EXPECT_LT(taken, kVersionBytes);
}

TEST_F(FetchTest, HoldsTheWritersLogNoLongerForAPeerThatTakesNothing) {
  auto channel = AskForTheNewest();
  ASSERT_OK(channel.status());
  for (int i = 0; i < 8; ++i) EXPECT_OK(writer_->Put("T").status());
  EXPECT_GT(writer_->Statistics().pinned_waits, 0u) << "it held nothing";
}

// Another node, whose gets copy a version before all of it has arrived.
class FetchingNode : public FetchTest {
 protected:
  void SetUp() override {
    FetchTest::SetUp();
    DaemonOptions options;
    options.place = here_.path();
    options.metadata = daemon_->address();
    options.limits.tick_ms = 20;
    auto opened = Daemon::Open(options, token_,
                               StreamsOf(io::PosixFileSystem(), here_.path(), 4 * kVersionBytes));
    ASSERT_OK(opened.status());
    fetching_ = std::move(*opened);
    fetching_thread_ = std::thread([this] { EXPECT_OK(fetching_->Run()); });
    Result<std::unique_ptr<StreamReader>> reader = Status(Code::kNotFound);
    for (const uint64_t until = In(kLongNs);
         reader.status().code() == Code::kNotFound && io::RealClock().NowNs() < until;) {
      reader = stream::OpenReader(io::PosixFileSystem(), here_.path(), "field", 0, {});
    }
    ASSERT_OK(reader.status());
    reader_ = std::move(*reader);
  }
  void TearDown() override {
    reader_.reset();
    if (fetching_thread_.joinable()) {
      fetching_->Stop();
      fetching_thread_.join();
      EXPECT_TRUE(fetching_->Finish(20'000));
    }
    FetchTest::TearDown();
  }
  // Looks on a thread of its own, because the buffer allocator of a get may not read streams.
  bool MirrorHas(uint64_t version) {
    bool has = false;
    std::thread([&] {
      auto mirror = stream::OpenLocalReader(io::PosixFileSystem(),
                                            stream::MirrorPlace(here_.path()), "field", 0);
      has = mirror.ok() && (*mirror)->View("T", version).ok();
    }).join();
    return has;
  }

  // Returns the time of the oldest version at the owner; 0: unknown.
  uint64_t TimeOfTheOldest() {
    const auto versions = reader_->Versions("T");
    return versions.ok() && !versions->empty() ? versions->back().unix_time_ns : 0;
  }

  // Damages these bytes wherever they are in the mirror's log.
  void DamageMirror(const std::string& bytes) {
    const std::string path = stream::MirrorPlace(here_.path()) + "/field/log-0";
    Result<std::string> log = io::ReadFile(io::PosixFileSystem(), path, UINT64_MAX);
    ASSERT_OK(log.status());
    const auto file = io::PosixFileSystem().Open(path, io::FileOpenMode::kReadWrite);
    ASSERT_OK(file.status());
    const size_t begin = log->find(bytes);
    ASSERT_NE(begin, std::string::npos);
    for (size_t at = begin; at != std::string::npos; at = log->find(bytes, at + bytes.size())) {
      ASSERT_OK((*file)->WriteAt(at + 100, "y"));
      at += kVersionBytes / 2;
    }
  }

  const test::TempDirectory here_;
  std::unique_ptr<Daemon> fetching_;
  std::thread fetching_thread_;
  std::unique_ptr<StreamReader> reader_;
};

TEST_F(FetchingNode, AGetCopiesWhatHasComeBeforeAllOfItHas) {
  constexpr uint64_t kTriesMax = 50;  // if this thread sleeps while it comes, it is complete
  std::string got;
  bool before = false;
  for (uint64_t version = 2; version < kTriesMax && !before; ++version) {
    std::fill_n(memory_, kVersionBytes, static_cast<char>(version));
    ASSERT_OK(writer_->Put("T").status());
    int places = 0;
    ASSERT_OK(reader_->Get("T", version, [&](size_t size) {
      ++places;
      before = before || !MirrorHas(version);
      got.assign(size, '-');
      return got.data();
    }));
    EXPECT_TRUE(got == std::string(kVersionBytes, static_cast<char>(version))) << version;
    EXPECT_EQ(places, 1);
    EXPECT_TRUE(MirrorHas(version));
  }
  EXPECT_TRUE(before);
}

TEST_F(FetchingNode, AMirrorThatWasRemovedIsRecreated) {
  const auto viewed = reader_->View("T", 1);
  ASSERT_OK(viewed.status());
  std::filesystem::remove_all(stream::MirrorPlace(here_.path()));
  std::fill_n(memory_, kVersionBytes, 'x');
  ASSERT_OK(writer_->Put("T").status());
  std::string got;
  ASSERT_OK(reader_->Get("T", 2, &got));
  EXPECT_TRUE(got == std::string(kVersionBytes, 'x'));
  EXPECT_TRUE(MirrorHas(2));
  ASSERT_OK(reader_->View("T", 1).status());
  EXPECT_TRUE((*viewed)->bytes() == std::string(kVersionBytes, '\0')) << "it is still there";
}

// The versions of the new store have the same numbers.
TEST_F(FetchingNode, AMirrorThatWasRemovedAnswersForNoRecreatedStore) {
  std::string got;
  ASSERT_OK(reader_->Get("T", 1, &got));
  ASSERT_OK(reader_->View("T", 1).status());
  const uint64_t time_ns = TimeOfTheOldest();
  std::filesystem::remove_all(stream::MirrorPlace(here_.path()));
  writer_.reset();
  std::filesystem::remove_all(place_.path() + "/field");
  OpenWriter();
  std::fill_n(memory_, kVersionBytes, 'n');
  ASSERT_OK(writer_->Put("T").status());
  // With its next tick the owner's daemon knows the new store.
  uint64_t now_ns = time_ns;
  for (const uint64_t until = In(kLongNs);
       (now_ns == time_ns || now_ns == 0) && io::RealClock().NowNs() < until;) {
    now_ns = TimeOfTheOldest();
  }
  const std::string bytes(kVersionBytes, 'n');
  ASSERT_OK(reader_->Get("T", 1, &got));
  EXPECT_TRUE(got == bytes);
  ASSERT_OK(reader_->Get("T", 0, &got));
  EXPECT_TRUE(got == bytes);
  const auto view = reader_->View("T", 1);
  ASSERT_OK(view.status());
  EXPECT_TRUE((*view)->bytes() == bytes);
}

TEST_F(FetchingNode, AVersionThatIsDamagedInTheMirrorIsFetchedAgainWhateverIsReadMeanwhile) {
  std::fill_n(memory_, kVersionBytes, 'x');
  ASSERT_OK(writer_->Put("T").status());
  ASSERT_OK(reader_->View("T", 2).status());
  DamageMirror(std::string(4096, 'x'));
  {
    const auto view = reader_->View("T", 2);
    ASSERT_OK(view.status());
    EXPECT_CODE((*view)->Verify(), Code::kCorruption);
  }
  ASSERT_OK(reader_->View("T", 1).status());
  for (const uint64_t version : {0, 2}) {
    const auto view = reader_->View("T", version);
    ASSERT_OK(view.status());
    EXPECT_OK((*view)->Verify());
  }
}

// The source is intact, so that damage in the copy does not matter.
TEST_F(FetchingNode, AVersionThatIsDamagedInTheMirrorIsFetchedAgain) {
  std::fill_n(memory_, kVersionBytes, 'x');
  ASSERT_OK(writer_->Put("T").status());
  std::string got;
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(reader_->View("T", 2).status());
    DamageMirror(std::string(4096, 'x'));
    const auto view = reader_->View("T", 2);
    ASSERT_OK(view.status());
    EXPECT_CODE((*view)->Verify(), Code::kCorruption);
    if (round == 0) {
      ASSERT_OK(reader_->Get("T", 2, &got));
      EXPECT_TRUE(got == std::string(kVersionBytes, 'x'));
    } else {
      const auto again = reader_->View("T", 0);
      ASSERT_OK(again.status());
      EXPECT_OK((*again)->Verify());
    }
  }
}

// A reader that has no view of the version finds the damage itself.
TEST_F(FetchingNode, AGetOfAVersionThatIsDamagedInTheMirrorFetchesItAgain) {
  std::fill_n(memory_, kVersionBytes, 'x');
  ASSERT_OK(writer_->Put("T").status());
  std::string got;
  ASSERT_OK(reader_->Get("T", 2, &got));
  DamageMirror(std::string(4096, 'x'));
  ASSERT_OK(reader_->GetAt("T", 0, &got));
  EXPECT_TRUE(got == std::string(kVersionBytes, 'x'));
}

// Twenty gets throw, and the reader has room for only eight requests at once.
TEST_F(FetchingNode, APlaceThatThrowsHoldsUpNoRequestThatFollows) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(writer_->Put("T").status());
    const auto throws = [](size_t) -> char* { throw std::length_error("not so many"); };
    const Status status = reader_->Get("T", 0, throws);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
    EXPECT_THAT(status.message(),
                testing::HasSubstr("the buffer allocator threw an exception: not"));
  }
  std::string got;
  EXPECT_OK(reader_->Get("T", 0, &got));
  EXPECT_EQ(got.size(), kVersionBytes);
}

TEST_F(FetchingNode, ACallInsideAPlaceIsRefused) {
  ASSERT_OK(writer_->Put("T").status());
  std::string got;
  for (int from = 0; from < 2; ++from) {  // from the other node, then from the mirror
    Status inner;
    ASSERT_OK(reader_->Get("T", 0, [&](size_t size) {
      std::string other;
      inner = reader_->Get("T", 0, &other);
      got.assign(size, '-');
      return got.data();
    }));
    EXPECT_EQ(inner.code(), Code::kInvalidArgument);
    EXPECT_THAT(inner.message(), testing::HasSubstr("called inside a function"));
    EXPECT_TRUE(got == std::string(memory_, kVersionBytes));
  }
}

}  // namespace
}  // namespace quire::streamd::fetch_test
