/// Moves frames between ranks: reliable, in order per (sender, receiver), bounded in memory, never blocking.
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 2.4 (independent communicators of the runtime's own)
/// Encoding   docs/format/frame.md
/// Threads    TrySend: any thread. Poll: one thread at a time (the Exchange sees to it). Wait, Wake: any thread.
/// Invariants a frame is delivered whole or the receiver hears of damage (kCorruption) or of the sender's death;
///            memory per peer is bounded by the transport's window whatever the receiver does (credits, ring size).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/machine.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

/// The largest frame body a transport takes. Longer messages are split by the Exchange.
constexpr uint32_t kFrameBytesMax = 64 * 1024;

/// Takes what arrives.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A whole, verified frame. `frame` is gone after the call.
  virtual void OnFrame(int source, Slice frame) = 0;
  /// Frames of `source` were damaged or it died: nothing more comes from it.
  virtual void OnPeerFailed(int source, const Status& why) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True where both ranks can map the same shared memory (and this transport may be used so).
  virtual bool SharesMemory(int rank) const = 0;
  /// Hands over one frame, `head` and `body` joined (together <= kFrameBytesMax; copied once). false: no room now, try
  /// again after Poll or Wait. Errors: kPeerFailed.
  virtual Result<bool> TrySend(int destination, Slice head, Slice body) = 0;
  /// Delivers what has arrived, at most `frames_max`; the count. Also returns credits and finishes own sends.
  virtual int Poll(FrameSink& sink, int frames_max) = 0;
  /// Sleeps until something may have arrived, room may have come free, Wake() is called or `timeout_ns` has passed.
  /// Never spins for longer than the transport's measured spin time; none where ranks outnumber cores.
  virtual void Wait(uint64_t timeout_ns) = 0;
  /// Ends Wait() in all threads of this rank.
  virtual void Wake() = 0;
  /// How long a thread may profitably spin for an answer here [ns]; 0 where ranks outnumber cores.
  virtual uint64_t spin_ns() const = 0;
  /// False once the peer is known to be dead.
  virtual bool Alive(int rank) = 0;
  /// Time, for deadlines: virtual in the simulated transport.
  virtual io::Clock& clock() = 0;
  /// False: this transport's calls must all come from the threads that the program makes its calls from (MPI below
  /// MPI_THREAD_MULTIPLE, the seeded simulation): no handler thread is started, progress is made inside calls.
  virtual bool AllowsThreads() const = 0;
  /// "mpi", "shm+mpi", "sim", "self".
  virtual std::string Name() const = 0;
};

/// One rank alone: no peers.
std::unique_ptr<Transport> NewSelfTransport();

}  // namespace quire::comm
