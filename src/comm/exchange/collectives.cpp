// Collectives in ceil(log2 n) rounds (Bruck et al., 1997): in the round of distance d = 1, 2, 4 ...
// rank r sends its data to r - d and receives from r + d, so that after the last round every rank
// has received, directly or through other ranks, the data of every rank. Each message contains the
// lowest failure that its sender knows, the calls it has received news of, and the last call that
// its sender completed.
//
// A rank that misses a part, or learns that another rank gave up, gives the call up: it notifies
// the ranks that wait for its parts, and they do the same. A rank that comes late finds the note
// and fails as the others did, so that the next calls of all ranks match again. Only a rank that
// had just completed the call receives the note too late. The next call finds this out, or the
// first later call that is not given up: its parts contain the number of the last call that ended.
// Then all later calls of the communicator are refused.
//
// A gathering has a second pass of rounds in which the ranks agree that each has everything: if one
// rank lacks memory for the data of the others, the call fails on all ranks. See
// docs/decisions/0017-collectives-after-a-timeout.md.
#include "comm/exchange/collectives.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/text/coding.h"
#include "base/text/units.h"

namespace quire::comm {

// These are parts of Collectives::Collective, which a header names: no anonymous namespace.
enum CollectiveOperation : uint8_t { kAgree = 1, kGather = 2 };  // bits of a set

constexpr char kDifferentCalls[] =
    "the ranks are in different collective calls; all ranks must make the same ones, in one order";

// Replaces the number of the last call that ranks have completed if the ranks differ in it.
constexpr uint64_t kParted = UINT64_MAX;

// The failure of the lowest rank that is known to have failed, or the first death.
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
  // Returns the code alone if there is no memory for the text: the code is the same on all ranks.
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

// Omits the text if there is no memory for it: only the code matters, and it is the same on all
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

struct Collectives::Collective {
  CollectiveOperation operation;
  CollectiveFailure failure;
  std::vector<std::string> blocks;  // kGather: of ranks r, r + 1, ... as far as known
  uint64_t call = 0;
  int pass = 0;
  uint64_t deadline_ns = 0;
  uint8_t operations = 0;  // of all ranks whose data has arrived
  uint64_t completed = 0;  // the last call that these ranks have completed, or kParted
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

Collectives::Collectives(ExchangeState* state, ProgressEngine* progress, MessageSender* sender,
                         CollectiveBox* parts)
    : state_(*state), progress_(*progress), sender_(*sender), parts_(*parts) {
  note_.reserve(kPlainPartBytes);
}

// Takes a step. A rank that has begun a call waits for memory as it waits for room: up to the
// deadline. It does not wait for a rank that failed here because a message found no memory: nothing
// more arrives from that rank.
template <typename Step>
Status Collectives::WithMemory(const Collective& collective, int rank, const Step& step) {
  io::Clock& clock = state_.transport->clock();
  while (true) {
    bool lost = false;
    const Status status = base::OrOutOfMemory([&] {
      const Peer& peer = state_.peers.Get(rank);
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

Status Collectives::SendPart(Collective& collective, int destination, int round) {
  const int distance = 1 << round;
  std::string& payload = collective.outgoing;
  payload.clear();
  base::PutFixed<uint8_t>(&payload, collective.operations);
  base::PutFixed<uint64_t>(&payload, collective.completed);
  EncodeFailure(collective.failure, &payload);
  if (collective.SendsBlocks()) {
    const int count = std::min(distance, state_.size - distance);
    for (int i = 0; i < count; ++i) {
      base::PutLengthPrefixed(&payload, collective.blocks[static_cast<size_t>(i)]);
    }
  }
  Peer& peer = state_.peers.Get(destination);
  MessageHeader header;
  header.kind = MessageKind::kCollective;
  header.call = collective.PartNumber(static_cast<uint64_t>(round));
  if (payload.size() > state_.options.message_bytes_max) {
    return Status(Code::kInvalidArgument, "more bytes than a message may have are gathered");
  }
  if (peer.failed.load(std::memory_order_acquire)) return peer.why_failed;
  return sender_.Send(peer, header, payload, {}, collective.deadline_ns);
}

// Returns OK also if the call was abandoned meanwhile.
Status Collectives::AwaitPart(Collective& collective, int source, uint64_t number) {
  bool came = false;
  auto missing = [&] {
    came = parts_.IsGivenUp(collective.call) || parts_.Take(source, number, &collective.incoming);
    const bool has_work = call_work_.pending && call_work_.pending();
    return came || has_work ? Exchange::kNobody : source;
  };
  WaitSpec spec{&parts_, source, "its part of a collective call", collective.deadline_ns};
  while (true) {
    QUIRE_RETURN_IF_ERROR(progress_.AwaitMissing(spec, Missing(missing)));
    if (spec.peer != Exchange::kNobody) return state_.peers.Get(source).why_failed;
    if (came) return Status();
    call_work_.run();
    spec.peer = source;
    if (state_.transport->clock().NowNs() >= collective.deadline_ns)
      return progress_.TimedOut(spec);
  }
}

// Takes the peer's part; fails if the part is damaged, or does not fit into memory.
Status Collectives::TakePart(Collective& collective, int source, int distance) {
  if (collective.incoming.empty()) return base::OutOfMemory();  // it was lost on its arrival
  base::ByteReader reader(collective.incoming);
  uint8_t operations = 0;
  uint64_t completed = 0;
  CollectiveFailure failure;
  bool sound = reader.Fixed(&operations) && reader.Fixed(&completed) &&
               DecodeFailure(reader, state_.size, &failure);
  if (sound && operations == collective.operation && collective.operation == kGather &&
      collective.pass == 0 && failure.rank < 0) {
    const int count = std::min(distance, state_.size - distance);
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

void Collectives::ReceivePart(Collective& collective, int source, int round) {
  const uint64_t number = collective.PartNumber(static_cast<uint64_t>(round));
  const Status came =
      WithMemory(collective, source, [&] { return AwaitPart(collective, source, number); });
  if (!came.ok()) return GiveUp(collective, source, came);
  if (parts_.IsGivenUp(collective.call)) return JoinGivingUp(collective);
  const Status taken =
      base::OrOutOfMemory([&] { return TakePart(collective, source, 1 << round); });
  if (taken.ok()) return;
  const int failing = taken.code() == Code::kOutOfMemory ? state_.rank : source;
  collective.failure.Merge(FailureOf(failing, taken));
}

// Notifies the ranks that wait for this rank's parts, now or later. A rank that cannot be notified
// finds it out in the next call.
void Collectives::TellGivenUp(Collective& collective) {
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
  const uint64_t now_ns = state_.transport->clock().NowNs();
  for (int distance = 1; distance < state_.size; distance *= 2) {
    const int waiting = (state_.rank - distance + state_.size) % state_.size;
    // Also notifies a rank that counts as failed here: it may be alive.
    static_cast<void>(WithMemory(collective, waiting, [&] {
      return sender_.Send(state_.peers.Get(waiting), header, note_, {}, now_ns + 1);
    }));
  }
}

// Gives the call up, unless another rank did so before: a rank that gives up may leave, and its
// note counts first.
void Collectives::GiveUp(Collective& collective, int rank, const Status& why) {
  auto heard = [&] {
    return parts_.IsGivenUp(collective.call) ||
           state_.peers.Get(rank).failed.load(std::memory_order_acquire);
  };
  // Sending to a rank that has left fails before the messages that it sent have arrived.
  if (why.code() == Code::kPeerFailed && !heard()) {
    WaitSpec spec{&parts_, rank, "what it sent before it left"};
    spec.deadline_ns =
        std::min(collective.deadline_ns, state_.transport->clock().NowNs() + kLastNewsNs);
    static_cast<void>(
        base::OrOutOfMemory([&] { return progress_.WaitUntil(spec, Condition(heard)); }));
  }
  if (parts_.IsGivenUp(collective.call)) return JoinGivingUp(collective);
  collective.failure.Merge(FailureOf(rank, why));
  TellGivenUp(collective);
}

// Gives the call up because another rank did, and fails with that rank's failure.
void Collectives::JoinGivingUp(Collective& collective) {
  const std::string note = parts_.WhyGivenUp(collective.call);
  base::ByteReader reader(note);
  uint64_t first = 0;
  CollectiveFailure failure;
  const bool sound = reader.Fixed(&first) && DecodeFailure(reader, state_.size, &failure);
  if (!sound || failure.rank < 0) {
    failure = FailureWith(state_.rank, Code::kCorruption,
                          "a note that a collective call was given up is damaged");
  }
  collective.failure = HasParted(collective) ? PartedFailure(state_.rank) : std::move(failure);
  TellGivenUp(collective);
}

// Returns whether some rank gave up the previous call, which this rank has completed.
bool Collectives::HasParted(const Collective& collective) {
  return calls_parted_ || (first_given_up_ == 0 && parts_.IsGivenUp(collective.call - 1));
}

void Collectives::RunRounds(Collective& collective) {
  for (int round = 0; (1 << round) < state_.size && !collective.given_up; ++round) {
    const int distance = 1 << round;
    const int destination = (state_.rank - distance + state_.size) % state_.size;
    const Status sent = WithMemory(collective, destination,
                                   [&] { return SendPart(collective, destination, round); });
    if (!sent.ok()) {
      GiveUp(collective, destination, sent);
    } else {
      ReceivePart(collective, (state_.rank + distance) % state_.size, round);
    }
  }
  // A message behind the last part may say that its sender did not wait for this rank.
  if (collective.given_up || state_.size == 1) return;
  if (!progress_.has_handler_thread()) progress_.Progress();
  if (parts_.IsGivenUp(collective.call)) JoinGivingUp(collective);
}

void Collectives::RunPasses(Collective& collective) {
  if (HasParted(collective)) {
    collective.failure = PartedFailure(state_.rank);
    return TellGivenUp(collective);
  }
  RunRounds(collective);
  if (collective.given_up) return;
  if (collective.completed == kParted) {
    collective.failure = PartedFailure(state_.rank);
  } else if (collective.operations != collective.operation) {
    collective.failure.Merge(FailureWith(state_.rank, Code::kInvalidArgument, kDifferentCalls));
  } else if (collective.operation == kGather) {
    collective.pass = 1;
    RunRounds(collective);
  }
}

void Collectives::Begin(Collective& collective) {
  collective.call = ++call_count_;
  parts_.Forget(collective.call << kCallShift);
  collective.deadline_ns =
      state_.transport->clock().NowNs() + state_.options.timeout_ms * base::kNsPerMs;
}

Status Collectives::Run(Collective& collective) {
  QUIRE_RETURN_IF_ERROR(state_.CheckUse(state_.rank));
  const Status ready = base::OrOutOfMemory([&] {
    collective.outgoing.reserve(kPlainPartBytes);
    collective.incoming.reserve(kPlainPartBytes);
    return Status();
  });
  if (!ready.ok()) return Fail(ready);
  Begin(collective);
  collective.operations = collective.operation;
  collective.completed = (first_given_up_ == 0 ? collective.call : first_given_up_) - 1;
  RunPasses(collective);
  if (!collective.given_up) first_given_up_ = 0;
  calls_parted_ = calls_parted_ || collective.failure.lasting;
  return collective.failure.ToStatus();
}

Status Collectives::Fail(const Status& why) {
  QUIRE_RETURN_IF_ERROR(state_.CheckUse(state_.rank));
  Collective collective{kAgree, {}, {}};
  Begin(collective);
  collective.failure = FailureOf(state_.rank, why);
  collective.failure.lasting = HasParted(collective);
  TellGivenUp(collective);
  calls_parted_ = collective.failure.lasting;
  return why;
}

Status Collectives::Agree(const Status& mine) {
  Collective collective{kAgree, {}, {}};
  if (!mine.ok()) collective.failure = FailureOf(state_.rank, mine);
  return Run(collective);
}

Result<std::vector<std::string>> Collectives::AllGather(Slice mine) {
  Collective collective{kGather, {}, {}};
  std::vector<std::string> by_rank;
  const Status ready = base::OrOutOfMemory([&] {
    collective.blocks.reserve(static_cast<size_t>(state_.size));
    collective.blocks.emplace_back(mine);
    by_rank.resize(static_cast<size_t>(state_.size));
    return Status();
  });
  if (!ready.ok()) return Fail(ready);
  QUIRE_RETURN_IF_ERROR(Run(collective));
  for (int i = 0; i < state_.size; ++i) {
    by_rank[static_cast<size_t>((state_.rank + i) % state_.size)] =
        std::move(collective.blocks[static_cast<size_t>(i)]);
  }
  return by_rank;
}

Result<uint64_t> Collectives::Sum(uint64_t mine) {
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
