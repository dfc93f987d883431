// Collective calls to which some ranks come late: all ranks receive the same code, and afterwards
// calls match again, or all are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "comm/exchange/exchange.h"
#include "comm/sim/sim_transport.h"
#include "comm/transport/mailbox.h"
#include "tests/support/test_scale.h"

namespace quire::comm::collective_test {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kTimeoutMs = 1'000;

using Program = std::function<void(Exchange& exchange)>;

void RunRanks(int count, uint64_t seed, const Program& program,
              const std::function<void(SimNetwork& network)>& mishap = {}) {
  SimNetwork::Options network;
  network.rank_count = count;
  network.seed = seed;
  ExchangeOptions options;
  options.timeout_ms = kTimeoutMs;
  const auto created = SimNetwork::Create(network);
  if (mishap) mishap(*created);
  created->Run([&](int, std::unique_ptr<Transport> transport) {
    const auto exchange = Exchange::Create(std::move(transport), options);
    program(*exchange);
    exchange->transport().clock().SleepNs(20 * kTimeoutMs * kMs);  // no rank notices a leave
  });
}

void SleepFor(Exchange& exchange, uint64_t ms) {
  exchange.transport().clock().SleepNs(ms * kMs);
}

TEST(Collectives, ALateRankFailsAsTheEarlyOnesDidAndTheNextCallHolds) {
  for (const bool gathers : {false, true}) {
    for (int count = 2; count <= 9; ++count) {
      RunRanks(count, static_cast<uint64_t>(count), [&](Exchange& exchange) {
        const auto call = [&]() -> Status {
          return gathers ? exchange.AllGather("x").status() : exchange.Barrier();
        };
        if (exchange.rank() == count / 2) SleepFor(exchange, 3 * kTimeoutMs / 2);
        const Status late = call();
        EXPECT_EQ(late.code(), Code::kTimedOut) << exchange.rank() << ": " << late.ToString();
        const Status next = call();
        EXPECT_TRUE(next.ok()) << exchange.rank() << " of " << count << ": " << next.ToString();
      });
    }
  }
}

TEST(Collectives, ARankThatMissedSeveralCallsFailsInEachOfThem) {
  RunRanks(3, 1, [&](Exchange& exchange) {
    if (exchange.rank() == 1) SleepFor(exchange, 7 * kTimeoutMs / 2);
    for (int call = 0; call < 3; ++call) {
      EXPECT_EQ(exchange.Barrier().code(), Code::kTimedOut) << exchange.rank() << ", " << call;
    }
    EXPECT_TRUE(exchange.Barrier().ok());
    EXPECT_EQ(*exchange.Sum(2), 6u);
  });
}

// The codes of rank `rank`'s calls, and the number of ranks that had entered each step when its
// barrier succeeded.
struct Steps {
  std::vector<Code> codes;
  int entered = 0;
  bool refused = false;
};

// Each rank goes from step to step, late by chance, and tries a step again until its barrier ends
// well. A barrier that lets a rank pass has had all ranks in its step.
std::vector<Steps> RunSteps(int count, uint64_t seed, int* broken) {
  std::vector<Steps> ranks(static_cast<size_t>(count));
  RunRanks(count, seed, [&](Exchange& exchange) {
    Steps& mine = ranks[static_cast<size_t>(exchange.rank())];
    base::Random random(seed * 100 + static_cast<uint64_t>(exchange.rank()));
    const uint64_t about = seed % 2 == 0 ? kTimeoutMs : kTimeoutMs - 1;  // the moment it is decided
    for (int step = 1; step <= 5; ++step) {
      mine.entered = step;
      if (random.OneIn(4)) SleepFor(exchange, about + random.Below(4));
      if (random.OneIn(8)) SleepFor(exchange, random.Below(3 * kTimeoutMs));
      Status met(Code::kTimedOut);
      for (int tries = 0; tries < 8 && met.code() == Code::kTimedOut; ++tries) {
        met = exchange.Barrier();
        mine.codes.push_back(met.code());
      }
      if (!met.ok()) {
        mine.refused = met.code() == Code::kPeerFailed;
        return;
      }
      for (const Steps& other : ranks) *broken += other.entered < step ? 1 : 0;
    }
  });
  return ranks;
}

TEST(Collectives, ABarrierThatPassesHoldsWhicheverRanksAreLate) {
  int broken = 0;
  int timed_out = 0;
  int parted = 0;
  const auto seeds = static_cast<uint64_t>(test::ScaledCount(600));
  const uint64_t end = test::FirstSeed() + seeds;
  for (uint64_t seed = test::FirstSeed(); seed < end; ++seed) {
    const int count = 2 + static_cast<int>(seed % 5);
    const std::vector<Steps> ranks = RunSteps(count, seed, &broken);
    ASSERT_EQ(broken, 0) << "seed " << seed;
    size_t calls = ranks[0].codes.size();
    for (const Steps& rank : ranks) calls = std::min(calls, rank.codes.size());
    bool differ = false;
    for (size_t call = 0; call < calls; ++call) {
      for (const Steps& rank : ranks) {
        ASSERT_FALSE(differ && rank.codes[call] == Code::kOk) << "seed " << seed << " goes on";
      }
      for (const Steps& rank : ranks) differ = differ || rank.codes[call] != ranks[0].codes[call];
      timed_out += ranks[0].codes[call] == Code::kTimedOut ? 1 : 0;
    }
    parted += differ ? 1 : 0;
  }
  EXPECT_GT(timed_out, static_cast<int>(seeds));
  EXPECT_GT(parted, 0);
}

constexpr size_t kCalls = 12;

// Runs some barriers, in one of which a rank is stopped; returns the codes of each rank.
std::vector<std::vector<Code>> HearStopped(int count, int stopped, uint64_t calls, uint64_t ms) {
  std::vector<std::vector<Code>> heard(static_cast<size_t>(count));
  RunRanks(count, calls, [&](Exchange& exchange) {
    for (size_t i = 0; i < kCalls; ++i) {
      heard[static_cast<size_t>(exchange.rank())].push_back(exchange.Barrier().code());
    }
  }, [&](SimNetwork& network) { network.StopAfter(stopped, calls, ms * kMs); });
  return heard;
}

// Returns the first call whose code differs between ranks; kCalls if there is none.
size_t FirstParted(const std::vector<std::vector<Code>>& heard) {
  for (size_t call = 0; call < kCalls; ++call) {
    for (const std::vector<Code>& rank : heard) {
      if (rank[call] != heard[0][call]) return call;
    }
  }
  return kCalls;
}

// Also where the call after it is given up by all: the ranks must not take that for their last.
TEST(Collectives, NoCallEndsWellAfterOneThatPartedTheRanks) {
  int parted = 0;
  int given_up_after = 0;
  for (uint64_t calls = 1; calls <= 140; ++calls) {
    for (const uint64_t ms : {kTimeoutMs + 100, 5 * kTimeoutMs / 2}) {
      const int count = 2 + static_cast<int>(calls % 4);
      const auto heard = HearStopped(count, static_cast<int>(calls / 4) % count, calls, ms);
      const size_t first = FirstParted(heard);
      if (first + 6 > kCalls) continue;  // too late to see what follows
      ++parted;
      given_up_after += heard[0][first + 1] == Code::kTimedOut ? 1 : 0;
      for (const std::vector<Code>& rank : heard) {
        const auto after = rank.begin() + static_cast<ptrdiff_t>(first) + 1;
        EXPECT_EQ(std::count(after, rank.end(), Code::kOk), 0) << calls << ", " << ms << " ms";
        EXPECT_EQ(rank.back(), Code::kPeerFailed) << calls << ", " << ms << " ms";
      }
    }
  }
  EXPECT_GT(parted, 0);
  EXPECT_GT(given_up_after, 0);
}

TEST(CollectiveBox, KeepsSmallPartsWithoutMemoryAndLargeOnesToo) {
  CollectiveBox box;
  const std::string large(1000, 'l');
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(box.Add(1, i, i % 2 == 0 ? "small" : Slice(large)));
  }
  EXPECT_FALSE(box.Add(1, 7, "again"));
  std::string part;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(box.Take(2, i, &part));
    ASSERT_TRUE(box.Take(1, i, &part));
    EXPECT_EQ(part, i % 2 == 0 ? "small" : large);
  }
  EXPECT_FALSE(box.Take(1, 0, &part));
  EXPECT_EQ(box.buffered_bytes(), 0u);
}

TEST(CollectiveBox, DropsWhatIsOldAndBoundsWhatIsAhead) {
  CollectiveBox box;
  EXPECT_TRUE(box.Add(0, 5, "old"));
  box.Forget(10);
  EXPECT_TRUE(box.Add(0, 9, "older than this call"));
  EXPECT_EQ(box.buffered_bytes(), 0u);
  uint64_t kept = 0;
  while (kept < 1000 && box.Add(0, 10 + kept, "ahead")) ++kept;
  EXPECT_EQ(kept, 128u);
  EXPECT_TRUE(box.Add(1, 10, "another rank's"));
}

TEST(CollectiveBox, KnowsWhichCallsWereGivenUp) {
  CollectiveBox box;
  const auto note = [&](int source, uint64_t first, uint64_t last) {
    std::string why(sizeof first, '\0');
    for (size_t i = 0; i < sizeof first; ++i) why[i] = static_cast<char>(first >> (8 * i));
    return box.Add(source, last << kCallShift | kGivenUpRound, why);
  };
  EXPECT_FALSE(box.IsGivenUp(1));
  EXPECT_TRUE(note(0, 3, 4));
  EXPECT_TRUE(box.IsGivenUp(4));
  EXPECT_FALSE(box.IsGivenUp(5));
  EXPECT_TRUE(box.IsGivenUp(3));
  EXPECT_FALSE(box.IsGivenUp(2));  // its sender completed it; others may be in it still
  EXPECT_FALSE(box.IsGivenUp(0));
  EXPECT_TRUE(box.Add(0, 4 << kCallShift, "a part of a call that it gave up"));
  EXPECT_EQ(box.buffered_bytes(), 0u);
  EXPECT_FALSE(note(0, 3, 3));  // it goes back
  EXPECT_FALSE(note(1, 0, 7));
  EXPECT_FALSE(note(1, 8, 7));
  EXPECT_FALSE(box.Add(1, 7 << kCallShift | kGivenUpRound, "short"));
}

}  // namespace
}  // namespace quire::comm::collective_test
