/// The Exchange over any transport, put together from its parts:
///
/// ProgressEngine    waiting, polling, the handler thread
/// MessageReceiver   frames, messages, answers, failures of peers
/// RequestHandler    requests and signals, services, answers
/// MessageSender     messages to other ranks
/// Collectives       the calls of all ranks together
///
/// Layer      comm
/// Encoding   docs/format/message.md
/// Threads    as Exchange
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchange/call_table.h"
#include "comm/exchange/collectives.h"
#include "comm/exchange/exchange.h"
#include "comm/exchange/exchange_state.h"
#include "comm/exchange/message_receiver.h"
#include "comm/exchange/message_sender.h"
#include "comm/exchange/progress_engine.h"

namespace quire::comm {

class ExchangeImpl final : public Exchange {
 public:
  ExchangeImpl(std::unique_ptr<Transport> transport, const ExchangeOptions& options);
  /// Services run until the handler thread has ended: all parts are there until then.
  ~ExchangeImpl() override { progress_.Stop(); }

  int rank() const override { return state_.rank; }
  int size() const override { return state_.size; }
  Transport& transport() override { return *state_.transport; }
  bool has_handler_thread() const override { return progress_.has_handler_thread(); }
  Status HandlerStatus() const override { return progress_.handler_status(); }
  Status CheckThread() const override { return state_.CheckThread(); }

  void Serve(uint32_t channel, Service service) override {
    receiver_.requests().Serve(channel, std::move(service));
  }
  void ServePatiently(uint32_t channel, uint32_t order, PatientService service) override {
    receiver_.requests().ServePatiently(channel, order, std::move(service));
  }
  Result<std::shared_ptr<Call>> Start(int destination, uint32_t channel, Slice head,
                                      Slice body) override;
  Status Wait(const std::shared_ptr<Call>& call, std::string* answer) override;
  Status StartThen(int destination, uint32_t channel, Slice head, Slice body,
                   std::function<void(const Outcome& outcome)> done) override;
  Status Await(const void* key, const char* what, const std::function<int()>& missing) override;
  void Nudge(const void* key) override { state_.sleepers.Notify(key); }
  Status PeerStatus(int rank) override;
  void Progress() override { progress_.Progress(); }
  Status Barrier() override { return collectives_.Agree(Status()); }
  Status Agree(const Status& mine) override { return collectives_.Agree(mine); }
  Status Fail(const Status& why) override { return collectives_.Fail(why); }
  Result<std::vector<std::string>> AllGather(Slice mine) override {
    return collectives_.AllGather(mine);
  }
  Result<uint64_t> Sum(uint64_t mine) override { return collectives_.Sum(mine); }
  Status Notify(int signal, const std::vector<int>& ranks) override;
  Status WaitSignal(int signal, const std::vector<int>& ranks) override;
  void SetCallWork(CallWork work) override { collectives_.SetCallWork(std::move(work)); }
  void LimitAnswers(uint64_t bytes_max) override { receiver_.requests().LimitAnswers(bytes_max); }
  ExchangeStatistics Statistics() const override { return state_.counters.Read(); }

 private:
  Result<std::shared_ptr<PendingCall>> StartCall(int destination, uint32_t channel, Slice head,
                                                 Slice body, PendingCall::Callback then);
  Status SendRequest(Peer& peer, const MessageHeader& header, Slice head, Slice body);
  Status SignalTo(int destination, int signal);

  ExchangeState state_;
  MessageReceiver receiver_;
  ProgressEngine progress_;
  MessageSender sender_;
  Collectives collectives_;
};

}  // namespace quire::comm
