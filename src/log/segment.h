/// A log segment: a file of fixed size, mapped, to which many threads append records without a
/// system call; also the arena of a MemTable's records. A value segment is the same, with another
/// kind.
///
/// Layer      log
/// Source     docs/decisions/0002-log-is-the-memtable.md, docs/durability.md
/// Encoding   docs/format/segment.md
/// Threads    Reserve, Complete, MarkComplete: any number of threads. The rest: one thread.
/// Invariants tail only grows; a byte below tail belongs to exactly one reservation; the bytes of
///            finished reservations never exceed those reserved; a record is readable by others
///            once its offset was published.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "log/record.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::log {

enum class SegmentKind : uint32_t { kLog = 1, kValue = 2 };

constexpr uint64_t kSegmentHeaderBytes = 4096;
/// The room of a new segment: small, so that a database takes only the space that it needs.
constexpr uint64_t kFirstRoomBytes = uint64_t{256} << 10;

/// The content of a segment's first page.
struct SegmentHeader {
  SegmentKind kind = SegmentKind::kLog;
  uint64_t generation = 0;  ///< random, not 0, new at each use: seeds every record's checksum
  uint64_t id = 0;          ///< log: slot in the pool; value: segment id
  uint64_t base_lsn = 0;    ///< LSN of offset 0 (log segments)
  uint64_t capacity = 0;    ///< file size [bytes], header included
  uint64_t boot_id = 0;     ///< boot in which this use began
  uint64_t previous_generation = 0;  ///< chain: the log segment before this one, ...
  uint64_t previous_end_lsn = 0;     ///< ... and where it was closed
  uint64_t owner_epoch = 0;          ///< the opener's: identifies orphans of an older job
};

/// Writes the header page of a segment to `page` (kSegmentHeaderBytes): both copies of `header`, no
/// watermark.
void EncodeSegmentHeader(const SegmentHeader& header, char* page);

/// The shared words of a segment's tail. Lies in node-shared memory (MemTable) or in the process
/// (value segments). The counters of finished threads are spread over cache lines, so that writers
/// share only one line, once per reservation.
struct SegmentTail {
  static constexpr uint64_t kClosed = 1ull << 63;
  static constexpr uint64_t kPaused = 1ull << 62;
  static constexpr uint64_t kOffset = kPaused - 1;
  static constexpr size_t kStripes = 16;

  struct alignas(64) Stripe {
    std::atomic<uint64_t> finished{0};  ///< bytes of finished reservations
    std::atomic<uint64_t> keys{0};      ///< MemTable: slots that they took
    std::atomic<uint64_t> last{0};      ///< MemTable: offset of a record that is finished; 0: none
  };

  alignas(64) std::atomic<uint64_t> tail{kSegmentHeaderBytes};  ///< next free offset, and the flags
  std::array<Stripe, kStripes> stripes;

  /// The stripe of the calling thread (other threads may have the same).
  Stripe& OwnStripe() { return stripes[ThreadStripe()]; }
  uint64_t Finished() const;
  uint64_t Keys() const;
  /// A hint that this thread will reserve soon.
  void PrepareToReserve() const {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(tail));
#endif
  }

 private:
  static size_t ThreadStripe();
};

/// Offset 0 of a reservation that did not fit.
constexpr uint64_t kNoRoom = 0;
/// The segment is large enough, but the room that is reserved so far is not.
constexpr uint64_t kMoreRoom = 1;

/// Reserves `size` (multiple of 8) bytes; kNoRoom closes the segment for all writers, kMoreRoom
/// changes nothing. Waits out a pause: an instant, unless the page of a seal is not in memory.
uint64_t Reserve(SegmentTail& tail, uint64_t capacity, uint64_t size, uint64_t room = UINT64_MAX);
/// Reserves, and pauses other reservations: nothing behind the piece can be reserved before
/// EndPause. So the caller can seal the piece, and then include it in MarkReserved: wherever the
/// writer dies, a replay skips the whole piece.
uint64_t ReservePaused(SegmentTail& tail, uint64_t capacity, uint64_t size, uint64_t room);
/// Ends the pause of ReservePaused, which has reserved `size`.
inline void EndPause(SegmentTail& tail, uint64_t size) {
  // A thread that closes the segment meanwhile adds kClosed, and waits for this piece.
  tail.tail.fetch_add(size - SegmentTail::kPaused, std::memory_order_release);
}
/// Marks the reservation of `size` bytes as finished: its records are complete and indexed.
inline void Complete(SegmentTail& tail, uint64_t size) {
  tail.OwnStripe().finished.fetch_add(size, std::memory_order_release);
}
/// Returns the tail's offset if at this moment every reservation is finished, else 0.
uint64_t EndIfComplete(const SegmentTail& tail);
/// Closes the segment (no further reservation succeeds) and waits until all reservations are
/// finished; returns the end.
uint64_t CloseAndDrain(SegmentTail& tail);
/// Stops reservations, waits for those under way, and lets them go on: the returned offset splits
/// "before" from "after". Calls of Quiesce and CloseAndDrain for one tail are serialized by the
/// caller.
uint64_t Quiesce(SegmentTail& tail);

/// Notes in the header page that every record below `end` is complete, so that after the death of
/// this process a hole below it can be distinguished from a record that was being written. One
/// store. A lower mark may replace a higher one; it is a lower bound.
void MarkComplete(char* data, uint64_t generation, uint64_t end);
/// Returns the mark; kSegmentHeaderBytes if there is none.
uint64_t CompleteMark(const char* data, uint64_t generation);
/// Notes in the header page that nothing is or will be appended behind `end`: a replay in the same
/// boot stops there. After MarkComplete(end).
void MarkClosed(char* data, uint64_t generation, uint64_t end);
/// Returns the mark; 0 if there is none.
uint64_t ClosedMark(const char* data, uint64_t generation);
/// Notes in the header page that every record so far begins and ends below `end`. Called before
/// anything is stored behind an earlier such mark, with a rising `end`, one call at a time. Behind
/// the mark lie records of earlier uses of the file, among which a replay would search for long.
void MarkReserved(char* data, uint64_t generation, uint64_t end);
/// Returns the mark; 0 if there is none: an earlier version wrote the segment.
uint64_t ReservedMark(const char* data, uint64_t generation);
/// Returns the durable watermark: everything below it was synced. kSegmentHeaderBytes: there is
/// none.
uint64_t DurableMark(const char* data, uint64_t generation);

/// A segment file, mapped for writing.
class Segment {
 public:
  enum class Origin { kNew, kFound };
  /// Creates the file, writes a fresh header, maps it. Room is reserved for kFirstRoomBytes; stores
  /// beyond map().room() need GrowRoom (log/room.h). kNew: there must be no file at `path`
  /// (kInvalidArgument). kFound: an existing file belongs to the caller, which has made its
  /// directory entry durable since it found it; it is used again. If it has another size, a new
  /// file replaces it: readers never see a file change its size. `named`: makes the directory entry
  /// of a new file durable. The header is not durable: after a power loss a segment that no
  /// manifest lists may have a damaged one.
  static Result<std::unique_ptr<Segment>> Create(io::FileSystem& fs, const std::string& path,
                                                 const SegmentHeader& header, Origin origin,
                                                 bool named = false);
  /// Maps a segment that a dead process left, as it is, for adoption. Its header page is in memory;
  /// other bytes must be made readable before they are read. Errors as of ReadSegmentHeader.
  static Result<std::unique_ptr<Segment>> Open(io::FileSystem& fs, const std::string& path);
  /// Starts a new use of this file: a new header. Old records no longer verify. No other thread
  /// uses it any more. After a crash inside, the file has its old header or its new one.
  void Recycle(const SegmentHeader& header);
  char* data() { return map_->data(); }
  const SegmentHeader& header() const { return header_; }
  io::MappedFile& map() { return *map_; }
  /// Makes everything below `end` durable (P2), then stores the watermark. This includes what a
  /// dead process left, whose own sync may have failed. Once the device has failed here (kIo),
  /// every later call, also of SyncHeader, returns the same. One thread at a time.
  Status Sync(uint64_t end);
  /// Syncs the header alone, and stores no watermark.
  Status SyncHeader();

 private:
  Segment() = default;
  Status StoreFoundAgain(uint64_t begin, uint64_t end);
  Status SyncOnce(uint64_t end);
  std::unique_ptr<io::MappedFile> map_;
  SegmentHeader header_;
  bool found_ = false;  // in this use of it a dead process stored its records
  Status sync_failure_;
};

/// Reads a segment's header. kCorruption: it is damaged, or a log's file is shorter than it says.
/// kUnsupported: it is newer. kNotFound: the file has none. The caller checks whether kind, id and
/// epoch are those expected.
Result<SegmentHeader> ReadSegmentHeader(io::FileSystem& fs, const std::string& path);

/// The result of a replay.
struct ReplayReport {
  uint64_t records = 0;  ///< kBatchBegin not counted
  uint64_t end = kSegmentHeaderBytes;  ///< offset after the last record taken
  uint64_t holes = 0;       ///< records of dead writers that were skipped, and 1 for a torn tail
  uint64_t hole_bytes = 0;  ///< in them; of a torn tail, as far as is known
  uint64_t torn_bytes = 0;  ///< of them, in the torn tail: finished records that the storage lost,
                            ///< and whatever lies behind the first of them
};

/// The bytes that a replay reads.
struct SegmentBytes {
  const char* data;  ///< SegmentHeader::capacity bytes; the header page is readable
  /// Called before bytes behind the header page are read, from the first on:
  /// io::MappedFile::MakeReadable. An error ends the replay. Empty: all bytes are in memory.
  std::function<Status(uint64_t offset, uint64_t size)> make_readable = {};
};

/// Walks the records of a segment that a dead process left, in order of offset, and passes each
/// valid one to `take` (offset, pointer to its header). Batches, their kBatchBegin first, are
/// passed whole or not at all. `complete_end`: every record below it was finished once, as the next
/// segment says; 0: not known.
///
/// Holes are skipped: their writers died in them. But a hole below the durable watermark is
/// kCorruption. In the same boot so is one below the completion mark, and the walk ends at the
/// closing mark. In another boot the log ends before the first hole that is known to have contained
/// a finished record, which a power loss took: a hole below the completion mark, the closing mark
/// or `complete_end`, or one with the predecessor of a later record. If so many bytes look like
/// records that the full search would take too long, a replay in another boot looks for small
/// records only; in the same boot that is kCorruption.
Result<ReplayReport> Replay(const SegmentBytes& bytes, const SegmentHeader& header,
                            uint64_t boot_id, const std::string& path,
                            const std::function<Status(uint64_t offset, const char* record)>& take,
                            uint64_t complete_end = 0);

/// Replays for a repair: takes whatever can be found, as if nothing had been promised, and looks
/// for small records if the full search would take too long.
Result<ReplayReport> ReplayForRepair(
    const SegmentBytes& bytes, const SegmentHeader& header, const std::string& path,
    const std::function<Status(uint64_t offset, const char* record)>& take);

}  // namespace quire::log
