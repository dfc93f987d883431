#include "base/epoch.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"

namespace quire::base {
namespace {

// Retired objects are looked at once in so many retirements.
constexpr uint64_t kRetiresPerCollect = 64;

// One thread's place: the epoch its outermost guard entered at, 0 while it holds none. Places are
// recycled when threads end and never freed, so that scanning them needs no lock.
struct alignas(128) Slot {
  std::atomic<uint64_t> epoch{0};
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
};

struct Retired {
  uint64_t epoch;
  std::function<void()> reclaim;
};

struct Domain {
  alignas(128) std::atomic<uint64_t> epoch{1};
  alignas(128) std::atomic<Slot*> slots{nullptr};
  std::mutex mutex;
  std::deque<Retired> retired;  // by rising epoch; guarded by mutex
};

Domain& TheDomain() {
  static Domain* const domain = new Domain;  // never destroyed: threads outlive static destructors
  return *domain;
}

struct ThreadState {
  Slot* slot;
  uint32_t depth;
  bool collecting;
};
constinit thread_local ThreadState thread_state = {nullptr, 0, false};

struct SlotReturner {
  ~SlotReturner() {
    Slot* slot = std::exchange(thread_state.slot, nullptr);
    if (slot != nullptr) slot->taken.store(false, std::memory_order_release);
  }
  bool used = false;
};
thread_local SlotReturner slot_returner;

Slot* TakeSlot() {
  Domain& domain = TheDomain();
  slot_returner.used = true;  // constructs it, so that its destructor runs at thread exit
  for (Slot* slot = domain.slots.load(std::memory_order_acquire); slot; slot = slot->next) {
    bool taken = false;
    if (slot->taken.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) return slot;
  }
  Slot* slot = new Slot;
  slot->next = domain.slots.load(std::memory_order_relaxed);
  while (!domain.slots.compare_exchange_weak(slot->next, slot, std::memory_order_acq_rel)) {
  }
  return slot;
}

// A guard publishes its epoch and then loads pointers; a collector has unlinked an object and then
// loads the published epochs. One of the two must see the other, so both need a full fence between
// their two steps. Guards are frequent and collections rare: where the kernel can run a fence on
// all running threads of the process (membarrier), the collector asks for that, and the guard only
// keeps the compiler from reordering. ThreadSanitizer must see the order in the code itself.
#if defined(__SANITIZE_THREAD__)
constexpr bool kCollectorMayFenceAll = false;
#else
constexpr bool kCollectorMayFenceAll = true;
#endif

long Membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

bool RegisterFenceAll() {
  return kCollectorMayFenceAll &&
         Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

// True once fencing all threads is registered; until then guards fence for themselves.
constinit std::atomic<bool> collector_fences_all{false};
[[maybe_unused]] const bool fence_all_set = [] {
  collector_fences_all.store(RegisterFenceAll(), std::memory_order_relaxed);
  return true;
}();

void PublishEpoch(std::atomic<uint64_t>& slot_epoch, uint64_t epoch) {
  if (collector_fences_all.load(std::memory_order_relaxed)) [[likely]] {
    slot_epoch.store(epoch, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return;
  }
  slot_epoch.exchange(epoch, std::memory_order_seq_cst);
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// The collector's half of the above.
void FenceAllThreads() {
  if (!collector_fences_all.load(std::memory_order_relaxed)) return;
  if (Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  // A forked child has to register for itself.
  QUIRE_CHECK(RegisterFenceAll() && Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
}

// The oldest epoch at which a guard that is held entered; the maximum where none is held.
uint64_t OldestEpoch(Domain& domain) {
  FenceAllThreads();
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (Slot* slot = domain.slots.load(std::memory_order_acquire); slot; slot = slot->next) {
    const uint64_t epoch = slot->epoch.load(std::memory_order_seq_cst);
    if (epoch != 0 && epoch < oldest) oldest = epoch;
  }
  return oldest;
}

}  // namespace

EpochGuard::EpochGuard() {
  ThreadState& state = thread_state;
  if (state.depth++ != 0) return;
  if (state.slot == nullptr) [[unlikely]] state.slot = TakeSlot();
  PublishEpoch(state.slot->epoch, TheDomain().epoch.load(std::memory_order_acquire));
}

EpochGuard::~EpochGuard() {
  ThreadState& state = thread_state;
  if (--state.depth == 0) state.slot->epoch.store(0, std::memory_order_release);
}

void EpochRetire(std::function<void()> reclaim) {
  Domain& domain = TheDomain();
  uint64_t epoch = 0;
  {
    const std::lock_guard<std::mutex> lock(domain.mutex);
    // A guard that enters after this sees the next epoch, and with it that the object is unlinked.
    epoch = domain.epoch.fetch_add(1, std::memory_order_seq_cst);
    domain.retired.push_back({epoch, std::move(reclaim)});
  }
  if (epoch % kRetiresPerCollect == 0) EpochCollect();
}

void EpochCollect() {
  if (thread_state.collecting) return;  // a reclaimer that retires: its objects wait for the next
  Domain& domain = TheDomain();
  std::deque<Retired> free;
  {
    const std::lock_guard<std::mutex> lock(domain.mutex);
    if (domain.retired.empty()) return;
    const uint64_t oldest = OldestEpoch(domain);
    while (!domain.retired.empty() && domain.retired.front().epoch < oldest) {
      free.push_back(std::move(domain.retired.front()));
      domain.retired.pop_front();
    }
  }
  thread_state.collecting = true;
  for (Retired& object : free) object.reclaim();
  thread_state.collecting = false;
}

void EpochSynchronize() {
  QUIRE_CHECK(thread_state.depth == 0);
  Domain& domain = TheDomain();
  const uint64_t epoch = domain.epoch.fetch_add(1, std::memory_order_seq_cst);
  // Guards are never held across a wait, so this is short; yielding lets a preempted holder run.
  while (OldestEpoch(domain) <= epoch) std::this_thread::yield();
  EpochCollect();
}

}  // namespace quire::base
