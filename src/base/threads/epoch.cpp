#include "base/threads/epoch.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "base/core/check.h"
#include "base/core/sanitizer.h"
#include "base/threads/sync_point.h"

namespace quire::base {
namespace {

// Retired objects are checked once in this many retirements.
constexpr uint64_t kRetiresPerCollect = 64;

// One thread's place: the epoch its outermost guard entered at, 0 while it holds none. Places are
// recycled when threads end and never freed, so that scanning them needs no lock.
struct alignas(128) Slot {
  std::atomic<uint64_t> epoch{0};
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
};

// Guards touch these two alone, without the initialization check of a function's static object.
alignas(128) constinit std::atomic<uint64_t> global_epoch{1};
alignas(128) constinit std::atomic<Slot*> all_slots{nullptr};

struct RetireList {
  std::mutex mutex;
  std::list<EpochRetired> objects;  // in the order of their epochs
  std::condition_variable idle;
  int collections = 0;  // that have taken objects out and not yet run all of their reclaimers
};

RetireList& TheRetireList() {
  static RetireList* const list = new RetireList;  // never destroyed: threads outlive statics
  return *list;
}

struct ThreadState {
  Slot* slot;
  uint32_t depth;
  bool collecting;
};
// Initial-exec: in a shared library the default model costs a call per access.
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadState thread_state = {};

struct SlotReturner {
  ~SlotReturner() {
    Slot* slot = std::exchange(thread_state.slot, nullptr);
    if (slot != nullptr) slot->taken.store(false, std::memory_order_release);
  }
  bool used = false;
};
thread_local SlotReturner slot_returner;

Slot* TakeSlot() {
  slot_returner.used = true;  // constructs it, so that its destructor runs at thread exit
  for (Slot* slot = all_slots.load(std::memory_order_acquire); slot; slot = slot->next) {
    bool taken = false;
    if (slot->taken.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) return slot;
  }
  Slot* slot = new Slot;
  slot->next = all_slots.load(std::memory_order_relaxed);
  while (!all_slots.compare_exchange_weak(slot->next, slot, std::memory_order_acq_rel)) {
  }
  return slot;
}

// A guard publishes its epoch and then loads pointers; a collector has unlinked an object and then
// loads the published epochs. One of the two must see the other, so both need a full fence between
// their two steps. Guards are frequent and collections rare: where the kernel can run a fence on
// all running threads of the process (membarrier), the collector asks for that, and the guard only
// keeps the compiler from reordering. ThreadSanitizer must see the order in the code itself.
long Membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

bool RegisterFenceAll() {
  return !QUIRE_THREAD_SANITIZER && Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

// True once fencing all threads is registered; until then guards fence for themselves.
constinit std::atomic<bool> collector_fences_all{false};
[[maybe_unused]] const bool fence_all_set = [] {
  collector_fences_all.store(RegisterFenceAll(), std::memory_order_relaxed);
  return true;
}();

// A full fence after an exchange. On x86 the exchange is one already, but not on all processors.
void FenceThisThread() {
#if !QUIRE_THREAD_SANITIZER && !defined(__x86_64__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void PublishEpoch(std::atomic<uint64_t>& slot_epoch, uint64_t epoch) {
  if (collector_fences_all.load(std::memory_order_relaxed)) [[likely]] {
    slot_epoch.store(epoch, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return;
  }
  slot_epoch.exchange(epoch, std::memory_order_seq_cst);
  FenceThisThread();
}

// The collector's counterpart of PublishEpoch.
void FenceAllThreads() {
  if (!collector_fences_all.load(std::memory_order_relaxed)) return;
  if (Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  // A forked child has to register for itself.
  QUIRE_CHECK(RegisterFenceAll() && Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0);
}

// Returns the oldest epoch at which a held guard entered; the maximum if none is held.
uint64_t OldestEpoch() {
  FenceAllThreads();
  uint64_t oldest = std::numeric_limits<uint64_t>::max();
  for (Slot* slot = all_slots.load(std::memory_order_acquire); slot; slot = slot->next) {
    const uint64_t epoch = slot->epoch.load(std::memory_order_seq_cst);
    if (epoch != 0 && epoch < oldest) oldest = epoch;
  }
  return oldest;
}

bool AnyRetiredBefore(RetireList& list, uint64_t epoch) {
  const std::lock_guard<std::mutex> lock(list.mutex);
  return !list.objects.empty() && list.objects.front().epoch < epoch;
}

}  // namespace

EpochGuard::EpochGuard() {
  ThreadState& state = thread_state;
  if (state.depth != 0) {
    ++state.depth;
    return;
  }
  const uint64_t epoch = global_epoch.load(std::memory_order_acquire);
  if (state.slot == nullptr) [[unlikely]] {
    state.slot = TakeSlot();  // may throw: there is no guard then, and depth is what it was
    SyncPoint("base.epoch.first");
  }
  state.depth = 1;
  PublishEpoch(state.slot->epoch, epoch);
}

EpochGuard::~EpochGuard() {
  ThreadState& state = thread_state;
  if (--state.depth == 0) state.slot->epoch.store(0, std::memory_order_release);
}

std::list<EpochRetired> EpochPrepare(std::function<void()> reclaim) {
  TheRetireList();  // its first use takes memory
  std::list<EpochRetired> one;
  one.push_back({0, std::move(reclaim)});
  return one;
}

void EpochRetire(std::list<EpochRetired> objects) noexcept {
  if (objects.empty()) return;
  RetireList& list = TheRetireList();
  uint64_t epoch = 0;
  {
    const std::lock_guard<std::mutex> lock(list.mutex);
    // A guard that enters after this sees the next epoch, and so also that the object is unlinked.
    epoch = global_epoch.fetch_add(1, std::memory_order_seq_cst);
    for (EpochRetired& object : objects) object.epoch = epoch;
    list.objects.splice(list.objects.end(), objects);
  }
  if (epoch % kRetiresPerCollect == 0) EpochCollect();
}

void EpochCollect() {
  if (thread_state.collecting) return;  // a reclaimer that retires: its objects wait for the next
  RetireList& list = TheRetireList();
  std::list<EpochRetired> free;
  {
    const std::lock_guard<std::mutex> lock(list.mutex);
    if (list.objects.empty()) return;
    const uint64_t oldest = OldestEpoch();
    auto end = list.objects.begin();
    while (end != list.objects.end() && end->epoch < oldest) ++end;
    free.splice(free.end(), list.objects, list.objects.begin(), end);
    if (free.empty()) return;
    ++list.collections;
  }
  thread_state.collecting = true;
  for (EpochRetired& object : free) object.reclaim();
  free.clear();  // destroys what the reclaimers captured before EpochSynchronize() may return
  thread_state.collecting = false;
  const std::lock_guard<std::mutex> lock(list.mutex);
  if (--list.collections == 0) list.idle.notify_all();
}

bool EpochMaySynchronize() {
  return thread_state.depth == 0 && !thread_state.collecting;
}

void EpochSynchronize() {
  QUIRE_CHECK(EpochMaySynchronize());
  const uint64_t epoch = global_epoch.fetch_add(1, std::memory_order_seq_cst);
  RetireList& list = TheRetireList();
  do {
    // Guards are never held across a wait, so this is short; yielding lets a preempted holder run.
    while (OldestEpoch() <= epoch) std::this_thread::yield();
    SyncPoint("base.epoch.waited");
    EpochCollect();
    // A guard that read the epoch before this call, and published it after the loop above, has seen
    // nothing that is retired. But objects are kept until it leaves.
  } while (AnyRetiredBefore(list, epoch));
  std::unique_lock<std::mutex> lock(list.mutex);
  list.idle.wait(lock, [&list] { return list.collections == 0; });
}

}  // namespace quire::base
