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

#include "base/core/out_of_memory.h"
#include "io/files/machine.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

class ProgressGroup;

/// The largest frame body that a transport can send. Longer messages are split by the Exchange.
constexpr uint32_t kFrameBytesMax = 64 * 1024;

/// A frame body in pieces, which are joined when it is copied.
struct FrameParts {
  Slice header;
  Slice head;
  Slice body;
  size_t size() const { return header.size() + head.size() + body.size(); }
};

/// The receiver of frames and failures.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Receives a complete, verified frame. `frame` is invalid after the call.
  virtual void OnFrame(int source, Slice frame) = 0;
  /// Called if frames of `source` were damaged (kCorruption), or if it died or left (kPeerFailed):
  /// nothing more comes from it.
  virtual void OnPeerFailed(int source, const Status& why) = 0;
  /// Called if TrySend to `destination` returned false and may succeed now.
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
  /// Returns whether both ranks can map the same shared memory (and this transport may use it so).
  virtual bool SharesMemory(int rank) const = 0;
  /// Returns the largest frame body to `destination`; at most kFrameBytesMax, at least 1 KiB.
  virtual uint32_t frame_bytes_max(int destination) const = 0;
  /// Sends one frame (copied once). Returns false if there is no room now; OnRoom signals when to
  /// retry. Errors: kPeerFailed.
  virtual Result<bool> TrySend(int destination, const FrameParts& frame) = 0;
  /// Delivers arrived frames, at most `frames_max`; returns their number. Also returns credits and
  /// finishes own sends. Reporting that a rank died or left allocates no memory: after
  /// std::bad_alloc the caller cannot know which frames are lost.
  virtual int Poll(FrameSink& sink, int frames_max) = 0;
  /// Declares that a kCaller polls from now on, until CallerLeaves: arrivals wake it if it sleeps,
  /// and not the handler. At most one caller at a time.
  virtual void CallerArrives() = 0;
  /// Ends CallerArrives: arrivals wake the handler again, including those that were not polled yet.
  virtual void CallerLeaves() = 0;
  /// Sleeps until something may have arrived, room may have come free, Wake(who) is or was called,
  /// or `timeout_ns` has passed; may return early. Never spins. Returns true if it did not sleep
  /// because something to poll had already arrived.
  virtual bool Wait(Waiter who, uint64_t timeout_ns) = 0;
  /// Ends Wait(who), the present one or the next.
  virtual void Wake(Waiter who) = 0;
  /// Returns how long a thread should spin for an answer here [ns]; 0 if ranks outnumber cores.
  virtual uint64_t spin_ns() const = 0;
  /// Returns false once the peer is known to have died or left; checks it if that is cheap. Poll
  /// then reports it.
  virtual bool Alive(int rank) = 0;
  /// Returns the clock for deadlines; its time is virtual in the simulated transport.
  virtual io::Clock& clock() = 0;
  /// Returns false if only the program's own calling threads may use this transport (MPI below
  /// MPI_THREAD_MULTIPLE, the seeded simulation): then no handler thread is started, and progress
  /// is made inside calls.
  virtual bool AllowsThreads() const = 0;
  /// Returns the group of transports that are polled together if threads are not allowed; null if
  /// it is polled alone.
  virtual ProgressGroup* progress_group() const = 0;
  /// Returns kInvalidArgument if the calling thread may not use this transport
  /// (MPI_THREAD_FUNNELED: every thread except the main one).
  virtual Status CheckThread() const = 0;
  /// Returns "shm", "mpi", "shm+mpi", "sim" or "self".
  virtual std::string Name() const = 0;
};

/// Returns the transport of a single rank without peers.
std::unique_ptr<Transport> NewSelfTransport();

}  // namespace quire::comm
