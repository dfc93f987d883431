/// An exchange for objects that only serve and send: tests call its services, and its sent messages
/// are handed to the test and answered at once.
///
/// Layer      dataset (tests)
/// Threads    one
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/check.h"
#include "comm/exchange/exchange.h"

namespace quire::dataset {

/// A rank in a grid of four columns whose last row is short.
constexpr uint32_t kGridRank = 5;
constexpr uint32_t kGridSize = 14;
constexpr uint32_t kGridWidth = 4;

class MuteExchange : public comm::Exchange {
 public:
  using Sent = std::function<void(int destination, uint32_t channel, Slice body)>;
  MuteExchange(int rank, int size, Sent sent = {})
      : rank_(rank), size_(size), sent_(std::move(sent)) {}

  /// As if rank `source` had sent it.
  Status Receive(int source, uint32_t channel, Slice request) {
    std::string answer;
    return services_.at(channel)(source, request, &answer);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool has_handler_thread() const override { return true; }
  Status HandlerStatus() const override { return Status(); }
  Status CheckThread() const override { return Status(); }
  Status Fail(const Status& why) override { return why; }
  void Serve(uint32_t channel, comm::Service service) override {
    services_[channel] = std::move(service);
  }
  void ServePatiently(uint32_t /*channel*/, uint32_t /*order*/,
                      comm::PatientService /*service*/) override {}
  Status StartThen(int destination, uint32_t channel, Slice /*head*/, Slice body,
                   std::function<void(const comm::Outcome& outcome)> done) override {
    sent_(destination, channel, body);
    done({Status(), {}, false});
    return Status();
  }
  void Nudge(const void* /*key*/) override {}

  // Nothing that is asked for here.
  comm::Transport& transport() override { Never(); }
  Result<std::shared_ptr<comm::Call>> Start(int, uint32_t, Slice, Slice) override { Never(); }
  Status Wait(const std::shared_ptr<comm::Call>&, std::string*) override { Never(); }
  Status Await(const void*, const char*, const std::function<int()>&) override { Never(); }
  Status PeerStatus(int) override { Never(); }
  void Progress() override { Never(); }
  Status Barrier() override { Never(); }
  Status Agree(const Status&) override { Never(); }
  Result<std::vector<std::string>> AllGather(Slice) override { Never(); }
  Result<uint64_t> Sum(uint64_t) override { Never(); }
  Status Notify(int, const std::vector<int>&) override { Never(); }
  Status WaitSignal(int, const std::vector<int>&) override { Never(); }
  void SetCallWork(CallWork) override { Never(); }
  void LimitAnswers(uint64_t) override { Never(); }
  comm::ExchangeStatistics Statistics() const override { Never(); }

 private:
  [[noreturn]] static void Never() {
    QUIRE_CHECK(false);
    std::abort();
  }

  const int rank_;
  const int size_;
  const Sent sent_;
  std::map<uint32_t, comm::Service> services_;
};

}  // namespace quire::dataset
