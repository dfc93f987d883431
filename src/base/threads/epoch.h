/// Epoch-based reclamation: readers of shared pointers take no lock and touch no shared counter;
/// objects that writers unlink are freed once no reader can still see them.
///
/// Layer      base
/// Threads    all functions from any thread. Guards nest. A guard must not be held across a wait.
/// Invariant  an object retired at epoch e is freed only when every guard entered at or before e
///            has left.
#pragma once

#include <cstdint>
#include <functional>
#include <list>

namespace quire::base {

/// A guard: while one exists, nothing that was reachable at its construction is freed. Cost: about
/// 3 ns.
class EpochGuard {
 public:
  EpochGuard();
  ~EpochGuard();
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;
};

struct EpochRetired {
  uint64_t epoch = 0;  ///< set when it is retired
  std::function<void()> reclaim;
};
/// Returns a list of one element, for EpochRetire. Call it before the object is unlinked: after
/// that nothing may fail, or the object would never be freed.
std::list<EpochRetired> EpochPrepare(std::function<void()> reclaim);
/// Runs `reclaim` of each element once no guard can see the objects: in some later Retire, Collect
/// or Synchronize call, on its thread, which may hold guards and locks of its own. Reclaimers may
/// retire more. They throw nothing.
void EpochRetire(std::list<EpochRetired> objects) noexcept;
/// Frees what can be freed now. Cost: one scan of the threads' slots.
void EpochCollect();
/// Waits until every guard that is held now has left, then frees: at return, the reclaimers of all
/// objects retired before the call have run, on this thread or another. The caller must hold no
/// guard and not be a reclaimer.
void EpochSynchronize();
/// Returns whether this thread may call EpochSynchronize now.
bool EpochMaySynchronize();

}  // namespace quire::base
