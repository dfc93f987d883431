#include "runtime/agreement.h"

#include "base/coding.h"

namespace quire::runtime {
namespace {

constexpr int kCodeLast = static_cast<int>(Code::kUnsupported);

}  // namespace

std::string EncodeOutcome(const Status& status, Slice bytes) {
  std::string text;
  base::PutVarint(&text, static_cast<uint64_t>(status.code()));
  base::PutLengthPrefixed(&text, status.message());
  text.append(bytes);
  return text;
}

Status DecodeOutcome(Slice text, Status* status, Slice* bytes) {
  base::Reader reader(text);
  uint64_t code = 0;
  Slice message;
  if (!reader.Varint(&code) || !reader.LengthPrefixed(&message) ||
      code > static_cast<uint64_t>(kCodeLast)) {
    return Status(Code::kCorruption, "its part of a collective call cannot be read");
  }
  *bytes = reader.rest();
  *status = message.empty() ? Status(static_cast<Code>(code))
                            : Status(static_cast<Code>(code), std::string(message));
  return Status();
}

Gathered Gather(comm::Exchange& exchange, const Status& mine, Slice bytes) {
  Gathered gathered;
  std::string text;
  const Status encoded = base::OrOutOfMemory([&] {
    text = EncodeOutcome(mine, bytes);
    return Status();
  });
  if (!encoded.ok()) return {exchange.Fail(encoded), false, {}};
  Result<std::vector<std::string>> parts = exchange.AllGather(text);
  gathered.heard = parts.ok();
  gathered.status = parts.status();
  if (!parts.ok()) return gathered;
  gathered.parts = std::move(*parts);
  // Where all ranks gave OK this takes no memory: no rank fails alone.
  for (size_t rank = 0; rank < gathered.parts.size(); ++rank) {
    std::string& part = gathered.parts[rank];
    Slice own;
    Status status;
    const Status decoded = DecodeOutcome(part, &status, &own);
    if (!decoded.ok()) status = decoded;
    if (!status.ok()) {
      // On one rank there is no other that it could have been.
      const bool alone = gathered.parts.size() == 1;
      gathered.status = alone ? status : status.WithContext("rank " + std::to_string(rank));
      gathered.parts.resize(rank);
      return gathered;
    }
    part.erase(0, part.size() - own.size());
  }
  return gathered;
}

Result<std::vector<std::string>> GatherAgreed(comm::Exchange& exchange, const Status& mine,
                                              Slice bytes) {
  Gathered gathered = Gather(exchange, mine, bytes);
  QUIRE_RETURN_IF_ERROR(gathered.status);
  return std::move(gathered.parts);
}

Status AgreeOn(comm::Exchange& exchange, const Status& mine, Slice argument,
               const std::string& what) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> arguments,
                         GatherAgreed(exchange, mine, argument));
  for (size_t rank = 1; rank < arguments.size(); ++rank) {
    if (arguments[rank] == arguments[0]) continue;
    return Status(Code::kInvalidArgument, what + " differs between ranks: " + arguments[0] +
                                              " on rank 0, " + arguments[rank] + " on rank " +
                                              std::to_string(rank));
  }
  return Status();
}

Status AgreeOnEnd(comm::Exchange& exchange, const Status& ended) {
  const Status agreed = exchange.Agree(ended);
  return agreed.code() == ended.code() ? ended : agreed;  // its text names the rank already
}

}  // namespace quire::runtime
