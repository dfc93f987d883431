/// The queue of requests between one reader and the daemon of its node, in memory that both map.
///
/// The daemon makes the memory and hands it over the reader's local connection. A reader fills a
/// slot, then sends one byte over the connection: the bell, for which the daemon polls as for all
/// else. Its notices wake the reader by a futex on the slot's turns: the answer, and before it the
/// arrived part of a version. Neither side believes what it reads there: the daemon copies a
/// request before it looks at it, and remembers by itself which slots it works for.
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
  kTaken = 2,      ///< the daemon works for it
  kAnswered = 3,   ///< the reader may read the answer
  kAbandoned = 4,  ///< the reader waits no longer: the daemon frees it
};

/// The bytes of a version that arrive in the mirror's log while a reader waits.
struct Arrival {
  uint64_t at = 0;       ///< where they lie, a position
  uint64_t bytes = 0;    ///< of the version
  uint64_t arrived = 0;  ///< so many of them, from the first on, are there
};
/// Throws nothing, and makes no request of the same queue.
using OnArrival = std::function<void(const Arrival& arrival)>;

struct QueueSlot {
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> request_bytes;  ///< atomic, so that what was checked is what is used
  std::atomic<uint32_t> answer_bytes;
  std::atomic<uint32_t> turns;  ///< the daemon's notices of the request; the reader sleeps on it
  uint64_t deadline_ns;         ///< of RealClock(), which both share
  std::atomic<uint64_t> arrival_at;
  std::atomic<uint64_t> arrival_bytes;  ///< 0: nothing comes
  std::atomic<uint64_t> arrived;
  std::atomic<uint32_t> hears;  ///< 1: the reader is to be woken for what has come
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
  /// `ring`: the bell. `gone`: whether the daemon is.
  QueueClient(std::unique_ptr<io::SealedMemory> memory, std::function<Status()> ring,
              std::function<bool()> gone);
  /// The daemon's answer (DecodeAnswer has been through it). Until then `on_arrival` is called with
  /// the daemon's notices, which may contain anything.
  ///
  /// Errors   what the daemon answered; kTimedOut; kPeerFailed; kInvalidArgument: the request is
  ///          larger than kPartRequestBytesMax.
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
  /// At most kAnswerBytesMax.
  void Answer(uint32_t slot, Slice answer);

 private:
  explicit QueueServer(std::unique_ptr<io::SealedMemory> memory);
  const std::unique_ptr<io::SealedMemory> memory_;
  QueueLayout* const layout_;
  std::array<std::atomic<bool>, kQueueSlots> working_ = {};
};

}  // namespace quire::stream
