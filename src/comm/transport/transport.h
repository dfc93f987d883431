/// Moves frames between ranks: reliable, in order per (sender, receiver), bounded in memory, never
/// blocking.
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 2.4 (independent communicators of the runtime's own)
/// Encoding   docs/format/frame.md
/// Threads    TrySend, Alive: any thread. Poll: one thread at a time (the Exchange sees to it).
/// Wait: one thread as
///            kHandler and one as kCaller. Wake: any thread.
/// Invariants a frame is delivered whole, or the receiver gets kCorruption or learns of the
/// sender's death;
///            memory per peer is bounded by the transport's window whatever the receiver does
///            (credits, ring size).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/out_of_memory.h"
#include "io/files/machine.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

class ProgressGroup;

/// The largest frame body a transport takes. Longer messages are split by the Exchange.
constexpr uint32_t kFrameBytesMax = 64 * 1024;

/// A frame body in pieces, which are joined when it is copied.
struct FrameParts {
  Slice header;
  Slice head;
  Slice body;
  size_t size() const { return header.size() + head.size() + body.size(); }
};

/// Takes what arrives.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A whole, verified frame. `frame` is gone after the call.
  virtual void OnFrame(int source, Slice frame) = 0;
  /// Frames of `source` were damaged (kCorruption), or it died or left (kPeerFailed): nothing more
  /// comes from it.
  virtual void OnPeerFailed(int source, const Status& why) = 0;
  /// TrySend to `destination` said no; it may say yes now.
  virtual void OnRoom(int destination) = 0;
};

/// Returns kPeerFailed with the text `why`, or without it if there is no memory for it: such news
/// must arrive.
inline Status PeerGone(const char* why) {
  const Status gone = base::OrOutOfMemory([&] { return Status(Code::kPeerFailed, why); });
  return gone.code() == Code::kPeerFailed ? gone : Status(Code::kPeerFailed);
}

/// The two kinds of threads that sleep in Transport::Wait.
enum class Waiter {
  kHandler,  ///< the message handler thread
  kCaller,   ///< a thread of the program that waits for an answer and polls meanwhile
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True where both ranks can map the same shared memory (and this transport may be used so).
  virtual bool SharesMemory(int rank) const = 0;
  /// The largest frame body to `destination`; at most kFrameBytesMax, at least 1 KiB.
  virtual uint32_t frame_bytes_max(int destination) const = 0;
  /// Hands over one frame (copied once). false: no room now; OnRoom signals when to retry. Errors:
  /// kPeerFailed.
  virtual Result<bool> TrySend(int destination, const FrameParts& frame) = 0;
  /// Delivers what has arrived, at most `frames_max`; the count. Also returns credits and finishes
  /// own sends. To report that a rank died or left takes no memory: after std::bad_alloc the caller
  /// cannot know which frames are lost.
  virtual int Poll(FrameSink& sink, int frames_max) = 0;
  /// A kCaller polls from now on, until CallerLeaves: arrivals wake it, where it sleeps, and not
  /// the handler. At most one at a time.
  virtual void CallerArrives() = 0;
  /// Arrivals wake the handler again; so does what arrived and was not polled yet.
  virtual void CallerLeaves() = 0;
  /// Sleeps until something may have arrived, room may have come free, Wake(who) is or was called,
  /// or `timeout_ns` has passed; may return early. Never spins. True where it did not sleep, since
  /// something that is to be polled had come already.
  virtual bool Wait(Waiter who, uint64_t timeout_ns) = 0;
  /// Ends Wait(who), the present one or the next.
  virtual void Wake(Waiter who) = 0;
  /// How long a thread may profitably spin for an answer here [ns]; 0 where ranks outnumber cores.
  virtual uint64_t spin_ns() const = 0;
  /// False once the peer is known to have died or left; checks it if that is cheap. Poll then says
  /// so.
  virtual bool Alive(int rank) = 0;
  /// Time, for deadlines: virtual in the simulated transport.
  virtual io::Clock& clock() = 0;
  /// False: this transport's calls must all come from the threads that the program makes its calls
  /// from (MPI below MPI_THREAD_MULTIPLE, the seeded simulation): no handler thread is started,
  /// progress is made inside calls.
  virtual bool AllowsThreads() const = 0;
  /// If threads are not allowed: the transports whose owners poll together; null: it alone.
  virtual ProgressGroup* progress_group() const = 0;
  /// kInvalidArgument where the calling thread may not use this transport (MPI_THREAD_FUNNELED: all
  /// but the main one).
  virtual Status CheckThread() const = 0;
  /// "shm", "mpi", "shm+mpi", "sim", "self".
  virtual std::string Name() const = 0;
};

/// One rank alone: no peers.
std::unique_ptr<Transport> NewSelfTransport();

}  // namespace quire::comm
