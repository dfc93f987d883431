#include "lsm/memtable/memtable_pool.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/core/check.h"
#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "base/core/scope_exit.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"

namespace quire::lsm {
namespace {

uint64_t NewGeneration() {
  while (true) {
    const uint64_t generation = io::RandomU64();
    if (generation != 0) return generation;
  }
}

// While so many are in use outside of the pool, iterators pin no more MemTables.
constexpr size_t kPinnedOutsideMax = 8;

// An iterator pins the MemTables that exist when it is made: the pool, and fewer than the maximum
// above outside of it. Writers still get as many MemTables as the pool has, regardless of
// iterators.
size_t OutsideMax(size_t pool_slots) {
  return kPinnedOutsideMax + pool_slots;
}

// If there is no room to share it, the memory is private: neighbours ask by message.
Result<std::unique_ptr<SharedRegion>> NewRegion(const PoolConfig& config) {
  Result<std::unique_ptr<SharedRegion>> region =
      SharedRegion::Create(config.options, config.share_memory);
  if (!config.share_memory || region.status().code() != Code::kNoSpace) return region;
  if (base::LogEnabled()) {
    base::Log(LogLevel::kWarning, "the memory of " + config.directory +
                                      " cannot be read by the ranks of this node: " +
                                      std::string(region.status().message()));
  }
  return SharedRegion::Create(config.options, false);
}

}  // namespace

PooledMemTable::~PooledMemTable() {
  table_.reset();  // before the memory it lies in
  if (pool_ == nullptr) return;
  if (pool_slot_ >= 0) {
    const bool exists = segment_ != nullptr;
    if (adopted_) segment_.reset();  // its next use sets its room aside first
    pool_->Return(pool_slot_, std::move(segment_), exists);
    return;
  }
  segment_.reset();
  pool_->ReturnOutside(header_.id, !flushed_.load(std::memory_order_acquire));
}

Result<std::shared_ptr<PooledMemTable>> PooledMemTable::Copy(io::FileSystem& fs,
                                                             const std::string& path) {
  std::shared_ptr<PooledMemTable> handle(new PooledMemTable);
  QUIRE_ASSIGN_OR_RETURN(handle->header_, log::ReadSegmentHeader(fs, path));
  const uint64_t bytes = handle->header_.capacity;
  QUIRE_ASSIGN_OR_RETURN(handle->copied_file_, fs.Open(path, io::FileOpenMode::kRead));
  QUIRE_ASSIGN_OR_RETURN(handle->own_records_, io::AllocatePages(bytes));
  QUIRE_RETURN_IF_ERROR(handle->MakeReadable(log::kSegmentHeaderBytes));
  QUIRE_ASSIGN_OR_RETURN(handle->own_index_, io::AllocatePages(IndexBytes(bytes)));
  handle->table_ =
      std::make_unique<MemTable>(handle->own_index_.data(), handle->own_records_.data(), bytes,
                                 handle->header_.generation, handle->header_.base_lsn, nullptr);
  return handle;
}

void PooledMemTable::Close() {
  end_lsn_.store(header_.base_lsn + table_->Close(), std::memory_order_release);
}

log::SegmentBytes PooledMemTable::Bytes() {
  return {table_->data(), [this](uint64_t offset, uint64_t size) {
            return segment_ == nullptr ? MakeReadable(offset + size)
                                       : segment_->map().MakeReadable(offset, size);
          }};
}

// For a copy. A second replay finds the bytes of the first.
Status PooledMemTable::MakeReadable(uint64_t end) {
  if (end <= copied_end_) return Status();
  QUIRE_RETURN_IF_ERROR(copied_file_->ReadAt(copied_end_, end - copied_end_,
                                             own_records_.data() + copied_end_));
  copied_end_ = end;
  return Status();
}

void PooledMemTable::FinishAdoption(uint64_t end) {
  table_->FinishAdoption(end);
  end_lsn_.store(header_.base_lsn + end, std::memory_order_release);
  if (copied_file_ != nullptr) KeepOnlyAdopted(end);
}

// A reader keeps a copy for as long as it lives, and one for each part.
void PooledMemTable::KeepOnlyAdopted(uint64_t end) {
  copied_file_.reset();
  own_records_.Shrink(end);
  const uint64_t bytes = table_->AdoptedIndexBytes();
  if (bytes >= own_index_.bytes()) return;
  Result<io::PageMemory> index = io::AllocatePages(bytes);
  if (!index.ok()) return;  // the larger one serves as well
  table_->MoveIndex(index->data());
  own_index_ = std::move(*index);
}

void PooledMemTable::Activate(uint64_t previous_generation, uint64_t previous_end_lsn) {
  header_.previous_generation = previous_generation;
  header_.previous_end_lsn = previous_end_lsn;
  flushed_.store(false, std::memory_order_relaxed);
  if (segment_ != nullptr) return segment_->Recycle(header_);
  log::EncodeSegmentHeader(
      header_, pool_slot_ < 0 ? own_records_.data() : pool_->region_->records(pool_slot_));
}

Status PooledMemTable::SyncHeader() {
  if (segment_ == nullptr || header_durable_.load(std::memory_order_acquire)) return Status();
  QUIRE_RETURN_IF_ERROR(segment_->SyncHeader());
  header_durable_.store(true, std::memory_order_release);
  return Status();
}

Status PooledMemTable::SyncTo(uint64_t end) {
  if (segment_ == nullptr || end <= synced_end_) return Status();
  QUIRE_RETURN_IF_ERROR(segment_->Sync(end));
  header_durable_.store(true, std::memory_order_release);
  synced_end_ = end;
  return Status();
}

Result<std::shared_ptr<MemTablePool>> MemTablePool::Create(const PoolConfig& config) {
  std::shared_ptr<MemTablePool> pool(new MemTablePool(config));
  QUIRE_ASSIGN_OR_RETURN(pool->region_, NewRegion(config));
  pool->slots_.resize(static_cast<size_t>(pool->region_->pool_slots()));
  for (const uint64_t number : config.found) {
    if (number < pool->slots_.size()) pool->slots_[number].found = true;
  }
  pool->stray_.reserve(OutsideMax(pool->slots_.size()));  // a destructor fills it
  return pool;
}

Result<std::shared_ptr<PooledMemTable>> MemTablePool::Prepare(IndexPages index_pages) {
  std::unique_ptr<log::Segment> segment;
  uint64_t base_lsn = 0;
  const int pool_slot = TakeFreeSlot(&segment, &base_lsn);
  if (pool_slot < 0) return std::shared_ptr<PooledMemTable>();
  if (!HasMemory(pool_slot)) {
    Return(pool_slot, std::move(segment), false);
    return PrepareOutside();
  }
  if (index_pages == IndexPages::kNow && IndexIsUnused(region_->index(pool_slot))) {
    std::memset(region_->index(pool_slot), 0, IndexBytes(config_.options.memtable_bytes));
  }
  Result<std::shared_ptr<PooledMemTable>> handle =
      base::OrOutOfMemory([&] { return PrepareSlot(pool_slot, segment, base_lsn); });
  if (!handle.ok()) {
    const bool exists = segment != nullptr;
    Return(pool_slot, std::move(segment), exists);
  }
  return handle;
}

// Other programs may have taken the node's shared memory since the database was opened.
bool MemTablePool::HasMemory(int pool_slot) {
  const Status room = base::OrOutOfMemory([&] { return region_->SetAside(pool_slot); });
  if (room.ok() || !base::LogEnabled()) return room.ok();
  static_cast<void>(base::OrOutOfMemory([&] {
    base::Log(LogLevel::kWarning, "new writes in " + config_.directory +
                                      " cannot be read by the ranks of this node: " +
                                      std::string(room.message()));
    return Status();
  }));
  return false;
}

// On error `segment` is still the caller's, if there is one.
Result<std::shared_ptr<PooledMemTable>> MemTablePool::PrepareSlot(
    int pool_slot, std::unique_ptr<log::Segment>& segment, uint64_t base_lsn) {
  const log::SegmentHeader header = HeaderFor(static_cast<uint64_t>(pool_slot), base_lsn);
  char* records = region_->records(pool_slot);
  if (records == nullptr) {
    if (segment == nullptr) {
      using Origin = log::Segment::Origin;
      // Once: what a failed attempt leaves has no durable name.
      const bool found = std::exchange(slots_[header.id].found, false);
      QUIRE_ASSIGN_OR_RETURN(segment,
                             CreateSegment(header, found ? Origin::kFound : Origin::kNew));
    }
    records = segment->data();
  }
  std::shared_ptr<PooledMemTable> handle(new PooledMemTable);
  handle->header_ = header;
  handle->table_ = std::make_unique<MemTable>(region_->index(pool_slot), records, header.capacity,
                                              header.generation, header.base_lsn,
                                              segment == nullptr ? nullptr : &segment->map());
  handle->segment_ = std::move(segment);
  handle->pool_slot_ = pool_slot;
  handle->pool_ = shared_from_this();  // last: from here on the destructor returns the slot
  return handle;
}

log::SegmentHeader MemTablePool::HeaderFor(uint64_t number, uint64_t base_lsn) const {
  log::SegmentHeader header;
  header.generation = NewGeneration();
  header.id = number;
  header.base_lsn = base_lsn;
  header.capacity = config_.options.memtable_bytes;
  header.boot_id = config_.fs->BootId();
  header.owner_epoch = config_.owner_epoch;
  return header;  // with no place in the chain: made, but not in use
}

std::string MemTablePool::PathOf(uint64_t number) const {
  return config_.directory + "/" + LogSegmentName(static_cast<int>(number));
}

// A file of the name that this opener neither found nor made is a stray one, or there for nothing
// any more, if the directory is not another's.
Result<std::unique_ptr<log::Segment>> MemTablePool::CreateSegment(const log::SegmentHeader& header,
                                                                  log::Segment::Origin origin) {
  const std::string path = PathOf(header.id);
  QUIRE_RETURN_IF_ERROR(config_.check_held());
  auto made = log::Segment::Create(*config_.fs, path, header, origin, true);
  if (made.status().code() != Code::kInvalidArgument) return made;
  QUIRE_RETURN_IF_ERROR(config_.check_held());
  QUIRE_RETURN_IF_ERROR(config_.fs->Unlink(path));
  return log::Segment::Create(*config_.fs, path, header, origin, true);
}

Result<std::shared_ptr<PooledMemTable>> MemTablePool::PrepareOutside() {
  std::shared_ptr<PooledMemTable> handle(new PooledMemTable);
  const uint64_t number = TakeOutsideNumber();
  if (number == 0) return std::shared_ptr<PooledMemTable>();
  handle->header_.id = number;
  handle->flushed_.store(true, std::memory_order_relaxed);  // it holds nothing yet
  handle->pool_ = shared_from_this();  // from here on the destructor gives the number back
  handle->header_ = HeaderFor(number, TakeBaseLsn());
  const uint64_t bytes = config_.options.memtable_bytes;
  char* records = nullptr;
  if (region_->records_inside()) {
    QUIRE_ASSIGN_OR_RETURN(handle->own_records_, io::AllocatePages(bytes));
    records = handle->own_records_.data();
  } else {
    QUIRE_ASSIGN_OR_RETURN(handle->segment_,
                           CreateSegment(handle->header_, log::Segment::Origin::kNew));
    records = handle->segment_->data();
  }
  QUIRE_ASSIGN_OR_RETURN(handle->own_index_, io::AllocatePages(IndexBytes(bytes)));
  std::memset(handle->own_index_.data(), 0, IndexBytes(bytes));  // writers find its pages in memory
  handle->table_ = std::make_unique<MemTable>(
      handle->own_index_.data(), records, bytes, handle->header_.generation,
      handle->header_.base_lsn, handle->segment_ == nullptr ? nullptr : &handle->segment_->map());
  return handle;
}

size_t MemTablePool::live_max() const { return slots_.size() + OutsideMax(slots_.size()); }

bool MemTablePool::MayPin() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return outside_.size() - stray_.size() < kPinnedOutsideMax;
}

// 0: none is left.
uint64_t MemTablePool::TakeOutsideNumber() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (outside_.size() >= OutsideMax(slots_.size())) return 0;
  uint64_t number = slots_.size();
  while (outside_.contains(number)) ++number;
  outside_.insert(number);
  return number;
}

// A file whose records are in no table stays: the next opener replays it.
void MemTablePool::ReturnOutside(uint64_t number, bool needed) {
  std::function<void()> freed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!needed) stray_.push_back(number);
    freed = freed_;
  }
  if (freed) freed();
}

bool MemTablePool::HasStray() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !stray_.empty();
}

Status MemTablePool::RemoveStray() {
  Status status;
  while (true) {
    uint64_t number = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stray_.empty()) return status;
      number = stray_.back();
      stray_.pop_back();
    }
    const base::ScopeExit removal_over([&] {
      const std::lock_guard<std::mutex> lock(mutex_);
      outside_.erase(number);
    });
    const Status removed = config_.fs->Unlink(PathOf(number));
    if (removed.code() != Code::kNotFound && status.ok()) status = removed;
  }
}

Status MemTablePool::FreeFiles(uint64_t kept) {
  Status status;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.taken || !slot.exists || region_->records_inside()) continue;
    slot.segment.reset();
    Status freed;
    if (i == kept) {
      QUIRE_ASSIGN_OR_RETURN(auto file, config_.fs->Open(PathOf(i), io::FileOpenMode::kReadWrite));
      const uint64_t records = config_.options.memtable_bytes - log::kSegmentHeaderBytes;
      freed = file->Deallocate(log::kSegmentHeaderBytes, records);
    } else {
      freed = config_.fs->Unlink(PathOf(i));
      slot.exists = false;
    }
    if (freed.code() != Code::kNotFound && status.ok()) status = freed;
  }
  return status;
}

uint64_t MemTablePool::TakeBaseLsn() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t base_lsn = next_lsn_;
  next_lsn_ += config_.options.memtable_bytes;
  return base_lsn;
}

Result<std::shared_ptr<PooledMemTable>> MemTablePool::Adopt(std::unique_ptr<log::Segment> segment) {
  std::shared_ptr<PooledMemTable> handle(new PooledMemTable);
  const log::SegmentHeader& header = segment->header();
  handle->header_ = header;
  handle->adopted_ = true;
  char* index = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool fits = !region_->records_inside() && header.id < slots_.size() &&
                      header.capacity == config_.options.memtable_bytes &&
                      !slots_[header.id].taken && HasMemory(static_cast<int>(header.id));
    if (fits) {
      slots_[header.id].taken = true;
      slots_[header.id].exists = true;
      handle->pool_slot_ = static_cast<int>(header.id);
      handle->pool_ = shared_from_this();
      index = region_->index(handle->pool_slot_);
    }
  }
  if (index == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(handle->own_index_, io::AllocatePages(IndexBytes(header.capacity)));
    index = handle->own_index_.data();
  }
  handle->table_ = std::make_unique<MemTable>(index, segment->data(), header.capacity,
                                              header.generation, header.base_lsn, &segment->map());
  handle->segment_ = std::move(segment);
  return handle;
}

int MemTablePool::TakeFreeSlot(std::unique_ptr<log::Segment>* segment, uint64_t* base_lsn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int best = -1;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].taken) continue;
    // A slot that was used already has its file, and its pages in memory.
    if (best < 0 || (slots_[i].exists && !slots_[static_cast<size_t>(best)].exists)) {
      best = static_cast<int>(i);
    }
  }
  if (best < 0) return best;
  Slot& slot = slots_[static_cast<size_t>(best)];
  slot.taken = true;
  slot.exists = true;
  *segment = std::move(slot.segment);
  *base_lsn = next_lsn_;
  next_lsn_ += config_.options.memtable_bytes;
  return best;
}

void MemTablePool::Return(int pool_slot, std::unique_ptr<log::Segment> segment, bool exists) {
  base::SyncPoint("lsm.recycle.before");
  std::function<void()> freed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[static_cast<size_t>(pool_slot)];
    QUIRE_CHECK(slot.taken);
    slot.taken = false;
    slot.exists = exists || region_->records_inside();
    slot.segment = std::move(segment);
    freed = freed_;
  }
  if (freed) freed();
}

void MemTablePool::RaiseNextLsn(uint64_t lsn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (next_lsn_ < lsn) next_lsn_ = lsn;
}

bool MemTablePool::HasFreeSlot() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Slot& slot : slots_) {
    if (!slot.taken) return true;
  }
  return false;
}

void MemTablePool::OnFree(std::function<void()> freed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  freed_ = std::move(freed);
}

uint64_t MemTablePool::segment_file_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.exists) bytes += config_.options.memtable_bytes;
  }
  return bytes + outside_.size() * config_.options.memtable_bytes;
}

}  // namespace quire::lsm
