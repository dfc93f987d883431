#include "tools/quire-streamd/daemon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "io/files/machine.h"
#include "stream/log/delta.h"
#include "stream/remote/daemon_client.h"
#include "stream/remote/remote_reader.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"
#include "tools/quire-streamd/daemon_testing.h"

namespace quire::streamd::daemon_test {
namespace {

using stream::Request;
using stream::RequestOperation;
using stream::StorePart;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kLongNs = 20'000 * kMs;
const StorePart kPart{"field", 3};

uint64_t In(uint64_t ns) {
  return io::RealClock().NowNs() + ns;
}

Request Of(RequestOperation operation, const std::string& key = "", uint64_t number = 0) {
  Request request;
  request.operation = operation;
  request.part = kPart;
  request.key = key;
  request.number = number;
  return request;
}

// A node: a place with a part of a store, a mirror and a daemon.
class Node {
 public:
  explicit Node(bool has_part, StorePart name = kPart, int threads_max = 256)
      : has_part_(has_part), name_(std::move(name)), threads_max_(threads_max) {}
  ~Node() { Stop(); }

  // Starts the daemon. `port` is the listener's, 0: any; `metadata` empty: this daemon is the
  // service.
  Status Start(const std::string& metadata, const std::string& port = "0") {
    DaemonOptions options;
    options.place = place_.path();
    options.listen = "127.0.0.1:" + port;
    options.metadata = metadata;
    options.metadata_here = metadata.empty();
    options.limits.tick_ms = 20;
    options.threads_max = threads_max_;
    options.tend_ms = 20;
    Streams streams;
    streams.open_part = [this](const StorePart& asked) -> Result<std::unique_ptr<StreamReader>> {
      if (!has_part_ || !(asked == name_)) return Status(Code::kNotFound);
      return NewFakeReader(part);
    };
    streams.parts = [this] {
      return has_part_ ? std::vector<StorePart>{name_} : std::vector<StorePart>();
    };
    streams.registrations = [this](const std::vector<StorePart>& parts) {
      ++registrations;
      std::vector<stream::RegisteredPart> told;
      for (const StorePart& one : parts) told.push_back({one, 1});
      return told;
    };
    streams.remote.open_mirror =
        [this](const StorePart&) -> Result<std::unique_ptr<stream::Mirror>> {
      return NewFakeMirror(mirrored);
    };
    streams.remote.open_mirrored =
        [this](const StorePart&) -> Result<std::unique_ptr<StreamReader>> {
      return NewFakeReader(mirrored);
    };
    streams.written = [this](const StorePart&) { return !on_tend; };
    streams.tend = [this](const StorePart&) { on_tend(); };
    const Token token = *Token::From(std::string(32, 't'));
    QUIRE_ASSIGN_OR_RETURN(daemon_, Daemon::Open(options, token, std::move(streams)));
    thread_ = std::thread([this] { EXPECT_OK(daemon_->Run()); });
    return Status();
  }
  void Stop() {
    if (!daemon_) return;
    daemon_->Stop();
    thread_.join();
    EXPECT_TRUE(daemon_->Finish(20'000));
    daemon_.reset();
  }
  std::string address() const { return daemon_->address(); }
  const std::string& place() const { return place_.path(); }
  std::string port() const { return io::SplitAddress(address())->second; }

  Result<std::string> Ask(const Request& request, uint64_t ns = kLongNs,
                          const stream::OnArrival& on_arrival = {}) {
    return client_.Call(request, In(ns), on_arrival);
  }
  // Asks until the part is known here: the news travel with the daemons' ticks.
  Result<std::string> AskUntilKnown(const Request& request) {
    const uint64_t deadline = In(kLongNs);
    for (;;) {
      auto body = Ask(request);
      const Code code = body.status().code();
      const bool comes = code == Code::kNotFound || code == Code::kPeerFailed;
      if (!comes || io::RealClock().NowNs() > deadline) return body;
    }
  }
  std::string MirroredBytes(const std::string& key, uint64_t version) {
    auto view = NewFakeReader(mirrored)->View(key, version);
    return view.ok() ? std::string((*view)->bytes()) : view.status().ToString();
  }

  std::shared_ptr<FakePart> part = std::make_shared<FakePart>();
  const std::shared_ptr<FakePart> mirrored = std::make_shared<FakePart>();
  std::function<void()> on_tend;  // empty: a program writes the part
  std::atomic<int> registrations{0};

 private:
  const bool has_part_;
  const StorePart name_;
  const int threads_max_;
  const test::TempDirectory place_;
  std::unique_ptr<Daemon> daemon_;
  std::thread thread_;
  stream::DaemonClient client_{place_.path()};
};

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(writer_.Start(""));
    ASSERT_OK(reader_.Start(writer_.address()));
  }
  Node writer_{true};
  Node reader_{false};
};

TEST_F(DaemonTest, AReaderSeesThePartOfAnotherNode) {
  writer_.part->Put("T", "one");
  writer_.part->Put("T", "two");
  writer_.part->Put("U", "other");
  auto body = reader_.AskUntilKnown(Of(RequestOperation::kState));
  ASSERT_OK(body.status());
  EXPECT_EQ(stream::DecodeState(*body)->last_snapshot, 3u);
  EXPECT_FALSE(stream::DecodeState(*body)->finished);
  body = reader_.Ask(Of(RequestOperation::kObjects));
  ASSERT_OK(body.status());
  EXPECT_EQ(stream::DecodeObjects(*body)->keys, (std::vector<std::string>{"T", "U"}));
  EXPECT_EQ(stream::DecodeObjects(*reader_.Ask(Of(RequestOperation::kObjects, "T")))->keys,
            std::vector<std::string>{"U"});
  const auto versions = stream::DecodeVersions(*reader_.Ask(Of(RequestOperation::kVersions, "T")));
  ASSERT_OK(versions.status());
  ASSERT_EQ(versions->versions.size(), 2u);
  EXPECT_EQ(versions->versions[0].version, 2u);
  const auto older = stream::DecodeVersions(*reader_.Ask(Of(RequestOperation::kVersions, "T", 2)));
  EXPECT_EQ(older->versions.size(), 1u);
  EXPECT_EQ(reader_.Ask(Of(RequestOperation::kVersions, "none")).status().code(), Code::kNotFound);
}

TEST_F(DaemonTest, FetchesAVersionOnceIntoTheMirror) {
  const std::string large(3 << 20, 'L');
  writer_.part->Put("T", "one");
  writer_.part->Put("T", large);
  auto body = reader_.AskUntilKnown(Of(RequestOperation::kFetch, "T"));
  ASSERT_OK(body.status());
  EXPECT_EQ(stream::DecodeFetch(*body)->version.version, 2u);
  EXPECT_TRUE(reader_.MirroredBytes("T", 2) == large);
  ASSERT_OK(reader_.Ask(Of(RequestOperation::kFetch, "T", 2)).status());
  EXPECT_EQ(reader_.mirrored->reserved, 1);
  ASSERT_OK(reader_.Ask(Of(RequestOperation::kFetch, "T", 1)).status());
  EXPECT_EQ(reader_.MirroredBytes("T", 1), "one");
  EXPECT_EQ(reader_.Ask(Of(RequestOperation::kFetch, "T", 9)).status().code(), Code::kNotFound);
}

TEST_F(DaemonTest, ReportsTheProgressOfAFetchButNotOfAMirroredVersion) {
  constexpr int kTriesMax = 50;  // a reader that sleeps while the version comes receives no news
  const std::string large(16 << 20, 'L');
  ASSERT_OK(reader_.AskUntilKnown(Of(RequestOperation::kState)).status());
  std::vector<uint64_t> heard;
  const auto hear = [&](const stream::Arrival& arrival) {
    EXPECT_EQ(arrival.bytes, large.size());
    EXPECT_LE(arrival.arrived, large.size());
    heard.push_back(arrival.arrived);
  };
  Result<std::string> body = std::string();
  for (int i = 0; i < kTriesMax && heard.empty(); ++i) {
    writer_.part->Put("T", large);
    body = reader_.Ask(Of(RequestOperation::kFetch, "T"), kLongNs, hear);
    ASSERT_OK(body.status());
    EXPECT_EQ(stream::DecodeFetch(*body)->hash, stream::DataHash(large));
  }
  EXPECT_FALSE(heard.empty());
  EXPECT_LE(heard.size(), 18u) << "it wakes the reader without need";
  EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
  heard.clear();
  body = reader_.Ask(Of(RequestOperation::kFetch, "T"), kLongNs, hear);
  ASSERT_OK(body.status());
  EXPECT_EQ(stream::DecodeFetch(*body)->hash, std::nullopt);
  EXPECT_TRUE(heard.empty());
}

TEST_F(DaemonTest, ReplacesFetchedVersionsOfAStoreThatWasRecreated) {
  writer_.part->Put("T", "old", 1000);
  ASSERT_OK(reader_.AskUntilKnown(Of(RequestOperation::kFetch, "T")).status());
  {
    const std::lock_guard<std::mutex> lock(writer_.part->mutex);
    writer_.part->objects.clear();
  }
  writer_.part->Put("T", "new", 2000);
  ASSERT_OK(reader_.Ask(Of(RequestOperation::kFetch, "T", 1)).status());
  EXPECT_EQ(reader_.MirroredBytes("T", 1), "new");
  ASSERT_OK(reader_.Ask(Of(RequestOperation::kFetch, "T")).status());
  EXPECT_EQ(reader_.mirrored->reserved, 2) << "what is there now is fetched again";
}

TEST_F(DaemonTest, PassesOnNoDamage) {
  writer_.part->Put("T", "bytes");
  {
    const std::lock_guard<std::mutex> lock(writer_.part->mutex);
    auto& stored = writer_.part->objects["T"][0];
    stored.hash = stream::DataHash(stored.bytes);
    stored.bytes[2] ^= 1;
  }
  const Status status = reader_.AskUntilKnown(Of(RequestOperation::kFetch, "T")).status();
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_TRUE(status.message().find("version 1 of an object in field/3") != std::string::npos)
      << status.ToString();
  EXPECT_TRUE(reader_.mirrored->objects.empty());
  writer_.part->Put("T", "more bytes");
  EXPECT_OK(reader_.Ask(Of(RequestOperation::kFetch, "T")).status());
}

TEST_F(DaemonTest, SaysWhereTheMirrorIsFullAndGoesOn) {
  writer_.part->Put("T", "bytes");
  ASSERT_OK(reader_.AskUntilKnown(Of(RequestOperation::kState)).status());
  reader_.mirrored->room = 2;
  const Status full = reader_.Ask(Of(RequestOperation::kFetch, "T")).status();
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_TRUE(full.message().find("mirror of field/3") != std::string::npos) << full.ToString();
  EXPECT_TRUE(full.message().find("--mirror-bytes") != std::string::npos) << full.ToString();
  reader_.mirrored->room = 100;
  EXPECT_OK(reader_.Ask(Of(RequestOperation::kFetch, "T")).status());
}

TEST_F(DaemonTest, WakesAReaderThatWaitsOnAnotherNode) {
  ASSERT_OK(reader_.AskUntilKnown(Of(RequestOperation::kState)).status());
  Request wait = Of(RequestOperation::kWait);
  wait.timeout_ms = stream::kWaitMsMax;
  std::thread putter([this] { writer_.part->Put("T", "bytes"); });
  auto body = reader_.Ask(wait);
  putter.join();
  ASSERT_OK(body.status());
  EXPECT_EQ(*stream::DecodeNumber(*body), 1u);
  wait.number = 1;
  wait.timeout_ms = 1;
  EXPECT_EQ(reader_.Ask(wait).status().code(), Code::kTimedOut);
  {
    const std::lock_guard<std::mutex> lock(writer_.part->mutex);
    writer_.part->finished = true;
  }
  EXPECT_EQ(reader_.Ask(wait).status().code(), Code::kNotFound);
}

TEST_F(DaemonTest, AnswersReadersOnlyWhatReadersAsk) {
  Request request = Of(RequestOperation::kLookup);
  EXPECT_EQ(reader_.Ask(request).status().code(), Code::kInvalidArgument);
  request.part.store = "../escape";
  EXPECT_EQ(reader_.Ask(request).status().code(), Code::kCorruption);
}

TEST_F(DaemonTest, AKeyOfAnyLengthThatNoObjectHasIsNotFoundThroughIt) {
  ASSERT_OK(reader_.AskUntilKnown(Of(RequestOperation::kState)).status());
  const auto opened = stream::OpenRemoteReader(io::PosixFileSystem(), reader_.place(), kPart.store,
                                               kPart.rank, StreamReaderOptions());
  ASSERT_OK(opened.status());
  StreamReader& reader = **opened;
  base::Random random(11);
  std::vector<size_t> sizes = {0, 1, 1024, 1025, 2048, 3000, 65'536, 1 << 20};
  for (int64_t i = test::ScaledCount(20); i > 0; --i) sizes.push_back(random.Below(5000));
  for (const size_t size : sizes) {
    const std::string key(size, 'k');
    std::string bytes;
    EXPECT_CODE(reader.Get(key, 0, &bytes), Code::kNotFound) << size;
    EXPECT_CODE(reader.GetAt(key, 1, &bytes), Code::kNotFound) << size;
    EXPECT_CODE(reader.View(key, 1).status(), Code::kNotFound) << size;
    EXPECT_CODE(reader.ViewAt(key, 0).status(), Code::kNotFound) << size;
    EXPECT_CODE(reader.Versions(key).status(), Code::kNotFound) << size;
  }
}

TEST_F(DaemonTest, AReaderFailsOnceItsDaemonHasGoneAndFindsTheNextOne) {
  writer_.part->Put("T", "bytes");
  ASSERT_OK(reader_.AskUntilKnown(Of(RequestOperation::kState)).status());
  reader_.Stop();
  EXPECT_EQ(reader_.Ask(Of(RequestOperation::kState)).status().code(), Code::kPeerFailed);
  ASSERT_OK(reader_.Start(writer_.address()));
  EXPECT_OK(reader_.AskUntilKnown(Of(RequestOperation::kFetch, "T")).status());
}

// Each daemon has one thread for its readers, which wait for the other daemon.
TEST(Daemons, ServeOneAnotherWhileTheirReadersWait) {
  const StorePart other{"field", 4};
  Node left(true, kPart, 1);
  Node right(true, other, 1);
  ASSERT_OK(left.Start(""));
  ASSERT_OK(right.Start(left.address()));
  Request of_left = Of(RequestOperation::kState);
  Request of_right = of_left;
  of_right.part = other;
  ASSERT_OK(left.AskUntilKnown(of_right).status());
  ASSERT_OK(right.AskUntilKnown(of_left).status());
  const auto ask = [](Node& node, const Request& request) {
    for (int i = 0; i < 300; ++i) ASSERT_OK(node.Ask(request, 5000 * kMs).status());
  };
  std::thread beside([&] { ask(left, of_right); });
  ask(right, of_left);
  beside.join();
}

// Rebuilding the index of a large part takes longer than a registration lasts.
TEST(Daemons, RegisterTheirPartsWhileTheyTendOne) {
  Node node(true, kPart, 1);
  int after = 0;
  std::atomic<int> tended{0};
  node.on_tend = [&] {
    if (tended++ != 0) return;
    const int before = node.registrations;
    const uint64_t deadline = In(kLongNs);
    while (node.registrations < before + 3 && io::RealClock().NowNs() < deadline) {
      io::RealClock().SleepNs(kMs);
    }
    after = node.registrations - before;
  };
  ASSERT_OK(node.Start(""));
  const uint64_t deadline = In(2 * kLongNs);
  while (tended < 2 && io::RealClock().NowNs() < deadline) io::RealClock().SleepNs(kMs);
  node.Stop();
  EXPECT_GE(after, 3);
}

// Few threads on both sides, and many waiting readers, some with equal requests, some with
// different ones.
TEST(Daemons, ServeOthersWhileMoreReadersWaitThanThereAreThreads) {
  constexpr int kReaders = 8;
  constexpr int kWaits = kReaders * stream::kQueueSlots;
  Node writer(true, kPart, 2);
  Node reader(false, kPart, 2);
  ASSERT_OK(writer.Start(""));
  ASSERT_OK(reader.Start(writer.address()));
  writer.part->Put("T", "bytes");
  ASSERT_OK(reader.AskUntilKnown(Of(RequestOperation::kState)).status());
  std::vector<std::unique_ptr<stream::DaemonClient>> clients;
  for (int i = 0; i < kReaders; ++i) {
    clients.push_back(std::make_unique<stream::DaemonClient>(reader.place()));
  }
  std::atomic<int> woken{0};
  std::vector<std::thread> waiting;
  for (int i = 0; i < kWaits; ++i) {
    waiting.emplace_back([&, i] {
      Request wait = Of(RequestOperation::kWait, "", 1 + static_cast<uint64_t>(i % 10));
      wait.timeout_ms = stream::kWaitMsMax;
      for (int tries = 0; tries < 10; ++tries) {
        const Status status = clients[static_cast<size_t>(i % kReaders)]->Call(wait, In(kLongNs))
                                  .status();
        woken += status.ok() ? 1 : 0;
        if (status.code() != Code::kTimedOut) return;
      }
    });
  }
  uint64_t slowest = 0;
  for (int i = 0; i < 50; ++i) {
    const uint64_t begin = io::RealClock().NowNs();
    EXPECT_OK(reader.Ask(Of(RequestOperation::kFetch, "T", 1), 5000 * kMs).status());
    EXPECT_OK(reader.Ask(Of(RequestOperation::kVersions, "T"), 5000 * kMs).status());
    // And a wait for a snapshot that exists.
    EXPECT_OK(reader.Ask(Of(RequestOperation::kWait), 5000 * kMs).status());
    slowest = std::max(slowest, io::RealClock().NowNs() - begin);
  }
  EXPECT_LT(slowest, 5000 * kMs);
  for (int i = 0; i < 10; ++i) writer.part->Put("T", "more");
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(woken, kWaits);
}

// Three nodes: of the metadata service, of a writer, and of a reader.
class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(service_.Start(""));
    ASSERT_OK(writer_.Start(service_.address()));
    ASSERT_OK(reader_.Start(service_.address()));
    writer_.part->Put("T", "bytes");
    ASSERT_OK(reader_.AskUntilKnown(Of(RequestOperation::kState)).status());
  }
  Node service_{false};
  Node writer_{true};
  Node reader_{false};
};

TEST_F(ServiceTest, KnowsAllPartsAgainAfterARestart) {
  const std::string port = service_.port();
  service_.Stop();
  EXPECT_OK(reader_.Ask(Of(RequestOperation::kState)).status());  // the address is known
  ASSERT_OK(service_.Start("", port));
  Node another(false);
  ASSERT_OK(another.Start(service_.address()));
  EXPECT_OK(another.AskUntilKnown(Of(RequestOperation::kState)).status());
}

TEST_F(ServiceTest, AnUnregisteredPartIsNotTakenForAMissingVersion) {
  const std::string port = service_.port();
  writer_.Stop();
  service_.Stop();
  ASSERT_OK(service_.Start("", port));
  EXPECT_EQ(reader_.Ask(Of(RequestOperation::kFetch, "T", 1)).status().code(), Code::kPeerFailed);
  EXPECT_EQ(reader_.Ask(Of(RequestOperation::kWait)).status().code(), Code::kPeerFailed);
  EXPECT_EQ(reader_.Ask(Of(RequestOperation::kState)).status().code(), Code::kNotFound);
  ASSERT_OK(writer_.Start(service_.address()));
  EXPECT_OK(reader_.AskUntilKnown(Of(RequestOperation::kState)).status());
  EXPECT_EQ(reader_.Ask(Of(RequestOperation::kFetch, "T", 9)).status().code(), Code::kNotFound);
}

TEST_F(ServiceTest, FindsADaemonThatHasMoved) {
  writer_.Stop();
  const Code gone = reader_.Ask(Of(RequestOperation::kState)).status().code();
  EXPECT_TRUE(gone == Code::kPeerFailed || gone == Code::kNotFound);
  ASSERT_OK(writer_.Start(service_.address()));
  EXPECT_OK(reader_.AskUntilKnown(Of(RequestOperation::kFetch, "T")).status());
  EXPECT_EQ(reader_.MirroredBytes("T", 1), "bytes");
}

}  // namespace
}  // namespace quire::streamd::daemon_test
