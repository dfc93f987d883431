/// The queue of requests between one reader and the daemon of its node, in memory that both map.
///
/// The daemon creates the memory and passes it over the reader's local connection. A reader fills a
/// slot, then sends one byte over the connection (the bell), which the daemon polls like its other
/// connections. The daemon notifies the reader by a futex on the slot's turns: of the answer, and
/// before it of the arrived part of a version. Neither side trusts the memory: the daemon copies a
/// request before it checks it, and remembers in its own memory which slots it works for.
///
/// Layer      stream
/// Encoding   docs/format/message-stream.md
/// Threads    QueueClient: any; QueueServer: Take by one at a time, Answer by any
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/ipc/sealed_memory.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "stream/remote/request.h"

namespace quire::stream {

constexpr uint32_t kQueueSlots = 8;

enum class SlotState : uint32_t {
  kFree = 0,
  kAsked = 1,      ///< the reader has filled it
  kTaken = 2,      ///< the daemon works on it
  kAnswered = 3,   ///< the reader may read the answer
  kAbandoned = 4,  ///< the reader no longer waits: the daemon frees it
};

/// The bytes of a version that arrive in the mirror's log while a reader waits.
struct Arrival {
  uint64_t at = 0;       ///< their position
  uint64_t bytes = 0;    ///< of the version
  uint64_t arrived = 0;  ///< the number of bytes, from the first on, that have arrived
};
/// A function that receives notices. It must not throw, and must not send a request by the same
/// queue.
using OnArrival = std::function<void(const Arrival& arrival)>;

struct QueueSlot {
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> request_bytes;  ///< atomic, so that the checked value is the used one
  std::atomic<uint32_t> answer_bytes;
  std::atomic<uint32_t> turns;  ///< the daemon's notices of the request; the reader sleeps on it
  uint64_t deadline_ns;         ///< of RealClock(), which both sides share
  std::atomic<uint64_t> arrival_at;
  std::atomic<uint64_t> arrival_bytes;  ///< 0: no bytes arrive
  std::atomic<uint64_t> arrived;
  std::atomic<uint32_t> hears;  ///< 1: wake the reader when bytes arrive
  uint32_t zero;
  char request[kPartRequestBytesMax];
  char answer[kAnswerBytesMax];
};

struct QueueLayout {
  uint64_t magic;
  uint64_t slot_count;
  QueueSlot slots[kQueueSlots];
};
constexpr uint64_t kQueueMagic = 0x32657565'75517251;  // "QrQueue2"

class QueueClient {
 public:
  /// `ring`: rings the bell. `gone`: returns whether the daemon has ended.
  QueueClient(std::unique_ptr<io::SealedMemory> memory, std::function<Status()> ring,
              std::function<bool()> gone);
  /// Sends a request and returns the daemon's answer, decoded by DecodeAnswer. Until then calls
  /// `on_arrival` with the daemon's notices, which may contain anything.
  ///
  /// Errors   the daemon's error; kTimedOut; kPeerFailed; kInvalidArgument: the request is larger
  ///          than kPartRequestBytesMax.
  Result<std::string> Call(Slice request, uint64_t deadline_ns, const OnArrival& on_arrival = {});

 private:
  Result<uint32_t> TakeSlot(uint64_t deadline_ns);
  Status Await(QueueSlot& slot, uint64_t deadline_ns, const OnArrival& on_arrival);

  const std::unique_ptr<io::SealedMemory> memory_;
  QueueLayout* const layout_;
  const std::function<Status()> ring_;
  const std::function<bool()> gone_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::array<bool, kQueueSlots> used_ = {};
};

class QueueServer {
 public:
  static Result<std::unique_ptr<QueueServer>> New();
  int fd() const { return memory_->fd(); }

  struct Asked {
    uint32_t slot;
    uint64_t deadline_ns;
    std::string request;
  };
  /// Returns the requests since the last call.
  std::vector<Asked> Take();
  /// Notifies the reader of a slot of the bytes that have arrived for it.
  void Tell(uint32_t slot, const Arrival& arrival);
  /// Stores an answer of at most kAnswerBytesMax bytes and wakes the reader.
  void Answer(uint32_t slot, Slice answer);

 private:
  explicit QueueServer(std::unique_ptr<io::SealedMemory> memory);
  const std::unique_ptr<io::SealedMemory> memory_;
  QueueLayout* const layout_;
  std::array<std::atomic<bool>, kQueueSlots> working_ = {};
};

}  // namespace quire::stream
