/// A ring of bytes in shared memory from one writer to one reader. Records are contiguous, so that
/// they are written and read in place: if one does not fit before the end, the rest is skipped.
///
/// Layer      comm
/// Encoding   docs/format/frame.md
/// Threads    one writer, one reader, in different threads or processes
/// Invariants values that the other side wrote are read once, and checked before use: a damaged
/// ring is an error, never an invalid memory access
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
  /// Returns memory for a record of `record_bytes`, at most a quarter of the ring with its header;
  /// null if there is no room now (the reader will signal when there is). kCorruption, from then
  /// on: the reader's position is impossible.
  Result<char*> Reserve(uint64_t record_bytes);
  /// Makes the record that was reserved last visible to the reader.
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
  /// Returns the oldest record, valid until Pop; data() is null if there is none. A faulty writer
  /// may change its bytes while they are read: copy them before checking them. kCorruption: the
  /// ring is damaged.
  Result<Slice> Front();
  /// Removes the record that Front returned. Returns true if the writer waits for room and there is
  /// now enough to wake it.
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
