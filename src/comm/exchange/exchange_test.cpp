#include "comm/exchange/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash.h"
#include "base/threads/thread.h"
#include "comm/sim/sim_transport.h"

namespace quire::comm::exchange_test {
namespace {

constexpr uint32_t kEcho = 1;
constexpr uint32_t kOther = 2;
constexpr uint64_t kMs = 1'000'000;

std::string Noise(uint64_t seed, size_t size) {
  base::Random random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random.Next());
  return text;
}

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

using Program = std::function<void(Exchange& exchange)>;

void RunRanks(SimNetwork& network, const ExchangeOptions& options, const Program& program) {
  network.Run([&](int, std::unique_ptr<Transport> transport) {
    const auto exchange = Exchange::Create(std::move(transport), options);
    program(*exchange);
  });
}

SimNetwork::Options Ranks(int count, uint64_t seed, bool deterministic) {
  SimNetwork::Options options;
  options.rank_count = count;
  options.seed = seed;
  options.deterministic = deterministic;
  return options;
}

// Every test runs on the seeded scheduler and on real threads with handler threads.
class ExchangeOverSim : public testing::TestWithParam<bool> {
 protected:
  void Run(int count, const Program& program) { Run(count, ExchangeOptions(), program); }
  void Run(int count, const ExchangeOptions& options, const Program& program) {
    const auto network = SimNetwork::Create(Ranks(count, ++seed_, GetParam()));
    network_ = network.get();
    RunRanks(*network, options, program);
  }
  uint64_t seed_ = 100;
  SimNetwork* network_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Modes, ExchangeOverSim, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

TEST_P(ExchangeOverSim, AnswersEveryRequestWithWhatTheServiceGave) {
  for (int count = 1; count <= 5; ++count) {
    Run(count, [](Exchange& exchange) {
      exchange.Serve(kEcho, Echo);
      for (size_t size : {0, 1, 100, 65'000, 70'000, 300'000}) {
        for (int rank = 0; rank < exchange.size(); ++rank) {
          const std::string text = Noise(size, size);
          std::string answer;
          ASSERT_TRUE(exchange
                          .Ask(rank, kEcho, Slice(text).substr(0, size / 3),
                               Slice(text).substr(size / 3), &answer)
                          .ok());
          ASSERT_TRUE(answer == text) << size;
        }
      }
      EXPECT_TRUE(exchange.Barrier().ok());
    });
  }
}

TEST_P(ExchangeOverSim, KeepsManyRequestsInFlight) {
  Run(3, [](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    base::Random random(static_cast<uint64_t>(exchange.rank()));
    std::vector<std::pair<std::shared_ptr<Call>, std::string>> calls;
    for (uint64_t i = 0; i < 300; ++i) {
      const std::string text = Noise(i, random.Below(random.OneIn(20) ? 200'000 : 500));
      auto call = exchange.Start(static_cast<int>(random.Below(3)), kEcho, {}, text);
      ASSERT_TRUE(call.ok()) << call.status().ToString();
      calls.emplace_back(*call, text);
    }
    for (const auto& [call, text] : calls) {
      std::string answer;
      ASSERT_TRUE(exchange.Wait(call, &answer).ok());
      EXPECT_TRUE(call->Done());
      ASSERT_TRUE(answer == text);
    }
    EXPECT_TRUE(exchange.Barrier().ok());
    EXPECT_EQ(exchange.Statistics().buffered_bytes, 0u);
    EXPECT_EQ(exchange.Statistics().requests_sent, 300u);
  });
}

TEST_P(ExchangeOverSim, LetsHugeMessagesCrossInBothDirections) {
  Run(2, [](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    const std::string text = Noise(7, 5'000'000);
    std::string answer;
    ASSERT_TRUE(exchange.Ask(1 - exchange.rank(), kEcho, {}, text, &answer).ok());
    EXPECT_TRUE(answer == text);
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, BringsBackTheServicesErrorAndItsText) {
  Run(2, [](Exchange& exchange) {
    exchange.Serve(kEcho, [](int source, Slice request, std::string* answer) {
      *answer = "beside";
      if (request == "plain") return Status(Code::kNotFound);
      return Status(Code::kNoSpace,
                    "rank " + std::to_string(source) + " asked " + std::string(request));
    });
    for (int rank = 0; rank < 2; ++rank) {
      std::string answer;
      const Status status = exchange.Ask(rank, kEcho, "too", " much", &answer);
      EXPECT_EQ(status.code(), Code::kNoSpace);
      EXPECT_EQ(status.message(), "rank " + std::to_string(exchange.rank()) + " asked too much");
      EXPECT_EQ(answer, "beside");
      EXPECT_EQ(exchange.Ask(rank, kEcho, "plain", {}, nullptr).code(), Code::kNotFound);
    }
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, HoldsRequestsUntilTheirServiceIsThere) {
  Run(2, [](Exchange& exchange) {
    std::vector<int> order;
    if (exchange.rank() == 0) {
      std::vector<std::shared_ptr<Call>> calls;
      for (char i = 0; i < 5; ++i) calls.push_back(*exchange.Start(1, kOther, Slice(&i, 1), {}));
      ASSERT_TRUE(exchange.Notify(3, {1}).ok());
      for (const auto& call : calls) EXPECT_TRUE(exchange.Wait(call, nullptr).ok());
    } else {
      ASSERT_TRUE(exchange.WaitSignal(3, {0}).ok());
      exchange.Serve(kOther, [&](int, Slice request, std::string*) {
        order.push_back(request[0]);
        return Status();
      });
    }
    EXPECT_TRUE(exchange.Barrier().ok());
    if (exchange.rank() == 1) {
      EXPECT_THAT(order, testing::ElementsAre(0, 1, 2, 3, 4));
    }
  });
}

TEST_P(ExchangeOverSim, AnswersNotFoundOnceAServiceWasTakenAway) {
  Run(2, [](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    const int other = 1 - exchange.rank();
    EXPECT_TRUE(exchange.Ask(other, kEcho, "a", {}, nullptr).ok());
    EXPECT_TRUE(exchange.Barrier().ok());
    exchange.Serve(kEcho, {});
    EXPECT_TRUE(exchange.Barrier().ok());
    EXPECT_EQ(exchange.Ask(other, kEcho, "a", {}, nullptr).code(), Code::kNotFound);
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, HandlesOneSendersRequestsInOrder) {
  Run(3, [](Exchange& exchange) {
    std::vector<uint64_t> last(3, 0);
    exchange.Serve(kEcho, [&](int source, Slice request, std::string*) {
      const uint64_t number = std::stoull(std::string(request.substr(0, 8)));
      EXPECT_EQ(number, ++last[static_cast<size_t>(source)]);
      return Status();
    });
    std::vector<std::shared_ptr<Call>> calls;
    for (int i = 1; i <= 60; ++i) {
      for (int rank = 0; rank < 3; ++rank) {
        char number[16];
        std::snprintf(number, sizeof number, "%08d", i);
        const std::string body(i % 10 == 0 ? 150'000 : 10, 'x');
        calls.push_back(*exchange.Start(rank, kEcho, number, body));
      }
    }
    for (const auto& call : calls) EXPECT_TRUE(exchange.Wait(call, nullptr).ok());
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, RunsTheCallbackOfAStartedRequestOnce) {
  Run(2, [](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    std::atomic<int> runs{0};
    for (int i = 0; i < 20; ++i) {
      const std::string text = "number " + std::to_string(i);
      auto done = [&runs, &exchange, text](const Outcome& outcome) {
        EXPECT_TRUE(outcome.status.ok());
        EXPECT_EQ(outcome.answer, text);
        EXPECT_EQ(exchange.Ask(0, kEcho, {}, {}, nullptr).code(), Code::kInvalidArgument);
        ++runs;
      };
      ASSERT_TRUE(exchange.StartThen(i % 2, kEcho, text, {}, done).ok());
    }
    EXPECT_TRUE(exchange.Ask(0, kEcho, "x", {}, nullptr).ok());
    EXPECT_TRUE(exchange.Ask(1, kEcho, "x", {}, nullptr).ok());
    EXPECT_EQ(runs, 20);
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, RefusesWhatCannotWork) {
  ExchangeOptions options;
  options.message_bytes_max = 1000;
  Run(2, options, [](Exchange& exchange) {
    exchange.Serve(kEcho, [&](int, Slice, std::string* answer) {
      EXPECT_EQ(exchange.Ask(0, kEcho, {}, {}, nullptr).code(), Code::kInvalidArgument);
      EXPECT_EQ(exchange.Notify(1, {0}).code(), Code::kInvalidArgument);
      EXPECT_EQ(exchange.Barrier().code(), Code::kInvalidArgument);
      answer->assign(1001, 'x');
      return Status();
    });
    const int other = 1 - exchange.rank();
    EXPECT_EQ(exchange.Ask(2, kEcho, {}, {}, nullptr).code(), Code::kInvalidArgument);
    EXPECT_EQ(exchange.Ask(-1, kEcho, {}, {}, nullptr).code(), Code::kInvalidArgument);
    EXPECT_EQ(exchange.Notify(1, {7}).code(), Code::kInvalidArgument);
    EXPECT_EQ(exchange.WaitSignal(1, {7}).code(), Code::kInvalidArgument);
    const std::string large(1001, 'x');
    EXPECT_EQ(exchange.Ask(other, kEcho, {}, large, nullptr).code(), Code::kInvalidArgument);
    EXPECT_EQ(exchange.Ask(other, kEcho, {}, {}, nullptr).code(), Code::kInvalidArgument);
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, CountsSignalsAndTakesAllOrNone) {
  ExchangeOptions options;
  options.timeout_ms = GetParam() ? 60'000 : 200;
  Run(3, options, [](Exchange& exchange) {
    if (exchange.rank() != 0) {
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(exchange.Notify(5, {0}).ok());
      EXPECT_TRUE(exchange.Notify(6, {0, 0}).ok());
    }
    EXPECT_TRUE(exchange.Barrier().ok());
    if (exchange.rank() == 0) {
      EXPECT_TRUE(exchange.WaitSignal(5, {1, 2}).ok());
      EXPECT_TRUE(exchange.WaitSignal(5, {1, 1, 2}).ok());
      EXPECT_EQ(exchange.WaitSignal(5, {2, 1}).code(), Code::kTimedOut);
      EXPECT_TRUE(exchange.WaitSignal(5, {2}).ok());
      EXPECT_TRUE(exchange.WaitSignal(6, {1, 1, 2, 2}).ok());
      EXPECT_TRUE(exchange.Notify(1, {0}).ok());
      EXPECT_TRUE(exchange.WaitSignal(1, {0}).ok());
      EXPECT_TRUE(exchange.WaitSignal(1, {}).ok());
      EXPECT_TRUE(exchange.Notify(1, {1, 2}).ok());
    } else {
      Status status(Code::kTimedOut);
      while (status.code() == Code::kTimedOut) status = exchange.WaitSignal(1, {0});
      EXPECT_TRUE(status.ok());
    }
  });
}

TEST_P(ExchangeOverSim, DeliversASignalAfterTheRequestsBeforeIt) {
  Run(2, [](Exchange& exchange) {
    std::atomic<int> handled{0};
    exchange.Serve(kEcho, [&](int, Slice, std::string* answer) {
      answer->assign(100'000, 'x');
      ++handled;
      return Status();
    });
    EXPECT_TRUE(exchange.Barrier().ok());
    if (exchange.rank() == 0) {
      std::vector<std::shared_ptr<Call>> calls;
      for (int i = 0; i < 100; ++i) calls.push_back(*exchange.Start(1, kEcho, "x", {}));
      EXPECT_TRUE(exchange.Notify(1, {1}).ok());
      for (const auto& call : calls) EXPECT_TRUE(exchange.Wait(call, nullptr).ok());
    } else {
      EXPECT_TRUE(exchange.WaitSignal(1, {0}).ok());
      EXPECT_EQ(handled, 100);
    }
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, AgreesOnTheLowestFailingRank) {
  for (int count = 1; count <= 9; ++count) {
    Run(count, [count](Exchange& exchange) {
      EXPECT_TRUE(exchange.Agree(Status()).ok());
      for (int low = 0; low < count; ++low) {
        const bool fails = exchange.rank() >= low && (exchange.rank() - low) % 2 == 0;
        const Status mine(Code::kNoSpace, "full");
        const Status other(Code::kIo, "broken");
        const Status all = exchange.Agree(!fails                   ? Status()
                                          : exchange.rank() == low ? mine
                                                                   : other);
        EXPECT_EQ(all.code(), Code::kNoSpace);
        EXPECT_EQ(all.message(), "rank " + std::to_string(low) + ": full");
      }
      EXPECT_TRUE(exchange.Barrier().ok());
    });
  }
}

TEST_P(ExchangeOverSim, GathersAndAddsUpOverAllRanks) {
  for (int count = 1; count <= 9; ++count) {
    Run(count, [count](Exchange& exchange) {
      for (int turn = 0; turn < 5; ++turn) {
        const std::string mine = Noise(static_cast<uint64_t>(exchange.rank()),
                                       static_cast<size_t>(exchange.rank() * turn * 10'000));
        const auto all = exchange.AllGather(mine);
        ASSERT_TRUE(all.ok()) << all.status().ToString();
        ASSERT_EQ(all->size(), static_cast<size_t>(count));
        for (int rank = 0; rank < count; ++rank) {
          EXPECT_EQ((*all)[static_cast<size_t>(rank)],
                    Noise(static_cast<uint64_t>(rank), static_cast<size_t>(rank * turn * 10'000)));
        }
        const auto sum = exchange.Sum(static_cast<uint64_t>(exchange.rank() + turn));
        ASSERT_TRUE(sum.ok());
        EXPECT_EQ(*sum, static_cast<uint64_t>(count * (count - 1) / 2 + count * turn));
      }
    });
  }
}

// An exception of the program's functions ends their own request, and nothing else.
TEST_P(ExchangeOverSim, AnswersForAServiceThatThrowsAndGoesOn) {
  Run(2, [](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    exchange.Serve(kOther, [](int, Slice request, std::string* answer) -> Status {
      answer->assign("half an answer");
      if (request == "int") throw 7;
      throw std::runtime_error("it is " + std::string(request));
    });
    EXPECT_TRUE(exchange.Barrier().ok());
    for (const int rank : {0, 1}) {
      std::string answer;
      const Status known = exchange.Ask(rank, kOther, "wrong", {}, &answer);
      EXPECT_EQ(known.code(), Code::kInvalidArgument);
      EXPECT_NE(known.message().find("it is wrong"), std::string::npos) << known.ToString();
      EXPECT_EQ(answer, "");
      EXPECT_EQ(exchange.Ask(rank, kOther, "int", {}, &answer).code(), Code::kInvalidArgument);
      EXPECT_TRUE(exchange.Ask(rank, kEcho, "x", {}, &answer).ok());
    }
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, GoesOnWhereAQuestionOrACallbackThrows) {
  Run(2, [](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    EXPECT_TRUE(exchange.Barrier().ok());
    const int other = 1 - exchange.rank();
    for (int turn = 0; turn < 5; ++turn) {
      int asked = 0;
      const auto question = [&asked]() -> int {
        if (++asked > 2) throw std::runtime_error("the question");
        return 0;
      };
      EXPECT_THROW(static_cast<void>(exchange.Await(&asked, "nothing", question)),
                   std::runtime_error);
      bool called = false;
      EXPECT_TRUE(exchange
                      .StartThen(other, kEcho, "x", {},
                                 [&](const Outcome&) {
                                   called = true;
                                   throw std::runtime_error("the callback");
                                 })
                      .ok());
      std::string answer;
      EXPECT_TRUE(exchange.Ask(other, kEcho, "behind it", {}, &answer).ok());
      EXPECT_EQ(answer, "behind it");
      EXPECT_TRUE(called);
    }
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

TEST_P(ExchangeOverSim, RanksInDifferentCollectivesGetAnError) {
  Run(3, [](Exchange& exchange) {
    const Status status =
        exchange.rank() == 1 ? exchange.AllGather("x").status() : exchange.Barrier();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

// A death separates the other ranks: a rank that learned of it in one call goes on to another.
TEST_P(ExchangeOverSim, RanksThatADeathSeparatedLearnOfTheDeath) {
  for (int gone = 0; gone < 4; ++gone) {
    Run(4, [gone](Exchange& exchange) {
      if (exchange.rank() == gone) return;
      const Status status =
          exchange.rank() % 2 == 1 ? exchange.AllGather("x").status() : exchange.Barrier();
      EXPECT_EQ(status.code(), Code::kPeerFailed) << status.ToString();
    });
  }
}

// All messages of a rank have arrived: if it leaves then, it has not failed a rank that looked just
// before.
TEST(ExchangeOverThreads, CountsWhatCameBeforeAPeerLeft) {
  const auto network = SimNetwork::Create(Ranks(2, 1, false));
  RunRanks(*network, ExchangeOptions(), [](Exchange& exchange) {
    if (exchange.rank() == 1) {
      EXPECT_TRUE(exchange.WaitSignal(1, {0}).ok());
      return;
    }
    bool named = false;
    const Status status = exchange.Await(&named, "a part", [&] {
      if (named) return Exchange::kNobody;
      named = true;
      EXPECT_TRUE(exchange.Notify(1, {1}).ok());
      while (exchange.PeerStatus(1).ok()) std::this_thread::yield();
      return 1;
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
  });
}

TEST_P(ExchangeOverSim, BoundsWhatASlowOwnerHoldsForItsRequesters) {
  ExchangeOptions options;
  options.window_bytes = 100'000;
  std::atomic<uint64_t> most{0};
  Run(2, options, [&](Exchange& exchange) {
    if (exchange.rank() == 0) {
      // Small requests with large answers, which their sender does not take for now.
      exchange.Serve(kEcho, [&](int, Slice, std::string* answer) {
        answer->assign(50'000, 'x');
        most = std::max(most.load(), exchange.Statistics().buffered_bytes);
        return Status();
      });
      EXPECT_TRUE(exchange.Barrier().ok());
    } else {
      std::vector<std::shared_ptr<Call>> calls;
      for (int i = 0; i < 1000; ++i) {
        calls.push_back(*exchange.Start(0, kEcho, "0123456789", {}));
      }
      for (const auto& call : calls) {
        std::string answer;
        ASSERT_TRUE(exchange.Wait(call, &answer).ok());
        ASSERT_EQ(answer.size(), 50'000u);
      }
      EXPECT_TRUE(exchange.Barrier().ok());
    }
  });
  // The queued answers of a window, one more answer, and the held requests of a window.
  EXPECT_LT(most, 300'000u);
}

// A large request needs an empty window, and others keep something in it. A small one needs room,
// and others fill the window.
TEST_P(ExchangeOverSim, SendsRequestsOfAnySizeBesideManyOthers) {
  if (GetParam()) GTEST_SKIP() << "the seeded scheduler runs one thread per rank";
  ExchangeOptions options;
  options.window_bytes = 1000;
  options.timeout_ms = 20'000;
  Run(2, options, [&](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    EXPECT_TRUE(exchange.Barrier().ok());
    if (exchange.rank() == 1) {
      std::atomic<bool> stop{false};
      std::vector<std::jthread> others;
      for (const size_t bytes : {1, 1, 300, 900, 900}) {
        others.emplace_back([&, bytes] {
          const std::string request(bytes, 'x');
          std::shared_ptr<Call> before = *exchange.Start(0, kEcho, request, {});
          while (!stop) {
            std::shared_ptr<Call> next = *exchange.Start(0, kEcho, request, {});
            EXPECT_TRUE(exchange.Wait(std::exchange(before, next), nullptr).ok());
          }
          EXPECT_TRUE(exchange.Wait(before, nullptr).ok());
        });
      }
      for (int i = 0; i < 20; ++i) {
        for (const size_t bytes : {2000, 500, 1}) {
          const Status asked = exchange.Ask(0, kEcho, std::string(bytes, 'l'), {}, nullptr);
          EXPECT_TRUE(asked.ok()) << asked.ToString();
        }
      }
      stop = true;
    }
    EXPECT_TRUE(exchange.Barrier().ok());
  });
}

// Those wait together, and must not be answered together.
TEST_P(ExchangeOverSim, BoundsWhatItHoldsForRequestsThatCameBeforeTheirService) {
  ExchangeOptions options;
  options.window_bytes = 100'000;
  std::atomic<uint64_t> most{0};
  Run(2, options, [&](Exchange& exchange) {
    std::vector<std::shared_ptr<Call>> calls;
    for (int i = 0; i < 100 && exchange.rank() == 1; ++i) {
      calls.push_back(*exchange.Start(0, kEcho, std::to_string(i), {}));
    }
    EXPECT_TRUE(exchange.Barrier().ok());  // behind the requests
    if (exchange.rank() == 0) {
      int next = 0;
      exchange.Serve(kEcho, [&, next](int, Slice request, std::string* answer) mutable {
        EXPECT_EQ(request, std::to_string(next++));
        answer->assign(50'000, 'x');
        most = std::max(most.load(), exchange.Statistics().buffered_bytes);
        return Status();
      });
    }
    for (const auto& call : calls) ASSERT_TRUE(exchange.Wait(call, nullptr).ok());
    EXPECT_TRUE(exchange.Barrier().ok());
  });
  EXPECT_GT(most, 0u);
  EXPECT_LT(most, 300'000u);
}

TEST_P(ExchangeOverSim, BoundsTheAnswersThatWaitForAllRequestersTogether) {
  std::atomic<uint64_t> most{0};
  Run(4, [&](Exchange& exchange) {
    if (exchange.rank() == 0) {
      exchange.LimitAnswers(100'000);
      exchange.Serve(kEcho, [&](int, Slice, std::string* answer) {
        answer->assign(50'000, 'x');
        most = std::max(most.load(), exchange.Statistics().buffered_bytes);
        return Status();
      });
    }
    EXPECT_TRUE(exchange.Barrier().ok());
    if (exchange.rank() != 0) {
      std::vector<std::shared_ptr<Call>> calls;
      for (int i = 0; i < 300; ++i) {
        calls.push_back(*exchange.Start(0, kEcho, "0123456789", {}));
      }
      for (const auto& call : calls) ASSERT_TRUE(exchange.Wait(call, nullptr).ok());
    }
    EXPECT_TRUE(exchange.Barrier().ok());
  });
  // The bound, one more answer, and the held requests.
  EXPECT_LT(most, 250'000u);
}

TEST_P(ExchangeOverSim, SurvivorsLearnOfADeathBeforeTheirDeadline) {
  for (int victim = 0; victim < 4; ++victim) {
    Run(4, [&](Exchange& exchange) {
      exchange.Serve(kEcho, Echo);
      const uint64_t start_ns = exchange.transport().clock().NowNs();
      if (exchange.rank() == victim) network_->Kill(victim);
      EXPECT_EQ(exchange.WaitSignal(1, {victim}).code(), Code::kPeerFailed);
      EXPECT_EQ(exchange.Ask(victim, kEcho, "x", {}, nullptr).code(), Code::kPeerFailed);
      const Status agreed = exchange.Agree(Status());
      EXPECT_EQ(agreed.code(), Code::kPeerFailed) << agreed.ToString();
      EXPECT_EQ(exchange.AllGather("x").status().code(), Code::kPeerFailed);
      EXPECT_LT(exchange.transport().clock().NowNs() - start_ns, 2'000 * kMs);
      if (exchange.rank() != victim) {
        EXPECT_TRUE(exchange.Ask(exchange.rank(), kEcho, "x", {}, nullptr).ok());
      }
    });
  }
}

TEST_P(ExchangeOverSim, EndsRequestsUnderWayWhenTheirOwnerDies) {
  Run(2, [&](Exchange& exchange) {
    if (exchange.rank() == 0) {
      std::vector<std::shared_ptr<Call>> calls;
      std::atomic<int> ended{0};
      for (int i = 0; i < 10; ++i) {
        calls.push_back(*exchange.Start(1, kEcho, "x", {}));
        ASSERT_TRUE(exchange
                        .StartThen(1, kEcho, "x", {},
                                   [&](const Outcome& outcome) {
                                     EXPECT_EQ(outcome.status.code(), Code::kPeerFailed);
                                     ++ended;
                                   })
                        .ok());
      }
      network_->Kill(1);
      for (const auto& call : calls) {
        EXPECT_EQ(exchange.Wait(call, nullptr).code(), Code::kPeerFailed);
      }
      EXPECT_EQ(ended, 10);
      EXPECT_EQ(exchange.Start(1, kEcho, "x", {}).status().code(), Code::kPeerFailed);
      EXPECT_EQ(exchange.Notify(1, {1}).code(), Code::kPeerFailed);
    } else {
      EXPECT_FALSE(exchange.WaitSignal(9, {0}).ok());
    }
  });
}

TEST_P(ExchangeOverSim, FailsTheSenderOfADamagedFrame) {
  for (int turn = 0; turn < 20; ++turn) {
    Run(2, [&](Exchange& exchange) {
      exchange.Serve(kEcho, Echo);
      EXPECT_TRUE(exchange.Barrier().ok());
      if (exchange.rank() == 0) {
        network_->Damage(0, 1);
        EXPECT_FALSE(exchange.Ask(1, kEcho, "fragile", {}, nullptr).ok());
      } else {
        EXPECT_EQ(exchange.WaitSignal(1, {0}).code(), Code::kCorruption);
      }
    });
  }
}

TEST(ExchangeOverThreads, HandsMessagesOfManyThreadsToTheRightOnes) {
  for (bool handler : {true, false}) {
    ExchangeOptions options;
    options.handler_thread = handler;
    const auto network = SimNetwork::Create(Ranks(3, 1, false));
    RunRanks(*network, options, [](Exchange& exchange) {
      exchange.Serve(kEcho, Echo);
      std::vector<std::thread> threads;
      for (uint64_t t = 0; t < 4; ++t) {
        threads.emplace_back([&exchange, t] {
          for (uint64_t i = 0; i < 60; ++i) {
            const std::string text = Noise(t * 1000 + i, i % 10 == 9 ? 150'000 : i * 7);
            std::string answer;
            ASSERT_TRUE(exchange.Ask(static_cast<int>((t + i) % 3), kEcho, {}, text, &answer).ok());
            ASSERT_TRUE(answer == text);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_TRUE(exchange.Barrier().ok());
    });
  }
}

// ---- Tests that only virtual time makes fast ----

TEST(ExchangeOverSeededSim, TimesOutOnAStoppedRankAndGoesOnWhenItComesBack) {
  const auto network = SimNetwork::Create(Ranks(2, 5, true));
  ExchangeOptions options;
  options.window_bytes = 10'000;
  RunRanks(*network, options, [&](Exchange& exchange) {
    exchange.Serve(kEcho, Echo);
    EXPECT_TRUE(exchange.Barrier().ok());
    io::Clock& clock = exchange.transport().clock();
    if (exchange.rank() == 0) {
      network->Stop(1, 200'000 * kMs);
      const uint64_t start_ns = clock.NowNs();
      EXPECT_EQ(exchange.Ask(1, kEcho, std::string(8'000, 'x'), {}, nullptr).code(),
                Code::kTimedOut);
      EXPECT_GE(clock.NowNs() - start_ns, 60'000 * kMs);
      EXPECT_LT(clock.NowNs() - start_ns, 61'000 * kMs);
      // The first request still takes its part of the window.
      EXPECT_EQ(exchange.Start(1, kEcho, std::string(8'000, 'x'), {}).status().code(),
                Code::kTimedOut);
      clock.SleepNs(100'000 * kMs);
      std::string answer;
      EXPECT_TRUE(exchange.Ask(1, kEcho, std::string(9'000, 'y'), {}, &answer).ok());
      EXPECT_EQ(answer, std::string(9'000, 'y'));
      EXPECT_TRUE(exchange.Notify(1, {1}).ok());
    } else {
      Status status(Code::kTimedOut);
      while (status.code() == Code::kTimedOut) status = exchange.WaitSignal(1, {0});
      EXPECT_TRUE(status.ok());
    }
  });
}

TEST(ExchangeOverSeededSim, DropsAMessageThatItsSenderGaveUpHalfway) {
  const auto network = SimNetwork::Create(Ranks(2, 6, true));
  RunRanks(*network, ExchangeOptions(), [&](Exchange& exchange) {
    int handled = 0;
    exchange.Serve(kEcho, [&](int, Slice request, std::string* answer) {
      ++handled;
      return Echo(0, request, answer);
    });
    EXPECT_TRUE(exchange.Barrier().ok());
    if (exchange.rank() == 0) {
      network->Stop(1, 70'000 * kMs);
      const std::string large(3'000'000, 'x');
      EXPECT_EQ(exchange.Start(1, kEcho, large, {}).status().code(), Code::kTimedOut);
      exchange.transport().clock().SleepNs(20'000 * kMs);
      std::string answer;
      EXPECT_TRUE(exchange.Ask(1, kEcho, "small", {}, &answer).ok());
      EXPECT_EQ(answer, "small");
      EXPECT_TRUE(exchange.Notify(1, {1}).ok());
    } else {
      Status status(Code::kTimedOut);
      while (status.code() == Code::kTimedOut) status = exchange.WaitSignal(1, {0});
      EXPECT_EQ(handled, 1);
      EXPECT_EQ(exchange.Statistics().buffered_bytes, 0u);
    }
  });
}

TEST(ExchangeOverSeededSim, EndsACollectiveOnAllRanksByTheDeadlineOfAStoppedOne) {
  for (int count = 2; count <= 5; ++count) {
    const auto network = SimNetwork::Create(Ranks(count, 7, true));
    RunRanks(*network, ExchangeOptions(), [&](Exchange& exchange) {
      io::Clock& clock = exchange.transport().clock();
      EXPECT_TRUE(exchange.Barrier().ok());
      if (exchange.rank() == 1) {
        network->Stop(1, 300'000 * kMs);
        exchange.Progress();  // stopped in here
        return;
      }
      const uint64_t start_ns = clock.NowNs();
      const Status status = exchange.Barrier();
      EXPECT_EQ(status.code(), Code::kTimedOut) << status.ToString();
      EXPECT_LT(clock.NowNs() - start_ns, 61'000 * kMs);
      clock.SleepNs(100'000 * kMs);  // no rank notices that another leaves
    });
  }
}

// A hash of all that every rank saw, in its order.
uint64_t RunTrace(uint64_t seed) {
  std::vector<std::string> traces(3);
  const auto network = SimNetwork::Create(Ranks(3, seed, true));
  RunRanks(*network, ExchangeOptions(), [&](Exchange& exchange) {
    std::string& trace = traces[static_cast<size_t>(exchange.rank())];
    exchange.Serve(kEcho, [&](int source, Slice request, std::string* answer) {
      trace += std::to_string(source) + std::string(request) + ";";
      return Echo(source, request, answer);
    });
    for (int i = 0; i < 20; ++i) {
      (void)exchange.Ask((exchange.rank() + i) % 3, kEcho, std::to_string(i), {}, nullptr);
      if (exchange.rank() == 2 && i == 10) network->KillAfter(2, 7);
    }
    trace += exchange.Barrier().ToString();
    trace += std::to_string(exchange.transport().clock().NowNs());
  });
  return base::HashKey(traces[0] + traces[1] + traces[2]);
}

TEST(ExchangeOverSeededSim, RepeatsARunOfTheSameSeed) {
  EXPECT_EQ(RunTrace(1), RunTrace(1));
  EXPECT_EQ(RunTrace(2), RunTrace(2));
  EXPECT_NE(RunTrace(1), RunTrace(2));
}

TEST(ExchangeOverSeededSim, AlwaysEndsWhereverARankDies) {
  for (uint64_t calls = 0; calls < 400; ++calls) {
    const auto network = SimNetwork::Create(Ranks(3, calls, true));
    network->KillAfter(static_cast<int>(calls % 3), calls);
    RunRanks(*network, ExchangeOptions(), [&](Exchange& exchange) {
      exchange.Serve(kEcho, Echo);
      const uint64_t start_ns = exchange.transport().clock().NowNs();
      Status status = exchange.Barrier();
      const std::string text = Noise(calls, 200'000);
      for (int i = 0; status.ok() && i < 6; ++i) {
        const int rank = (exchange.rank() + i) % 3;
        std::string answer;
        status = exchange.Ask(rank, kEcho, {}, Slice(text).substr(0, i % 2 == 0 ? 20 : 200'000),
                              &answer);
      }
      status = exchange.Agree(status);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), Code::kPeerFailed) << status.ToString();
      }
      EXPECT_LT(exchange.transport().clock().NowNs() - start_ns, 5'000 * kMs);
    });
  }
}

TEST(ExchangeOfOneRank, WorksWithoutPeers) {
  for (bool handler : {true, false}) {
    ExchangeOptions options;
    options.handler_thread = handler;
    options.timeout_ms = 50;
    const auto exchange = Exchange::Create(NewSelfTransport(), options);
    EXPECT_EQ(exchange->has_handler_thread(), handler);
    EXPECT_EQ(exchange->Ask(0, kEcho, "x", {}, nullptr).code(), Code::kTimedOut);
    exchange->Serve(kEcho, Echo);
    std::string answer;
    EXPECT_TRUE(exchange->Ask(0, kEcho, "head", "body", &answer).ok());
    EXPECT_EQ(answer, "headbody");
    EXPECT_TRUE(exchange->Barrier().ok());
    EXPECT_EQ(exchange->Agree(Status(Code::kIo, "broken")).message(), "rank 0: broken");
    EXPECT_EQ(exchange->AllGather("mine")->front(), "mine");
    EXPECT_EQ(*exchange->Sum(3), 3u);
    EXPECT_TRUE(exchange->Notify(1, {0}).ok());
    EXPECT_TRUE(exchange->WaitSignal(1, {0}).ok());
  }
}

TEST(ExchangeWithoutThreads, AHandlerThatCannotStartIsReportedOnAllRanks) {
  const auto network = SimNetwork::Create(Ranks(2, 1, false));
  base::FailThreadStarts(1, 1);  // of two handlers the second
  network->Run([&](int, std::unique_ptr<Transport> transport) {
    const auto exchange = Exchange::Create(std::move(transport), ExchangeOptions());
    const Status mine = exchange->HandlerStatus();
    EXPECT_EQ(exchange->has_handler_thread(), mine.ok());
    const Status all = exchange->Agree(mine);
    EXPECT_EQ(all.code(), Code::kOutOfMemory) << all.ToString();
    EXPECT_NE(all.message().find("quire-handler"), std::string::npos) << all.ToString();
  });
  base::FailThreadStarts(0, 0);
}

}  // namespace
}  // namespace quire::comm::exchange_test
