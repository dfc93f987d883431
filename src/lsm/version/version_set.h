/// The Versions of a database: the one that readers and writers see, and its successors. A change
/// of the runs is published: the manifest comes first, then the Version.
///
/// Layer      lsm
/// Source     LevelDB's VersionSet; PapyrusKV, SC17, section 2.4
/// Encoding   docs/format/manifest.md
/// Threads    any. Lock order: that of publications, `sync_mutex`, `mutex`. Accessors of what the
///            mutex guards, and functions whose name ends in Locked, are called under `mutex`.
/// Invariants a table is in the manifest before a Version shows it; nothing that a Version or the
///            manifest reaches is deleted; Versions that were replaced are retired under no lock
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/threads/epoch.h"
#include "io/files/file_system.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/manifest.h"
#include "lsm/version/segment_tracker.h"
#include "lsm/version/version.h"
#include "lsm/vlog/value_log.h"
#include "quire/status.h"

namespace quire::lsm {

/// Returns whether the cause may pass by itself: too little room on the device, memory, or
/// descriptors. Nothing was done, and the operation can be retried.
inline bool IsShortage(const Status& status) {
  return status.code() == Code::kNoSpace || status.code() == Code::kOutOfMemory;
}

/// A change of the runs: by a flush, a merge, or the rewriting of one table.
struct RunEdit {
  std::vector<std::shared_ptr<const Run>> inputs;  ///< neighbours; empty: a new run in front
  /// tables of `inputs` that go into `output` as they are
  std::vector<std::shared_ptr<TableHandle>> kept;
  std::vector<std::shared_ptr<TableHandle>> obsolete;  ///< tables of `inputs` that are not kept
  std::shared_ptr<const Run> output;                   ///< null: nothing is left
  /// the oldest immutable MemTable, if this is a flush
  std::shared_ptr<PooledMemTable> flushed;
};

/// The state of a database at one moment. Later flushes and merges do not change it, however fast
/// the program writes.
struct Moment {
  std::shared_ptr<const Version> version;  ///< without its MemTables
  Manifest manifest;
  /// Keeps the value segments that were open then in the list until their sizes are known.
  SegmentTracker::Protection protection;
};

class VersionSet {
 public:
  /// The database's locks, and the condition that is notified of a new Version.
  struct Locks {
    std::mutex& sync_mutex;  ///< held while the log's headers are synced
    std::mutex& mutex;
    std::condition_variable& changed;
  };
  VersionSet(io::FileSystem& fs, std::string directory,
             std::shared_ptr<ObsoleteFiles> obsolete_files, const Locks& locks)
      : fs_(fs), directory_(std::move(directory)), locks_(locks), segments_(obsolete_files) {}
  VersionSet(const VersionSet&) = delete;
  VersionSet& operator=(const VersionSet&) = delete;

  /// Called when the database is opened, in this order. The manifest `next` replaces `stored`,
  /// which is on disk already if `exists`.
  Status TakeOver(const Manifest& stored, Manifest next, bool exists);
  void Attach(MemTablePool* pool, ValueLog* values);
  void SetBoot(uint64_t boot_id);

  /// Returns the present Version; called inside an EpochGuard.
  const Version& Load() const { return *version_.load(std::memory_order_acquire); }
  bool has_version() const { return version_.load(std::memory_order_acquire) != nullptr; }
  std::shared_ptr<const Version> Pin() const;
  /// Returns the Version without its MemTables: writers cannot use the memory of those that are
  /// held.
  static std::shared_ptr<const Version> TablesOf(const Version& version);

  /// The memory that is needed to retire a Version.
  class Retirement {
   public:
    Retirement()
        : version_(std::make_shared<std::shared_ptr<const Version>>()),
          list_(base::EpochPrepare([version = version_] { version->reset(); })) {}
    /// Returns what EpochRetire takes. Called once.
    std::list<base::EpochRetired> Of(std::shared_ptr<const Version> version) noexcept {
      *version_ = std::move(version);
      return std::move(list_);
    }

   private:
    std::shared_ptr<std::shared_ptr<const Version>> version_;
    std::list<base::EpochRetired> list_;
  };

  /// Holds the mutex, under which the Version is replaced. Replaced Versions go to EpochRetire,
  /// which may destroy other Versions at once, after the mutex is released: in the destructor.
  class Change {
   public:
    explicit Change(VersionSet& versions) : lock_(versions.locks_.mutex) {}
    ~Change() {
      if (lock_.owns_lock()) lock_.unlock();
      base::EpochRetire(std::move(replaced_));
    }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    /// Returns the lock, to wait, or to work without the mutex for a while.
    std::unique_lock<std::mutex>& lock() { return lock_; }

   private:
    friend class VersionSet;
    void Replace(Retirement retirement, std::shared_ptr<const Version> version) noexcept {
      replaced_.splice(replaced_.end(), retirement.Of(std::move(version)));
    }
    std::unique_lock<std::mutex> lock_;
    std::list<base::EpochRetired> replaced_;
  };
  /// Returns a copy of the present Version, to be changed and installed. Allocates all the memory
  /// that the change needs.
  std::shared_ptr<Version> Successor(Change& change) const;
  /// Installs `next`, which is from Successor, or the first. The neighbours' board changes first:
  /// nothing is written into a new MemTable that the neighbours do not know.
  void InstallLocked(std::shared_ptr<Version> next) noexcept;
  /// Takes the last Version when the database ends: after that there is none.
  std::shared_ptr<const Version> TakeLastLocked();

  /// Guarded by the mutex: the Version of this moment.
  const std::shared_ptr<const Version>& current() const { return current_; }
  /// Returns the LSN below which records are in tables.
  uint64_t flushed_lsn() const { return flushed_lsn_; }
  /// Returns whether value segments are mostly dead.
  bool collect_due() const { return collect_due_; }
  void NothingToCollectLocked() { collect_due_ = false; }
  std::set<uint64_t> MostlyDeadLocked() const {
    return segments_.MostlyDead(UsesOf(current_->runs));
  }

  /// Publishes `edit`: in the manifest, then for readers.
  ///
  /// Errors  kReadOnly: after an earlier failure it is not known which manifest is in force. kIo:
  ///         if in_doubt() it is not known from now on. kNoSpace, kOutOfMemory, kBusy: nothing has
  ///         changed. No step that follows the manifest's writing needs memory.
  Status Publish(const RunEdit& edit);
  /// Returns whether the manifest may name tables that were to be removed.
  bool in_doubt() const { return in_doubt_.load(std::memory_order_acquire); }
  /// Updates the state of the value segments. No publication takes place meanwhile.
  void ObserveSegments();
  /// Returns the present moment of the database. kReadOnly: it is not known which manifest is in
  /// force. kCorruption: a value segment to which a table refers is missing.
  Result<Moment> Now();
  /// Fills in the sizes of segments that were open then, and are sealed now.
  void FillSizes(std::vector<StoredSegment>* segments);
  /// Returns whether the manifest on disk is still this opener's.
  Result<bool> StillOurs() const { return StillStored(fs_, directory_, manifest_); }

  SegmentTracker& segments() const { return segments_; }
  uint64_t TakeSsid() { return next_ssid_.fetch_add(1); }
  uint64_t newest_ssid() const { return next_ssid_.load(std::memory_order_relaxed) - 1; }
  uint64_t epoch() const { return manifest_.epoch; }

 private:
  /// The manifest that lists the next runs, and all that is shown once it is written.
  struct Publication {
    Manifest manifest;
    std::shared_ptr<Version> version;  ///< with room for the MemTables
    std::set<uint64_t> unused;         ///< value segments that the manifest does not list any more
    bool collect_due = false;
    Retirement retirement;  ///< of the present Version
  };
  Publication Prepare(const RunEdit& edit, uint64_t open_floor) const;
  void ShowPublished(const RunEdit& edit, Publication next) noexcept;
  std::vector<std::shared_ptr<const Run>> EditedRuns(const RunEdit& edit) const;
  static SegmentUses UsesOf(const std::vector<std::shared_ptr<const Run>>& runs);
  Status WriteManifest(const Manifest& manifest, uint64_t previous_epoch);
  Status InDoubt(const Status& why);
  Status CheckCertain() const;
  Manifest NextManifest(const RunEdit& edit, const std::vector<std::shared_ptr<const Run>>& runs,
                        uint64_t open_floor) const;
  void LookAtSegments();
  Status SyncLiveHeaders(const std::shared_ptr<PooledMemTable>& flushed);

  io::FileSystem& fs_;
  const std::string directory_;
  const Locks locks_;
  mutable SegmentTracker segments_;
  MemTablePool* pool_ = nullptr;  // set by Attach
  ValueLog* values_ = nullptr;
  std::atomic<uint64_t> next_ssid_{1};
  std::atomic<bool> in_doubt_{false};

  // The Version that readers and writers load inside an EpochGuard; current_ keeps it alive.
  std::atomic<const Version*> version_{nullptr};

  // One publication at a time: it reads the runs, writes the manifest, installs the Version.
  std::mutex publish_mutex_;
  Manifest manifest_;  // guarded by it: the last one written, without lists

  // Guarded by locks_.mutex.
  std::shared_ptr<const Version> current_;
  uint64_t edition_ = 0;  // of the last manifest
  uint64_t flushed_lsn_ = 0;
  bool collect_due_ = false;
};

}  // namespace quire::lsm
