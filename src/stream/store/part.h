/// A rank's part of a store, in the hands of the one who may change it: its log, its index, its
/// gate, and the policy by which versions go.
///
/// Layer      stream
/// Source     NVStream, HPDC18, sections 4 to 6; docs/decisions/0013-streams.md
/// Threads    one at a time
/// Invariants Its lock is held while it lives. Everything in the index is in the log.
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

#include "base/fork_generation.h"
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

/// [bytes] What a commit of the items takes.
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
  /// Locked by the reader that has the slot of the gate.
  std::string pin_path(uint32_t slot) const {
    return path("reader") + "-" + std::to_string(slot) + ".lock";
  }
};

/// Every door that takes a part's name calls it before it looks at a file: the name of a store is
/// one name below the place. kInvalidArgument.
Status CheckPartName(const PartName& name);
/// Whether the part of this name is still the one whose log has `log_id`.
///
/// Errors  kPeerFailed: its store was removed or moved, and what has its name now, the files of
///         locks too, is nothing of it.
Status CheckSamePart(io::FileSystem& fs, const PartName& name, uint64_t log_id);
/// Whether `holder`, of a part's lock, only tends the part: makes the index of a writer that died.
bool OnlyTends(const std::string& holder);

/// One version that a commit stores.
struct PendingVersion {
  uint32_t slot = 0;          ///< of its object, from SlotOf
  VersionEntry entry;         ///< all but where it lies and its checksum, which Commit fills in
  std::vector<Slice> pieces;  ///< one behind another; the checksum of each is the next one's seed
};

/// Room in a log for bytes that are not there yet.
struct Reservation {
  char* bytes;
  Position at;
};

class Part {
 public:
  /// Opens the part, or, where `create`, makes it. Walks the log and rebuilds its index.
  ///
  /// Errors  kNotFound, kBusy (the holder), kNoSpace, kCorruption, kInvalidArgument (the name)
  static Result<std::unique_ptr<Part>> Open(io::FileSystem& fs, const PartName& name,
                                            const StreamOptions& options, bool create);
  /// Opens an existing part and keeps its policy. kNotFound, kBusy, kCorruption.
  static Result<std::unique_ptr<Part>> OpenExisting(io::FileSystem& fs, const PartName& name);
  /// State kEnded, unless Finish was called.
  ~Part();

  const LogHeap& heap() const { return *heap_; }
  LogHeap& heap() { return *heap_; }
  const Index& index() const { return *index_; }
  const PartName& name() const { return name_; }
  uint64_t snapshot() const { return snapshot_; }
  /// Whether this process opened it, and not one that it was forked from.
  bool own() const { return generation_ == base::ForkGeneration(); }

  /// An object's slot in the index, for as long as the part is open. kNoSpace.
  Result<uint32_t> SlotOf(Slice key) { return index_->FindOrAdd(key); }
  /// The next number of its versions.
  uint64_t NextVersion(uint32_t slot) const { return index_->Newest(slot) + 1; }
  /// Commits the items as one, as the snapshot `snapshot`, larger than all before.
  ///
  /// Errors  kNoSpace: the text says what holds the log. Nothing was stored.
  Status Commit(std::vector<PendingVersion>* items, uint64_t snapshot);

  /// Whether there is room for the items, of which some are deltas, and behind them for whole ones
  /// in their place; what can go is collected.
  bool LeavesRoom(const std::vector<PendingVersion>& items);

  /// Begins a commit of one version whose bytes the caller fills in himself: the room for them. If
  /// the index has no room for another object, drops those that were stored longest ago; for a
  /// policy that keeps nothing.
  Result<Reservation> Reserve(const VersionEntry& entry);
  /// Commits it: DataHash of its bytes is `hash`. Its snapshot may be any. A version that the
  /// object has under the same number gives way to it.
  Status CommitReserved(uint64_t hash);

  /// Copies an object as it was at a version. kNotFound, kCorruption.
  Status Read(Slice key, uint64_t version, char* to) const;

  /// The entry of an object as it was at `snapshot`, 0: the newest. kNotFound.
  Result<VersionEntry> EntryAt(Slice key, uint64_t snapshot) const;
  /// kNotFound where `snapshot` is none, or has lost versions.
  Status WhetherWhole(uint64_t snapshot) const;

  /// Takes away what the policy does not keep, as far as the log's head can move.
  Status Collect();
  /// The same for a program that only tends the part, piece by piece.
  ///
  /// Errors  kBusy: an owner waits for the part; what was collected until then stays so.
  Status CollectInPieces();
  /// Collect, where the log is filled beyond collect_percent.
  Status CollectAtThreshold();
  /// Which snapshots are kept whatever the policy.
  Status SetKept(std::vector<uint64_t> kept);
  /// The same with one more, which is whole. kNoSpace: the log cannot keep it, and go on.
  Status KeepAlso(uint64_t snapshot);
  Status Sync() { return heap_->Sync(); }
  Status Finish();

  /// Whether a reader stopped the last collection.
  bool pinned() const { return pinned_; }
  uint64_t relocated_bytes() const { return relocated_bytes_; }
  uint64_t collected() const { return collected_; }
  uint64_t pinned_waits() const { return pinned_waits_; }

 private:
  // A commit in [head, tail), and what it has.
  struct LiveEntry {
    uint32_t slot;
    uint64_t version;
    Position at;
    EntrySizes sizes;
  };
  // Of an object's newest version, as if it were whole.
  struct NewestWhole {
    uint64_t version = 0;
    uint64_t bytes = 0;
  };
  struct LiveCommit {
    Position at;
    uint64_t bytes;
    std::vector<LiveEntry> entries;
  };
  // What became of the commit at the head. kAgedOut: nothing of it is needed any more.
  enum class HeadMove { kStays, kMoved, kAgedOut };
  // The policy's decisions for the objects of a collection, each made once.
  class Policy {
   public:
    /// `superseded`: objects of which one more version comes, which rests upon none.
    explicit Policy(const Part& part, SlotSet superseded = {})
        : part_(part), superseded_(std::move(superseded)) {}
    Status Look(const LiveEntry& entry, bool* needed);
    /// Whether the entry, which is needed, is the newest of its object, and a delta.
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
  io::MadePaths made_directories_;  // until it is open, in the order in which they are made
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
  std::vector<NewestWhole> newest_;  // by slot; empty where no deltas are stored
  uint64_t newest_bytes_ = 0;        // the sum of theirs
  std::optional<std::vector<uint64_t>> planned_kept_;  // in place of the head's, to be stored next
  uint64_t snapshot_ = 0;
  uint64_t largest_commit_ = 0;
  Position look_again_ = 0;  // before that a collection moves nothing
  uint64_t relocated_bytes_ = 0;
  uint64_t collected_ = 0;
  uint64_t pinned_waits_ = 0;
  bool pinned_ = false;
  bool writing_ = false;  // else it is only tended
  uint32_t asked_ = 0;      // of the gate, when the part was opened: more, and an owner waits
  bool announced_ = false;  // the gate says what the log has
  bool finished_ = false;
};

/// The version among `refs` (newest first) that the object had at `snapshot`, 0 being the newest
/// below `visible`; -1: none, or it is not known whether it is the right one: versions between are
/// gone, and `snapshot` is not one of those that are kept whole.
int VersionAt(const std::vector<VersionRef>& refs, uint64_t snapshot, bool kept);
/// The place of version `version` (0: the newest) among `refs`; -1: none.
int FindVersion(const std::vector<VersionRef>& refs, uint64_t version);
/// The entries from refs[which] back to the whole version that it rests upon, newest first.
/// kCorruption: one of them is damaged, or does not fit.
Result<std::vector<VersionEntry>> ChainOf(const LogHeap& heap, const std::vector<VersionRef>& refs,
                                          size_t which);
/// Lays a version into `to`. kCorruption.
Status Assemble(const LogHeap& heap, const std::vector<VersionEntry>& chain, char* to);

}  // namespace quire::stream
