#include "lsm/memtable/shared_region.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/core/check.h"
#include "base/threads/sequence_lock.h"
#include "io/files/machine.h"
#include "lsm/memtable/memtable.h"

namespace quire::lsm {
namespace {

constexpr uint64_t kRegionMagic = 0x414E455241495551;  // "QUIARENA"
constexpr uint64_t kLayoutVersion = 3;
constexpr uint64_t kBoardBytes = 4096;
// A publication takes a microsecond: so many reads in a row. If the owner lost its processor, it
// takes some time slices: so many pauses.
constexpr int kReadLooks = 10'000;
constexpr int kReadPauses = 100;
constexpr uint64_t kReadPauseNs = 200'000;
// Beside the flushing queue: the active MemTable, the next one, and two that iterators may pin.
constexpr int kSlotsBesideQueue = 4;
constexpr size_t kFixedWords = 4;
constexpr size_t kWordsPerLive = 2;

uint64_t RoundUpToPages(uint64_t bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

}  // namespace

// The layout, written once, and the state, under a sequence lock.
struct SharedRegion::Board {
  uint64_t magic;
  uint64_t layout_version;
  uint64_t pool_slots;
  uint64_t segment_bytes;
  uint64_t records_inside;
  std::atomic<uint64_t> closed;
  alignas(64) base::SequenceLock<uint64_t> lock;
  std::atomic<uint64_t> words[kFixedWords + kWordsPerLive * kPoolSlotsMax];
};

int PoolSlots(const StorageOptions& options) {
  return std::min(options.flushing_queue_length + kSlotsBesideQueue, kPoolSlotsMax);
}

std::string LogSegmentName(int pool_slot) {
  return "log-" + std::to_string(pool_slot) + ".seg";
}

uint64_t SharedRegion::BytesFor(int pool_slots, uint64_t segment_bytes, bool records_inside) {
  static_assert(sizeof(Board) <= kBoardBytes);
  uint64_t bytes_per_slot = IndexBytes(segment_bytes);
  if (records_inside) bytes_per_slot += RoundUpToPages(segment_bytes);
  return kBoardBytes + static_cast<uint64_t>(pool_slots) * bytes_per_slot;
}

SharedRegion::Board& SharedRegion::board() const {
  return *reinterpret_cast<Board*>(memory_->data());
}

Result<std::unique_ptr<SharedRegion>> SharedRegion::Create(const StorageOptions& options,
                                                           bool shared) {
  std::unique_ptr<SharedRegion> region(new SharedRegion);
  region->pool_slots_ = PoolSlots(options);
  region->segment_bytes_ = options.memtable_bytes;
  region->records_inside_ = options.wal == WalMode::kOff;
  region->set_aside_.resize(static_cast<size_t>(region->pool_slots_));
  const uint64_t bytes =
      BytesFor(region->pool_slots_, region->segment_bytes_, region->records_inside_);
  QUIRE_ASSIGN_OR_RETURN(region->memory_, shared ? io::SharedMemory::Create(bytes, kBoardBytes)
                                                 : io::SharedMemory::CreatePrivate(bytes));
  Board* const board = new (region->memory_->data()) Board();
  board->layout_version = kLayoutVersion;
  board->pool_slots = static_cast<uint64_t>(region->pool_slots_);
  board->segment_bytes = region->segment_bytes_;
  board->records_inside = region->records_inside_ ? 1 : 0;
  board->magic = kRegionMagic;
  return region;
}

Result<std::unique_ptr<SharedRegion>> SharedRegion::Attach(const std::string& name,
                                                           uint64_t bytes) {
  if (bytes < kBoardBytes) {
    return Status(Code::kInvalidArgument, "shared memory " + name + " cannot be a region: it has " +
                                              std::to_string(bytes) + " bytes");
  }
  std::unique_ptr<SharedRegion> region(new SharedRegion);
  QUIRE_ASSIGN_OR_RETURN(region->memory_,
                         io::SharedMemory::Open(name, bytes, io::SharedMemory::Access::kRead));
  const Board& board = region->board();
  const bool plausible = board.magic == kRegionMagic && board.layout_version == kLayoutVersion &&
                         board.pool_slots >= 1 && board.pool_slots <= kPoolSlotsMax &&
                         board.segment_bytes <= bytes * kPoolSlotsMax;
  if (plausible) {
    region->pool_slots_ = static_cast<int>(board.pool_slots);
    region->segment_bytes_ = board.segment_bytes;
    region->records_inside_ = board.records_inside != 0;
  }
  if (!plausible ||
      BytesFor(region->pool_slots_, region->segment_bytes_, region->records_inside_) > bytes) {
    return Status(Code::kInvalidArgument,
                  "shared memory " + name + " is no region of this version of Quire");
  }
  return region;
}

Status SharedRegion::SetAside(int pool_slot) {
  char& done = set_aside_[static_cast<size_t>(pool_slot)];
  if (done != 0) return Status();
  const auto place = [this](const char* at) { return static_cast<uint64_t>(at - memory_->data()); };
  QUIRE_RETURN_IF_ERROR(memory_->SetAside(place(index(pool_slot)), IndexBytes(segment_bytes_)));
  if (records_inside_) {
    QUIRE_RETURN_IF_ERROR(
        memory_->SetAside(place(records(pool_slot)), RoundUpToPages(segment_bytes_)));
  }
  done = 1;
  return Status();
}

char* SharedRegion::index(int pool_slot) const {
  QUIRE_CHECK(pool_slot >= 0 && pool_slot < pool_slots_);
  return memory_->data() + kBoardBytes +
         static_cast<uint64_t>(pool_slot) * IndexBytes(segment_bytes_);
}

char* SharedRegion::records(int pool_slot) const {
  QUIRE_CHECK(pool_slot >= 0 && pool_slot < pool_slots_);
  if (!records_inside_) return nullptr;
  const uint64_t first =
      kBoardBytes + static_cast<uint64_t>(pool_slots_) * IndexBytes(segment_bytes_);
  return memory_->data() + first +
         static_cast<uint64_t>(pool_slot) * RoundUpToPages(segment_bytes_);
}

void SharedRegion::Publish(const BoardState& state) {
  QUIRE_CHECK(state.live_count >= 0 && state.live_count <= kPoolSlotsMax);
  Board& to = board();
  to.lock.BeginWrite();
  to.words[0].store(state.edition, std::memory_order_release);
  to.words[1].store(state.newest_ssid, std::memory_order_release);
  to.words[2].store(static_cast<uint64_t>(state.live_count), std::memory_order_release);
  to.words[3].store(state.has_base ? 1 : 0, std::memory_order_release);
  size_t at = kFixedWords;
  for (int i = 0; i < state.live_count; ++i) {
    to.words[at++].store(state.live[i].pool_slot, std::memory_order_release);
    to.words[at++].store(state.live[i].generation, std::memory_order_release);
  }
  to.lock.EndWrite();
}

bool SharedRegion::Read(BoardState* state, uint64_t* sequence) const {
  for (int pauses = 0; !TryRead(state, sequence); ++pauses) {
    if (pauses == kReadPauses || marked_closed()) return false;
    io::RealClock().SleepNs(kReadPauseNs);
  }
  return true;
}

bool SharedRegion::TryRead(BoardState* state, uint64_t* sequence) const {
  const Board& from = board();
  for (int looks = 0; looks < kReadLooks; ++looks) {
    const std::optional<uint64_t> before = from.lock.BeginRead();
    if (!before.has_value()) continue;
    state->edition = from.words[0].load(std::memory_order_acquire);
    state->newest_ssid = from.words[1].load(std::memory_order_acquire);
    const uint64_t live_count = from.words[2].load(std::memory_order_acquire);
    state->has_base = from.words[3].load(std::memory_order_acquire) != 0;
    if (live_count > kPoolSlotsMax) continue;
    state->live_count = static_cast<int>(live_count);
    size_t at = kFixedWords;
    bool plausible = true;
    for (int i = 0; i < state->live_count; ++i) {
      const uint64_t slot = from.words[at++].load(std::memory_order_acquire);
      state->live[i].generation = from.words[at++].load(std::memory_order_acquire);
      state->live[i].pool_slot = static_cast<uint32_t>(slot);
      plausible = plausible && (slot < static_cast<uint64_t>(pool_slots_) || slot == kNotShared);
    }
    if (!plausible || !from.lock.EndRead(*before)) continue;
    if (sequence != nullptr) *sequence = *before;
    return true;
  }
  return false;
}

bool SharedRegion::Unchanged(uint64_t sequence) const {
  return board().lock.Unchanged(sequence);
}

// Readers find the board changed, and then closed.
void SharedRegion::MarkClosed() {
  board().closed.store(1, std::memory_order_release);
  board().lock.Close();
}

bool SharedRegion::marked_closed() const {
  return board().closed.load(std::memory_order_acquire) != 0;
}

}  // namespace quire::lsm
