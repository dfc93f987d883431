#include "stream/index/gate.h"

#include <algorithm>
#include <cstring>

#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "io/ipc/shared_memory.h"

namespace quire::stream {
namespace {

constexpr uint64_t kGateMagic = 0x31455441474D5453;  // "STMGATE1"
constexpr uint64_t kPinsOffset = kPageBytes;
constexpr uint64_t kPinSlotBytes = 64;
constexpr uint64_t kGateBytes = AlignUp(kPinsOffset + kPinsMax * kPinSlotBytes, kPageBytes);
constexpr uint64_t kGateLookNs = 2'000'000;

}  // namespace

Result<std::unique_ptr<Gate>> Gate::Create(io::FileSystem& fs, const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                         fs.Open(path, io::FileOpenMode::kReadWriteCreate));
  // An existing gate is in use: readers may store into it at this moment.
  QUIRE_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size < kGateBytes) QUIRE_RETURN_IF_ERROR(file->Allocate(kGateBytes));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::MappedFile> map,
                         fs.Map(path, kGateBytes, io::MapMode::kReadWrite));
  QUIRE_RETURN_IF_ERROR(map->MakeReadable(0, kGateBytes));
  std::unique_ptr<Gate> gate(new Gate);
  gate->data_ = map->data();
  gate->map_ = std::move(map);
  gate->words().magic.store(kGateMagic, std::memory_order_release);
  base::SyncPoint("stream.gate.created");
  return gate;
}

Result<std::unique_ptr<Gate>> Gate::Open(io::FileSystem& fs, const std::string& path,
                                         io::MapMode mode) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::MappedFile> map, fs.Map(path, kGateBytes, mode));
  QUIRE_RETURN_IF_ERROR(map->MakeReadable(0, kGateBytes));
  std::unique_ptr<Gate> gate(new Gate);
  gate->writable_ = mode == io::MapMode::kReadWrite;
  gate->data_ = map->data();
  gate->map_ = std::move(map);
  if (gate->words().magic.load(std::memory_order_acquire) != kGateMagic) {
    return Status(Code::kCorruption, path + " is no gate of a stream");
  }
  base::SyncPoint("stream.gate.opened");
  return gate;
}

bool Gate::Describes(uint64_t log_id, uint64_t boot_id) const {
  return Holds(log_id) &&
         words().boot_id.load(std::memory_order_acquire) == boot_id;
}

void Gate::Assign(uint64_t log_id, uint64_t boot_id) {
  if (Describes(log_id, boot_id)) return;
  for (uint32_t i = 0; i < kPinsMax; ++i) slot(i).position.store(0, std::memory_order_relaxed);
  words().state.store(uint32_t(GateState::kNone), std::memory_order_relaxed);
  words().snapshot.store(0, std::memory_order_relaxed);
  words().head.store(0, std::memory_order_relaxed);
  words().tail.store(0, std::memory_order_relaxed);
  words().boot_id.store(boot_id, std::memory_order_relaxed);
  words().log_id.store(log_id, std::memory_order_release);
}

void Gate::SetIndexNumber(uint32_t number) {
  words().index_number.store(number, std::memory_order_release);
  Wake();
}

void Gate::Publish(uint64_t snapshot) {
  words().snapshot.store(snapshot, std::memory_order_release);
  Wake();
}

void Gate::SetState(GateState state) {
  base::SyncPoint("stream.gate.before_state");
  words().state.store(uint32_t(state), std::memory_order_release);
  Wake();
}

// A reader that is about to sleep announces this and checks again; a writer with news increments
// the counter and then checks for sleepers: so one of them sees the other. The counter is
// incremented once more, so that a reader that has announced itself but does not sleep yet does not
// go to sleep.
void Gate::Wake() {
  words().wake.fetch_add(1, std::memory_order_seq_cst);
  base::SyncPoint("stream.gate.before_wake");
  if (words().waiting.exchange(0, std::memory_order_seq_cst) == 0) return;
  words().wake.fetch_add(1, std::memory_order_seq_cst);
  io::FutexWake(&words().wake, INT32_MAX);
}

void Gate::Wait(uint64_t snapshot, GateState state, uint64_t timeout_ns) const {
  if (!writable_) {
    const uint64_t begin_ns = io::RealClock().NowNs();
    while (this->snapshot() <= snapshot && this->state() == state) {
      const uint64_t waited_ns = io::RealClock().NowNs() - begin_ns;
      if (waited_ns >= timeout_ns) return;
      io::RealClock().SleepNs(std::min(timeout_ns - waited_ns, kGateLookNs));
    }
    return;
  }
  const uint32_t seen = words().wake.load(std::memory_order_seq_cst);
  words().waiting.store(1, std::memory_order_seq_cst);
  if (this->snapshot() > snapshot || this->state() != state) return;
  base::SyncPoint("stream.gate.before_sleep");
  io::FutexWait(&words().wake, seen, timeout_ns);
}

Gate::PinSlot& Gate::slot(uint32_t which) const {
  return reinterpret_cast<PinSlot*>(data_ + kPinsOffset)[which];
}

Position Gate::pin(uint32_t which) const {
  return slot(which).position.load(std::memory_order_seq_cst) - 1;
}

uint32_t Gate::pin_slots() const {
  return std::min(words().pin_slots.load(std::memory_order_seq_cst), kPinsMax);
}

void Gate::Pin(uint32_t which, Position at) {
  uint32_t had = words().pin_slots.load(std::memory_order_seq_cst);
  while (had <= which && !words().pin_slots.compare_exchange_weak(had, which + 1)) {
  }
  slot(which).position.store(at + 1, std::memory_order_seq_cst);
}

}  // namespace quire::stream
