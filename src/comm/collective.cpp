// Collectives in ceil(log2 n) rounds (Bruck et al., 1997): in the round of distance d = 1, 2, 4 ...
// rank r sends what it has to r - d and receives from r + d, so that after the last round everybody
// has heard, directly or through others, of everybody. Each message carries the lowest failure that
// its sender knows, and a rank that hears of one, or misses a peer, still goes through all rounds:
// so the failure reaches all ranks instead of leaving them to their deadlines. A death comes before
// all else: whoever heard of it in the call before is in another call by now, by no fault of the
// program.
#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "comm/exchange_impl.h"

namespace quire::comm {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr int kRoundBits = 8;

enum class Operation : uint8_t { kAgree = 1, kGather = 2 };

// The failure of the lowest rank heard of, or the first death.
struct Failure {
  int rank = -1;
  Code code = Code::kOk;
  std::string text;

  void Merge(Failure other) {
    if (other.rank < 0) return;
    const bool death = code == Code::kPeerFailed;
    const bool other_death = other.code == Code::kPeerFailed;
    const bool first = death == other_death ? other.rank < rank : other_death;
    if (rank < 0 || first) *this = std::move(other);
  }
};

void EncodeFailure(const Failure& failure, std::string* to) {
  base::PutFixed<int32_t>(to, failure.rank);
  base::PutFixed<uint8_t>(to, static_cast<uint8_t>(failure.code));
  base::PutLengthPrefixed(to, failure.text);
}

bool DecodeFailure(base::Reader& reader, int size, Failure* failure) {
  int32_t rank = 0;
  uint8_t code = 0;
  Slice text;
  if (!reader.Fixed(&rank) || !reader.Fixed(&code) || !reader.LengthPrefixed(&text)) return false;
  if (rank < -1 || rank >= size || code > static_cast<uint8_t>(Code::kUnsupported)) return false;
  *failure = {rank, static_cast<Code>(code), std::string(text)};
  return (rank >= 0) == (failure->code != Code::kOk);
}

}  // namespace

struct ExchangeImpl::Collective {
  Operation operation;
  Failure failure;
  std::vector<std::string> blocks;  ///< kGather: of ranks r, r + 1, ... as far as known
  uint64_t deadline_ns = 0;
};

void ExchangeImpl::SendPart(Collective& collective, int destination, uint64_t number,
                            int distance) {
  std::string payload;
  base::PutFixed<uint8_t>(&payload, static_cast<uint8_t>(collective.operation));
  EncodeFailure(collective.failure, &payload);
  if (collective.operation == Operation::kGather && collective.failure.rank < 0) {
    const int count = std::min(distance, size_ - distance);
    for (int i = 0; i < count; ++i) {
      base::PutLengthPrefixed(&payload, collective.blocks[static_cast<size_t>(i)]);
    }
  }
  Peer& peer = peers_.Get(destination);
  MessageHeader header;
  header.kind = MessageKind::kCollective;
  header.call = number;
  Status status;
  if (payload.size() > options_.message_bytes_max) {
    status = Status(Code::kInvalidArgument, "more bytes than a message may have are gathered");
  } else if (peer.failed.load(std::memory_order_acquire)) {
    status = peer.why_failed;
  } else {
    status = SendMessage(peer, header, payload, {}, collective.deadline_ns);
  }
  if (!status.ok()) {
    collective.failure.Merge({destination, status.code(), status.message()});
  }
}

Status ExchangeImpl::AwaitPart(int source, uint64_t number, uint64_t deadline_ns,
                               std::string* payload) {
  auto missing = [&] { return parts_.Take(source, number, payload) ? kNobody : source; };
  WaitSpec spec{&parts_, source, "its part of a collective call", deadline_ns};
  QUIRE_RETURN_IF_ERROR(AwaitMissing(spec, Missing(missing)));
  return spec.peer == kNobody ? Status() : peers_.Get(source).why_failed;
}

void ExchangeImpl::ReceivePart(Collective& collective, int source, uint64_t number, int distance) {
  std::string payload;
  const Status status = AwaitPart(source, number, collective.deadline_ns, &payload);
  if (!status.ok()) {
    return collective.failure.Merge({source, status.code(), status.message()});
  }
  base::Reader reader(payload);
  uint8_t operation = 0;
  Failure failure;
  bool sound = reader.Fixed(&operation) && DecodeFailure(reader, size_, &failure);
  if (sound && operation != static_cast<uint8_t>(collective.operation)) {
    collective.failure.Merge(std::move(failure));
    return collective.failure.Merge(
        {source, Code::kInvalidArgument,
         "it is in another collective call than rank " + std::to_string(rank_)});
  }
  if (sound && collective.operation == Operation::kGather && failure.rank < 0) {
    const int count = std::min(distance, size_ - distance);
    for (int i = 0; sound && i < count; ++i) {
      Slice block;
      sound = reader.LengthPrefixed(&block);
      collective.blocks.emplace_back(block);
    }
  }
  if (!sound || !reader.rest().empty()) {
    failure = {source, Code::kCorruption, "its part of a collective call is damaged"};
  }
  collective.failure.Merge(std::move(failure));
}

Status ExchangeImpl::RunCollective(Collective& collective) {
  QUIRE_RETURN_IF_ERROR(CheckUse(rank_));
  const uint64_t first_number = ++collective_count_ << kRoundBits;
  parts_.Forget(first_number);
  collective.deadline_ns = transport_->clock().NowNs() + options_.timeout_ms * kNsPerMs;
  int round = 0;
  for (int distance = 1; distance < size_; distance *= 2, ++round) {
    const uint64_t number = first_number | static_cast<uint64_t>(round);
    SendPart(collective, (rank_ - distance + size_) % size_, number, distance);
    ReceivePart(collective, (rank_ + distance) % size_, number, distance);
  }
  const Failure& failure = collective.failure;
  if (failure.rank < 0) return Status();
  return Status(failure.code, "rank " + std::to_string(failure.rank) +
                                  (failure.text.empty() ? "" : ": " + failure.text));
}

Status ExchangeImpl::Barrier() {
  return Agree(Status());
}

Status ExchangeImpl::Agree(const Status& mine) {
  Collective collective{Operation::kAgree, {}, {}};
  if (!mine.ok()) collective.failure = {rank_, mine.code(), mine.message()};
  return RunCollective(collective);
}

Result<std::vector<std::string>> ExchangeImpl::AllGather(Slice mine) {
  Collective collective{Operation::kGather, {}, {std::string(mine)}};
  QUIRE_RETURN_IF_ERROR(RunCollective(collective));
  std::vector<std::string> by_rank(static_cast<size_t>(size_));
  for (int i = 0; i < size_; ++i) {
    by_rank[static_cast<size_t>((rank_ + i) % size_)] =
        std::move(collective.blocks[static_cast<size_t>(i)]);
  }
  return by_rank;
}

Result<uint64_t> ExchangeImpl::Sum(uint64_t mine) {
  std::string bytes;
  base::PutFixed(&bytes, mine);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> all, AllGather(bytes));
  uint64_t sum = 0;
  for (const std::string& one : all) {
    if (one.size() != sizeof(uint64_t)) {
      return Status(Code::kInvalidArgument, "the ranks are in different collective calls");
    }
    sum += base::LoadLe<uint64_t>(one.data());
  }
  return sum;
}

}  // namespace quire::comm
