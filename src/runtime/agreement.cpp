#include "runtime/agreement.h"

#include <algorithm>

#include "base/core/out_of_memory.h"
#include "base/text/coding.h"

namespace quire::runtime {
namespace {

constexpr int kCodeLast = static_cast<int>(Code::kUnsupported);

constexpr char kSameOnAll[] = "; give the same on all ranks";
constexpr Slice kNameIs = "name = ";

// Returns the line of `text` that contains the place `at`, or that ends there.
std::string LineAround(Slice text, size_t at) {
  const size_t before = at == 0 ? Slice::npos : text.rfind('\n', at - 1);
  const size_t begin = before == Slice::npos ? 0 : before + 1;
  return std::string(text.substr(begin, text.find('\n', begin) - begin));
}

// Adds the rank to the text, like Status::WithContext.
Status OfRank(const Status& status, size_t rank) {
  return base::Failure(status.code(), [&] {
    return status.WithContext("rank " + std::to_string(rank)).message();
  });
}

}  // namespace

std::string EncodeOutcome(const Status& status, Slice bytes) {
  std::string text;
  base::PutVarint(&text, static_cast<uint64_t>(status.code()));
  base::PutLengthPrefixed(&text, status.message());
  text.append(bytes);
  return text;
}

Status DecodeOutcome(Slice text, Status* status, Slice* bytes) {
  base::ByteReader reader(text);
  uint64_t code = 0;
  Slice message;
  if (!reader.Varint(&code) || !reader.LengthPrefixed(&message) ||
      code > static_cast<uint64_t>(kCodeLast)) {
    return Status(Code::kCorruption, "its part of a collective call cannot be read");
  }
  *bytes = reader.rest();
  const auto known = static_cast<Code>(code);
  *status = message.empty() ? Status(known)
                            : base::Failure(known, [&] { return std::string(message); });
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
  // If all ranks passed OK, this allocates no memory, so no rank fails alone.
  for (size_t rank = 0; rank < gathered.parts.size(); ++rank) {
    std::string& part = gathered.parts[rank];
    Slice own;
    Status status;
    const Status decoded = DecodeOutcome(part, &status, &own);
    if (!decoded.ok()) status = decoded;
    if (!status.ok()) {
      // With one rank, the failing rank is known without its number.
      const bool alone = gathered.parts.size() == 1;
      gathered.status = alone ? status : OfRank(status, rank);
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
    return base::Failure(Code::kInvalidArgument, [&] {
      return what + " differs between ranks: " + arguments[0] + " on rank 0, " + arguments[rank] +
             " on rank " + std::to_string(rank) + kSameOnAll;
    });
  }
  return Status();
}

Status CompareRequests(Slice first, Slice other, size_t rank) {
  const auto [a, b] = std::mismatch(first.begin(), first.end(), other.begin(), other.end());
  if (a == first.end() && b == other.end()) return Status();
  return base::Failure(Code::kInvalidArgument, [&, at = static_cast<size_t>(a - first.begin())] {
    std::string mine = LineAround(first, at);
    std::string its = LineAround(other, at);
    const bool names = mine.starts_with(kNameIs) && its.starts_with(kNameIs);
    if (names) mine.erase(0, kNameIs.size());
    if (names) its.erase(0, kNameIs.size());
    return std::string(names ? "names" : "options") + " differ between ranks: rank 0 has \"" +
           mine + "\", rank " + std::to_string(rank) + " has \"" + its + "\"" + kSameOnAll;
  });
}

Status AgreeOnRequest(comm::Exchange& exchange, const Status& mine, Slice request) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> requests,
                         GatherAgreed(exchange, mine, request));
  for (size_t rank = 1; rank < requests.size(); ++rank) {
    QUIRE_RETURN_IF_ERROR(CompareRequests(requests[0], requests[rank], rank));
  }
  return Status();
}

Status AgreeOnOutcome(comm::Exchange& exchange, const Status& mine) {
  const Status agreed = exchange.Agree(mine);
  return agreed.code() == mine.code() ? mine : agreed;
}

}  // namespace quire::runtime
