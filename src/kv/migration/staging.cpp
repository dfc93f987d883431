#include "kv/migration/staging.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/out_of_memory.h"
#include "base/scope_exit.h"

namespace quire::kv {
namespace {

constexpr size_t kPoolBuffersMax = 16;
constexpr uint64_t kIdleIndexBytesMax = 64 * 1024;
constexpr int kSpinsMax = 64;
// Bounds what a look has to index, and the index that no room was asked for.
constexpr uint64_t kUnindexedBytesMax = 4 << 20;

// Sections under a stage's lock take tens of nanoseconds, but for the first look after many writes:
// a short wait beats going to sleep.
class StageLock {
 public:
  explicit StageLock(std::mutex& mutex) : mutex_(mutex) {
    for (int i = 0; i < kSpinsMax; ++i) {
      if (mutex_.try_lock()) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    mutex_.lock();
  }
  ~StageLock() {
    mutex_.unlock();
  }
  StageLock(const StageLock&) = delete;
  StageLock& operator=(const StageLock&) = delete;

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

Staging::Staging(const Options& options, Sender* sender)
    : options_(options),
      sender_(sender),
      stages_(static_cast<size_t>(options.rank_count)),
      pool_(std::make_shared<BufferPool>(options.batch_bytes)) {}

Staging::~Staging() {
  for (std::atomic<Stage*>& stage : stages_) delete stage.load();
}

Staging::Stage& Staging::StageOf(int owner) {
  if (Stage* const stage = ExistingStage(owner)) [[likely]]
    return *stage;
  auto made = std::make_unique<Stage>();
  Stage* expected = nullptr;
  if (stages_[static_cast<size_t>(owner)].compare_exchange_strong(expected, made.get())) {
    return *made.release();
  }
  return *expected;
}

Status Staging::Add(int owner, log::RecordType type, Slice key, Slice value) {
  Stage& stage = StageOf(owner);
  const uint64_t size = log::RecordSize(key.size(), value.size());
  if (size > options_.batch_bytes) return AddAlone(owner, type, key, value);
  bool sealed = false;
  bool opened = false;
  while (true) {
    {
      const StageLock lock(stage.mutex);
      if (!stage.failure.ok()) [[unlikely]]
        return stage.failure;
      if (stage.open && stage.batches.back()->capacity - stage.batches.back()->size < size) {
        SealLocked(stage);
        sealed = true;
      }
      if (!stage.open) {
        QUIRE_RETURN_IF_ERROR(Open(stage));
        opened = stage.open;
      }
      if (stage.open) [[likely]] {
        StagedBatch& batch = *stage.batches.back();
        log::EncodeRecord(batch.bytes.get() + batch.size, type, key, value, 0);
        batch.size += size;
        ++batch.count;
        stage.next_position += size;
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
Status Staging::AddAlone(int owner, log::RecordType type, Slice key, Slice value) {
  Stage& stage = StageOf(owner);
  const uint64_t size = log::RecordSize(key.size(), value.size());
  while (!Reserve(stage, size)) sender_->MakeRoom();
  const Status added =
      base::OrOutOfMemory([&] { return AddReserved(stage, size, type, key, value); });
  if (!added.ok()) {
    Release(stage, size);
    return added;
  }
  sender_->Ready(owner);
  return Status();
}

Status Staging::AddReserved(Stage& stage, uint64_t size, log::RecordType type, Slice key,
                            Slice value) {
  auto batch = std::make_shared<StagedBatch>();
  batch->bytes.reset(new (std::nothrow) char[size]);
  if (batch->bytes == nullptr) {
    return Status(Code::kOutOfMemory,
                  "no memory to stage a pair of " + std::to_string(size) + " bytes");
  }
  batch->capacity = batch->size = size;
  batch->count = 1;
  log::EncodeRecord(batch->bytes.get(), type, key, value, 0);
  const StageLock lock(stage.mutex);
  QUIRE_RETURN_IF_ERROR(stage.failure);
  SealLocked(stage);
  batch->position = stage.next_position;
  stage.batches.push_back(std::move(batch));
  stage.next_position += size;
  return Status();
}

// Leaves the stage without an open batch where there is no room.
Status Staging::Open(Stage& stage) {
  if (!Reserve(stage, options_.batch_bytes)) return Status();
  const Status opened = base::OrOutOfMemory([&] { return OpenReserved(stage); });
  if (!opened.ok()) Release(stage, options_.batch_bytes);
  return opened;
}

Status Staging::OpenReserved(Stage& stage) {
  auto batch = std::make_shared<StagedBatch>();
  batch->bytes = pool_->Take();
  if (batch->bytes == nullptr) {
    return Status(Code::kOutOfMemory, "no memory for a batch of remote writes, " +
                                          std::to_string(options_.batch_bytes) + " bytes");
  }
  batch->pool = pool_;
  batch->capacity = options_.batch_bytes;
  batch->position = stage.next_position;
  batch->opened_tick = tick_.load(std::memory_order_relaxed);
  stage.batches.push_back(std::move(batch));
  stage.open = true;
  open_count_.fetch_add(1);
  return Status();
}

void Staging::SealLocked(Stage& stage) {
  if (!stage.open) return;
  stage.open = false;
  open_count_.fetch_sub(1);
  const uint64_t indexed_end = std::max(stage.indexed_end, FirstLive(stage));
  if (stage.next_position - indexed_end <= kUnindexedBytesMax) return;
  // Without memory the next look does it, or the next batch that is sealed.
  static_cast<void>(base::OrOutOfMemory([&] {
    IndexLocked(stage);
    return Status();
  }));
}

uint64_t Staging::Seal(int owner) {
  Stage* const stage = ExistingStage(owner);
  if (stage == nullptr) return 0;
  const StageLock lock(stage->mutex);
  SealLocked(*stage);
  return stage->next_position;
}

std::vector<int> Staging::SealOlderThan(uint64_t tick) {
  std::vector<int> owners;
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    Stage* const stage = ExistingStage(owner);
    if (stage == nullptr) continue;
    const StageLock lock(stage->mutex);
    if (!stage->open || stage->batches.back()->opened_tick >= tick) continue;
    SealLocked(*stage);
    owners.push_back(owner);
  }
  return owners;
}

std::vector<int> Staging::Owners() const {
  std::vector<int> owners;
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    const Stage* const stage = ExistingStage(owner);
    if (stage != nullptr && stage->bytes.load() != 0) owners.push_back(owner);
  }
  return owners;
}

int Staging::LargestOwner() const {
  int largest = -1;
  uint64_t most = 0;
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    const Stage* const stage = ExistingStage(owner);
    const uint64_t bytes = stage == nullptr ? 0 : stage->bytes.load();
    if (bytes <= most) continue;
    most = bytes;
    largest = owner;
  }
  return largest;
}

size_t Staging::BatchAt(const Stage& stage, uint64_t position) {
  // The last batch first: repeated writes of a key are mostly near each other.
  if (position >= stage.batches.back()->position) return stage.batches.size() - 1;
  const auto after = std::upper_bound(
      stage.batches.begin(), stage.batches.end(), position,
      [](uint64_t wanted, const StagedBatchPtr& batch) { return wanted < batch->position; });
  return static_cast<size_t>(after - stage.batches.begin()) - 1;
}

const char* Staging::RecordAt(const Stage& stage, uint64_t position) {
  const StagedBatch& batch = *stage.batches[BatchAt(stage, position)];
  return batch.bytes.get() + (position - batch.position);
}

// Records are indexed when somebody looks for one, or when there are many: where ranks only write,
// most are gone by then, and nobody pays for them.
void Staging::IndexLocked(Stage& stage) {
  const uint64_t first_live = FirstLive(stage);
  uint64_t position = std::max(stage.indexed_end, first_live);
  if (position == stage.next_position) return;
  for (size_t i = BatchAt(stage, position); i < stage.batches.size(); ++i) {
    const StagedBatch& batch = *stage.batches[i];
    for (uint64_t at = position - batch.position; at < batch.size;
         at += log::SizeOf(batch.bytes.get() + at)) {
      if (stage.index.Crowded()) {
        RebuildIndex(stage);
        return;
      }
      SetInIndex(stage, batch, at, first_live);
    }
    position = batch.position + batch.size;
  }
  stage.indexed_end = stage.next_position;
}

void Staging::SetInIndex(Stage& stage, const StagedBatch& batch, uint64_t at, uint64_t first_live) {
  const Slice key = log::KeyOf(batch.bytes.get() + at);
  stage.index.Set(base::HashKey(key), batch.position + at, first_live,
                  [&](uint64_t other) { return log::KeyOf(RecordAt(stage, other)) == key; });
}

void Staging::ResetIndex(Stage& stage, uint64_t live_count) {
  const uint64_t bytes_before = stage.index.bytes();
  // Charged without asking for room: the next batch to be opened waits for it. Without memory
  // nothing is left of the index.
  const base::ScopeExit charge(
      [&] { staged_bytes_.fetch_add(stage.index.bytes() - bytes_before); });
  stage.index.Reset(live_count);
}

void Staging::RebuildIndex(Stage& stage) {
  uint64_t count = 0;
  for (const StagedBatchPtr& batch : stage.batches) count += batch->count;
  ResetIndex(stage, count);
  const uint64_t first_live = FirstLive(stage);
  for (const StagedBatchPtr& batch : stage.batches) {
    for (uint64_t at = 0; at < batch->size; at += log::SizeOf(batch->bytes.get() + at)) {
      SetInIndex(stage, *batch, at, first_live);
    }
  }
  stage.indexed_end = stage.next_position;
}

StagedRead Staging::Find(int owner, Slice key, uint64_t hash) {
  StagedRead read;
  Stage* const stage = ExistingStage(owner);
  if (stage == nullptr || stage->bytes.load(std::memory_order_acquire) == 0) return read;
  const StageLock lock(stage->mutex);
  IndexLocked(*stage);
  const uint64_t position = stage->index.Find(hash, FirstLive(*stage), [&](uint64_t other) {
    return log::KeyOf(RecordAt(*stage, other)) == key;
  });
  if (position == 0) return read;
  const char* const record = RecordAt(*stage, position);
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
  read.holder = stage->batches[BatchAt(*stage, position)];
  return read;
}

StagedBatchPtr Staging::TakeSendable(int owner) {
  Stage& stage = StageOf(owner);
  const StageLock lock(stage.mutex);
  const size_t closed_count = stage.batches.size() - (stage.open ? 1 : 0);
  if (stage.sent_count >= closed_count || stage.sent_count >= options_.in_flight_max)
    return nullptr;
  return stage.batches[stage.sent_count++];
}

bool Staging::HasSendable(int owner) {
  Stage& stage = StageOf(owner);
  const StageLock lock(stage.mutex);
  const size_t closed_count = stage.batches.size() - (stage.open ? 1 : 0);
  return stage.sent_count < closed_count && stage.sent_count < options_.in_flight_max;
}

bool Staging::Acknowledged(int owner, uint64_t position) {
  Stage* const stage = ExistingStage(owner);
  if (stage == nullptr) return true;
  const StageLock lock(stage->mutex);
  return FirstLive(*stage) >= position;
}

bool Staging::Finish(int owner, const StagedBatchPtr& batch) {
  Stage& stage = StageOf(owner);
  const StageLock lock(stage.mutex);
  if (batch->finished) return false;
  batch->finished = true;
  PopFinished(stage);
  return true;
}

void Staging::PopFinished(Stage& stage) {
  while (!stage.batches.empty() && stage.batches.front()->finished) {
    if (stage.sent_count > 0) --stage.sent_count;
    Release(stage, stage.batches.front()->capacity);
    stage.batches.pop_front();
  }
  if (stage.batches.empty() && stage.index.bytes() > kIdleIndexBytesMax) DropIndex(stage);
}

// Takes no memory: an answer has come, and what it says is noted after this.
void Staging::DropIndex(Stage& stage) noexcept {
  staged_bytes_.fetch_sub(stage.index.bytes());
  stage.index.Clear();
}

Staging::Dropped Staging::GiveUp(int owner, const Status& why, bool for_good) {
  Dropped dropped;
  Stage& stage = StageOf(owner);
  const StageLock lock(stage.mutex);
  if (for_good) {
    SealLocked(stage);
    stage.failure = why;
  }
  const size_t closed_count = stage.batches.size() - (stage.open ? 1 : 0);
  for (size_t i = 0; i < closed_count; ++i) {
    StagedBatch& batch = *stage.batches[i];
    if (batch.finished) continue;
    (i < stage.sent_count ? dropped.in_flight_count : dropped.unsent_count) += batch.count;
    batch.finished = true;
  }
  PopFinished(stage);
  return dropped;
}

void Staging::Close(const Status& why) {
  for (int owner = 0; owner < options_.rank_count; ++owner) {
    Stage* const stage = ExistingStage(owner);
    if (stage == nullptr) continue;
    const StageLock lock(stage->mutex);
    SealLocked(*stage);
    if (stage->failure.ok()) stage->failure = why;
  }
}

bool Staging::Reserve(Stage& stage, uint64_t bytes) {
  uint64_t present = staged_bytes_.load();
  do {
    // One batch is always let in: a bound below its size must not stop everything.
    if (present + bytes > options_.bytes_max && LargestOwner() >= 0) return false;
  } while (!staged_bytes_.compare_exchange_weak(present, present + bytes));
  stage.bytes.fetch_add(bytes);
  return true;
}

void Staging::Release(Stage& stage, uint64_t bytes) {
  stage.bytes.fetch_sub(bytes);
  staged_bytes_.fetch_sub(bytes);
}

}  // namespace quire::kv
