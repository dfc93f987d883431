/// Decides which merge of a database is due. Records the merges under way, the calls of Compact,
/// and the merges that found no room.
///
/// Layer      lsm (internal)
/// Source     docs/decisions/0008-compaction.md
/// Threads    every call is made under the database's mutex, which a Merge also takes at its end
/// Invariants a run is an input of one merge at a time; a merge that has begun ends, also if an
///            exception interrupts it
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/threads/executor.h"
#include "lsm/jobs/compaction_job.h"
#include "lsm/version/compaction_picker.h"
#include "lsm/version/version_set.h"
#include "quire/options.h"
#include "quire/status.h"

namespace quire::lsm {

class CompactionSchedule {
 public:
  /// The merges that may begin: any; only merges of runs newer than those of the merge that is
  /// being interrupted; or only merges so short that other work may wait for them.
  enum class Size { kAny, kNewer, kShort };
  /// A merge. It ends with End, or else with its destruction.
  class Merge {
   public:
    explicit Merge(CompactionSchedule& schedule) : schedule_(schedule) {}
    ~Merge();
    Merge(const Merge&) = delete;
    Merge& operator=(const Merge&) = delete;
    const CompactionInputs& inputs() const { return inputs_; }

   private:
    friend class CompactionSchedule;
    CompactionSchedule& schedule_;
    CompactionInputs inputs_;
    uint64_t compacts_ = 0;  // it serves these first calls of Compact
    bool begun_ = false;
  };
  /// Value segments whose collection a call of Compact waits for.
  using Awaited = std::list<std::set<uint64_t>>::iterator;

  CompactionSchedule(VersionSet& versions, const StorageOptions& options, base::Executor& executor,
                     std::mutex& mutex, std::condition_variable& changed)
      : versions_(versions),
        options_(options),
        executor_(executor),
        mutex_(mutex),
        changed_(changed) {}
  CompactionSchedule(const CompactionSchedule&) = delete;
  CompactionSchedule& operator=(const CompactionSchedule&) = delete;

  /// Returns whether a merge or a collection is due.
  bool Wanted() const;
  bool NewerDue() const { return Pick(Size::kNewer).count > 0; }
  /// Returns whether flushes wait because there are too many runs: a merge is under way, or a short
  /// one is due. A merge that has no thread because of another database does not count.
  bool TooManyRuns() const;
  bool UnderWay() const { return merging_ > 0; }
  /// Returns whether the merge under way stands still while its thread works for another database.
  bool Suspended() const;
  /// Returns whether Compact waits for value segments to be collected.
  bool CollectsForCompact() const { return !awaited_.empty(); }

  /// Takes the inputs of the merge that is due; false: none is.
  bool Begin(Merge& merge, Size size);
  /// Does the same for one table that refers to a mostly dead value segment.
  bool BeginCollection(Merge& merge);
  /// Ends a merge. Calls of Compact that it served return `outcome`.
  void End(Merge& merge, const Status& outcome);

  /// Lets a merge continue for some of the bytes that were flushed, before the next flush, if one
  /// thread does all the work. If no merge ever ended, nothing that the writers overwrite would be
  /// freed: they could fill any device.
  void GiveTurn(uint64_t flushed_bytes);
  void Merged(uint64_t bytes) { turn_bytes_ -= std::min(turn_bytes_, bytes); }
  bool HasTurn() const { return turn_bytes_ != 0; }
  uint64_t ExchangeTurn(uint64_t bytes) { return std::exchange(turn_bytes_, bytes); }

  /// Returns why no merge begins before the next flush or Compact; OK: merges may begin.
  const Status& shortage() const { return shortage_; }
  void SetShortage(const Status& why) { shortage_ = why; }

  /// Suspends a merge that found no room until `free_bytes`, of the device now, have grown, or many
  /// flushes were done. Otherwise each flush would retry the merge, and each attempt would fill the
  /// device for others.
  void Refuse(const CompactionInputs& inputs, const Status& why,
              const Result<uint64_t>& free_bytes);
  bool HasRefused() const { return !merge_refused_.why.ok() || !collect_refused_.why.ok(); }
  /// Allows refused merges again, if there is room or time has passed. Called after a flush.
  void TryRefusedAgain(const Result<uint64_t>& free_bytes);

  /// Records a call of Compact: everything may be tried again. Returns its number.
  uint64_t AskForAll();
  bool DidAll(uint64_t number) const { return compacts_done_ >= number; }
  const Status& outcome_of_all() const { return compacted_; }
  /// Makes the call wait for the segments that are mostly dead now, until Forget.
  Awaited AwaitCollection() {
    return awaited_.insert(awaited_.end(), versions_.MostlyDeadLocked());
  }
  void Forget(Awaited due) { awaited_.erase(due); }
  /// Returns whether those are collected, or cannot be.
  bool Collected(Awaited due) const;
  const Status& collection_refused() const { return collect_refused_.why; }

 private:
  // A merge that found no room is retried once so many bytes are free, or after so many flushes.
  struct NoRoom {
    Status why;  // OK: it may be tried
    uint64_t room = 0;
    int flushes = 0;
  };
  std::vector<RunShape> Shapes() const;
  CompactionChoice Pick(Size size) const;
  bool NothingToDrop() const;
  std::set<uint64_t> DeadSegments() const;
  bool FindCollectable(CompactionInputs* inputs) const;
  void Take(Merge& merge);
  void LetGo(Merge& merge);

  VersionSet& versions_;
  const StorageOptions& options_;
  base::Executor& executor_;
  std::mutex& mutex_;
  std::condition_variable& changed_;

  Status shortage_;
  NoRoom merge_refused_;
  uint64_t merge_bytes_end_ = UINT64_MAX;  // a merge of so many bytes was refused
  NoRoom collect_refused_;                 // no value segment is emptied meanwhile
  // Calls of Compact: all; those whose merge of all runs has begun; those whose merge has ended,
  // and the status of the last one.
  uint64_t compacts_asked_ = 0;
  uint64_t compacts_begun_ = 0;
  uint64_t compacts_done_ = 0;
  Status compacted_;
  std::list<std::set<uint64_t>> awaited_;
  int merging_ = 0;                 // merges under way
  std::set<const Run*> busy_runs_;  // their inputs
  int merge_level_ = 0;             // long jobs that the thread of the last merge was in
  uint64_t turn_bytes_ = 0;         // merges continue for so many bytes before the next flush
};

}  // namespace quire::lsm
