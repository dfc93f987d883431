#include "lsm/jobs/compaction_schedule.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace quire::lsm {
namespace {

// A merge goes on for a byte after so many bytes that were flushed.
constexpr uint64_t kFlushedPerMergedByte = 4;
// A merge that found no room is retried when this share of its bytes has become free; also after
// this many flushes, because the free space of a quota is unknown.
constexpr uint64_t kRoomShare = 16;
constexpr int kFlushesPerTry = 64;
// A merge for which another database waits takes at most this many times the bytes of the trigger's
// number of MemTables.
constexpr uint64_t kTriggersPerShortMerge = 2;

}  // namespace

CompactionSchedule::Merge::~Merge() {
  if (!begun_) return;
  const std::lock_guard<std::mutex> lock(schedule_.mutex_);
  schedule_.LetGo(*this);
}

// Without memory for all of it, the destructor ends the merge: other merges would wait forever for
// a run that stayed busy.
void CompactionSchedule::Take(Merge& merge) {
  merge.begun_ = true;
  ++merging_;
  merge_level_ = executor_.LongJobs();
  for (const std::shared_ptr<const Run>& run : merge.inputs_.runs) busy_runs_.insert(run.get());
}

void CompactionSchedule::LetGo(Merge& merge) {
  for (const std::shared_ptr<const Run>& run : merge.inputs_.runs) busy_runs_.erase(run.get());
  if (--merging_ == 0) turn_bytes_ = 0;
  compacts_done_ = std::max(compacts_done_, merge.compacts_);
  merge.begun_ = false;
  changed_.notify_all();
}

void CompactionSchedule::End(Merge& merge, const Status& outcome) {
  if (merge.compacts_ != 0) compacted_ = outcome;
  LetGo(merge);
}

std::vector<RunShape> CompactionSchedule::Shapes() const {
  std::vector<RunShape> shapes;
  for (const std::shared_ptr<const Run>& run : versions_.current()->runs) {
    shapes.push_back({run->bytes(), run->newest_ssid(), busy_runs_.contains(run.get())});
  }
  return shapes;
}

CompactionChoice CompactionSchedule::Pick(Size size) const {
  const std::vector<RunShape> shapes = Shapes();
  uint64_t bytes_end = merge_bytes_end_;
  if (size != Size::kAny) bytes_end = std::min(bytes_end, BytesOf(shapes));
  if (size == Size::kShort) {
    const auto trigger = static_cast<uint64_t>(options_.compaction_trigger);
    bytes_end = std::min(bytes_end, kTriggersPerShortMerge * trigger * options_.memtable_bytes);
  }
  return PickCompaction(shapes, options_, bytes_end);
}

bool CompactionSchedule::Wanted() const {
  if (!shortage_.ok()) return false;
  return compacts_begun_ < compacts_asked_ ||
         (versions_.collect_due() && collect_refused_.why.ok()) || Pick(Size::kAny).count > 0;
}

bool CompactionSchedule::TooManyRuns() const {
  const size_t idle = versions_.current()->runs.size() - busy_runs_.size();
  const size_t count = idle + (busy_runs_.empty() ? 0 : 1);
  if (count < RunCountMax(options_) || !shortage_.ok()) return false;
  return merging_ > 0 || Pick(Size::kShort).count > 0;
}

bool CompactionSchedule::Suspended() const {
  return merging_ > 0 && executor_.LongJobs() > merge_level_;
}

bool CompactionSchedule::Begin(Merge& merge, Size size) {
  if (!shortage_.ok()) return false;
  const std::vector<std::shared_ptr<const Run>>& runs = versions_.current()->runs;
  const bool all = compacts_begun_ < compacts_asked_ && size == Size::kAny && busy_runs_.empty();
  CompactionChoice choice = Pick(size);
  if (all) choice = {0, NothingToDrop() ? 0 : runs.size()};
  if (choice.count == 0) {
    if (all) {
      compacts_begun_ = compacts_done_ = compacts_asked_;
      compacted_ = Status();
      changed_.notify_all();
    }
    return false;
  }
  CompactionInputs& inputs = merge.inputs_;
  inputs.bottom =
      choice.first + choice.count == runs.size() && versions_.current()->base == nullptr;
  for (size_t i = choice.first; i < choice.first + choice.count; ++i) {
    inputs.runs.push_back(runs[i]);
    inputs.tables.insert(inputs.tables.end(), runs[i]->tables().begin(), runs[i]->tables().end());
  }
  // Values may be many times as large as what refers to them.
  if (size != Size::kShort) inputs.collect = DeadSegments();
  Take(merge);
  if (all) merge.compacts_ = compacts_begun_ = compacts_asked_;
  return true;
}

bool CompactionSchedule::BeginCollection(Merge& merge) {
  if (!shortage_.ok() || !versions_.collect_due() || !collect_refused_.why.ok()) return false;
  merge.inputs_.collect = DeadSegments();
  if (!FindCollectable(&merge.inputs_)) {
    versions_.NothingToCollectLocked();
    return false;
  }
  Take(merge);
  return true;
}

// Whether the tables are one run in which every entry is what a reader sees.
bool CompactionSchedule::NothingToDrop() const {
  const std::vector<std::shared_ptr<const Run>>& runs = versions_.current()->runs;
  if (runs.empty()) return true;
  if (runs.size() > 1) return false;
  for (const std::shared_ptr<TableHandle>& table : runs[0]->tables()) {
    const table::TableInfo& info = table->info();
    if (info.tombstone_count != 0 || info.entry_count != info.key_count) return false;
  }
  return true;
}

// The value segments that are to be emptied: those that Compact waits for first, as others may come
// to be due without end.
std::set<uint64_t> CompactionSchedule::DeadSegments() const {
  if (!versions_.collect_due() || !collect_refused_.why.ok()) return {};
  std::set<uint64_t> dead = versions_.MostlyDeadLocked();
  if (awaited_.empty()) return dead;
  std::erase_if(dead, [this](uint64_t id) {
    return std::none_of(awaited_.begin(), awaited_.end(),
                        [id](const std::set<uint64_t>& due) { return due.contains(id); });
  });
  return dead;
}

bool CompactionSchedule::FindCollectable(CompactionInputs* inputs) const {
  const Version& current = *versions_.current();
  for (const std::shared_ptr<const Run>& run : current.runs) {
    for (const std::shared_ptr<TableHandle>& table : run->tables()) {
      const std::vector<table::SegmentUse>& uses = table->info().segments;
      const bool refers = std::any_of(uses.begin(), uses.end(), [&](const table::SegmentUse& use) {
        return inputs->collect.contains(use.segment_id);
      });
      if (!refers || busy_runs_.contains(run.get())) continue;
      inputs->runs = {run};
      inputs->tables = {table};
      inputs->bottom = run == current.runs.back() && current.base == nullptr;
      return true;
    }
  }
  return false;
}

void CompactionSchedule::GiveTurn(uint64_t flushed_bytes) {
  if (merging_ == 0 || Suspended() || executor_.thread_count() > 1) return;
  turn_bytes_ = flushed_bytes / kFlushedPerMergedByte;
}

// A merge that also empties value segments may lack room for the values alone: the next merge then
// leaves them where they are.
void CompactionSchedule::Refuse(const CompactionInputs& inputs, const Status& why,
                                const Result<uint64_t>& free_bytes) {
  const uint64_t bytes = inputs.bytes();
  NoRoom refused;
  refused.why = why;
  refused.room = free_bytes.ok() ? *free_bytes + bytes / kRoomShare + 1 : 0;
  refused.flushes = kFlushesPerTry;
  if (inputs.collect.empty()) {
    merge_refused_ = std::move(refused);
    merge_bytes_end_ = std::min(merge_bytes_end_, bytes);
  } else {
    collect_refused_ = std::move(refused);
  }
}

void CompactionSchedule::TryRefusedAgain(const Result<uint64_t>& free_bytes) {
  for (NoRoom* const refused : {&merge_refused_, &collect_refused_}) {
    if (refused->why.ok()) continue;
    const bool room = !free_bytes.ok() || *free_bytes >= refused->room;
    if (--refused->flushes <= 0 || room) *refused = NoRoom();
  }
  if (merge_refused_.why.ok()) merge_bytes_end_ = UINT64_MAX;
}

uint64_t CompactionSchedule::AskForAll() {
  shortage_ = Status();
  collect_refused_ = NoRoom();
  return ++compacts_asked_;
}

bool CompactionSchedule::Collected(Awaited due) const {
  if (!versions_.collect_due() || !collect_refused_.why.ok() || !shortage_.ok()) return true;
  const std::set<uint64_t> dead = versions_.MostlyDeadLocked();
  return std::none_of(due->begin(), due->end(), [&](uint64_t id) { return dead.contains(id); });
}

}  // namespace quire::lsm
