/// The remote MemTable: relaxed writes to other ranks, from the call that made them until their
/// owner has acknowledged them. Each owner has an open batch that takes writes, immutable batches
/// in the migration queue, and batches under way. This rank's reads find the records of all of
/// them.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.4 (remote MemTable, immutable remote MemTable, migration
///            queue), 2.6 (own reads)
/// Encoding   a batch is records one after another: docs/format/record.md
/// Threads    any
/// Invariants records of one owner are sent in the order in which they were added; staged_bytes()
///            <= bytes_max, except for one batch; the result of Find stays readable while it is
///            held
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kv/protocol/staged_index.h"
#include "log/record.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::kv {

/// A batch's memory, owned. Eight-byte aligned, not zeroed.
using BatchBuffer = std::unique_ptr<char[]>;

/// Buffers of full size, kept for the next batches. Outlives the batches whose buffers it made.
class BufferPool {
 public:
  explicit BufferPool(uint64_t buffer_bytes);
  /// Returns a buffer; null: no memory.
  BatchBuffer Take();
  /// Keeps `buffer`, or frees it if there are enough. Allocates no memory.
  void Give(BatchBuffer buffer);
  uint64_t idle_bytes() const;

 private:
  const uint64_t buffer_bytes_;
  mutable std::mutex mutex_;
  std::vector<BatchBuffer> buffers_;
};

/// Writes to one owner that travel together.
struct StagedBatch {
  ~StagedBatch() {
    if (pool != nullptr) pool->Give(std::move(bytes));
  }
  BatchBuffer bytes;
  std::shared_ptr<BufferPool> pool;  ///< receives `bytes` at the end; null: freed
  uint64_t capacity = 0;
  uint64_t size = 0;
  uint64_t position = 0;  ///< of its first byte in the owner's stream
  uint64_t count = 0;     ///< records
  uint64_t opened_tick = 0;
  bool finished = false;  ///< acknowledged, failed or given up
  Slice contents() const { return Slice(bytes.get(), size); }
};
using StagedBatchPtr = std::shared_ptr<StagedBatch>;

/// The staged state of a key.
struct StagedRead {
  enum class State { kNone, kPut, kDelete, kUpdate };
  State state = State::kNone;
  Slice value;  ///< kPut: the bytes, which live as long as `holder`
  StagedBatchPtr holder;
};

class RemoteMemTable {
 public:
  struct Options {
    int rank_count = 1;
    uint64_t batch_bytes = 0;  ///< capacity of a batch
    uint64_t bytes_max = 0;    ///< over all owners
    size_t in_flight_max = 8;  ///< batches under way per owner
  };

  /// The threads that send staged operations. Called while no lock of the RemoteMemTable is held.
  class Sender {
   public:
    virtual ~Sender() = default;
    /// Called when a batch for `owner` waits in the migration queue.
    virtual void Ready(int owner) = 0;
    /// Called when a batch was opened: the sender must not let it linger.
    virtual void Opened() = 0;
    /// Called when the remote MemTable is full: returns once something has left it.
    virtual void MakeRoom() = 0;
  };

  RemoteMemTable(const Options& options, Sender* sender);
  ~RemoteMemTable();
  RemoteMemTable(const RemoteMemTable&) = delete;
  RemoteMemTable& operator=(const RemoteMemTable&) = delete;

  /// Adds one record to `owner`'s open batch. Waits while the remote MemTable is full. After an
  /// error nothing was added.
  Status Add(int owner, log::RecordType type, Slice key, Slice value);
  /// Returns whether a record of that size may be staged; larger ones are sent at once, unstaged.
  bool Fits(uint64_t record_bytes) const { return record_bytes <= options_.bytes_max / 4; }
  /// Returns the newest staged record of `key`, whose hash is `hash`. Indexes the records that were
  /// added since the last Find.
  StagedRead Find(int owner, Slice key, uint64_t hash);

  /// Closes the open batch of `owner`, so that it can be sent; returns where its stream ends now.
  uint64_t Seal(int owner);
  /// Closes open batches that were opened before `tick`; returns the owners that have any.
  std::vector<int> SealOlderThan(uint64_t tick);
  /// Returns the owners with something staged.
  std::vector<int> Owners() const;
  /// Returns the owner with the most staged bytes; -1 if nothing is staged.
  int LargestOwner() const;
  bool HasOpenBatches() const { return open_count_.load() != 0; }
  /// Sets the stamp of later batches (the dispatcher's linger clock).
  void SetTick(uint64_t tick) { tick_.store(tick, std::memory_order_relaxed); }

  /// Held by the thread that sends to `owner`, so that batches leave in order.
  std::mutex& SendMutex(int owner) { return QueueOf(owner).send_mutex; }
  /// Returns the next batch of `owner`'s migration queue, which is under way from now on. Null:
  /// there is none, or enough are under way.
  StagedBatchPtr TakeSendable(int owner);
  bool HasSendable(int owner);
  /// Returns whether nothing is staged for `owner`. Takes no lock.
  bool Empty(int owner) const {
    const OwnerQueue* const queue = ExistingQueue(owner);
    return queue == nullptr || queue->bytes.load() == 0;
  }
  /// Returns whether everything of `owner` below that position of its stream is finished.
  bool Acknowledged(int owner, uint64_t position);
  /// Marks `batch` as finished. False: it was given up before.
  bool Finish(int owner, const StagedBatchPtr& batch);

  /// Counts of what GiveUp dropped.
  struct Dropped {
    uint64_t unsent_count = 0;
    uint64_t in_flight_count = 0;
  };
  /// Drops every closed batch of `owner`, sent or not. With `for_good` (the owner is dead) drops
  /// the open one, too, and every further Add returns `why`.
  Dropped GiveUp(int owner, const Status& why, bool for_good);
  /// Makes further Adds for owners that had any return `why`.
  void Close(const Status& why);

  /// Returns the bytes of batches and of the index of their records.
  uint64_t staged_bytes() const { return staged_bytes_.load(std::memory_order_relaxed); }
  uint64_t idle_bytes() const { return pool_->idle_bytes(); }
  uint64_t batch_bytes() const { return options_.batch_bytes; }

 private:
  struct OwnerQueue {
    mutable std::mutex mutex;
    std::mutex send_mutex;
    std::deque<StagedBatchPtr> batches;  // oldest first: under way, closed, and perhaps an open one
    StagedIndex index;
    uint64_t next_position = kStreamBegin;
    uint64_t indexed_end = kStreamBegin;  // the records below it are in the index
    size_t sent_count = 0;                // batches under way
    bool open = false;                    // the last batch takes records
    std::atomic<uint64_t> bytes{0};
    Status failure;  // for good
  };

  OwnerQueue& QueueOf(int owner);
  OwnerQueue* ExistingQueue(int owner) const {
    return queues_[static_cast<size_t>(owner)].load(std::memory_order_acquire);
  }
  Status AddAlone(int owner, log::RecordType type, Slice key, Slice value);
  Status AddReserved(OwnerQueue& queue, uint64_t size, log::RecordType type, Slice key,
                     Slice value);
  Status Open(OwnerQueue& queue);
  Status OpenReserved(OwnerQueue& queue);
  void DropIndex(OwnerQueue& queue) noexcept;
  void SealLocked(OwnerQueue& queue);
  void IndexLocked(OwnerQueue& queue);
  static void SetInIndex(OwnerQueue& queue, const StagedBatch& batch, uint64_t at,
                         uint64_t first_live);
  void RebuildIndex(OwnerQueue& queue);
  void ResetIndex(OwnerQueue& queue, uint64_t live_count);
  void PopFinished(OwnerQueue& queue);
  static size_t BatchAt(const OwnerQueue& queue, uint64_t position);
  static const char* RecordAt(const OwnerQueue& queue, uint64_t position);
  static uint64_t FirstLive(const OwnerQueue& queue) {
    return queue.batches.empty() ? queue.next_position : queue.batches.front()->position;
  }

  bool Reserve(OwnerQueue& queue, uint64_t bytes);
  void Release(OwnerQueue& queue, uint64_t bytes);

  const Options options_;
  Sender* const sender_;
  std::vector<std::atomic<OwnerQueue*>> queues_;
  std::atomic<uint64_t> staged_bytes_{0};
  std::atomic<uint64_t> open_count_{0};
  std::atomic<uint64_t> tick_{0};
  const std::shared_ptr<BufferPool> pool_;
};

}  // namespace quire::kv
