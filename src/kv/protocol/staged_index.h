/// Finds staged records by key: a hash table of positions in one owner's stream of staged records.
/// Entries of acknowledged records are not removed: a position below the first live one counts as
/// free.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.6 (a get looks into the remote MemTables first, the newest
///            record wins)
/// Threads    one at a time (the queue's lock)
/// Invariants of the live entries of a key, the first on its probe path is the newest: an entry
///            goes to the first slot that is free, dead or the key's own
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::kv {

/// The first position of a stream: position 0 marks an empty slot.
constexpr uint64_t kStreamBegin = 8;

class StagedIndex {
 public:
  /// Returns the position of the newest live record for which `is_key(position)` is true; 0: none.
  template <typename IsKey>
  uint64_t Find(uint64_t hash, uint64_t first_live, const IsKey& is_key) const {
    if (slots_.empty()) return 0;
    for (size_t i = Home(hash); slots_[i] != 0; i = (i + 1) & mask_) {
      if (Holds(slots_[i], hash, first_live, is_key)) return PositionOf(slots_[i]);
    }
    return 0;
  }

  /// Makes `position` the newest record of its key. Only if not Crowded().
  template <typename IsKey>
  void Set(uint64_t hash, uint64_t position, uint64_t first_live, const IsKey& is_key) {
    size_t i = Home(hash);
    while (slots_[i] != 0 && PositionOf(slots_[i]) >= first_live &&
           !Holds(slots_[i], hash, first_live, is_key)) {
      i = (i + 1) & mask_;
    }
    if (slots_[i] == 0) ++used_count_;
    slots_[i] = TagOf(hash) | position / 8;
  }

  /// Returns true if no further Set is allowed: call Reset, then Set live positions again.
  bool Crowded() const { return used_count_ * 4 >= slots_.size() * 3; }
  /// Empties the index, with room for at least as many further entries as `live_count`.
  void Reset(uint64_t live_count) {
    const uint64_t wanted = std::bit_ceil(std::max<uint64_t>(live_count * 3, kSlotsMin));
    if (wanted != slots_.size()) std::vector<uint64_t>().swap(slots_);
    slots_.assign(wanted, 0);
    mask_ = slots_.size() - 1;
    used_count_ = 0;
  }
  /// Empties the index and frees its memory. It is Crowded() then.
  void Clear() noexcept {
    std::vector<uint64_t>().swap(slots_);
    mask_ = 0;
    used_count_ = 0;
  }
  size_t bytes() const { return slots_.size() * sizeof(uint64_t); }

 private:
  // A slot: 16 bits of the hash, 48 bits of position / 8: two petabytes of stream.
  static constexpr int kTagShift = 48;
  static constexpr uint64_t kPositionMask = (uint64_t{1} << kTagShift) - 1;
  static constexpr uint64_t kSlotsMin = 256;

  static uint64_t TagOf(uint64_t hash) { return hash & ~kPositionMask; }
  static uint64_t PositionOf(uint64_t slot) { return (slot & kPositionMask) * 8; }
  // The high bits are the tag.
  size_t Home(uint64_t hash) const { return (hash >> 16) & mask_; }
  template <typename IsKey>
  static bool Holds(uint64_t slot, uint64_t hash, uint64_t first_live, const IsKey& is_key) {
    return TagOf(slot) == TagOf(hash) && PositionOf(slot) >= first_live && is_key(PositionOf(slot));
  }

  std::vector<uint64_t> slots_;
  size_t mask_ = 0;
  size_t used_count_ = 0;
};

}  // namespace quire::kv
