// Collectives in ceil(log2 n) rounds (Bruck et al., 1997): in the round of distance d = 1, 2, 4 ...
// rank r sends what it has to r - d and receives from r + d, so that after the last round every
// rank has heard, directly or through others, of every rank. Each message carries the lowest
// failure that its sender knows, which calls it has heard of, and which call was the last that its
// sender completed.
//
// A rank that misses a part, or hears that another rank gave up, gives the call up: it tells the
// ranks that wait for its parts, and they do the same. A rank that comes late finds the note and
// fails as the others did, so that the next calls of all ranks match again. Only a rank that had
// just completed the call learns of the note too late; the next call finds out, or the first after
// it that is not given up, because its parts say which call was the last that ended, and all later
// calls of the communicator are refused.
//
// A gathering has a second pass of rounds in which the ranks agree that each has everything: memory
// that one rank lacks for what the others sent is a failure of all. See
// docs/decisions/0017-collectives-after-a-timeout.md.
#include <algorithm>
#include <new>
#include <utility>

#include "base/coding.h"
#include "base/out_of_memory.h"
#include "base/units.h"
#include "comm/exchange/exchange_impl.h"

namespace quire::comm {

// These are parts of ExchangeImpl::Collective, which a header names: no anonymous namespace.
enum CollectiveOperation : uint8_t { kAgree = 1, kGather = 2 };  // bits of a set

constexpr char kDifferentCalls[] =
    "the ranks are in different collective calls; all ranks must make the same ones, in one order";

// In place of the number of the last call that ranks have completed: they differ in that.
constexpr uint64_t kParted = UINT64_MAX;

// The failure of the lowest rank heard of, or the first death.
struct CollectiveFailure {
  int rank = -1;
  Code code = Code::kOk;
  std::string text;
  bool lasting = false;  // no later call of this communicator can be right

  void Merge(CollectiveFailure other) {
    if (other.rank < 0) return;
    const bool death = code == Code::kPeerFailed;
    const bool other_death = other.code == Code::kPeerFailed;
    const bool first = death == other_death ? other.rank < rank : other_death;
    if (rank < 0 || first) *this = std::move(other);
  }
  // The code alone where there is no memory for the sentence: it is the same on all ranks.
  Status ToStatus() const {
    if (rank < 0) return Status();
    try {
      return Status(code, "rank " + std::to_string(rank) + (text.empty() ? "" : ": " + text));
    } catch (const std::bad_alloc&) {
      return Status(code);
    }
  }
};

namespace {

constexpr uint64_t kMemoryNapNs = base::kNsPerMs;
constexpr uint64_t kLastNewsNs = 1'000 * base::kNsPerMs;

void EncodeFailure(const CollectiveFailure& failure, std::string* to) {
  base::PutFixed<int32_t>(to, failure.rank);
  base::PutFixed<uint8_t>(to, static_cast<uint8_t>(failure.code));
  base::PutFixed<uint8_t>(to, failure.lasting ? 1 : 0);
  base::PutLengthPrefixed(to, failure.text);
}

// Without its sentence where there is no memory for that: the code counts, and is the same on all
// ranks.
CollectiveFailure FailureWith(int rank, Code code, Slice text) {
  CollectiveFailure failure{rank, code, {}, false};
  static_cast<void>(base::OrOutOfMemory([&] {
    failure.text = text;
    return Status();
  }));
  return failure;
}

bool DecodeFailure(base::ByteReader& reader, int size, CollectiveFailure* failure) {
  int32_t rank = 0;
  uint8_t code = 0;
  uint8_t lasting = 0;
  Slice text;
  if (!reader.Fixed(&rank) || !reader.Fixed(&code) || !reader.Fixed(&lasting) ||
      !reader.LengthPrefixed(&text)) {
    return false;
  }
  if (rank < -1 || rank >= size || code > static_cast<uint8_t>(Code::kUnsupported)) return false;
  *failure = FailureWith(rank, static_cast<Code>(code), text);
  failure->lasting = lasting != 0;
  return (rank >= 0) == (failure->code != Code::kOk);
}

CollectiveFailure FailureOf(int rank, const Status& status) {
  return FailureWith(rank, status.code(), status.message());
}

CollectiveFailure PartedFailure(int rank) {
  CollectiveFailure failure = FailureWith(rank, Code::kPeerFailed,
                                          "an earlier collective call ended on some ranks and was "
                                          "given up on others; close the context "
                                          "and reopen it on all ranks");
  failure.lasting = true;
  return failure;
}

}  // namespace

struct ExchangeImpl::Collective {
  CollectiveOperation operation;
  CollectiveFailure failure;
  std::vector<std::string> blocks;  // kGather: of ranks r, r + 1, ... as far as known
  uint64_t call = 0;
  int pass = 0;
  uint64_t deadline_ns = 0;
  uint8_t operations = 0;  // of all ranks heard of
  uint64_t completed = 0;  // the last call that they have completed, or kParted
  bool given_up = false;
  std::string outgoing = {};
  std::string incoming = {};

  void MergeCompleted(uint64_t other) {
    if (other != completed) completed = kParted;
  }
  bool SendsBlocks() const { return operation == kGather && pass == 0 && failure.rank < 0; }
  uint64_t PartNumber(uint64_t round) const {
    return call << kCallShift | (static_cast<uint64_t>(pass) * kPassRounds + round);
  }
};

// A rank that has begun a call waits for memory as it waits for room: up to the deadline. Not for a
// rank that it has given up because something of it found no memory: nothing more comes from there.
template <typename Step>
Status ExchangeImpl::WithMemory(const Collective& collective, int rank, const Step& step) {
  io::Clock& clock = transport_->clock();
  while (true) {
    bool lost = false;
    const Status status = base::OrOutOfMemory([&] {
      const Peer& peer = peers_.Get(rank);
      lost = peer.failed.load(std::memory_order_acquire) &&
             peer.why_failed.code() == Code::kOutOfMemory;
      return step();
    });
    if (status.code() != Code::kOutOfMemory || lost || clock.NowNs() >= collective.deadline_ns) {
      return status;
    }
    clock.SleepNs(kMemoryNapNs);
  }
}

Status ExchangeImpl::SendPart(Collective& collective, int destination, int round) {
  const int distance = 1 << round;
  std::string& payload = collective.outgoing;
  payload.clear();
  base::PutFixed<uint8_t>(&payload, collective.operations);
  base::PutFixed<uint64_t>(&payload, collective.completed);
  EncodeFailure(collective.failure, &payload);
  if (collective.SendsBlocks()) {
    const int count = std::min(distance, size_ - distance);
    for (int i = 0; i < count; ++i) {
      base::PutLengthPrefixed(&payload, collective.blocks[static_cast<size_t>(i)]);
    }
  }
  Peer& peer = peers_.Get(destination);
  MessageHeader header;
  header.kind = MessageKind::kCollective;
  header.call = collective.PartNumber(static_cast<uint64_t>(round));
  if (payload.size() > options_.message_bytes_max) {
    return Status(Code::kInvalidArgument, "more bytes than a message may have are gathered");
  }
  if (peer.failed.load(std::memory_order_acquire)) return peer.why_failed;
  return SendMessage(peer, header, payload, {}, collective.deadline_ns);
}

// OK also where the call was given up meanwhile.
Status ExchangeImpl::AwaitPart(Collective& collective, int source, uint64_t number) {
  bool came = false;
  auto missing = [&] {
    came = parts_.IsGivenUp(collective.call) || parts_.Take(source, number, &collective.incoming);
    const bool has_work = call_work_.pending && call_work_.pending();
    return came || has_work ? kNobody : source;
  };
  WaitSpec spec{&parts_, source, "its part of a collective call", collective.deadline_ns};
  while (true) {
    QUIRE_RETURN_IF_ERROR(AwaitMissing(spec, Missing(missing)));
    if (spec.peer != kNobody) return peers_.Get(source).why_failed;
    if (came) return Status();
    call_work_.run();
    spec.peer = source;
    if (transport_->clock().NowNs() >= collective.deadline_ns) return TimedOut(spec);
  }
}

// What came of the peer's part; a failure where it is damaged, or does not fit into memory.
Status ExchangeImpl::TakePart(Collective& collective, int source, int distance) {
  if (collective.incoming.empty()) return base::OutOfMemory();  // it was lost on its arrival
  base::ByteReader reader(collective.incoming);
  uint8_t operations = 0;
  uint64_t completed = 0;
  CollectiveFailure failure;
  bool sound = reader.Fixed(&operations) && reader.Fixed(&completed) &&
               DecodeFailure(reader, size_, &failure);
  if (sound && operations == collective.operation && collective.operation == kGather &&
      collective.pass == 0 && failure.rank < 0) {
    const int count = std::min(distance, size_ - distance);
    for (int i = 0; sound && i < count; ++i) {
      Slice block;
      sound = reader.LengthPrefixed(&block);
      collective.blocks.emplace_back(block);
    }
  } else if (sound && operations != collective.operation) {
    collective.failure.Merge(FailureWith(source, Code::kInvalidArgument, kDifferentCalls));
    reader = base::ByteReader(Slice());
  }
  if (!sound || !reader.rest().empty()) {
    return Status(Code::kCorruption, "its part of a collective call is damaged");
  }
  collective.operations |= operations;
  collective.MergeCompleted(completed);
  collective.failure.Merge(std::move(failure));
  return Status();
}

void ExchangeImpl::ReceivePart(Collective& collective, int source, int round) {
  const uint64_t number = collective.PartNumber(static_cast<uint64_t>(round));
  const Status came =
      WithMemory(collective, source, [&] { return AwaitPart(collective, source, number); });
  if (!came.ok()) return GiveUp(collective, source, came);
  if (parts_.IsGivenUp(collective.call)) return JoinGivingUp(collective);
  const Status taken =
      base::OrOutOfMemory([&] { return TakePart(collective, source, 1 << round); });
  if (taken.ok()) return;
  const int failing = taken.code() == Code::kOutOfMemory ? rank_ : source;
  collective.failure.Merge(FailureOf(failing, taken));
}

// Tells those that wait for this rank's parts, now or later. One that cannot be told finds it out
// in the next call.
void ExchangeImpl::TellGivenUp(Collective& collective) {
  collective.given_up = true;
  if (first_given_up_ == 0) first_given_up_ = collective.call;
  const auto encode = [&](const CollectiveFailure& failure) {
    note_.clear();
    base::PutFixed<uint64_t>(&note_, first_given_up_);
    EncodeFailure(failure, &note_);
    return Status();
  };
  const CollectiveFailure& failure = collective.failure;
  if (!base::OrOutOfMemory([&] { return encode(failure); }).ok()) {
    static_cast<void>(encode({failure.rank, failure.code, {}, failure.lasting}));
  }
  MessageHeader header;
  header.kind = MessageKind::kCollective;
  header.call = collective.call << kCallShift | kGivenUpRound;
  const uint64_t now_ns = transport_->clock().NowNs();
  for (int distance = 1; distance < size_; distance *= 2) {
    const int waiting = (rank_ - distance + size_) % size_;
    // Also to one that this rank hears nothing from any more: it may be alive.
    static_cast<void>(WithMemory(collective, waiting, [&] {
      return SendMessage(peers_.Get(waiting), header, note_, {}, now_ns + 1);
    }));
  }
}

// Unless another rank did so before: a rank that gives up may leave, and its note counts first.
void ExchangeImpl::GiveUp(Collective& collective, int rank, const Status& why) {
  auto heard = [&] {
    return parts_.IsGivenUp(collective.call) ||
           peers_.Get(rank).failed.load(std::memory_order_acquire);
  };
  // To send to a rank that has left fails before what it sent has arrived.
  if (why.code() == Code::kPeerFailed && !heard()) {
    WaitSpec spec{&parts_, rank, "what it sent before it left"};
    spec.deadline_ns = std::min(collective.deadline_ns, transport_->clock().NowNs() + kLastNewsNs);
    static_cast<void>(base::OrOutOfMemory([&] { return WaitUntil(spec, Condition(heard)); }));
  }
  if (parts_.IsGivenUp(collective.call)) return JoinGivingUp(collective);
  collective.failure.Merge(FailureOf(rank, why));
  TellGivenUp(collective);
}

// Another rank gave the call up: this one fails as that did.
void ExchangeImpl::JoinGivingUp(Collective& collective) {
  const std::string note = parts_.WhyGivenUp(collective.call);
  base::ByteReader reader(note);
  uint64_t first = 0;
  CollectiveFailure failure;
  const bool sound = reader.Fixed(&first) && DecodeFailure(reader, size_, &failure);
  if (!sound || failure.rank < 0) {
    failure = FailureWith(rank_, Code::kCorruption,
                          "a note that a collective call was given up is damaged");
  }
  collective.failure = HasParted(collective) ? PartedFailure(rank_) : std::move(failure);
  TellGivenUp(collective);
}

// Some rank gave up the call before, which this one has completed.
bool ExchangeImpl::HasParted(const Collective& collective) {
  return calls_parted_ || (first_given_up_ == 0 && parts_.IsGivenUp(collective.call - 1));
}

void ExchangeImpl::RunRounds(Collective& collective) {
  for (int round = 0; (1 << round) < size_ && !collective.given_up; ++round) {
    const int distance = 1 << round;
    const int destination = (rank_ - distance + size_) % size_;
    const Status sent = WithMemory(collective, destination,
                                   [&] { return SendPart(collective, destination, round); });
    if (!sent.ok()) {
      GiveUp(collective, destination, sent);
    } else {
      ReceivePart(collective, (rank_ + distance) % size_, round);
    }
  }
  // What has arrived behind the last part may say that its sender did not wait for this rank.
  if (collective.given_up || size_ == 1) return;
  if (!has_handler_thread()) Progress();
  if (parts_.IsGivenUp(collective.call)) JoinGivingUp(collective);
}

void ExchangeImpl::RunPasses(Collective& collective) {
  if (HasParted(collective)) {
    collective.failure = PartedFailure(rank_);
    return TellGivenUp(collective);
  }
  RunRounds(collective);
  if (collective.given_up) return;
  if (collective.completed == kParted) {
    collective.failure = PartedFailure(rank_);
  } else if (collective.operations != collective.operation) {
    collective.failure.Merge(FailureWith(rank_, Code::kInvalidArgument, kDifferentCalls));
  } else if (collective.operation == kGather) {
    collective.pass = 1;
    RunRounds(collective);
  }
}

Status ExchangeImpl::RunCollective(Collective& collective) {
  QUIRE_RETURN_IF_ERROR(CheckUse(rank_));
  const Status ready = base::OrOutOfMemory([&] {
    collective.outgoing.reserve(kPlainPartBytes);
    collective.incoming.reserve(kPlainPartBytes);
    return Status();
  });
  if (!ready.ok()) return Fail(ready);
  collective.call = ++collective_count_;
  collective.operations = collective.operation;
  collective.completed = (first_given_up_ == 0 ? collective.call : first_given_up_) - 1;
  parts_.Forget(collective.call << kCallShift);
  collective.deadline_ns = transport_->clock().NowNs() + options_.timeout_ms * base::kNsPerMs;
  RunPasses(collective);
  if (!collective.given_up) first_given_up_ = 0;
  calls_parted_ = calls_parted_ || collective.failure.lasting;
  return collective.failure.ToStatus();
}

Status ExchangeImpl::Fail(const Status& why) {
  QUIRE_RETURN_IF_ERROR(CheckUse(rank_));
  Collective collective{kAgree, {}, {}};
  collective.call = ++collective_count_;
  parts_.Forget(collective.call << kCallShift);
  collective.deadline_ns = transport_->clock().NowNs() + options_.timeout_ms * base::kNsPerMs;
  collective.failure = FailureOf(rank_, why);
  collective.failure.lasting = HasParted(collective);
  TellGivenUp(collective);
  calls_parted_ = collective.failure.lasting;
  return why;
}

Status ExchangeImpl::Barrier() {
  return Agree(Status());
}

Status ExchangeImpl::Agree(const Status& mine) {
  Collective collective{kAgree, {}, {}};
  if (!mine.ok()) collective.failure = FailureOf(rank_, mine);
  return RunCollective(collective);
}

Result<std::vector<std::string>> ExchangeImpl::AllGather(Slice mine) {
  Collective collective{kGather, {}, {}};
  std::vector<std::string> by_rank;
  const Status ready = base::OrOutOfMemory([&] {
    collective.blocks.reserve(static_cast<size_t>(size_));
    collective.blocks.emplace_back(mine);
    by_rank.resize(static_cast<size_t>(size_));
    return Status();
  });
  if (!ready.ok()) return Fail(ready);
  QUIRE_RETURN_IF_ERROR(RunCollective(collective));
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
      return Status(Code::kInvalidArgument, kDifferentCalls);
    }
    sum += base::LoadLe<uint64_t>(one.data());
  }
  return sum;
}

}  // namespace quire::comm
