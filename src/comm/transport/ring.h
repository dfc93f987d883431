/// A ring of bytes in shared memory from one writer to one reader. Records lie in one piece, so
/// that they are written and read in place: where one does not fit before the end, the rest is
/// skipped.
///
/// Layer      comm
/// Encoding   docs/format/frame.md
/// Threads    one writer, one reader, in different threads or processes
/// Invariants what the other side wrote is read once, and checked before it is used: a damaged ring
/// is an error, never a wild access
#pragma once

#include <atomic>
#include <cstdint>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::comm {

/// The shared positions; zero at first. Both only grow; a position's place in the ring is its rest
/// modulo the size.
struct RingControl {
  alignas(64) std::atomic<uint64_t> tail;         ///< the writer's
  alignas(64) std::atomic<uint64_t> head;         ///< the reader's
  alignas(64) std::atomic<uint32_t> room_wanted;  ///< set by the writer that found no room
};

/// In front of each record; part of what a record takes.
constexpr uint64_t kRingRecordHeaderBytes = 8;

class RingWriter {
 public:
  /// `size` is a power of two.
  RingWriter(RingControl* control, char* data, uint64_t size)
      : control_(control), data_(data), size_(size) {}
  /// Place for a record of `record_bytes`, at most a quarter of the ring with its header; null: no
  /// room now; the reader will signal when there is. kCorruption, from then on: the reader's
  /// position is impossible.
  Result<char*> Reserve(uint64_t record_bytes);
  /// Gives the reader the record last reserved.
  void Publish();

 private:
  Result<char*> TryReserve(uint64_t record_bytes);
  bool RefreshHead();

  RingControl* control_;
  char* data_;
  uint64_t size_;
  uint64_t tail_ = 0;
  uint64_t reserved_end_ = 0;
  uint64_t head_seen_ = 0;
  bool damaged_ = false;
};

class RingReader {
 public:
  RingReader(RingControl* control, const char* data, uint64_t size)
      : control_(control), data_(data), size_(size) {}
  /// The oldest record, until Pop; data() is null if there is none. Its bytes may change under the
  /// reader's eyes if its writer is damaged: copy them before they are looked at. kCorruption: the
  /// ring is damaged.
  Result<Slice> Front();
  /// Removes the record that Front gave. true: the writer waits for room, and there is enough now
  /// to wake it for.
  bool Pop();

 private:
  RingControl* control_;
  const char* data_;
  uint64_t size_;
  uint64_t head_ = 0;
  uint64_t front_end_ = 0;
  uint64_t tail_seen_ = 0;
};

}  // namespace quire::comm
