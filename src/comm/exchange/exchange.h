/// Requests and answers between ranks, collectives with deadlines, signals: everything above the
/// frames.
///
/// Layer      comm
/// Source     PapyrusKV, SC17, sections 2.4 and 2.6 (message dispatcher, message handler), 3.1
///            (signals)
/// Encoding   docs/format/message.md
/// Threads    Start, Wait, Notify, WaitSignal: any thread. Collectives: one thread per Exchange at
///            a time, same order on all ranks. Services run on the message handler thread, or
///            inside any call that waits (no-thread mode).
/// Invariants a service never waits, neither for another rank nor for memory: it leaves its request
///            unfinished instead (ServePatiently); answers are queued while there is no room, and
///            once those to one rank exceed a window, or all of them exceed answer_bytes_max,
///            further requests of that rank wait unhandled, bounded by its window; every wait ends
///            by its deadline (kTimedOut) or the peer's death (kPeerFailed). Requests of one rank
///            to one channel are handled in the order of their Start, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport/transport.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

struct ExchangeOptions {
  uint64_t timeout_ms = 60'000;  ///< deadline of every wait
  uint64_t window_bytes =
      4ull << 20;  ///< request bytes under way per destination before Start waits
  uint64_t message_bytes_max = 5ull << 30;  ///< longer ones are refused before memory is allocated
  uint64_t answer_bytes_max =
      64ull << 20;  ///< answers waiting for room, all together, before requests must wait
  bool handler_thread = true;  ///< where the transport allows threads
};

/// Handles one request; `answer` (empty at first) is sent back with the status. Must not wait for
/// other ranks: Start, Notify and collectives called from one fail with kInvalidArgument.
using Service = std::function<Status(int source, Slice request, std::string* answer)>;

/// The rest of a request that cannot be finished without waiting.
class UnfinishedRequest {
 public:
  /// If the service was removed, it is destroyed without a call, and must not touch anything then.
  virtual ~UnfinishedRequest() = default;
  /// Continues the request. Returns true if it is finished: `status` and `answer` are set. Must
  /// never wait; runs like a service.
  virtual bool GoOn(Status* status, std::string* answer) = 0;
};
/// A service that never waits. It returns null if it has finished the request and set `status` and
/// `answer`. Otherwise it returns the rest, whose GoOn is called about every millisecond.
using PatientService = std::function<std::unique_ptr<UnfinishedRequest>(
    int source, Slice request, Status* status, std::string* answer)>;

/// One request under way. Shared with the Exchange until answered.
class Call {
 public:
  virtual ~Call() = default;
  /// True once answered or failed; never blocks (in no-thread mode: call Exchange::Progress for it
  /// to come true).
  virtual bool Done() const = 0;
};

/// The end of one request: its service's status and answer, or why no answer came.
struct Outcome {
  const Status& status;
  Slice answer;
  /// This rank lost the answer for want of memory: the request may have been served, as
  /// AnswerWasLost says of a Call.
  bool lost;
};

struct ExchangeStatistics {
  uint64_t requests_sent = 0;
  uint64_t requests_handled = 0;
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t send_stalls = 0;
  uint64_t buffered_bytes = 0;  ///< answers waiting for room and messages being joined: bounded
};

class Exchange {
 public:
  /// Creates an Exchange. If the handler thread cannot be started, the Exchange works without it,
  /// and HandlerStatus() returns the error.
  static std::unique_ptr<Exchange> Create(std::unique_ptr<Transport> transport,
                                          const ExchangeOptions& options);
  /// Ends the handler thread. Not collective; call Barrier first for a clean end.
  virtual ~Exchange() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Transport& transport() = 0;
  virtual bool has_handler_thread() const = 0;
  /// Returns OK, or why the system refused the handler thread (kOutOfMemory). The Exchange then
  /// makes progress inside calls, so that this rank can inform the others.
  virtual Status HandlerStatus() const = 0;
  /// kInvalidArgument if this thread may not send, receive or wait here (MPI below
  /// MPI_THREAD_SERIALIZED): such calls return this, and Progress does nothing. A call must check
  /// this before it takes work that another thread could do. Always OK if there is a handler
  /// thread.
  virtual Status CheckThread() const = 0;

  /// Makes `service` handle requests to `channel` from now on. Requests that came before wait for
  /// it (bounded by the senders' windows). An empty service removes the channel: later requests are
  /// answered kNotFound. The previous service no longer runs when this returns (so never call this
  /// from the channel's own service). A channel that has had no service by the time that a thousand
  /// higher ones were removed counts as removed.
  virtual void Serve(uint32_t channel, Service service) = 0;
  /// Does the same as Serve, with a service whose requests may stay unfinished. Channels of one
  /// `order` (not 0) are handled as if they were one channel: behind an unfinished request, later
  /// ones of the same rank to them wait, and so do its signals. Its requests to other channels do
  /// not. All of them must have their service before the first request comes: until then a request
  /// is not ordered with the others.
  virtual void ServePatiently(uint32_t channel, uint32_t order, PatientService service) = 0;

  /// Sends a request, `head` and `body` joined; returns once it is handed to the transport (the
  /// slices are free again). Waits while the window to `destination` is full. Errors: kTimedOut,
  /// kPeerFailed, kInvalidArgument (too long).
  virtual Result<std::shared_ptr<Call>> Start(int destination, uint32_t channel, Slice head,
                                              Slice body) = 0;
  /// Waits for the answer; returns the service's status and sets `answer` (may be null if it is not
  /// needed). Once per call.
  virtual Status Wait(const std::shared_ptr<Call>& call, std::string* answer) = 0;
  /// As Start, for a caller that will not wait: `done` runs once, as soon as the answer or the
  /// peer's failure is here: on the handler thread, or inside any call that makes progress. It must
  /// neither wait nor send. No deadline: the caller keeps its own. It never runs if an error is
  /// returned, or after the Exchange was destroyed.
  virtual Status StartThen(int destination, uint32_t channel, Slice head, Slice body,
                           std::function<void(const Outcome& outcome)> done) = 0;
  /// Calls Start and Wait.
  Status Ask(int destination, uint32_t channel, Slice head, Slice body, std::string* answer);

  /// Waits, making progress, until `missing` returns kNobody. `missing` returns the rank that is
  /// waited for (this rank: for work of its own); it is called after each Nudge(key) and from time
  /// to time. Errors: kTimedOut, kPeerFailed (of the rank that is missing); `what` is for their
  /// text.
  virtual Status Await(const void* key, const char* what, const std::function<int()>& missing) = 0;
  static constexpr int kNobody = -1;
  /// Signals that the condition awaited under `key` may have become true. Any thread, also
  /// services.
  virtual void Nudge(const void* key) = 0;

  /// Returns OK, or why nothing more will come from `rank`, if that is known or cheap to find out.
  /// Then everything that it sent before has been handled. Does not wait.
  virtual Status PeerStatus(int rank) = 0;

  /// Work that services leave for later. Calls do it if there is no handler thread. It sends
  /// messages and waits for no answer.
  struct CallWork {
    std::function<bool()> pending;
    std::function<void()> run;
  };
  /// Makes collective calls do this work while they wait, because a rank that they wait for may
  /// depend on it. Must be called before the first call that may wait while there is such work.
  virtual void SetCallWork(CallWork work) = 0;

  /// Handles what has arrived; for programs that compute long without a handler thread. Cheap.
  virtual void Progress() = 0;

  /// Waits until every rank has called it. Collective. The errors of collectives: kTimedOut,
  /// kPeerFailed; kInvalidArgument if the ranks are in different collectives. A rank that abandons
  /// a call makes all ranks abandon it, so that their next calls match. If a rank had just
  /// completed it, this and every later call returns kPeerFailed on all ranks: the context is
  /// unusable.
  virtual Status Barrier() = 0;
  /// Returns OK if all ranks pass OK; else, on all ranks, the code and text of the lowest failing
  /// rank, with the rank. Collective. A rank that died, or has not called by the deadline, counts
  /// as failing; kPeerFailed takes precedence over other codes.
  virtual Status Agree(const Status& mine) = 0;
  /// Replaces this rank's next collective call, whichever it is, if the rank cannot make it: all
  /// ranks return `why` from theirs. Returns `why`. Allocates no memory.
  virtual Status Fail(const Status& why) = 0;
  /// Returns every rank's bytes, by rank. Collective. For small data.
  virtual Result<std::vector<std::string>> AllGather(Slice mine) = 0;
  /// Returns the sum over the ranks. Collective.
  virtual Result<uint64_t> Sum(uint64_t mine) = 0;

  /// Sends `signal` to each of `ranks`. Delivered once, in order with this rank's earlier requests
  /// to them.
  virtual Status Notify(int signal, const std::vector<int>& ranks) = 0;
  /// Waits until one `signal` from each of `ranks` has come, and consumes them; on an error
  /// consumes none.
  virtual Status WaitSignal(int signal, const std::vector<int>& ranks) = 0;

  /// Replaces answer_bytes_max, the limit on the bytes of answers that wait for room.
  virtual void LimitAnswers(uint64_t bytes_max) = 0;

  virtual ExchangeStatistics Statistics() const = 0;
};

}  // namespace quire::comm
