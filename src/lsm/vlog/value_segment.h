/// One value segment while it is written: mapped for small values, a file for large ones.
///
/// Layer      lsm (internal)
/// Encoding   docs/format/segment.md, docs/format/record.md
/// Threads    Append, Read: any number of threads. Finish: one thread. The rest: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "log/segment.h"
#include "lsm/vlog/value_log.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

/// Values from this size on are written to the file by a call: this copies as much, and needs no
/// page faults, zeroing of pages or background work.
constexpr uint64_t kWriteCallBytesMin = 64 << 10;

/// Pages are made present by so many bytes at a time: by the background ahead of the writers, or by
/// a writer that overtook it. In one call a page costs a third of what its fault would.
constexpr uint64_t kTouchBytes = 2 << 20;

class ValueSegment : public std::enable_shared_from_this<ValueSegment> {
 public:
  /// Creates a file of `capacity` bytes; its room grows with what is stored.
  static Result<std::unique_ptr<ValueSegment>> Create(io::FileSystem& fs, const std::string& path,
                                                      const log::SegmentHeader& header);
  /// Creates a file for one pair that fits no segment, writes the pair, and finishes the file.
  static Result<std::unique_ptr<ValueSegment>> CreateAlone(io::FileSystem& fs,
                                                           const std::string& path,
                                                           log::SegmentHeader header, Slice key,
                                                           Slice value, log::ValueRef* ref);

  uint64_t id() const { return header_.id; }
  /// Reserves room for a record. Returns log::kNoRoom if the segment is full, now and for good; or,
  /// if *status is not OK, the device has no room for it, and nothing was reserved.
  uint64_t Reserve(uint64_t record_bytes, Status* status);
  /// Populates the next pages that no other thread has begun. False: there are none, or nothing
  /// more will be stored here.
  bool TouchNext() { return TouchFrom(0); }
  /// Stores the pair in its reservation; after a failure the room stays unused.
  Status Store(uint64_t offset, Slice key, Slice value, log::ValueRef* ref);
  /// Returns whether this thread may look for the value in the mapping; else the value must be read
  /// from the file. Called before memory for the value is allocated, which happens once.
  bool InMapping(const log::ValueRef& ref) const;
  /// Copies such a value to `to`, not verified. False: the value must be read from the file, which
  /// may return an error.
  bool TryCopy(const log::ValueRef& ref, char* to) const;

  /// Makes every further reservation fail.
  void Close() { tail_.tail.fetch_or(log::SegmentTail::kClosed, std::memory_order_acq_rel); }
  /// Returns whether the segment is closed, and all reservations are stored.
  bool drained() const;
  /// Closes the segment and waits until all reservations are stored.
  void Drain() { log::CloseAndDrain(tail_); }
  /// Cuts the file after its last record. Called when drained.
  Status Finish();
  /// Makes everything stored so far durable; does nothing if nothing was stored since the last
  /// call. Once the device has failed here (kIo), every later call that has something to sync
  /// returns the same.
  Status Sync();

  uint64_t record_bytes() const;
  uint64_t file_bytes() const { return file_bytes_.load(std::memory_order_acquire); }
  /// Returns whether small values took most of it: then the next one's pages are worth touching.
  bool mostly_small() const;

 private:
  explicit ValueSegment(const log::SegmentHeader& header) : header_(header) {}
  Status StoreByCall(uint64_t offset, Slice key, Slice value, log::ValueRef* ref);
  void StoreInMapping(uint64_t offset, Slice key, Slice value, log::ValueRef* ref);
  bool TouchFrom(size_t first_piece);
  bool closed() const {
    return (tail_.tail.load(std::memory_order_acquire) & log::SegmentTail::kClosed) != 0;
  }
  Status GrowRoom(uint64_t end);
  // Whether the pages at `offset` were made present, or are not worth it.
  bool Touched(uint64_t offset) const {
    return touched_[offset / kTouchBytes].load(std::memory_order_relaxed);
  }

  log::SegmentHeader header_;
  std::mutex room_mutex_;  // the file grows, or is cut at its last record
  std::unique_ptr<log::Segment> segment_;  // null: a segment for one pair
  std::unique_ptr<io::File> file_;
  log::SegmentTail tail_;
  std::vector<std::atomic<bool>> touched_;  // by piece of kTouchBytes
  std::atomic<size_t> next_piece_{0};       // the next one to touch; those before it are begun
  std::atomic<uint64_t> large_bytes_{0};
  std::atomic<uint64_t> file_bytes_{0};
  uint64_t synced_bytes_ = 0;  // finished before the last Sync; guarded by the caller of Sync
  Status sync_failure_;        // guarded by the caller of Sync
};

}  // namespace quire::lsm
