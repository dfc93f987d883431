#include "kv/protocol/sent_write.h"

#include <new>

#include "comm/exchange/lost_answer.h"

namespace quire::kv {
namespace {

Status Unheard() {
  try {
    return Status(Code::kTimedOut,
                  "this rank had no memory to receive the answer to a write, which its owner may "
                  "have stored; read the key before you repeat an update");
  } catch (const std::bad_alloc&) {
    return Status(Code::kTimedOut);
  }
}

}  // namespace

Status WaitForWrite(comm::Exchange& exchange, const std::shared_ptr<comm::Call>& call,
                    std::string* answer) {
  try {
    Status status = exchange.Wait(call, answer);
    const bool lost = call->Done() && comm::AnswerWasLost(*call);
    if (status.code() != Code::kOutOfMemory || !lost) return status;
  } catch (const std::bad_alloc&) {
    // It may have been answered since.
  }
  return Unheard();
}

Status AskToWrite(comm::Exchange& exchange, int owner, uint32_t channel, Slice head, Slice body,
                  std::string* answer) {
  const Result<std::shared_ptr<comm::Call>> call = exchange.Start(owner, channel, head, body);
  return call.ok() ? WaitForWrite(exchange, *call, answer) : call.status();
}

}  // namespace quire::kv
