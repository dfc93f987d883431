// The n-th allocation fails while a rank's requests to itself wait and are handled, for n = 0, 1,
// ...: each is answered, and none waits for its deadline. And a collective call after a message was
// lost so.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/out_of_memory.h"
#include "comm/exchange/exchange.h"
#include "comm/sim/sim_network.h"
#include "comm/transport/mailbox.h"
#include "comm/transport/transport.h"
#include "failing_allocations.h"

namespace quire::comm {
namespace {

constexpr uint32_t kChannel = 5;
constexpr int kCalls = 20;
constexpr int kPlaces = 64;  // of a SignalBox

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

// Whether the allocation was reached.
bool ServesWithout(int64_t n, bool handler_thread) {
  ExchangeOptions options;
  options.handler_thread = handler_thread;
  options.timeout_ms = 300;
  const auto exchange = Exchange::Create(NewSelfTransport(), options);
  const std::string request(100, 'x');
  std::vector<std::shared_ptr<Call>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto call = exchange->Start(0, kChannel, request, {});
    EXPECT_TRUE(call.ok()) << call.status().ToString();
    calls.push_back(*std::move(call));
  }
  exchange->Progress();
  test::FailAllocation(n);
  const Status served = base::OrOutOfMemory([&] {
    exchange->Serve(kChannel, Echo);
    return Status();
  });
  if (!served.ok()) exchange->Serve(kChannel, Echo);
  for (const std::shared_ptr<Call>& call : calls) {
    std::string answer;
    const Status status = base::OrOutOfMemory([&] { return exchange->Wait(call, &answer); });
    EXPECT_TRUE(status.ok() ? answer == request : status.code() == Code::kOutOfMemory)
        << status.ToString();
  }
  return test::AllocationFailed();
}

TEST(SignalBox, KeepsTheFirstSignalsWithoutMemory) {
  SignalBox box;
  test::FailAllocation(0);
  bool added = true;
  for (int round = 0; round < 2; ++round) {
    for (int signal = 0; signal < kPlaces; ++signal) added = added && box.Add(signal, signal % 3);
  }
  EXPECT_FALSE(test::AllocationFailed());
  EXPECT_TRUE(added);
  int missing = -1;
  for (int signal = 0; signal < kPlaces; ++signal) {
    const int source = signal % 3;
    EXPECT_TRUE(box.TakeAll(signal, {source, source}, &missing)) << signal;
    EXPECT_FALSE(box.TakeAll(signal, {source}, &missing)) << signal;
  }
}

// More than have a place, of which some are taken meanwhile.
TEST(SignalBox, CountsAsManyDifferentOnesAsThereAre) {
  SignalBox box;
  int missing = -1;
  for (int signal = 0; signal < 1000; ++signal) ASSERT_TRUE(box.Add(signal, 1));
  for (int signal = 0; signal < 1000; signal += 2) ASSERT_TRUE(box.TakeAll(signal, {1}, &missing));
  for (int signal = 0; signal < 1000; ++signal) ASSERT_TRUE(box.Add(signal, 1));
  for (int signal = 0; signal < 1000; ++signal) {
    EXPECT_EQ(box.TakeAll(signal, {1, 1}, &missing), signal % 2 == 1) << signal;
  }
}

TEST(SignalBox, RefusesOneDifferentSignalTooMany) {
  constexpr int kMax = 65536;
  SignalBox box;
  for (int signal = 0; signal < kMax; ++signal) ASSERT_TRUE(box.Add(signal, 1));
  EXPECT_FALSE(box.Add(kMax, 1));
  EXPECT_TRUE(box.Add(kMax - 1, 1));
  EXPECT_TRUE(box.Add(kMax, 2));
}

TEST(ExchangeShortage, ARequestToItselfIsAnswered) {
  for (const bool handler_thread : {false, true}) {
    int64_t n = 0;
    while (ServesWithout(n, handler_thread) && !testing::Test::HasFailure()) ++n;
    EXPECT_FALSE(testing::Test::HasFailure()) << "allocation " << n << ", " << handler_thread;
    EXPECT_GT(n, 5);
  }
}

// A note that was lost, or that lost its code, would be another code on this rank than on others.
TEST(CollectiveBox, KeepsNotesOfGivenUpCallsWithoutMemoryForTheirTexts) {
  constexpr uint64_t kCall = 3;
  const std::string head("\3\0\0\0\0\0\0\0\1\0\0\0\12\0", kNoteHeadBytes);
  const std::string note = head + "\36" + std::string(30, 't');
  const std::string cut = head + std::string(1, '\0');
  for (int sources = 1; sources <= 31; ++sources) {
    CollectiveBox box;
    bool added = true;
    for (int source = 0; source < sources; ++source) {
      test::FailAllocationHere(0);
      added = added && box.Add(source, kCall << kCallShift | kGivenUpRound, note);
      test::AllocationFailed();
    }
    EXPECT_TRUE(added);
    EXPECT_TRUE(box.IsGivenUp(kCall));
    EXPECT_EQ(box.WhyGivenUp(kCall), cut);
  }
  CollectiveBox box;
  ASSERT_TRUE(box.Add(5, kCall << kCallShift | kGivenUpRound, note));
  EXPECT_EQ(box.WhyGivenUp(kCall), note);
  test::FailAllocationHere(0);
  const std::string told = box.WhyGivenUp(kCall);
  EXPECT_TRUE(test::AllocationFailed());
  EXPECT_EQ(told, cut);
}

// The same of a part, which has no note behind it.
TEST(CollectiveBox, KeepsFailuresWithoutMemoryForTheirTexts) {
  constexpr uint64_t kPart = 3 << kCallShift;
  const std::string head("\1\2\0\0\0\0\0\0\0\1\0\0\0\12\0", kPartHeadBytes);
  const std::string part = head + "d" + std::string(100, 't');
  CollectiveBox box;
  test::FailAllocationHere(0);
  const bool added = box.Add(5, kPart, part);
  EXPECT_TRUE(test::AllocationFailed());
  EXPECT_TRUE(added);
  std::string taken;
  EXPECT_TRUE(box.Take(5, kPart, &taken));
  EXPECT_EQ(taken, head + std::string(1, '\0'));
  EXPECT_EQ(box.buffered_bytes(), 0u);
}

// If another rank has no memory for the text of a rank's failure, whichever of its allocations
// fails, all ranks receive the same code.
TEST(ExchangeShortage, AFailureIsTheSameOnAllRanksWithoutMemoryForItsText) {
  constexpr int kRanks = 4;
  for (int short_rank = 0; short_rank < kRanks; ++short_rank) {
    bool reached = true;
    for (int64_t n = 0; reached && !testing::Test::HasFailure(); ++n) {
      SimNetwork::Options options;
      options.rank_count = kRanks;
      const auto network = SimNetwork::Create(options);
      std::vector<Status> ended(kRanks);
      network->Run([&](int rank, std::unique_ptr<Transport> transport) {
        const auto exchange = Exchange::Create(std::move(transport), {.timeout_ms = 20'000});
        const Status mine =
            rank == 1 ? Status(Code::kNoSpace, std::string(200, 'x')) : Status();
        if (rank == short_rank) test::FailAllocationHere(n);
        ended[static_cast<size_t>(rank)] = exchange->Agree(mine);
        if (rank == short_rank) reached = test::AllocationFailed();
      });
      for (const Status& one : ended) {
        EXPECT_EQ(one.code(), ended[0].code())
            << "allocation " << n << " of rank " << short_rank << ": " << one.ToString();
      }
    }
  }
}

// There are more different signals than places for them. A signal that finds no memory is lost, and
// its sender counts as failed. No rank waits for the lost signal until another rank times out and
// receives that code instead.
TEST(ExchangeShortage, ACollectiveCallEndsAlikeOnAllRanksAfterASignalWasLost) {
  constexpr int kRanks = 3;
  constexpr int kSender = 2;
  SimNetwork::Options options;
  options.rank_count = kRanks;
  const auto network = SimNetwork::Create(options);
  std::vector<Status> ended(kRanks);
  std::vector<uint64_t> took_ns(kRanks);
  ExchangeOptions exchange_options;
  exchange_options.timeout_ms = 20'000;
  network->Run([&](int rank, std::unique_ptr<Transport> transport) {
    io::Clock& clock = transport->clock();  // of the simulation
    const auto exchange = Exchange::Create(std::move(transport), exchange_options);
    for (int signal = 0; rank == kSender && signal <= kPlaces; ++signal) {
      EXPECT_TRUE(exchange->Notify(signal, {0}).ok());
    }
    while (rank == 0 && exchange->PeerStatus(kSender).ok()) {
      test::FailAllocationHere(0);
      exchange->Progress();
      test::AllocationFailed();
    }
    const uint64_t begin_ns = clock.NowNs();
    ended[static_cast<size_t>(rank)] = exchange->Barrier();
    took_ns[static_cast<size_t>(rank)] = clock.NowNs() - begin_ns;
  });
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(ended[rank].code(), Code::kOutOfMemory) << rank << ": " << ended[rank].ToString();
    EXPECT_LT(took_ns[rank], exchange_options.timeout_ms * 1'000'000 / 2) << rank;
  }
}

}  // namespace
}  // namespace quire::comm
