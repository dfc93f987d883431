/// The calls that all ranks of an Exchange make together: Barrier, Agree, AllGather, Sum.
///
/// Layer      comm
/// Encoding   docs/format/message.md
/// Source     Bruck et al. 1997 (rounds); docs/decisions/0017-collectives-after-a-timeout.md
/// Threads    one at a time
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchange/exchange_state.h"
#include "comm/exchange/message_sender.h"
#include "comm/exchange/progress_engine.h"
#include "comm/transport/mailbox.h"

namespace quire::comm {

class Collectives {
 public:
  /// `parts` receives the parts that other ranks send; threads that wait for them sleep under its
  /// address.
  Collectives(ExchangeState* state, ProgressEngine* progress, MessageSender* sender,
              CollectiveBox* parts);

  /// As those of Exchange.
  Status Agree(const Status& mine);
  Status Fail(const Status& why);
  Result<std::vector<std::string>> AllGather(Slice mine);
  Result<uint64_t> Sum(uint64_t mine);
  void SetCallWork(Exchange::CallWork work) { call_work_ = std::move(work); }

 private:
  struct Collective;
  void Begin(Collective& collective);
  Status Run(Collective& collective);
  void RunPasses(Collective& collective);
  void RunRounds(Collective& collective);
  template <typename Step>
  Status WithMemory(const Collective& collective, int rank, const Step& step);
  Status SendPart(Collective& collective, int destination, int round);
  void ReceivePart(Collective& collective, int source, int round);
  Status AwaitPart(Collective& collective, int source, uint64_t number);
  Status TakePart(Collective& collective, int source, int distance);
  void GiveUp(Collective& collective, int rank, const Status& why);
  void JoinGivingUp(Collective& collective);
  void TellGivenUp(Collective& collective);
  bool HasParted(const Collective& collective);

  ExchangeState& state_;
  ProgressEngine& progress_;
  MessageSender& sender_;
  CollectiveBox& parts_;
  Exchange::CallWork call_work_;  ///< may be empty
  uint64_t call_count_ = 0;
  uint64_t first_given_up_ = 0;  ///< of those in a row; 0: this rank completed the last one
  std::string note_;             ///< the text that a call was abandoned
  bool calls_parted_ = false;    ///< a call ended on some ranks and was abandoned on others
};

}  // namespace quire::comm
