// Requests that their service leaves unfinished: what waits behind them, and what does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchange/exchange.h"
#include "comm/sim/sim_transport.h"

namespace quire::comm::unfinished_test {
namespace {

constexpr uint32_t kEcho = 1;

Status Echo(int, Slice request, std::string* answer) {
  answer->assign(request);
  return Status();
}

// By turns, and on real threads with handler threads.
class UnfinishedRequests : public testing::TestWithParam<bool> {
 protected:
  static void Run(int count, const std::function<void(Exchange& exchange)>& program,
                  const ExchangeOptions& exchange_options = {}) {
    SimNetwork::Options options;
    options.rank_count = count;
    options.deterministic = GetParam();
    SimNetwork::Create(options)->Run([&](int, std::unique_ptr<Transport> transport) {
      const auto exchange = Exchange::Create(std::move(transport), exchange_options);
      program(*exchange);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, UnfinishedRequests, testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Seeded" : "Threads"; });

// The condition for which the owner's requests wait: open after a rank has sent "open" to kEcho.
class Door {
 public:
  // Serves kSlow and kSlower as one order, and kEcho beside it.
  void Serve(Exchange& exchange) {
    for (const uint32_t channel : {kSlow, kSlower}) {
      exchange.ServePatiently(channel, 7, [this](int, Slice request, Status*, std::string* answer) {
        std::unique_ptr<UnfinishedRequest> rest;
        if (!Through(request, answer)) rest = std::make_unique<Rest>(this, request);
        return rest;
      });
    }
    exchange.Serve(kEcho, [this](int source, Slice request, std::string* answer) {
      if (request == "open") open_ = true;
      return Echo(source, request, answer);
    });
  }
  std::string through() const { return through_; }

  static constexpr uint32_t kSlow = 10;
  static constexpr uint32_t kSlower = 300;

 private:
  class Rest final : public UnfinishedRequest {
   public:
    Rest(Door* door, Slice request) : door_(door), request_(request) {}
    bool GoOn(Status* /*status*/, std::string* answer) override {
      return door_->Through(request_, answer);
    }

   private:
    Door* const door_;
    const std::string request_;
  };
  bool Through(Slice request, std::string* answer) {
    if (!open_) return false;
    if (request == "a" && asks_++ < 3) return false;  // it takes longer than those behind it
    through_ += request;
    answer->assign(request);
    return true;
  }

  int asks_ = 0;
  bool open_ = false;  // one service at a time, and the program after the answers
  std::string through_;
};

TEST_P(UnfinishedRequests, AnswersOtherRequestsWhileOneIsUnfinished) {
  Door door;
  Run(3, [&](Exchange& exchange) {
    if (exchange.rank() == 0) door.Serve(exchange);
    ASSERT_TRUE(exchange.Barrier().ok());  // both channels have their service
    if (exchange.rank() == 1) {
      std::vector<std::shared_ptr<Call>> calls;
      for (const auto& [channel, text] :
           {std::pair(Door::kSlow, "a"), {Door::kSlower, "b"}, {Door::kSlow, "c"}}) {
        auto call = exchange.Start(0, channel, text, {});
        ASSERT_TRUE(call.ok());
        calls.push_back(*call);
      }
      ASSERT_TRUE(exchange.Notify(3, {0}).ok());
      std::string answer;
      ASSERT_TRUE(exchange.Ask(0, kEcho, "now", {}, &answer).ok());
      EXPECT_EQ(answer, "now");
      for (const auto& call : calls) EXPECT_FALSE(call->Done());
      ASSERT_TRUE(exchange.Notify(4, {2}).ok());
      for (size_t i = 0; i < calls.size(); ++i) {
        ASSERT_TRUE(exchange.Wait(calls[i], &answer).ok());
        EXPECT_EQ(answer, std::string(1, static_cast<char>('a' + i)));
      }
    } else if (exchange.rank() == 2) {
      ASSERT_TRUE(exchange.WaitSignal(4, {1}).ok());
      ASSERT_TRUE(exchange.Ask(0, kEcho, "open", {}, nullptr).ok());
    }
    if (exchange.rank() == 0) {
      ASSERT_TRUE(exchange.WaitSignal(3, {1}).ok());
      EXPECT_EQ(door.through(), "abc") << "a signal comes after the requests before it";
    }
    EXPECT_TRUE(exchange.Barrier().ok());
    EXPECT_EQ(exchange.Statistics().buffered_bytes, 0u);
  });
  EXPECT_EQ(door.through(), "abc");
}

// They wait together, and must not be answered together.
TEST_P(UnfinishedRequests, BoundsTheAnswersOfThoseThatWaitedBehindOne) {
  class Closed final : public UnfinishedRequest {
   public:
    explicit Closed(const bool* open) : open_(open) {}
    bool GoOn(Status* /*status*/, std::string* answer) override {
      answer->assign(50'000, 'x');
      return *open_;
    }

   private:
    const bool* const open_;
  };
  ExchangeOptions options;
  options.window_bytes = 100'000;
  bool open = false;  // one service at a time
  uint64_t most = 0;
  Run(
      2,
      [&](Exchange& exchange) {
        if (exchange.rank() == 0) {
          exchange.ServePatiently(Door::kSlow, 7, [&](int, Slice, Status*, std::string* answer) {
            most = std::max(most, exchange.Statistics().buffered_bytes);
            std::unique_ptr<UnfinishedRequest> rest;
            if (!open) rest = std::make_unique<Closed>(&open);
            answer->assign(50'000, 'x');
            return rest;
          });
          exchange.Serve(kEcho, [&](int source, Slice request, std::string* answer) {
            open = true;
            return Echo(source, request, answer);
          });
        }
        ASSERT_TRUE(exchange.Barrier().ok());
        std::vector<std::shared_ptr<Call>> calls;
        for (int i = 0; i < 100 && exchange.rank() == 1; ++i) {
          calls.push_back(*exchange.Start(0, Door::kSlow, "x", {}));
        }
        if (exchange.rank() == 1) {
          ASSERT_TRUE(exchange.Ask(0, kEcho, "open", {}, nullptr).ok());
        }
        for (const auto& call : calls) ASSERT_TRUE(exchange.Wait(call, nullptr).ok());
        EXPECT_TRUE(exchange.Barrier().ok());
      },
      options);
  EXPECT_GT(most, 0u);
  EXPECT_LT(most, 300'000u);
}

TEST_P(UnfinishedRequests, AnUnfinishedRequestEndsWithItsService) {
  Door door;
  Run(2, [&](Exchange& exchange) {
    if (exchange.rank() == 0) {
      door.Serve(exchange);
      ASSERT_TRUE(exchange.Barrier().ok());
      exchange.Serve(Door::kSlow, {});
      exchange.Serve(Door::kSlower, {});
    } else {
      auto first = exchange.Start(0, Door::kSlow, "a", {});
      auto second = exchange.Start(0, Door::kSlower, "b", {});
      ASSERT_TRUE(first.ok() && second.ok());
      ASSERT_TRUE(exchange.Ask(0, kEcho, "they are there", {}, nullptr).ok());
      ASSERT_TRUE(exchange.Barrier().ok());
      EXPECT_EQ(exchange.Wait(*first, nullptr).code(), Code::kNotFound);
      EXPECT_EQ(exchange.Wait(*second, nullptr).code(), Code::kNotFound);
    }
    EXPECT_TRUE(exchange.Barrier().ok());
  });
  EXPECT_EQ(door.through(), "");
}

}  // namespace
}  // namespace quire::comm::unfinished_test
