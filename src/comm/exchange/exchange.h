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
/// Invariants a service never waits, neither for another rank nor for room in memory: it leaves
///            its request unfinished (ServePatiently); answers queue while there is no room, and
///            once those to one rank are more than a window, or all more than answer_bytes_max,
///            that rank's further requests wait unhandled, bounded by its window; every wait ends
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

/// Handles one request; what it puts into `answer` (given empty) goes back with the status. Must
/// not wait for other ranks: Start, Notify and collectives called from one fail with
/// kInvalidArgument.
using Service = std::function<Status(int source, Slice request, std::string* answer)>;

/// What is left of a request that cannot be finished without waiting.
class UnfinishedRequest {
 public:
  /// If the service was removed, it is destroyed without a call, and must not touch anything then.
  virtual ~UnfinishedRequest() = default;
  /// True: `status` and `answer` are the request's. False: not yet. Never waits; runs as a service
  /// does.
  virtual bool GoOn(Status* status, std::string* answer) = 0;
};
/// A service that never waits. Null: `status` and `answer` are the request's. Else the rest is
/// asked to go on, about every millisecond.
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

/// The end of one request: its service's status and answer, or why none came.
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
  /// If the handler thread cannot be started, the Exchange does without: HandlerStatus() says so.
  static std::unique_ptr<Exchange> Create(std::unique_ptr<Transport> transport,
                                          const ExchangeOptions& options);
  /// Ends the handler thread. Not collective; call Barrier first for a clean end.
  virtual ~Exchange() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Transport& transport() = 0;
  virtual bool has_handler_thread() const = 0;
  /// OK; or why the system refused the handler thread (kOutOfMemory). The Exchange then makes
  /// progress inside calls, so that this rank can inform the others.
  virtual Status HandlerStatus() const = 0;
  /// kInvalidArgument if this thread may not send, receive or wait here (MPI below
  /// MPI_THREAD_SERIALIZED): such calls return this, and Progress does nothing. To be asked before
  /// a call takes work that another thread could do. Always OK if there is a handler thread.
  virtual Status CheckThread() const = 0;

  /// Requests to `channel` are handled by `service` from now on. Requests that came before wait for
  /// it (bounded by the senders' windows). An empty service takes it away: later requests are
  /// answered kNotFound. The service before it does not run any more when this returns (so never
  /// call this from the channel's own service). A channel that has had no service by the time that
  /// a thousand higher ones were taken away counts as taken away.
  virtual void Serve(uint32_t channel, Service service) = 0;
  /// The same with a service whose requests may stay unfinished. Channels of one `order` (not 0)
  /// are handled as if they were one channel: behind an unfinished request, later ones of the same
  /// rank to them wait, and so do its signals. Its requests to other channels do not. All have
  /// their service before the first request comes: until then a request waits by itself.
  virtual void ServePatiently(uint32_t channel, uint32_t order, PatientService service) = 0;

  /// Sends a request, `head` and `body` joined; returns once it is handed to the transport (the
  /// slices are free again). Waits while the window to `destination` is full. Errors: kTimedOut,
  /// kPeerFailed, kInvalidArgument (too long).
  virtual Result<std::shared_ptr<Call>> Start(int destination, uint32_t channel, Slice head,
                                              Slice body) = 0;
  /// Waits for the answer: the service's status, and its answer (may be null if it is not needed).
  /// Once per call.
  virtual Status Wait(const std::shared_ptr<Call>& call, std::string* answer) = 0;
  /// As Start, for a caller that will not wait: `done` runs once, as soon as the answer or the
  /// peer's failure is here: on the handler thread, or inside any call that makes progress. It must
  /// neither wait nor send. No deadline: the caller keeps its own. It never runs if an error is
  /// returned, or after the Exchange was destroyed.
  virtual Status StartThen(int destination, uint32_t channel, Slice head, Slice body,
                           std::function<void(const Outcome& outcome)> done) = 0;
  /// Start and Wait in one.
  Status Ask(int destination, uint32_t channel, Slice head, Slice body, std::string* answer);

  /// Waits, making progress, until `missing` answers kNobody: it names the rank that is waited for
  /// (this one: for work of its own), and is asked after each Nudge(key) and now and then. Errors:
  /// kTimedOut, kPeerFailed (of the rank that is missing); `what` is for their text.
  virtual Status Await(const void* key, const char* what, const std::function<int()>& missing) = 0;
  static constexpr int kNobody = -1;
  /// Signals that the condition awaited under `key` may have become true. Any thread, also
  /// services.
  virtual void Nudge(const void* key) = 0;

  /// Returns OK, or why nothing more comes from `rank`, if that is known or cheap to find out. All
  /// that it sent before has been handled. Does not wait.
  virtual Status PeerStatus(int rank) = 0;

  /// Work that services leave behind. Calls do it if there is no handler thread. It sends messages
  /// and waits for no answer.
  struct CallWork {
    std::function<bool()> pending;
    std::function<void()> run;
  };
  /// Collective calls do this work while they wait: a rank that they wait for may need it to come.
  /// Before the first call that may wait while there is some.
  virtual void SetCallWork(CallWork work) = 0;

  /// Handles what has arrived; for programs that compute long without a handler thread. Cheap.
  virtual void Progress() = 0;

  /// Collective. Every rank is here, or an error. The errors of collectives: kTimedOut,
  /// kPeerFailed; kInvalidArgument where the ranks are in different collectives. A rank that gives
  /// a call up makes all give it up, so that their next calls match. If a rank had just completed
  /// it, this and every later call returns kPeerFailed on all ranks: the context is of no use.
  virtual Status Barrier() = 0;
  /// Collective. OK where all ranks gave OK; else everywhere the code of the lowest failing rank,
  /// its text with the rank. A rank that died, or is not there by the deadline, counts as failing;
  /// kPeerFailed comes before other codes.
  virtual Status Agree(const Status& mine) = 0;
  /// In place of the next collective call, whichever that is: this rank cannot make it, and all
  /// ranks return `why` from theirs. Returns `why`. Takes no memory.
  virtual Status Fail(const Status& why) = 0;
  /// Collective. Every rank's bytes, by rank. For small things.
  virtual Result<std::vector<std::string>> AllGather(Slice mine) = 0;
  /// Collective. The sum over the ranks.
  virtual Result<uint64_t> Sum(uint64_t mine) = 0;

  /// Sends `signal` to each of `ranks`. Delivered once, in order with this rank's earlier requests
  /// to them.
  virtual Status Notify(int signal, const std::vector<int>& ranks) = 0;
  /// Waits until one `signal` of each of `ranks` has come, and takes them; on an error takes none.
  virtual Status WaitSignal(int signal, const std::vector<int>& ranks) = 0;

  /// From now on at most so many bytes of answers wait for room, in place of answer_bytes_max.
  virtual void LimitAnswers(uint64_t bytes_max) = 0;

  virtual ExchangeStatistics Statistics() const = 0;
};

}  // namespace quire::comm
