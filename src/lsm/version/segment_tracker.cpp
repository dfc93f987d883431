#include "lsm/version/segment_tracker.h"

#include <algorithm>

#include "base/threads/sync_point.h"

namespace quire::lsm {
namespace {

uint64_t UseOf(const SegmentUses& uses, uint64_t id) {
  const auto found = uses.find(id);
  return found == uses.end() ? 0 : found->second;
}

}  // namespace

// Returns the one handle of a segment, which exists as long as it is held.
std::shared_ptr<SegmentHandle> SegmentTracker::HandleOf(uint64_t id) {
  std::weak_ptr<SegmentHandle>& known = handles_[id];
  std::shared_ptr<SegmentHandle> handle = known.lock();
  if (handle == nullptr && !given_up_.contains(id)) {
    handle = std::make_shared<SegmentHandle>(id, obsolete_files_);
    known = handle;
  }
  return handle;
}

SegmentTracker::Segment& SegmentTracker::Find(uint64_t id) {
  Segment& segment = segments_[id];
  if (segment.handle == nullptr) segment.handle = HandleOf(id);
  return segment;
}

void SegmentTracker::Recover(const std::vector<ValueSegmentInfo>& segments,
                             uint64_t recovered_end_lsn) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const ValueSegmentInfo& info : segments) {
    Segment& segment = Find(info.id);
    segment.file_bytes = info.file_bytes;
    segment.state = State::kGraced;
    segment.last_base_lsn = recovered_end_lsn == 0 ? 0 : recovered_end_lsn - 1;
  }
}

std::set<uint64_t> SegmentTracker::Graced() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<uint64_t> graced;
  for (const auto& [id, segment] : segments_) {
    if (Protected(id)) continue;
    if (segment.state == State::kSealed && segment.graced->load(std::memory_order_acquire)) {
      graced.insert(id);
    }
  }
  return graced;
}

void SegmentTracker::Advance(Segment& segment, bool graced, const MemoryState& memory) {
  if (segment.state == State::kSealed && graced) {
    segment.state = State::kGraced;
    segment.last_base_lsn = memory.active_base_lsn;
  }
  if (segment.state == State::kGraced &&
      (memory.empty || memory.flushed_lsn > segment.last_base_lsn)) {
    segment.state = State::kSettled;
  }
}

std::vector<std::shared_ptr<std::atomic<bool>>> SegmentTracker::Observe(
    const std::set<uint64_t>& graced, const std::vector<ValueSegmentInfo>& segments,
    const MemoryState& memory) {
  std::vector<std::shared_ptr<std::atomic<bool>>> flags;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const ValueSegmentInfo& info : segments) {
    if (given_up_.contains(info.id)) continue;
    Segment& segment = Find(info.id);
    segment.file_bytes = info.file_bytes;
    Advance(segment, graced.contains(info.id), memory);
    if (segment.state == State::kOpen && info.sealed) {
      segment.graced = std::make_shared<std::atomic<bool>>(false);
      segment.state = State::kSealed;
    }
    // Includes a flag that will never be set, because there was no memory for that.
    if (segment.state == State::kSealed && segment.graced.use_count() == 1) {
      flags.push_back(segment.graced);
    }
  }
  return flags;
}

std::vector<std::shared_ptr<SegmentHandle>> SegmentTracker::HandlesWithout(
    const std::set<uint64_t>& without) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<SegmentHandle>> handles;
  handles.reserve(segments_.size());
  for (const auto& [id, segment] : segments_) {
    if (!without.contains(id)) handles.push_back(segment.handle);
  }
  return handles;
}

std::shared_ptr<SegmentHandle> SegmentTracker::Handle(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return HandleOf(id);
}

std::vector<std::shared_ptr<SegmentHandle>> SegmentTracker::HandlesBetween(uint64_t first_id,
                                                                           uint64_t end_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<SegmentHandle>> handles;
  for (uint64_t id = first_id; id < end_id; ++id) {
    std::shared_ptr<SegmentHandle> handle = HandleOf(id);
    if (handle != nullptr) handles.push_back(std::move(handle));
  }
  return handles;
}

std::vector<StoredSegment> SegmentTracker::Stored() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<StoredSegment> stored;
  for (const auto& [id, segment] : segments_) {
    stored.push_back({id, segment.state == State::kOpen ? 0 : segment.file_bytes});
  }
  return stored;
}

SegmentTracker::Protection SegmentTracker::Protect(uint64_t first_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Protection(this, protected_from_.insert(first_id));
}

SegmentTracker::Protection::~Protection() {
  if (tracker_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(tracker_->mutex_);
  tracker_->protected_from_.erase(floor_);
}

bool SegmentTracker::Protected(uint64_t id) const {
  return !protected_from_.empty() && id >= *protected_from_.begin();
}

bool SegmentTracker::Judgeable(uint64_t id, const Segment& segment) const {
  return segment.state == State::kSettled && !Protected(id);
}

std::set<uint64_t> SegmentTracker::Unused(const SegmentUses& uses) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<uint64_t> unused;
  for (const auto& [id, segment] : segments_) {
    if (Judgeable(id, segment) && UseOf(uses, id) == 0) unused.insert(id);
  }
  return unused;
}

std::set<uint64_t> SegmentTracker::MostlyDead(const SegmentUses& uses) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::set<uint64_t> dead;
  for (const auto& [id, segment] : segments_) {
    if (Judgeable(id, segment) && UseOf(uses, id) < segment.file_bytes / 2) dead.insert(id);
  }
  return dead;
}

void SegmentTracker::Exclude(uint64_t segment_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = segments_.find(segment_id);
  if (found != segments_.end()) found->second.state = State::kDamaged;
}

void SegmentTracker::GiveUp(std::set<uint64_t> segment_ids) noexcept {
  if (segment_ids.empty()) return;
  base::SyncPoint("lsm.values.give_up.before");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const uint64_t id : segment_ids) {
      const auto found = segments_.find(id);
      if (found == segments_.end()) continue;
      found->second.handle->SetObsolete();
      segments_.erase(found);
    }
    given_up_.merge(segment_ids);
  }
  base::SyncPoint("lsm.values.give_up.after");
}

}  // namespace quire::lsm
