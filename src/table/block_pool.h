/// Memory of blocks that left the block cache, kept for new ones. A full cache frees and allocates
/// as much memory per miss as it reads, and an allocator's bookkeeping is spread all over that
/// memory.
///
/// Layer      table
/// Threads    any
/// Invariants the pieces kept take bytes_max at most
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace quire::table {

class BlockPool {
 public:
  explicit BlockPool(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Returns how many bytes are allocated for `bytes`: a little more, so that blocks of similar
  /// size fit each other's pieces.
  static size_t PieceBytes(size_t bytes);
  /// Allocates a piece of `bytes` (a PieceBytes), on a cache line of its own; null: no memory.
  static void* Allocate(size_t bytes);
  static void Free(void* piece);

  /// Returns a kept piece of `*bytes` (a PieceBytes) or slightly more, and sets *bytes to its size;
  /// null: none is kept.
  void* Take(size_t* bytes);
  /// Keeps a piece of `bytes`, or frees it.
  void Give(void* piece, size_t bytes);
  /// Returns the bytes of the pieces kept.
  uint64_t bytes() const;
  uint64_t bytes_max() const { return bytes_max_; }

 private:
  static constexpr size_t kStepBytes = 128;
  static constexpr size_t kClassCount = 64;
  static constexpr size_t kClassesAbove = 4;  ///< larger classes that may replace an empty one

  struct Piece {
    Piece* next;
  };

  bool Keep(void* piece, size_t bytes);

  const uint64_t bytes_max_;
  mutable std::mutex mutex_;
  uint64_t bytes_ = 0;                           ///< guarded by mutex_
  uint64_t filled_ = 0;                          ///< a bit per class with pieces; guarded by mutex_
  std::array<Piece*, kClassCount> pieces_ = {};  ///< of n + 1 steps each; guarded by mutex_
};

}  // namespace quire::table
