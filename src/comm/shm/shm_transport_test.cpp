#include "comm/shm/shm_transport.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/text/coding.h"
#include "comm/exchange/exchange.h"
#include "comm/transport/frame.h"
#include "comm/transport/peer_process.h"
#include "comm/transport/ring.h"
#include "io/files/machine.h"
#include "io/files/proc_file.h"
#include "io/ipc/shared_memory.h"

namespace quire::comm::shm_transport_test {
namespace {

constexpr uint32_t kEcho = 1;
constexpr uint64_t kMs = 1'000'000;

using Program = std::function<void(Exchange& exchange)>;

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

ShmPlace PlaceOf(int rank, int size) {
  ShmPlace place;
  place.rank = rank;
  place.size = size;
  for (int i = 0; i < size; ++i) place.members.push_back(i);
  return place;
}

std::unique_ptr<ShmRegion> NewRegion(int size, uint64_t ring_bytes) {
  auto region = ShmRegion::CreatePrivate(size, ring_bytes, 77);
  EXPECT_TRUE(region.ok());
  return std::move(*region);
}

std::unique_ptr<Exchange> Join(const ShmRegion& region, int rank, const ExchangeOptions& options) {
  return Exchange::Create(NewShmTransport(region.Share(), PlaceOf(rank, region.member_count())),
                          options);
}

// Runs `program` on as many threads as the region has members.
void RunThreads(const ShmRegion& region, const ExchangeOptions& options, const Program& program) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < region.member_count(); ++rank) {
    threads.emplace_back([&, rank] { program(*Join(region, rank, options)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The same in processes; a child fails the test by its exit status. Ranks in `killed` die.
void RunProcesses(const ShmRegion& region, const ExchangeOptions& options, int killed,
                  const Program& program) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < region.member_count(); ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      program(*Join(region, rank, options));
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < region.member_count(); ++rank) {
    int state = 0;
    ASSERT_EQ(::waitpid(children[static_cast<size_t>(rank)], &state, 0),
              children[static_cast<size_t>(rank)]);
    if (rank == killed) {
      EXPECT_TRUE(WIFSIGNALED(state));
    } else {
      EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << "rank " << rank;
    }
  }
}

// Stops a process, and waits until all its threads are.
void StopProcess(pid_t process) {
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    while (io::ReadProcFile(task.path().string() + "/stat").find(") T ") == std::string::npos) {
    }
  }
}

void EchoStorm(Exchange& exchange) {
  exchange.Serve(kEcho, Echo);
  base::Random random(static_cast<uint64_t>(exchange.rank()) + 1);
  std::vector<std::pair<std::shared_ptr<Call>, std::string>> calls;
  for (int i = 0; i < 200; ++i) {
    std::string text(random.Below(random.OneIn(8) ? 400'000 : 300), '\0');
    for (char& c : text) c = static_cast<char>(random.Next());
    const int to = static_cast<int>(random.Below(static_cast<uint64_t>(exchange.size())));
    auto call = exchange.Start(to, kEcho, Slice(text).substr(0, text.size() / 2),
                               Slice(text).substr(text.size() / 2));
    ASSERT_TRUE(call.ok()) << call.status().ToString();
    calls.emplace_back(*call, std::move(text));
  }
  for (const auto& [call, text] : calls) {
    std::string answer;
    const Status status = exchange.Wait(call, &answer);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(answer == text);
  }
  EXPECT_TRUE(exchange.Barrier().ok());
}

TEST(Ring, GivesBackAllRecordsInOrder) {
  alignas(64) RingControl control{};
  std::vector<char> data(1 << 14);
  RingWriter writer(&control, data.data(), data.size());
  RingReader reader(&control, data.data(), data.size());
  base::Random random(3);
  uint64_t written = 0;
  uint64_t read = 0;
  std::vector<uint64_t> sizes;
  while (read < 20'000) {
    const uint64_t size = random.Below(random.OneIn(3) ? 4080 : 40);
    if (random.OneIn(2)) {
      const auto place = writer.Reserve(size);
      ASSERT_TRUE(place.ok());
      if (*place != nullptr) {
        std::fill_n(*place, size, static_cast<char>(written++));
        sizes.push_back(size);
        writer.Publish();
        continue;
      }
    }
    const auto record = reader.Front();
    ASSERT_TRUE(record.ok());
    if (record->data() == nullptr) {
      ASSERT_EQ(read, written);
      continue;
    }
    ASSERT_EQ(*record, std::string(sizes[read], static_cast<char>(read)));
    ++read;
    reader.Pop();
  }
}

TEST(Ring, PopAsksToWakeTheWriterOnceHalfIsFree) {
  alignas(64) RingControl control{};
  std::vector<char> data(1 << 12);
  RingWriter writer(&control, data.data(), data.size());
  RingReader reader(&control, data.data(), data.size());
  int written = 0;
  while (*writer.Reserve(1000) != nullptr) {
    writer.Publish();
    ++written;
  }
  EXPECT_EQ(written, 4);
  std::vector<bool> told;
  for (int i = 0; i < written; ++i) {
    ASSERT_NE(reader.Front()->data(), nullptr);
    told.push_back(reader.Pop());
  }
  EXPECT_EQ(told, (std::vector<bool>{false, true, false, false}));
}

TEST(Ring, FindsDamageInsteadOfFollowingIt) {
  base::Random random(5);
  int found = 0;
  for (int turn = 0; turn < 20'000; ++turn) {
    alignas(64) RingControl control{};
    std::vector<char> data(1 << 10);
    RingWriter writer(&control, data.data(), data.size());
    RingReader reader(&control, data.data(), data.size());
    for (int i = 0; i < 3; ++i) {
      ASSERT_NE(*writer.Reserve(random.Below(200)), nullptr);
      writer.Publish();
    }
    base::StoreLe<uint32_t>(data.data() + random.Below(64) * 8,
                            static_cast<uint32_t>(random.OneIn(3) ? UINT32_MAX : random.Next()));
    if (random.OneIn(4)) control.tail.store(random.Below(3000));
    for (int i = 0; i < 200; ++i) {
      const auto record = reader.Front();
      if (!record.ok()) {
        EXPECT_EQ(record.status().code(), Code::kCorruption);
        ++found;
        break;
      }
      if (record->data() == nullptr) break;
      ASSERT_GE(record->data(), data.data());
      ASSERT_LE(record->data() + record->size(), data.data() + data.size());
      reader.Pop();
    }
    control.head.store(random.OneIn(2) ? random.Next() : random.Below(3000));
    for (int i = 0; i < 20; ++i) {
      const auto place = writer.Reserve(200);
      if (!place.ok() || *place == nullptr) break;
      ASSERT_GE(*place, data.data());
      ASSERT_LE(*place + 200, data.data() + data.size());
      writer.Publish();
    }
  }
  EXPECT_GT(found, 1000);
}

// The second call would count the impossible position as room, and write over what is not read yet.
TEST(Ring, AWriterWhoseReaderIsDamagedGetsNoMoreRoom) {
  for (const uint64_t head : {uint64_t{4104}, uint64_t{1} << 40, UINT64_MAX}) {
    alignas(64) RingControl control{};
    std::vector<char> data(1 << 12);
    RingWriter writer(&control, data.data(), data.size());
    while (*writer.Reserve(500) != nullptr) writer.Publish();
    control.head.store(head);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(writer.Reserve(500).status().code(), Code::kCorruption) << head << " " << i;
    }
    control.head.store(0);
    EXPECT_EQ(writer.Reserve(500).status().code(), Code::kCorruption) << head;
  }
}

TEST(PeerProcess, AProcessDiffersFromALaterOneWithTheSameId) {
  const PeerProcess own = OwnProcess();
  EXPECT_EQ(own.id, io::ProcessId());
  EXPECT_GT(own.start, 0u);
  EXPECT_TRUE(IsRunning(own));
  EXPECT_FALSE(IsRunning({own.id, own.start - 1}));
  EXPECT_TRUE(IsRunning({own.id, 0}));
  const std::string stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
  EXPECT_EQ(ParseProcessStart(stat.data(), stat.size()), 4711u);
  EXPECT_EQ(ParseProcessStart("7 (x", 4), 0u);
}

TEST(ShmRegion, IsRefusedWhereItIsNotWhatWasAnnounced) {
  auto region = ShmRegion::Create(3, 1 << 20, 5);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  EXPECT_EQ((*region)->ring_bytes(), 128u * 1024);
  const std::string name = (*region)->name();
  EXPECT_TRUE(ShmRegion::Open(name, 3, 128 * 1024, 5).ok());
  EXPECT_FALSE(ShmRegion::Open(name, 4, 128 * 1024, 5).ok());
  EXPECT_EQ(ShmRegion::Open(name, 3, 64 * 1024, 5).status().code(), Code::kCorruption);
  EXPECT_EQ(ShmRegion::Open(name, 3, 128 * 1024, 6).status().code(), Code::kCorruption);
  (*region)->Unlink();
  EXPECT_FALSE(ShmRegion::Open(name, 3, 128 * 1024, 5).ok());
  EXPECT_EQ(ShmRegion::Create(kShmMembersMax + 1, 1 << 20, 5).status().code(),
            Code::kInvalidArgument);
}

// By default, as docs/limitations.md says.
TEST(ShmRegion, HasRingsOf64MiBInAllUnlessTheSmallestOfThemAreMore) {
  constexpr uint64_t kTotalMax = 64 << 20;
  for (const uint64_t count : {2u, 64u, 65u, 128u}) {
    const auto region = ShmRegion::Create(static_cast<int>(count), kTotalMax, 5);
    if (region.status().code() == Code::kNoSpace) GTEST_SKIP() << region.status().ToString();
    ASSERT_TRUE(region.ok()) << region.status().ToString();
    const uint64_t total = count * (count - 1) * (*region)->ring_bytes();
    EXPECT_EQ(total > kTotalMax, count > 64) << count;
    if (count > 64) {
      EXPECT_EQ((*region)->ring_bytes(), kShmRingBytesMin) << count;
    }
  }
}

// A size of which the places of all rings would be wrong, or lie outside of the region.
TEST(ShmRegion, IsRefusedWithRingsOfAnImpossibleSize) {
  for (const uint64_t ring_bytes :
       {uint64_t{0}, uint64_t{8192}, uint64_t{96} << 10, 2 * kShmRingBytesMax, uint64_t{1} << 63}) {
    const auto made = io::SharedMemory::Create(1 << 20);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    base::StoreLe<uint64_t>((*made)->data(), 0x314D485345524951);
    base::StoreLe<uint64_t>((*made)->data() + 8, ring_bytes);
    base::StoreLe<uint32_t>((*made)->data() + 16, 2);
    base::StoreLe<uint32_t>((*made)->data() + 20, 5);
    EXPECT_EQ(ShmRegion::Open((*made)->name(), 2, ring_bytes, 5).status().code(),
              Code::kInvalidArgument)
        << ring_bytes;
  }
}

TEST(ShmTransport, CarriesAStormBetweenThreads) {
  for (uint64_t ring_bytes : {kShmRingBytesMin, kShmRingBytesMax}) {
    const auto region = NewRegion(3, ring_bytes);
    RunThreads(*region, ExchangeOptions(), EchoStorm);
  }
}

TEST(ShmTransport, CarriesAStormWithoutHandlerThreads) {
  ExchangeOptions options;
  options.handler_thread = false;
  const auto region = NewRegion(3, 1 << 17);
  RunThreads(*region, options, EchoStorm);
}

TEST(ShmTransport, CarriesAStormBetweenProcesses) {
  for (int size = 2; size <= 4; ++size) {
    const auto region = NewRegion(size, 1 << 17);
    RunProcesses(*region, ExchangeOptions(), -1, EchoStorm);
  }
}

TEST(ShmTransport, WorksWithMoreMembersThanOneWordHasBits) {
  const auto region = NewRegion(70, kShmRingBytesMin);
  ExchangeOptions options;
  options.handler_thread = false;
  RunThreads(*region, options, [](Exchange& exchange) {
    const auto sum = exchange.Sum(1);
    ASSERT_TRUE(sum.ok()) << sum.status().ToString();
    EXPECT_EQ(*sum, 70u);
    EXPECT_TRUE(exchange.Notify(1, {69 - exchange.rank()}).ok());
    EXPECT_TRUE(exchange.WaitSignal(1, {69 - exchange.rank()}).ok());
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST(ShmTransport, SurvivorsSoonLearnOfAKilledProcess) {
  for (int victim = 0; victim < 3; ++victim) {
    const auto region = NewRegion(3, 1 << 16);
    RunProcesses(*region, ExchangeOptions(), victim, [victim](Exchange& exchange) {
      exchange.Serve(kEcho, Echo);
      EXPECT_TRUE(exchange.Barrier().ok());
      const uint64_t start_ns = io::RealClock().NowNs();
      if (exchange.rank() == victim) {
        // In the middle of a message, with a full ring in front of it.
        std::thread([] { ::usleep(50'000), ::kill(::getpid(), SIGKILL); }).detach();
        const std::string large(50'000'000, 'x');
        for (;;) (void)exchange.Start((victim + 1) % 3, kEcho, large, {});
      }
      EXPECT_EQ(exchange.WaitSignal(1, {victim}).code(), Code::kPeerFailed);
      EXPECT_EQ(exchange.Ask(victim, kEcho, "x", {}, nullptr).code(), Code::kPeerFailed);
      const Status agreed = exchange.Barrier();
      EXPECT_EQ(agreed.code(), Code::kPeerFailed) << agreed.ToString();
      EXPECT_LT(io::RealClock().NowNs() - start_ns, 2'000 * kMs);
      const int survivor = 3 - victim - exchange.rank();
      EXPECT_TRUE(exchange.Ask(survivor, kEcho, "x", {}, nullptr).ok());
      EXPECT_TRUE(exchange.Notify(2, {survivor}).ok());
      EXPECT_TRUE(exchange.WaitSignal(2, {survivor}).ok());
    });
  }
}

TEST(ShmTransport, TimesOutOnAStoppedProcess) {
  const auto region = NewRegion(2, 1 << 16);
  ExchangeOptions options;
  options.timeout_ms = 300;
  RunProcesses(*region, options, 1, [](Exchange& exchange) {
    if (exchange.rank() == 1) {
      exchange.Serve(kEcho, [](int, Slice, std::string* answer) {
        *answer = std::to_string(::getpid());
        return Status();
      });
      for (;;) ::pause();
    }
    std::string answer;
    while (!exchange.Ask(1, kEcho, {}, {}, &answer).ok()) {
    }
    const pid_t other = std::stoi(answer);
    StopProcess(other);
    EXPECT_EQ(exchange.Ask(1, kEcho, "x", {}, nullptr).code(), Code::kTimedOut);
    EXPECT_EQ(exchange.Start(1, kEcho, std::string(1'000'000, 'x'), {}).status().code(),
              Code::kTimedOut);
    EXPECT_EQ(exchange.Barrier().code(), Code::kTimedOut);
    ASSERT_EQ(::kill(other, SIGKILL), 0);
    Status status(Code::kTimedOut);
    while (status.code() == Code::kTimedOut) status = exchange.Barrier();
    EXPECT_EQ(status.code(), Code::kPeerFailed) << status.ToString();
  });
}

// The frames that a transport delivers, and its reports on the senders.
struct CollectedFrames : FrameSink {
  void OnFrame(int, Slice) override { ++frames; }
  void OnPeerFailed(int source, const Status& why) override {
    EXPECT_EQ(source, 1);
    failure = why;
  }
  void OnRoom(int) override {}
  int frames = 0;
  Status failure;
};

// Puts a whole frame without contents of rank 1 into its ring to rank 0.
void WriteFrame(const ShmRegion& region, RingWriter& writer, uint32_t session, uint64_t sequence) {
  const Result<char*> place = writer.Reserve(kFrameHeaderBytes);
  ASSERT_TRUE(place.ok() && *place != nullptr);
  FrameHeader header;
  header.session = session;
  header.sequence = sequence;
  SealFrame({1, 0}, header, *place);
  writer.Publish();
  region.member(0).arrived[0].fetch_or(2);
}

TEST(ShmTransport, AFrameThatIsNotTheNextOfItsSessionFailsItsSender) {
  constexpr uint32_t kSession = 77;
  struct Second {
    uint32_t session;
    uint64_t sequence;
    bool due;
  };
  for (const Second& second : {Second{kSession, 1, true}, Second{kSession, 2, false},
                               Second{kSession, 0, false}, Second{kSession + 1, 1, false}}) {
    const auto region = NewRegion(2, 1 << 16);
    const auto transport = NewShmTransport(region->Share(), PlaceOf(0, 2));
    RingWriter writer(region->ring_control(1, 0), region->ring_data(1, 0), region->ring_bytes());
    ASSERT_NO_FATAL_FAILURE(WriteFrame(*region, writer, kSession, 0));
    ASSERT_NO_FATAL_FAILURE(WriteFrame(*region, writer, second.session, second.sequence));
    CollectedFrames collected;
    transport->Poll(collected, 10);
    EXPECT_EQ(collected.frames, second.due ? 2 : 1);
    EXPECT_EQ(collected.failure.code(), second.due ? Code::kOk : Code::kCorruption)
        << second.session << " " << second.sequence;
  }
}

TEST(ShmTransport, ADamagedPositionOfAReaderFailsIt) {
  const auto region = NewRegion(2, kShmRingBytesMin);
  const auto transport = NewShmTransport(region->Share(), PlaceOf(0, 2));
  const std::string body(1000, 'x');
  Result<bool> sent = true;
  while (sent.ok() && *sent) sent = transport->TrySend(1, {{}, body, {}});
  ASSERT_TRUE(sent.ok());
  region->ring_control(0, 1)->head.store(1 << 20);
  EXPECT_EQ(transport->TrySend(1, {{}, body, {}}).status().code(), Code::kCorruption);
  EXPECT_FALSE(transport->Alive(1));
  CollectedFrames collected;
  EXPECT_EQ(transport->Poll(collected, 10), 1);
  EXPECT_EQ(collected.failure.code(), Code::kCorruption);
  EXPECT_EQ(transport->TrySend(1, {{}, body, {}}).status().code(), Code::kPeerFailed);
}

TEST(ShmTransport, AWaitForANeighbourThatLeftFails) {
  const auto region = NewRegion(2, 1 << 16);
  RunThreads(*region, ExchangeOptions(), [](Exchange& exchange) {
    EXPECT_TRUE(exchange.Barrier().ok());
    if (exchange.rank() == 0) return;
    const Status status = exchange.WaitSignal(1, {0});
    EXPECT_EQ(status.code(), Code::kPeerFailed);
    EXPECT_EQ(status.message(), "rank 0: the process left");
  });
}

TEST(ShmTransport, SleepsWhereNothingHappens) {
  const auto region = NewRegion(4, 1 << 16);
  RunProcesses(*region, ExchangeOptions(), -1, [](Exchange& exchange) {
    EXPECT_TRUE(exchange.Barrier().ok());
    const clock_t before = ::clock();
    if (exchange.rank() == 0) {
      ::usleep(1'000'000);
      for (int rank = 1; rank < 4; ++rank) EXPECT_TRUE(exchange.Notify(1, {rank}).ok());
    } else {
      EXPECT_TRUE(exchange.WaitSignal(1, {0}).ok());
    }
    // One per cent of the second, and what starting and stopping takes.
    EXPECT_LT(::clock() - before, CLOCKS_PER_SEC / 50);
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

}  // namespace
}  // namespace quire::comm::shm_transport_test
