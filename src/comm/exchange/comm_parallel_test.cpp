// The Exchange on several ranks of a real MPI job, over shared memory and over MPI alone.
#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/core/sanitizer.h"
#include "comm/exchange/exchange.h"
#include "comm/mpi/transport_factory.h"
#include "io/files/machine.h"
#include "io/ipc/shared_memory.h"

namespace quire::comm::comm_parallel_test {
namespace {

constexpr uint32_t kEcho = 1;
constexpr uint32_t kFill = 2;

bool ForcesMpi() {
  return io::Environment("QUIRE_TRANSPORT") == "mpi";
}

Result<std::unique_ptr<Transport>> Open(MPI_Comm comm) {
  TransportOptions options;
  options.kind = ForcesMpi() ? TransportKind::kMpi : TransportKind::kAuto;
  return NewTransport(MPI_Comm_c2f(comm), options);
}

std::unique_ptr<Exchange> Join(const ExchangeOptions& options = ExchangeOptions()) {
  auto transport = Open(MPI_COMM_WORLD);
  EXPECT_TRUE(transport.ok()) << transport.status().ToString();
  return Exchange::Create(std::move(*transport), options);
}

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

std::string Noise(uint64_t seed, size_t size) {
  base::Random random(seed);
  std::string text(size, '\0');
  for (size_t i = 0; i < size; i += 1 + size / 1000) text[i] = static_cast<char>(random.Next());
  return text;
}

TEST(CommParallel, NamesTheTransportItChose) {
  const auto exchange = Join();
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(exchange->size(), size);
  if (size == 1) {
    EXPECT_EQ(exchange->transport().Name(), "self");
  } else {
    EXPECT_EQ(exchange->transport().Name(), ForcesMpi() ? "mpi" : "shm");
    const int other = (exchange->rank() + 1) % size;
    EXPECT_EQ(exchange->transport().SharesMemory(other), !ForcesMpi());
  }
  int level = 0;
  MPI_Query_thread(&level);
  EXPECT_EQ(exchange->has_handler_thread(),
            level == MPI_THREAD_MULTIPLE || exchange->transport().Name() != "mpi");
  EXPECT_TRUE(exchange->Barrier().ok());
}

TEST(CommParallel, CarriesAStormOfAllSizes) {
  const auto exchange = Join();
  exchange->Serve(kEcho, Echo);
  base::Random random(static_cast<uint64_t>(exchange->rank()) + 1);
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<std::pair<std::shared_ptr<Call>, std::string>> calls;
    for (uint64_t i = 0; i < 60; ++i) {
      const uint64_t size = random.Below(random.OneIn(10) ? 3u << 20 : 2000);
      std::string text = Noise(i, i == 0 ? 0 : size);
      const int to = static_cast<int>(random.Below(static_cast<uint64_t>(exchange->size())));
      auto call = exchange->Start(to, kEcho, Slice(text).substr(0, text.size() / 3),
                                  Slice(text).substr(text.size() / 3));
      ASSERT_TRUE(call.ok()) << call.status().ToString();
      calls.emplace_back(*call, std::move(text));
    }
    for (const auto& [call, text] : calls) {
      std::string answer;
      const Status status = exchange->Wait(call, &answer);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_TRUE(answer == text);
    }
    ASSERT_TRUE(exchange->Barrier().ok());
  }
  EXPECT_EQ(exchange->Statistics().buffered_bytes, 0u);
}

TEST(CommParallel, ServesManyThreadsOfARank) {
  int level = 0;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "needs MPI_THREAD_MULTIPLE";
  const auto exchange = Join();
  exchange->Serve(kEcho, Echo);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 100; ++i) {
        const std::string text = Noise(i, i % 20 == 19 ? 200'000 : i * 5);
        const auto to = static_cast<int>((t + i) % static_cast<uint64_t>(exchange->size()));
        std::string answer;
        const Status status = exchange->Ask(to, kEcho, {}, text, &answer);
        ASSERT_TRUE(status.ok()) << status.ToString();
        ASSERT_TRUE(answer == text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(exchange->Barrier().ok());
}

TEST(CommParallel, BoundsTheMemoryThatASlowOwnerCosts) {
  ExchangeOptions options;
  options.window_bytes = 1 << 20;
  const auto exchange = Join(options);
  const int last = exchange->size() - 1;
  exchange->Serve(kFill, [&](int, Slice, std::string* answer) {
    ::usleep(200);
    answer->assign(20'000, 'x');
    return Status();
  });
  EXPECT_TRUE(exchange->Barrier().ok());
  const uint64_t before = io::ProcessMemory().resident_bytes;
  if (exchange->rank() == 0) {
    // 100 MiB of requests to an owner that takes its time.
    const std::string body(100'000, 'y');
    std::vector<std::shared_ptr<Call>> calls;
    for (int i = 0; i < 1000; ++i) {
      auto call = exchange->Start(last, kFill, {}, body);
      ASSERT_TRUE(call.ok());
      calls.push_back(*call);
    }
    for (const auto& call : calls) EXPECT_TRUE(exchange->Wait(call, nullptr).ok());
    EXPECT_LT(exchange->Statistics().buffered_bytes, 8u << 20);
  }
  EXPECT_TRUE(exchange->Barrier().ok());
  if (QUIRE_ADDRESS_SANITIZER) GTEST_SKIP() << "AddressSanitizer keeps freed memory resident";
  // The 20 MiB of answers are the requester's own.
  EXPECT_LT(io::ProcessMemory().resident_bytes, before + (48u << 20));
}

TEST(CommParallel, DeliversSignalsOnceAndInOrder) {
  const auto exchange = Join();
  std::atomic<int> handled{0};
  exchange->Serve(kEcho, [&](int, Slice, std::string*) {
    ++handled;
    return Status();
  });
  EXPECT_TRUE(exchange->Barrier().ok());
  const int next = (exchange->rank() + 1) % exchange->size();
  const int previous = (exchange->rank() + exchange->size() - 1) % exchange->size();
  for (int i = 1; i <= 50; ++i) {
    ASSERT_TRUE(exchange->Start(next, kEcho, "x", {}).ok());
    ASSERT_TRUE(exchange->Notify(4, {next}).ok());
    ASSERT_TRUE(exchange->WaitSignal(4, {previous}).ok());
    ASSERT_GE(handled, i);
  }
  EXPECT_TRUE(exchange->Barrier().ok());
}

TEST(CommParallel, AgreesAndGathers) {
  const auto exchange = Join();
  const int rank = exchange->rank();
  const int size = exchange->size();
  for (int low = 0; low < size; ++low) {
    const Status mine = rank >= low ? Status(Code::kNoSpace, "full") : Status();
    const Status all = exchange->Agree(mine);
    EXPECT_EQ(all.code(), Code::kNoSpace);
    EXPECT_EQ(all.message(), "rank " + std::to_string(low) + ": full");
    EXPECT_TRUE(exchange->Agree(Status()).ok());
    const auto names = exchange->AllGather(std::string(static_cast<size_t>(rank * 30'000), 'x'));
    ASSERT_TRUE(names.ok());
    for (int i = 0; i < size; ++i) {
      EXPECT_EQ((*names)[static_cast<size_t>(i)].size(), static_cast<size_t>(i * 30'000));
    }
    EXPECT_EQ(*exchange->Sum(static_cast<uint64_t>(rank)),
              static_cast<uint64_t>(size * (size - 1) / 2));
  }
}

TEST(CommParallel, OpensManyTimesAtOnceAndOneAfterAnother) {
  for (int turn = 0; turn < 5; ++turn) {
    const auto first = Join();
    const auto second = Join();
    first->Serve(kEcho, Echo);
    second->Serve(kEcho, Echo);
    for (int rank = 0; rank < first->size(); ++rank) {
      EXPECT_TRUE(first->Ask(rank, kEcho, "first", {}, nullptr).ok());
      EXPECT_TRUE(second->Ask(rank, kEcho, "second", {}, nullptr).ok());
    }
    EXPECT_TRUE(second->Barrier().ok());
    EXPECT_TRUE(first->Barrier().ok());
  }
}

TEST(CommParallel, TakesAPartOfTheWorldAndLeavesItsErrorHandlerAlone) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(part, &before);
  {
    auto transport = Open(part);
    ASSERT_TRUE(transport.ok()) << transport.status().ToString();
    const auto exchange = Exchange::Create(std::move(*transport), ExchangeOptions());
    EXPECT_EQ(exchange->size(), (size + (rank % 2 == 0 ? 1 : 0)) / 2);
    const auto sum = exchange->Sum(static_cast<uint64_t>(rank % 2));
    ASSERT_TRUE(sum.ok());
    EXPECT_EQ(*sum, rank % 2 == 0 ? 0 : static_cast<uint64_t>(exchange->size()));
    EXPECT_TRUE(exchange->Barrier().ok());
  }
  MPI_Errhandler after = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(part, &after);
  EXPECT_TRUE(before == after);
  MPI_Comm_free(&part);
}

TEST(CommParallel, MixesSharedMemoryAndMpiWhereRanksAreOnTwoNodes) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  // The last rank is on a node of its own.
  ::setenv("QUIRE_NODE_ID", rank == size - 1 ? "lonely" : "crowded", 1);
  const auto exchange = Join();
  ::unsetenv("QUIRE_NODE_ID");
  if (size >= 3 && !ForcesMpi()) {
    EXPECT_EQ(exchange->transport().Name(), rank == size - 1 ? "mpi" : "shm+mpi");
    EXPECT_EQ(exchange->transport().SharesMemory(0), rank != size - 1);
  }
  exchange->Serve(kEcho, Echo);
  for (int i = 0; i < 40; ++i) {
    const std::string text = Noise(static_cast<uint64_t>(i), i % 8 == 7 ? 500'000 : 100);
    std::string answer;
    const Status status = exchange->Ask(i % size, kEcho, {}, text, &answer);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(answer == text);
  }
  EXPECT_TRUE(exchange->Notify(1, {(rank + 1) % size}).ok());
  EXPECT_TRUE(exchange->WaitSignal(1, {(rank + size - 1) % size}).ok());
  EXPECT_TRUE(exchange->Barrier().ok());
}

// /dev/shm is full, read-only or another user's: for the rank that creates there, or for another.
TEST(CommParallel, UsesMpiWhereARankOfTheNodeCannotShareMemory) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const int without : {0, size - 1}) {
    if (rank == without) io::SharedMemory::LimitForTests(1);
    const auto exchange = Join();
    io::SharedMemory::LimitForTests(UINT64_MAX);
    EXPECT_EQ(exchange->transport().Name(), size == 1 ? "self" : "mpi");
    exchange->Serve(kEcho, Echo);
    std::string answer;
    EXPECT_TRUE(exchange->Ask((rank + 1) % size, kEcho, "x", "y", &answer).ok());
    EXPECT_EQ(answer, "xy");
    EXPECT_TRUE(exchange->Barrier().ok());
  }
  const auto again = Join();
  EXPECT_EQ(again->transport().SharesMemory((rank + 1) % size), size == 1 || !ForcesMpi());
}

TEST(CommParallel, RefusesCommunicatorsThatAreNone) {
  const auto null = NewTransport(MPI_Comm_c2f(MPI_COMM_NULL), TransportOptions());
  EXPECT_EQ(null.status().code(), Code::kInvalidArgument);
  TransportOptions options;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  options.window_frames = rank == size - 1 ? 5 : 6;
  const auto mixed = NewTransport(MPI_Comm_c2f(MPI_COMM_WORLD), options);
  EXPECT_EQ(mixed.status().code(), size == 1 ? Code::kOk : Code::kInvalidArgument);
}

TEST(CommParallel, ACallFromAThreadThatMayNotCallMpiFails) {
  int level = 0;
  MPI_Query_thread(&level);
  const auto exchange = Join();
  exchange->Serve(kEcho, Echo);
  if (level < MPI_THREAD_SERIALIZED && exchange->transport().Name() == "mpi") {
    std::thread([&] {
      EXPECT_EQ(exchange->Ask(0, kEcho, {}, {}, nullptr).code(), Code::kInvalidArgument);
      EXPECT_EQ(exchange->Barrier().code(), Code::kInvalidArgument);
      EXPECT_EQ(exchange->Notify(1, {0}).code(), Code::kInvalidArgument);
      EXPECT_EQ(exchange->WaitSignal(1, {0}).code(), Code::kInvalidArgument);
    }).join();
  } else if (level == MPI_THREAD_SERIALIZED || exchange->has_handler_thread()) {
    std::thread([&] {
      EXPECT_TRUE(
          exchange->Ask((exchange->rank() + 1) % exchange->size(), kEcho, {}, {}, nullptr).ok());
    }).join();
  }
  EXPECT_TRUE(exchange->Barrier().ok());
}

}  // namespace
}  // namespace quire::comm::comm_parallel_test
