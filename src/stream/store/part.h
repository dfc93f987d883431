/// A rank's part of a store, opened by the one program that may change it: its log, its index, its
/// gate, and the policy by which versions are collected.
///
/// Layer      stream
/// Source     NVStream, HPDC18, sections 4 to 6; docs/decisions/0013-streams.md
/// Threads    one at a time
/// Invariants The part's lock is held while the object exists. Everything in the index is in the
/// log.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/threads/fork_generation.h"
#include "io/files/file_system.h"
#include "io/paths/made_paths.h"
#include "stream/index/gate.h"
#include "stream/index/index.h"
#include "stream/index/log_contents.h"
#include "stream/log/log_heap.h"
#include "stream/log/room_plan.h"
#include "stream/store/store_root.h"

namespace quire::stream {

using SlotSet = std::unordered_set<uint32_t>;

/// Returns the size of a commit of the items [bytes].
struct PendingVersion;
uint64_t CommitBytes(std::span<const PendingVersion> items);

/// The rank and the place of a part.
struct PartName {
  std::string place;
  std::string store;
  uint32_t rank = 0;

  std::string directory() const { return place + "/" + store; }
  /// <place>/<store>/<file>-<rank>
  std::string path(const char* file) const {
    return directory() + "/" + file + "-" + std::to_string(rank);
  }
  /// Returns the path of the file that the reader in this slot of the gate locks.
  std::string pin_path(uint32_t slot) const {
    return path("reader") + "-" + std::to_string(slot) + ".lock";
  }
};

/// Checks that the store's name is a single name below the place. Every entry point that receives a
/// part's name calls it before it touches a file. kInvalidArgument.
Status CheckPartName(const PartName& name);
/// Checks that the part of this name is still the one whose log has `log_id`.
///
/// Errors  kPeerFailed: its store was removed or moved, and files that have its name now, lock
///         files included, do not belong to it.
Status CheckSamePart(io::FileSystem& fs, const PartName& name, uint64_t log_id);
/// Returns whether `holder`, of a part's lock, only tends the part: rebuilds the index of a writer
/// that died.
bool OnlyTends(const std::string& holder);

/// One version that a commit stores.
struct PendingVersion {
  uint32_t slot = 0;          ///< its object's slot, from SlotOf
  VersionEntry entry;         ///< complete except its position and checksum, which Commit fills in
  std::vector<Slice> pieces;  ///< in order; the checksum of each is the next one's seed
};

/// Room in a log for bytes that have not been stored yet.
struct Reservation {
  char* bytes;
  Position at;
};

class Part {
 public:
  /// Opens the part; if `create`, creates it if it is absent. Walks the log and rebuilds its index.
  ///
  /// Errors  kNotFound, kBusy (the holder), kNoSpace, kCorruption, kInvalidArgument (the name)
  static Result<std::unique_ptr<Part>> Open(io::FileSystem& fs, const PartName& name,
                                            const StreamOptions& options, bool create);
  /// Opens an existing part and keeps its policy. kNotFound, kBusy, kCorruption.
  static Result<std::unique_ptr<Part>> OpenExisting(io::FileSystem& fs, const PartName& name);
  /// Sets the state kEnded, unless Finish was called.
  ~Part();

  const LogHeap& heap() const { return *heap_; }
  LogHeap& heap() { return *heap_; }
  const Index& index() const { return *index_; }
  const PartName& name() const { return name_; }
  uint64_t snapshot() const { return snapshot_; }
  /// Returns whether this process opened the part, and not a parent from which it was forked.
  bool own() const { return generation_ == base::ForkGeneration(); }

  /// Returns an object's slot in the index, valid while the part is open. kNoSpace.
  Result<uint32_t> SlotOf(Slice key) { return index_->FindOrAdd(key); }
  /// Returns the number of the object's next version.
  uint64_t NextVersion(uint32_t slot) const { return index_->Newest(slot) + 1; }
  /// Commits the items atomically as the snapshot `snapshot`, which must be larger than all earlier
  /// ones.
  ///
  /// Errors  kNoSpace: the text says what holds the log. Nothing was stored.
  Status Commit(std::vector<PendingVersion>* items, uint64_t snapshot);

  /// Returns whether there is room for the items, some of which are deltas, and afterwards for
  /// whole versions in their place. Collects unneeded versions for this.
  bool LeavesRoom(const std::vector<PendingVersion>& items);

  /// Begins a commit of one version whose bytes the caller fills in; returns the room for them. If
  /// the index has no room for another object, drops the objects that were stored longest ago. For
  /// a policy that keeps nothing.
  Result<Reservation> Reserve(const VersionEntry& entry);
  /// Commits the reserved version; `hash` is DataHash of its bytes. Its snapshot may have any
  /// number. Replaces a version of the object with the same number.
  Status CommitReserved(uint64_t hash);

  /// Copies an object as it was at a version. kNotFound, kCorruption.
  Status Read(Slice key, uint64_t version, char* to) const;

  /// Returns the entry of an object as of `snapshot` (0: the newest). kNotFound.
  Result<VersionEntry> EntryAt(Slice key, uint64_t snapshot) const;
  /// Returns kNotFound if there was no such snapshot, or if versions of it were collected.
  Status WhetherWhole(uint64_t snapshot) const;

  /// Removes versions that the policy does not keep, as far as the log's head can move.
  Status Collect();
  /// Collects like Collect, in small pieces, for a program that only tends the part.
  ///
  /// Errors  kBusy: an owner waits for the part; the versions collected until then stay collected.
  Status CollectInPieces();
  /// Calls Collect if the log is filled beyond collect_percent.
  Status CollectAtThreshold();
  /// Sets the snapshots that are kept whatever the policy.
  Status SetKept(std::vector<uint64_t> kept);
  /// Also keeps `snapshot`, all of whose versions exist. kNoSpace: if it were kept, the log would
  /// be too small for further commits.
  Status KeepAlso(uint64_t snapshot);
  Status Sync() { return heap_->Sync(); }
  Status Finish();

  /// Returns whether a reader stopped the last collection.
  bool pinned() const { return pinned_; }
  uint64_t relocated_bytes() const { return relocated_bytes_; }
  uint64_t collected() const { return collected_; }
  uint64_t pinned_waits() const { return pinned_waits_; }

 private:
  // A commit in [head, tail), and its entries.
  struct LiveEntry {
    uint32_t slot;
    uint64_t version;
    Position at;
    EntrySizes sizes;
  };
  // An object's newest version, with the size that it would have if it were whole.
  struct NewestWhole {
    uint64_t version = 0;
    uint64_t bytes = 0;
  };
  struct LiveCommit {
    Position at;
    uint64_t bytes;
    std::vector<LiveEntry> entries;
  };
  // The outcome for the commit at the head. kAgedOut: nothing of it is needed any more.
  enum class HeadMove { kStays, kMoved, kAgedOut };
  // The policy's decisions for the objects of a collection, each made once.
  class Policy {
   public:
    /// `superseded`: objects that are about to get one more version that depends on no earlier one.
    explicit Policy(const Part& part, SlotSet superseded = {})
        : part_(part), superseded_(std::move(superseded)) {}
    Status Look(const LiveEntry& entry, bool* needed);
    /// Returns whether the entry, which is needed, is the newest of its object, and a delta.
    bool EndsInDelta(const LiveEntry& entry) const;

   private:
    struct Object {
      std::vector<VersionRef> refs;
      std::vector<bool> needed;
    };
    const Part& part_;
    const SlotSet superseded_;
    std::unordered_map<uint32_t, Object> objects_;  // by slot
  };

  Part(io::FileSystem& fs, PartName name)
      : fs_(fs), name_(std::move(name)), root_(fs_, name_.directory()) {}
  std::string lock_path() const { return name_.path("log") + ".lock"; }
  bool HeldByWriter() const;
  Status Lock();
  Status Open(const StreamOptions* options, bool create);
  bool EndTold() const;
  Status LockExisting();
  Status Prepare(const StreamOptions& options);
  void Keep();
  Status Recover();
  Status EraseLost(const WalkEnd& end);
  Status MakeIndex(const LogContents& found);
  Status ForgetObjects();
  void Announce();

  Status Needed(uint32_t slot, bool superseded, std::vector<VersionRef>* refs,
                std::vector<bool>* needed) const;
  Result<std::vector<VersionEntry>> NeededOfHead(const Record& record) const;
  void FillLive(const LogContents& found);
  void NoteWhole(const LiveEntry& entry);
  uint64_t WholeSnapshotBytes(const std::vector<PendingVersion>& items) const;
  std::list<LiveCommit> NewLive(size_t entries);
  void AddLive(Position at, const std::vector<PendingVersion>& items, std::list<LiveCommit>* fresh);
  void EndCommit(RecordKind kind, uint64_t snapshot, uint64_t unix_time_ns,
                 const std::vector<PendingVersion>& items, std::list<LiveCommit>* fresh);
  bool RoomFor(uint64_t bytes, uint64_t spare) const;
  Status MakeRoom(uint64_t bytes, const std::vector<PendingVersion>& items, uint64_t versions);
  Status MakeIndexRoom(uint64_t versions);
  Result<RoomQuestion> AskFor(uint64_t bytes, const std::vector<PendingVersion>& items) const;
  Status MoveWhatIsKept(uint64_t bytes, const std::vector<PendingVersion>& items, bool* fits);
  Result<std::optional<uint64_t>> PlanMoves(uint64_t bytes,
                                            const std::vector<PendingVersion>& items);
  Status GiveWay() const;
  Status MoveHead(Position to);
  Status LetGo(Position to);
  Position EndBelow(Position pin, Position to) const;
  Status ClearIfDead(uint32_t slot) const;
  Position LowestPin(Status* doubt = nullptr) const;
  std::string HeldText() const;
  Result<Position> FirstNeeded(uint64_t bytes) const;
  Status CollectFor(uint64_t bytes);
  Status RelocateHead(HeadMove* move);
  Status AppendAgain(std::vector<VersionEntry> entries, uint64_t unix_time_ns);
  Status DropBelow(Position to);
  Status Full(uint64_t bytes, const std::string& why) const;

  io::FileSystem& fs_;
  PartName name_;
  const uint32_t generation_ = base::ForkGeneration();
  StreamOptions options_;
  io::MadePaths made_directories_;  // until the part is open, in the order of their creation
  StoreRoot root_;
  std::unique_ptr<io::FileLock> lock_;
  io::MadePaths made_files_;  // under lock_
  std::unique_ptr<LogHeap> heap_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<io::MappedFile> index_map_;
  std::unique_ptr<Index> index_;
  std::vector<PendingVersion> reserved_ = std::vector<PendingVersion>(1);
  bool has_reserved_ = false;
  std::vector<Position> places_;  // of the entries of the commit under way
  std::list<LiveCommit> live_;    // all of [head, tail)
  std::vector<NewestWhole> newest_;  // by slot; empty if no deltas are stored
  uint64_t newest_bytes_ = 0;        // the sum of theirs
  std::optional<std::vector<uint64_t>> planned_kept_;  // in place of the head's, to be stored next
  uint64_t snapshot_ = 0;
  uint64_t largest_commit_ = 0;
  Position look_again_ = 0;  // a collection that starts before it moves nothing
  uint64_t relocated_bytes_ = 0;
  uint64_t collected_ = 0;
  uint64_t pinned_waits_ = 0;
  bool pinned_ = false;
  bool writing_ = false;  // false: the part is only tended
  uint32_t asked_ = 0;      // the gate's count when the part was opened; if it has grown, an owner
                            // waits
  bool announced_ = false;  // the gate describes the log
  bool finished_ = false;
};

/// Returns the version among `refs` (newest first) that the object had at `snapshot` (0: the newest
/// below `visible`). -1: there is none, or it is unknown whether it is the right one, because
/// versions in between were collected and `snapshot` is not a kept one.
int VersionAt(const std::vector<VersionRef>& refs, uint64_t snapshot, bool kept);
/// Returns the index of version `version` (0: the newest) in `refs`; -1: there is none.
int FindVersion(const std::vector<VersionRef>& refs, uint64_t version);
/// Returns the entries from refs[which] back to the whole version on which it is based, newest
/// first. kCorruption: one of them is damaged, or does not fit.
Result<std::vector<VersionEntry>> ChainOf(const LogHeap& heap, const std::vector<VersionRef>& refs,
                                          size_t which);
/// Assembles a version in `to`. kCorruption.
Status Assemble(const LogHeap& heap, const std::vector<VersionEntry>& chain, char* to);

}  // namespace quire::stream
