#include "kv/migration/remote_memtable.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/core/out_of_memory.h"
#include "base/core/scope_exit.h"
#include "base/hash/hash.h"

namespace quire::kv {
namespace {

constexpr size_t kPoolBuffersMax = 16;
constexpr uint64_t kIdleIndexBytesMax = 64 * 1024;
constexpr int kSpinsMax = 64;
// Bounds what a look has to index, and the index that no room was asked for.
constexpr uint64_t kUnindexedBytesMax = 4 << 20;

// Sections under a queue's lock take tens of nanoseconds, but for the first look after many writes:
// a short wait beats going to sleep.
class QueueLock {
 public:
  explicit QueueLock(std::mutex& mutex) : mutex_(mutex) {
    for (int i = 0; i < kSpinsMax; ++i) {
      if (mutex_.try_lock()) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    mutex_.lock();
  }
  ~QueueLock() {
    mutex_.unlock();
  }
  QueueLock(const QueueLock&) = delete;
  QueueLock& operator=(const QueueLock&) = delete;

 private:
  std::mutex& mutex_;
};

}  // namespace

BufferPool::BufferPool(uint64_t buffer_bytes) : buffer_bytes_(buffer_bytes) {
  buffers_.reserve(kPoolBuffersMax);
}

BatchBuffer BufferPool::Take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!buffers_.empty()) {
      BatchBuffer buffer = std::move(buffers_.back());
      buffers_.pop_back();
      return buffer;
    }
  }
  return BatchBuffer(new (std::nothrow) char[buffer_bytes_]);
}

void BufferPool::Give(BatchBuffer buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (buffers_.size() < kPoolBuffersMax) buffers_.push_back(std::move(buffer));
}

uint64_t BufferPool::idle_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return buffers_.size() * buffer_bytes_;
}

RemoteMemTable::RemoteMemTable(const Options& options, Sender* sender)
    : options_(options),
      sender_(sender),
      queues_(static_cast<size_t>(options.rank_count)),
      pool_(std::make_shared<BufferPool>(options.batch_bytes)) {}

RemoteMemTable::~RemoteMemTable() {
  for (std::atomic<OwnerQueue*>& queue : queues_) delete queue.load();
}

RemoteMemTable::OwnerQueue& RemoteMemTable::QueueOf(int owner) {
  if (OwnerQueue* const queue = ExistingQueue(owner)) [[likely]]
    return *queue;
  auto made = std::make_unique<OwnerQueue>();
  OwnerQueue* expected = nullptr;
  if (queues_[static_cast<size_t>(owner)].compare_exchange_strong(expected, made.get())) {
    return *made.release();
  }
  return *expected;
}

Status RemoteMemTable::Add(int owner, log::RecordType type, Slice key, Slice value) {
  OwnerQueue& queue = QueueOf(owner);
  const uint64_t size = log::RecordSize(key.size(), value.size());
  if (size > options_.batch_bytes) return AddAlone(owner, type, key, value);
  bool sealed = false;
  bool opened = false;
  while (true) {
    {
      const QueueLock lock(queue.mutex);
      if (!queue.failure.ok()) [[unlikely]]
        return queue.failure;
      if (queue.open && queue.batches.back()->capacity - queue.batches.back()->size < size) {
        SealLocked(queue);
        sealed = true;
      }
      if (!queue.open) {
        QUIRE_RETURN_IF_ERROR(Open(queue));
        opened = queue.open;
      }
      if (queue.open) [[likely]] {
        StagedBatch& batch = *queue.batches.back();
        log::EncodeRecord(batch.bytes.get() + batch.size, type, key, value, 0);
        batch.size += size;
        ++batch.count;
        queue.next_position += size;
        break;
      }
    }
    sender_->MakeRoom();
  }
  if (opened) [[unlikely]]
    sender_->Opened();
  if (sealed) [[unlikely]]
    sender_->Ready(owner);
  return Status();
}

// A record larger than a batch is a batch of its own, encoded before the lock is taken.
Status RemoteMemTable::AddAlone(int owner, log::RecordType type, Slice key, Slice value) {
  OwnerQueue& queue = QueueOf(owner);
  const uint64_t size = log::RecordSize(key.size(), value.size());
  while (!Reserve(queue, size)) sender_->MakeRoom();
  const Status added =
      base::OrOutOfMemory([&] { return AddReserved(queue, size, type, key, value); });
  if (!added.ok()) {
    Release(queue, size);
    return added;
  }
  sender_->Ready(owner);
  return Status();
}

Status RemoteMemTable::AddReserved(OwnerQueue& queue, uint64_t size, log::RecordType type,
                                   Slice key, Slice value) {
  auto batch = std::make_shared<StagedBatch>();
  batch->bytes.reset(new (std::nothrow) char[size]);
  if (batch->bytes == nullptr) {
    return Status(Code::kOutOfMemory,
                  "no memory to stage a pair of " + std::to_string(size) + " bytes");
  }
  batch->capacity = batch->size = size;
  batch->count = 1;
  log::EncodeRecord(batch->bytes.get(), type, key, value, 0);
  const QueueLock lock(queue.mutex);
  QUIRE_RETURN_IF_ERROR(queue.failure);
  SealLocked(queue);
  batch->position = queue.next_position;
  queue.batches.push_back(std::move(batch));
  queue.next_position += size;
  return Status();
}

// Opens a batch; leaves the queue without an open batch if there is no room.
Status RemoteMemTable::Open(OwnerQueue& queue) {
  if (!Reserve(queue, options_.batch_bytes)) return Status();
  const Status opened = base::OrOutOfMemory([&] { return OpenReserved(queue); });
  if (!opened.ok()) Release(queue, options_.batch_bytes);
  return opened;
}

Status RemoteMemTable::OpenReserved(OwnerQueue& queue) {
  auto batch = std::make_shared<StagedBatch>();
  batch->bytes = pool_->Take();
  if (batch->bytes == nullptr) {
    return Status(Code::kOutOfMemory, "no memory for a batch of remote writes, " +
                                          std::to_string(options_.batch_bytes) + " bytes");
  }
  batch->pool = pool_;
  batch->capacity = options_.batch_bytes;
  batch->position = queue.next_position;
  batch->opened_tick = tick_.load(std::memory_order_relaxed);
  queue.batches.push_back(std::move(batch));
  queue.open = true;
  open_count_.fetch_add(1);
  return Status();
}

void RemoteMemTable::SealLocked(OwnerQueue& queue) {
  if (!queue.open) return;
  queue.open = false;
  open_count_.fetch_sub(1);
  const uint64_t indexed_end = std::max(queue.indexed_end, FirstLive(queue));
  if (queue.next_position - indexed_end <= kUnindexedBytesMax) return;
  // Without memory, the next Find indexes them, or the next batch that is sealed.
  static_cast<void>(base::OrOutOfMemory([&] {
    IndexLocked(queue);
    return Status();
  }));
}

uint64_t RemoteMemTable::Seal(int owner) {
  OwnerQueue* const queue = ExistingQueue(owner);
  if (queue == nullptr) return 0;
  const QueueLock lock(queue->mutex);
  SealLocked(*queue);
  return queue->next_position;
}

std::vector<int> RemoteMemTable::SealOlderThan(uint64_t tick) {
  std::vector<int> owners;
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    OwnerQueue* const queue = ExistingQueue(owner);
    if (queue == nullptr) continue;
    const QueueLock lock(queue->mutex);
    if (!queue->open || queue->batches.back()->opened_tick >= tick) continue;
    SealLocked(*queue);
    owners.push_back(owner);
  }
  return owners;
}

std::vector<int> RemoteMemTable::Owners() const {
  std::vector<int> owners;
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    const OwnerQueue* const queue = ExistingQueue(owner);
    if (queue != nullptr && queue->bytes.load() != 0) owners.push_back(owner);
  }
  return owners;
}

int RemoteMemTable::LargestOwner() const {
  int largest = -1;
  uint64_t most = 0;
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    const OwnerQueue* const queue = ExistingQueue(owner);
    const uint64_t bytes = queue == nullptr ? 0 : queue->bytes.load();
    if (bytes <= most) continue;
    most = bytes;
    largest = owner;
  }
  return largest;
}

size_t RemoteMemTable::BatchAt(const OwnerQueue& queue, uint64_t position) {
  // The last batch first: repeated writes of a key are mostly near each other.
  if (position >= queue.batches.back()->position) return queue.batches.size() - 1;
  const auto after = std::upper_bound(
      queue.batches.begin(), queue.batches.end(), position,
      [](uint64_t wanted, const StagedBatchPtr& batch) { return wanted < batch->position; });
  return static_cast<size_t>(after - queue.batches.begin()) - 1;
}

const char* RemoteMemTable::RecordAt(const OwnerQueue& queue, uint64_t position) {
  const StagedBatch& batch = *queue.batches[BatchAt(queue, position)];
  return batch.bytes.get() + (position - batch.position);
}

// Records are indexed when a reader searches for one, or when there are many: on ranks that only
// write, most records are gone by then, and cost nothing.
void RemoteMemTable::IndexLocked(OwnerQueue& queue) {
  const uint64_t first_live = FirstLive(queue);
  uint64_t position = std::max(queue.indexed_end, first_live);
  if (position == queue.next_position) return;
  for (size_t i = BatchAt(queue, position); i < queue.batches.size(); ++i) {
    const StagedBatch& batch = *queue.batches[i];
    for (uint64_t at = position - batch.position; at < batch.size;
         at += log::SizeOf(batch.bytes.get() + at)) {
      if (queue.index.Crowded()) {
        RebuildIndex(queue);
        return;
      }
      SetInIndex(queue, batch, at, first_live);
    }
    position = batch.position + batch.size;
  }
  queue.indexed_end = queue.next_position;
}

void RemoteMemTable::SetInIndex(OwnerQueue& queue, const StagedBatch& batch, uint64_t at,
                                uint64_t first_live) {
  const Slice key = log::KeyOf(batch.bytes.get() + at);
  queue.index.Set(base::HashKey(key), batch.position + at, first_live,
                  [&](uint64_t other) { return log::KeyOf(RecordAt(queue, other)) == key; });
}

void RemoteMemTable::ResetIndex(OwnerQueue& queue, uint64_t live_count) {
  const uint64_t bytes_before = queue.index.bytes();
  // Charged without asking for room: the next batch to be opened waits for it. Without memory
  // nothing is left of the index.
  const base::ScopeExit charge(
      [&] { staged_bytes_.fetch_add(queue.index.bytes() - bytes_before); });
  queue.index.Reset(live_count);
}

void RemoteMemTable::RebuildIndex(OwnerQueue& queue) {
  uint64_t count = 0;
  for (const StagedBatchPtr& batch : queue.batches) count += batch->count;
  ResetIndex(queue, count);
  const uint64_t first_live = FirstLive(queue);
  for (const StagedBatchPtr& batch : queue.batches) {
    for (uint64_t at = 0; at < batch->size; at += log::SizeOf(batch->bytes.get() + at)) {
      SetInIndex(queue, *batch, at, first_live);
    }
  }
  queue.indexed_end = queue.next_position;
}

StagedRead RemoteMemTable::Find(int owner, Slice key, uint64_t hash) {
  StagedRead read;
  OwnerQueue* const queue = ExistingQueue(owner);
  if (queue == nullptr || queue->bytes.load(std::memory_order_acquire) == 0) return read;
  const QueueLock lock(queue->mutex);
  IndexLocked(*queue);
  const uint64_t position = queue->index.Find(hash, FirstLive(*queue), [&](uint64_t other) {
    return log::KeyOf(RecordAt(*queue, other)) == key;
  });
  if (position == 0) return read;
  const char* const record = RecordAt(*queue, position);
  switch (log::HeaderAt(record)->type) {
    case log::RecordType::kPut:
      read.state = StagedRead::State::kPut;
      break;
    case log::RecordType::kUpdate:
      read.state = StagedRead::State::kUpdate;
      return read;
    default:
      read.state = StagedRead::State::kDelete;
      return read;
  }
  read.value = log::ValueOf(record);
  read.holder = queue->batches[BatchAt(*queue, position)];
  return read;
}

StagedBatchPtr RemoteMemTable::TakeSendable(int owner) {
  OwnerQueue& queue = QueueOf(owner);
  const QueueLock lock(queue.mutex);
  const size_t closed_count = queue.batches.size() - (queue.open ? 1 : 0);
  if (queue.sent_count >= closed_count || queue.sent_count >= options_.in_flight_max)
    return nullptr;
  return queue.batches[queue.sent_count++];
}

bool RemoteMemTable::HasSendable(int owner) {
  OwnerQueue& queue = QueueOf(owner);
  const QueueLock lock(queue.mutex);
  const size_t closed_count = queue.batches.size() - (queue.open ? 1 : 0);
  return queue.sent_count < closed_count && queue.sent_count < options_.in_flight_max;
}

bool RemoteMemTable::Acknowledged(int owner, uint64_t position) {
  OwnerQueue* const queue = ExistingQueue(owner);
  if (queue == nullptr) return true;
  const QueueLock lock(queue->mutex);
  return FirstLive(*queue) >= position;
}

bool RemoteMemTable::Finish(int owner, const StagedBatchPtr& batch) {
  OwnerQueue& queue = QueueOf(owner);
  const QueueLock lock(queue.mutex);
  if (batch->finished) return false;
  batch->finished = true;
  PopFinished(queue);
  return true;
}

void RemoteMemTable::PopFinished(OwnerQueue& queue) {
  while (!queue.batches.empty() && queue.batches.front()->finished) {
    if (queue.sent_count > 0) --queue.sent_count;
    Release(queue, queue.batches.front()->capacity);
    queue.batches.pop_front();
  }
  if (queue.batches.empty() && queue.index.bytes() > kIdleIndexBytesMax) DropIndex(queue);
}

// Takes no memory: an answer has come, and what it says is noted after this.
void RemoteMemTable::DropIndex(OwnerQueue& queue) noexcept {
  staged_bytes_.fetch_sub(queue.index.bytes());
  queue.index.Clear();
}

RemoteMemTable::Dropped RemoteMemTable::GiveUp(int owner, const Status& why, bool for_good) {
  Dropped dropped;
  OwnerQueue& queue = QueueOf(owner);
  const QueueLock lock(queue.mutex);
  if (for_good) {
    SealLocked(queue);
    queue.failure = why;
  }
  const size_t closed_count = queue.batches.size() - (queue.open ? 1 : 0);
  for (size_t i = 0; i < closed_count; ++i) {
    StagedBatch& batch = *queue.batches[i];
    if (batch.finished) continue;
    (i < queue.sent_count ? dropped.in_flight_count : dropped.unsent_count) += batch.count;
    batch.finished = true;
  }
  PopFinished(queue);
  return dropped;
}

void RemoteMemTable::Close(const Status& why) {
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    OwnerQueue* const queue = ExistingQueue(owner);
    if (queue == nullptr) continue;
    const QueueLock lock(queue->mutex);
    SealLocked(*queue);
    if (queue->failure.ok()) queue->failure = why;
  }
}

bool RemoteMemTable::Reserve(OwnerQueue& queue, uint64_t bytes) {
  uint64_t present = staged_bytes_.load();
  do {
    // One batch is always accepted: a bound below its size must not stop everything.
    if (present + bytes > options_.bytes_max && LargestOwner() >= 0) return false;
  } while (!staged_bytes_.compare_exchange_weak(present, present + bytes));
  queue.bytes.fetch_add(bytes);
  return true;
}

void RemoteMemTable::Release(OwnerQueue& queue, uint64_t bytes) {
  queue.bytes.fetch_sub(bytes);
  staged_bytes_.fetch_sub(bytes);
}

}  // namespace quire::kv
