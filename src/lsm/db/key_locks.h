/// Locks on keys, for read-modify-write: a fixed number of words. A key's hash selects its word.
///
/// Layer      lsm
/// Source     Drepper, Futexes Are Tricky: the three-state mutex
/// Threads    any. Locks are taken in rising order of their number, under no other lock and in no
///            EpochGuard: an update holds one while its function runs.
/// Invariants until the first update plain writes take no lock at all.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>

namespace quire::lsm {

class KeyLocks {
 public:
  static constexpr size_t kCount = 1024;
  using Set = std::bitset<kCount>;

  /// Makes plain writes take locks, too, from now on. The first call waits until writes that took
  /// none are over: the caller holds no EpochGuard.
  void Enable();
  /// Returns whether plain writes have to take locks. Called before the EpochGuard that covers the
  /// write, because the wait for a lock may be long, and again inside it.
  bool enabled() const { return enabled_.load(std::memory_order_acquire); }

  static size_t IndexOf(uint64_t hash) { return (hash >> 20) % kCount; }
  void Lock(size_t index) {
    uint32_t free = kFree;
    if (!words_[index].compare_exchange_strong(free, kHeld, std::memory_order_acquire)) {
      LockSlowly(index);
    }
  }
  void Unlock(size_t index) {
    if (words_[index].exchange(kFree, std::memory_order_release) == kWaitedFor) {
      words_[index].notify_one();
    }
  }
  void LockAll(const Set& set);
  void UnlockAll(const Set& set);

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kWaitedFor = 2;
  void LockSlowly(size_t index);

  std::array<std::atomic<uint32_t>, kCount> words_{};
  std::atomic<bool> enabled_{false};
  std::atomic<bool> settled_{false};
  std::mutex enable_mutex_;
};

/// Holds one lock, or none, while it lives.
class KeyLock {
 public:
  /// Takes the lock number `index` (KeyLocks::IndexOf).
  KeyLock(KeyLocks& locks, size_t index) : locks_(&locks), index_(index) { locks.Lock(index); }
  KeyLock() = default;
  KeyLock(KeyLock&& other) noexcept : locks_(other.locks_), index_(other.index_) {
    other.locks_ = nullptr;
  }
  KeyLock& operator=(KeyLock&&) = delete;
  ~KeyLock() {
    if (locks_ != nullptr) locks_->Unlock(index_);
  }

 private:
  KeyLocks* locks_ = nullptr;
  size_t index_ = 0;
};

/// Holds a set of locks while it lives.
class KeyLockSet {
 public:
  KeyLockSet(KeyLocks& locks, const KeyLocks::Set& set) : locks_(locks), set_(set) {
    locks_.LockAll(set_);
  }
  ~KeyLockSet() { locks_.UnlockAll(set_); }
  KeyLockSet(const KeyLockSet&) = delete;
  KeyLockSet& operator=(const KeyLockSet&) = delete;

 private:
  KeyLocks& locks_;
  const KeyLocks::Set set_;
};

}  // namespace quire::lsm
