/// Tracks which value segments are alive, mostly dead, or unreferenced.
///
/// Layer      lsm
/// Source     WiscKey (FAST16), section 3.3.2: collecting the value log
/// Threads    any, serialized inside
/// Invariants a segment is judged by the references of tables only once it is settled: sealed;
///            every write that put a value into it has reached a MemTable (a grace period after
///            sealing); and those MemTables are in tables. Segments that were open when a running
///            merge began are not judged until its tables are in the manifest: a RunWriter holds
///            the Protection, which cannot be taken from it; code that moves a value into a segment
///            checks that the Protection covers it, and publishing the tables requires the
///            RunWriter. A write of large values holds a Protection, too, until its records are in
///            a MemTable: a grace period does not wait for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lsm/version/manifest.h"
#include "lsm/vlog/value_log.h"
#include "lsm/version/version.h"

namespace quire::lsm {

/// Bytes of records that tables refer to, by segment.
using SegmentUses = std::unordered_map<uint64_t, uint64_t>;

/// The state of the MemTables, as far as references in them matter. Read it after Graced(): a write
/// that began before may have put a record into an empty MemTable since.
struct MemoryState {
  uint64_t active_base_lsn = 0;
  uint64_t flushed_lsn = 0;
  bool empty = false;   ///< no MemTable has a record
};

class SegmentTracker {
 public:
  explicit SegmentTracker(std::shared_ptr<ObsoleteFiles> obsolete_files)
      : obsolete_files_(std::move(obsolete_files)) {}

  /// Adds segments that a dead process left: sealed, but the MemTables up to `recovered_end_lsn`
  /// may refer to them.
  void Recover(const std::vector<ValueSegmentInfo>& segments, uint64_t recovered_end_lsn);
  /// Returns the sealed segments whose grace period is over and that nothing protects: each write
  /// into them has reached a MemTable.
  std::set<uint64_t> Graced() const;
  /// Records new and sealed segments, those that are `graced`, and how far flushing got. The caller
  /// sets the returned flags after a grace period:
  /// base::EpochRetire(base::EpochPrepare([flag] { *flag = true; })), under no lock.
  std::vector<std::shared_ptr<std::atomic<bool>>> Observe(
      const std::set<uint64_t>& graced, const std::vector<ValueSegmentInfo>& segments,
      const MemoryState& memory);

  /// Returns a handle for each segment that Observe saw, but for those in `without`.
  std::vector<std::shared_ptr<SegmentHandle>> HandlesWithout(
      const std::set<uint64_t>& without) const;
  /// Returns the handle of a segment that is referred to, whether Observe saw it or not.
  std::shared_ptr<SegmentHandle> Handle(uint64_t id);
  /// Returns handles of the segments [first_id, end_id), whether Observe saw them or not.
  std::vector<std::shared_ptr<SegmentHandle>> HandlesBetween(uint64_t first_id, uint64_t end_id);
  /// Returns the segments for the manifest: all but those given up.
  std::vector<StoredSegment> Stored() const;

  /// While one exists, no segment from `first_id` on is judged, nor does its grace period end:
  /// tables that are in no manifest yet, or records that are in no MemTable yet, refer to it. A
  /// moved-from Protection protects nothing.
  class Protection {
   public:
    /// Protects nothing: for tables whose values something else protects.
    static Protection NotNeeded() { return Protection(nullptr, {}); }
    Protection(Protection&& from) noexcept
        : tracker_(std::exchange(from.tracker_, nullptr)), floor_(from.floor_) {}
    Protection& operator=(Protection&&) = delete;
    ~Protection();
    bool Covers(uint64_t segment_id) const { return tracker_ != nullptr && *floor_ <= segment_id; }

   private:
    friend class SegmentTracker;
    using Floors = std::multiset<uint64_t>;
    Protection(SegmentTracker* tracker, Floors::iterator floor)
        : tracker_(tracker), floor_(floor) {}
    SegmentTracker* tracker_;
    Floors::iterator floor_;
  };
  [[nodiscard]] Protection Protect(uint64_t first_id);

  /// Returns the settled segments to which no table refers.
  std::set<uint64_t> Unused(const SegmentUses& uses) const;
  /// Returns the settled segments less than half of whose file is referred to.
  std::set<uint64_t> MostlyDead(const SegmentUses& uses) const;
  /// Notes that a value in the segment is damaged: it is not collected.
  void Exclude(uint64_t segment_id);
  /// Notes that the manifest does not list these segments any more: their files go with the last
  /// reader.
  void GiveUp(std::set<uint64_t> segment_ids) noexcept;

 private:
  enum class State { kOpen, kSealed, kGraced, kSettled, kDamaged };
  struct Segment {
    std::shared_ptr<SegmentHandle> handle;
    State state = State::kOpen;
    uint64_t file_bytes = 0;
    // kGraced: base LSN of the youngest MemTable that may refer to it
    uint64_t last_base_lsn = 0;
    std::shared_ptr<std::atomic<bool>> graced;     // kSealed
  };
  std::shared_ptr<SegmentHandle> HandleOf(uint64_t id);
  Segment& Find(uint64_t id);
  bool Protected(uint64_t id) const;
  bool Judgeable(uint64_t id, const Segment& segment) const;
  static void Advance(Segment& segment, bool graced, const MemoryState& memory);

  const std::shared_ptr<ObsoleteFiles> obsolete_files_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Segment> segments_;
  Protection::Floors protected_from_;
  std::set<uint64_t> given_up_;   // the value log lists them until their files go
  // handles of the segments above, and of younger ones
  std::map<uint64_t, std::weak_ptr<SegmentHandle>> handles_;
};

}  // namespace quire::lsm
