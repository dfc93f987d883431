// Compaction: merges of runs, and the collection of value segments that are mostly dead.
#include <algorithm>
#include <utility>

#include "base/epoch.h"
#include "base/out_of_memory.h"
#include "base/scope_exit.h"
#include "base/sync_point.h"
#include "lsm/db/compaction_job.h"
#include "lsm/db/db_impl.h"

namespace quire::lsm {
namespace {

// A merge that found no room is tried again when this share of its bytes has become free. Also
// after so many flushes: of a quota nobody says what is free.
constexpr uint64_t kRoomShare = 16;
constexpr int kFlushesPerTry = 64;
// A merge for which another database waits takes less than so many times what the trigger has from
// flushes.
constexpr uint64_t kTriggersPerShortMerge = 2;

}  // namespace

// A merge on its way.
struct DbImpl::Merge {
  CompactionInputs inputs;
  uint64_t compacts = 0;    // it does what these first calls of Compact asked for
  DbImpl* owner = nullptr;  // once it has begun, until it ends

  Merge() = default;
  Merge(const Merge&) = delete;
  Merge& operator=(const Merge&) = delete;
  // Without EndMerge an exception gave it up.
  ~Merge() {
    if (owner == nullptr) return;
    const std::lock_guard<std::mutex> lock(owner->mutex_);
    EndLocked();
  }
  // Without memory for all of it, the destructor ends it: a run that stayed busy would be waited
  // for without end.
  void BeginLocked(DbImpl& db) {
    owner = &db;
    ++db.merging_;
    db.merge_level_ = db.executor_.LongJobs();
    for (const std::shared_ptr<const Run>& run : inputs.runs) db.busy_runs_.insert(run.get());
  }
  void EndLocked() {
    for (const std::shared_ptr<const Run>& run : inputs.runs) owner->busy_runs_.erase(run.get());
    if (--owner->merging_ == 0) owner->merge_turn_bytes_ = 0;
    owner->compacts_done_ = std::max(owner->compacts_done_, compacts);
    owner->changed_.notify_all();
    owner = nullptr;
  }
};

std::vector<RunShape> DbImpl::ShapesLocked() const {
  std::vector<RunShape> shapes;
  for (const std::shared_ptr<const Run>& run : versions_.current()->runs) {
    shapes.push_back({run->bytes(), run->newest_ssid(), busy_runs_.contains(run.get())});
  }
  return shapes;
}

CompactionChoice DbImpl::PickLocked(MergeSize size) const {
  const std::vector<RunShape> shapes = ShapesLocked();
  uint64_t bytes_end = merge_bytes_end_;
  if (size != MergeSize::kAny) bytes_end = std::min(bytes_end, BytesOf(shapes));
  if (size == MergeSize::kShort) {
    const auto trigger = static_cast<uint64_t>(options_.compaction_trigger);
    bytes_end = std::min(bytes_end, kTriggersPerShortMerge * trigger * options_.memtable_bytes);
  }
  return PickCompaction(shapes, options_, bytes_end);
}

bool DbImpl::CompactionWantedLocked() const {
  if (!compaction_shortage_.ok()) return false;
  return compacts_begun_ < compacts_asked_ ||
         (versions_.collect_due() && collect_refused_.why.ok()) ||
         PickLocked(MergeSize::kAny).count > 0;
}

// One merge: the next is scheduled behind what others wait for. Within a merge of another database
// a short one, if this one's flushes wait for it.
void DbImpl::RunCompaction() {
  const Status done = base::OrOutOfMemory([this] {
    const bool within = executor_.LongJobs() > 1;
    bool urgent = false;
    bool collect = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      urgent = within && TooManyRunsLocked();
      collect = !awaited_.empty();
    }
    if (within) {
      if (urgent) CompactOnce(MergeSize::kShort);
    } else if (!CompactOnce(MergeSize::kAny) || collect) {
      CollectOnce();
    }
    return Status();
  });
  if (!done.ok()) {
    // A merge that cannot even begin is not tried again at once.
    const std::lock_guard<std::mutex> lock(mutex_);
    compaction_shortage_ = done;
    changed_.notify_all();
  }
  CleanUp();
}

// Takes the inputs of the merge that is due; false: none is.
bool DbImpl::BeginMergeLocked(Merge& merge, MergeSize size) {
  if (closing_ || !failure_.ok() || !compaction_shortage_.ok()) return false;
  const std::vector<std::shared_ptr<const Run>>& runs = versions_.current()->runs;
  const bool all =
      compacts_begun_ < compacts_asked_ && size == MergeSize::kAny && busy_runs_.empty();
  CompactionChoice choice = PickLocked(size);
  if (all) choice = {0, NothingToDropLocked() ? 0 : runs.size()};
  if (choice.count == 0) {
    if (all) {
      compacts_begun_ = compacts_done_ = compacts_asked_;
      compacted_ = Status();
      changed_.notify_all();
    }
    return false;
  }
  merge.inputs.bottom =
      choice.first + choice.count == runs.size() && versions_.current()->base == nullptr;
  for (size_t i = choice.first; i < choice.first + choice.count; ++i) {
    merge.inputs.runs.push_back(runs[i]);
    merge.inputs.tables.insert(merge.inputs.tables.end(), runs[i]->tables().begin(),
                               runs[i]->tables().end());
  }
  // Values may be many times as large as what refers to them.
  if (size != MergeSize::kShort) merge.inputs.collect = DeadSegmentsLocked();
  merge.BeginLocked(*this);
  if (all) merge.compacts = compacts_begun_ = compacts_asked_;
  return true;
}

// Whether the tables are one run in which every entry is what a reader sees.
bool DbImpl::NothingToDropLocked() const {
  if (versions_.current()->runs.empty()) return true;
  if (versions_.current()->runs.size() > 1) return false;
  for (const std::shared_ptr<TableHandle>& table : versions_.current()->runs[0]->tables()) {
    const table::TableInfo& info = table->info();
    if (info.tombstone_count != 0 || info.entry_count != info.key_count) return false;
  }
  return true;
}

void DbImpl::EndMerge(Merge& merge, const Status& status) {
  base::SyncPoint("lsm.merge.end");
  CleanUp();
  const Status told =
      status.ok() ? status : base::OrOutOfMemory([&] {
        return status.WithContext("merging tables in " + directory_);
      });
  if (status.code() == Code::kNoSpace) RememberNoRoom(merge, told);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (merge.compacts != 0) compacted_ = told;
  merge.EndLocked();
  if (IsShortage(status)) {
    compaction_shortage_ = told;
  } else if (!status.ok() && !closing_) {
    FailLocked(status, "merging tables");
  }
  MaybeScheduleLocked();
}

// Else each flush would have it tried again, and each attempt fill the device for others. What a
// merge that also empties value segments lacks room for may be values, which the next one leaves.
void DbImpl::RememberNoRoom(const Merge& merge, const Status& why) {
  const Result<uint64_t> free_bytes = fs_.FreeBytes(directory_);
  const uint64_t bytes = merge.inputs.bytes();
  NoRoom refused;
  refused.why = why;
  refused.room = free_bytes.ok() ? *free_bytes + bytes / kRoomShare + 1 : 0;
  refused.flushes = kFlushesPerTry;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (merge.inputs.collect.empty()) {
    merge_refused_ = std::move(refused);
    merge_bytes_end_ = std::min(merge_bytes_end_, bytes);
  } else {
    collect_refused_ = std::move(refused);
  }
}

// After each flush.
void DbImpl::TryRefusedAgain() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (merge_refused_.why.ok() && collect_refused_.why.ok()) return;
  }
  const Result<uint64_t> free_bytes = fs_.FreeBytes(directory_);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (NoRoom* const refused : {&merge_refused_, &collect_refused_}) {
    if (refused->why.ok()) continue;
    const bool room = !free_bytes.ok() || *free_bytes >= refused->room;
    if (--refused->flushes <= 0 || room) *refused = NoRoom();
  }
  if (merge_refused_.why.ok()) merge_bytes_end_ = UINT64_MAX;
}

// Does the merge that is due, if one is. One that is not of any size is within another merge.
bool DbImpl::CompactOnce(MergeSize size) {
  const int depth = size == MergeSize::kAny ? 0 : 1;
  Merge merge;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!BeginMergeLocked(merge, size)) return false;
  }
  const Status status = base::OrOutOfMemory([&] { return RunMerge(merge, depth); });
  EndMerge(merge, status);
  return status.ok();
}

// Rewrites one table that refers to a mostly dead value segment, its values into the open one.
bool DbImpl::CollectOnce() {
  Merge merge;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_ || !failure_.ok() || !compaction_shortage_.ok() || !versions_.collect_due())
      return false;
    if (!collect_refused_.why.ok()) return false;
    merge.inputs.collect = DeadSegmentsLocked();
    if (!FindCollectableLocked(merge)) {
      versions_.NothingToCollectLocked();
      return false;
    }
    merge.BeginLocked(*this);
  }
  const Status status = base::OrOutOfMemory([&] { return RunMerge(merge, 0); });
  EndMerge(merge, status);
  return status.ok();
}

// The value segments that are to be emptied: those that Compact waits for first, as others may come
// to be due without end.
std::set<uint64_t> DbImpl::DeadSegmentsLocked() const {
  if (!versions_.collect_due() || !collect_refused_.why.ok()) return {};
  std::set<uint64_t> dead = versions_.MostlyDeadLocked();
  if (awaited_.empty()) return dead;
  std::erase_if(dead, [this](uint64_t id) {
    return std::none_of(awaited_.begin(), awaited_.end(),
                        [id](const std::set<uint64_t>& due) { return due.contains(id); });
  });
  return dead;
}

bool DbImpl::FindCollectableLocked(Merge& merge) const {
  for (const std::shared_ptr<const Run>& run : versions_.current()->runs) {
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      const std::vector<table::SegmentUse>& uses = table->info().segments;
      const bool refers = std::any_of(uses.begin(), uses.end(), [&](const table::SegmentUse& use) {
        return merge.inputs.collect.contains(use.segment_id);
      });
      if (!refers || busy_runs_.contains(run.get())) continue;
      merge.inputs.runs = {run};
      merge.inputs.tables = {table};
      merge.inputs.bottom =
          run == versions_.current()->runs.back() && versions_.current()->base == nullptr;
      return true;
    }
  }
  return false;
}

Status DbImpl::RunMerge(const Merge& merge, int depth) {
  CompactionJob::Calls calls;
  calls.interrupted = [this, depth](uint64_t bytes) { return Interrupted(depth, bytes); };
  calls.append_value = [this](Slice key, Slice value, log::ValueRef* reference) {
    return AppendValue(key, value, reference);
  };
  calls.log_failure = [this](const Status& failure) { LogFailure(failure); };
  calls.values = &resolver_;
  return CompactionJob(Parts(), merge.inputs, std::move(calls)).Run();
}

// Does what cannot wait for the end of a merge, for there may be but one thread, which other
// databases and datasets use, too. `merged_bytes`: since the last time. True: the merge is to be
// given up.
bool DbImpl::Interrupted(int depth, uint64_t merged_bytes) {
  bool flush = false;
  bool prepare = false;
  bool merge = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_ || !failure_.ok()) return true;
    // The outer merge must come to its end: a merge within it is done only where flushes wait for
    // it, and has turns of its own.
    merge_turn_bytes_ -= std::min(merge_turn_bytes_, merged_bytes);
    flush = FlushDueLocked();
    prepare = PrepareDueLocked();
    merge = depth == 0 && TooManyRunsLocked() && PickLocked(MergeSize::kNewer).count > 0;
  }
  if (prepare) PrepareIfDue();
  if (flush) FlushOnce();
  executor_.RunWaiting();
  if (!merge) return false;
  const uint64_t turn = ExchangeMergeTurn(0);
  CompactOnce(MergeSize::kNewer);
  ExchangeMergeTurn(turn);
  return false;
}

uint64_t DbImpl::ExchangeMergeTurn(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(merge_turn_bytes_, bytes);
}

Status DbImpl::Compact() {
  QUIRE_RETURN_IF_ERROR(Flush());
  // What was overwritten or deleted in the open value segment can be collected once that is closed
  // and no write into it is under way.
  QUIRE_RETURN_IF_ERROR(values_->Seal());
  // No merge may publish between the look at the MemTables and the judgement of the segments: it
  // would give up a segment to which a record in a younger MemTable refers.
  versions_.ObserveSegments();
  base::EpochSynchronize();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    compaction_shortage_ = Status();
    collect_refused_ = NoRoom();
    const uint64_t mine = ++compacts_asked_;
    MaybeScheduleLocked();
    const auto done = [&] { return compacts_done_ >= mine; };
    QUIRE_RETURN_IF_ERROR(WaitLocked(lock, [&] { return done() || !compaction_shortage_.ok(); }));
    QUIRE_RETURN_IF_ERROR(WriteStatusLocked());  // a merge that failed is over, too
    QUIRE_RETURN_IF_ERROR(done() ? compacted_ : compaction_shortage_);
  }
  QUIRE_RETURN_IF_ERROR(PublishNow());  // looks at the value segments anew
  const Status collected = CollectAll();
  CleanUp();
  return collected;
}

// Publishes although no run changed.
Status DbImpl::PublishNow() {
  const Status published = versions_.Publish({});
  if (!published.ok() && published.code() != Code::kNoSpace) {
    // Whether the manifest was replaced may not be known: nothing may be built on it.
    const std::lock_guard<std::mutex> lock(mutex_);
    FailLocked(published, "publishing");
  }
  return published;
}

// Waits until the value segments that are mostly dead now are collected; those that come to be so
// meanwhile, since others write on, are not waited for.
Status DbImpl::CollectAll() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto due = awaited_.insert(awaited_.end(), versions_.MostlyDeadLocked());
  const base::ScopeExit awaited([&] { awaited_.erase(due); });  // before the lock is given back
  MaybeScheduleLocked();
  const auto collected = [&] {
    const Status& refused = collect_refused_.why;
    if (!versions_.collect_due() || !refused.ok() || !compaction_shortage_.ok()) return true;
    const std::set<uint64_t> dead = versions_.MostlyDeadLocked();
    return std::none_of(due->begin(), due->end(), [&](uint64_t id) { return dead.contains(id); });
  };
  QUIRE_RETURN_IF_ERROR(WaitLocked(lock, collected));
  QUIRE_RETURN_IF_ERROR(WriteStatusLocked());
  QUIRE_RETURN_IF_ERROR(collect_refused_.why);
  return compaction_shortage_;
}

}  // namespace quire::lsm
