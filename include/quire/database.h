/// The parallel database: one key space over all ranks of a communicator; each key lives at its
/// owner rank.
///
/// Layer      public
/// Source     PapyrusKV, SC17, sections 2 and 3; table 1
/// Threads    Context, Database: every call that is not collective may be made from any number of
///            threads at once, where the program asked MPI for MPI_THREAD_MULTIPLE. Collective
///            calls: all ranks, one thread each, in the same order per Context. The other classes:
///            one thread at a time.
///
/// Unless a call says otherwise: it is not collective; an error means that nothing was stored; and
/// these codes may come from every call, so that they are not repeated below:
///   kInvalidArgument  The database or context is closed, or this thread may not call (a forked
///                     child; inside a function that Quire calls; MPI at MPI_THREAD_FUNNELED).
///   kTimedOut         A rank did not answer within ContextOptions::timeout_ms. Whether a write was
///                     applied is unknown.
///   kPeerFailed       A rank died or left. Whether a write was applied is unknown.
///   kOutOfMemory      Memory, descriptors or threads are short. Works again once there are some.
///   kIo, kCorruption  The device refused (whether a write was applied is unknown), or what it
///                     gave back is damaged. The text names file and offset.
/// Where a collective call fails, it fails on all ranks with one code, and the text names the rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quire/export.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire QUIRE_EXPORT {

/// Which transport moves messages between ranks of one node: kAuto is shared memory where ranks can
/// share it, else MPI; kMpi is MPI everywhere.
enum class TransportChoice { kAuto = 0, kMpi = 1 };

/// What holds for all databases of a Context. The same on all ranks.
struct ContextOptions {
  /// [ms, 100 .. 86400000] Deadline of every wait for another rank.
  uint64_t timeout_ms = 60'000;
  TransportChoice transport = TransportChoice::kAuto;
  /// [bytes] Limit over everything of this rank, databases and writers of datasets. 0: a quarter of
  /// the cgroup's or the machine's memory, divided by the ranks of the node.
  uint64_t memory_bytes = 0;
  /// [1 .. 64] Threads for flushing and compaction, per rank.
  int background_threads = 1;
};

/// When a remote write is seen (SC17, section 3.1). Numbers as in PapyrusKV.
enum class Consistency { kSequential = 1, kRelaxed = 2 };

/// Protection attribute (SC17, section 3.2).
enum class Protection {
  kReadWrite = 8,
  kWriteOnly = 16,   ///< gets are refused; the local cache is off
  kReadOnly = 32,    ///< writes are refused; the remote cache is on (if it has bytes)
  kUpdateOnly = 64,  ///< only registered updates write; gets are allowed
};

/// How far a barrier goes: every write at its owner, or in tables there.
enum class Level { kMemTable = 1, kSsTable = 2 };

/// How Open treats what is there.
enum class OpenMode { kOpenOrCreate, kMustExist, kMustNotExist };

/// Owner rank of a key, in [0, rank_count): pure, the same on all ranks. Throwing fails the call.
using Partitioner = std::function<int(Slice key, int rank_count)>;

/// One database's properties. The same on all ranks (checked; a difference is kInvalidArgument on
/// all ranks and names it).
struct DatabaseOptions {
  StorageOptions storage;
  OpenMode mode = OpenMode::kOpenOrCreate;
  Consistency consistency = Consistency::kRelaxed;
  Protection protection = Protection::kReadWrite;
  /// Empty: a hash of the key, evenly over all ranks.
  Partitioner partitioner;
  /// Stored; a database is opened with the name it was made with. Empty: "hash", or "custom" if a
  /// partitioner is given. Open refuses "hash" with a partitioner, and another name without one.
  std::string partitioner_name;
  /// [bytes] Pairs read from tables of this rank. 0: off (blocks are cached anyway).
  uint64_t local_cache_bytes = 0;
  /// [bytes] Pairs of other ranks, while protected kReadOnly. 0: off.
  uint64_t remote_cache_bytes = 64ull << 20;
  /// [bytes, 1 KiB .. 16 MiB] Staged remote writes are sent in batches of this size, per owner.
  uint64_t migrate_batch_bytes = 64 * 1024;
  /// [bytes] Staged remote writes of this rank; further ones wait.
  uint64_t remote_memtable_bytes = 64ull << 20;
  /// [0 .. 2^30] Ranks per storage group: those read each other's tables themselves, and, where
  /// they share memory, MemTables too. 0: the ranks of a node. 1: every rank is its own. More:
  /// ranks in order of their numbers, so many to a group, on whatever nodes, and ranks of a node
  /// that are of different groups ask each other. Members need storage that all of them see: one
  /// whose tables are not seen is asked for its values. SC17, section 2.7.
  int group_size = 0;
  /// What other numbers of ranks wrote moves to its owners before Open returns; else it does so in
  /// the background, where all ranks see the storage.
  bool redistribute = false;
  /// All pairs move into new parts before Open returns, also where as many ranks wrote them as open
  /// it now. (Where some were moving already, it is those that move.)
  bool force_redistribute = false;
  /// [per cent, 0 .. 100] Sizes shrink until the database plans with at most so much of what is
  /// left of ContextOptions::memory_bytes. 0: those that have their defaults shrink, to a half, and
  /// what was given is kept or refused.
  int memory_percent_max = 0;
};

/// Changes the value of a key at its owner. `present` is null where the key is absent. Answer OK to
/// store `updated` (given empty), kNotFound to write nothing, anything else to fail the update.
/// Must be quick. If it throws, the update fails; calls of Quire inside it fail. It runs again if
/// the key changes before the value is stored.
using UpdateFunction =
    std::function<Status(Slice key, const Slice* present, Slice argument, std::string* updated)>;

/// An UpdateFunction that also gives an `answer` (given empty) for the rank that asked: see
/// Database::UpdateAndAnswer. It is given where the function answers OK or kNotFound.
using AnsweringUpdateFunction = std::function<Status(
    Slice key, const Slice* present, Slice argument, std::string* updated, std::string* answer)>;

/// Counts of one rank since open, by name ("bytes.log", "memory.memtables", ...:
/// docs/statistics.md).
using Statistics = std::map<std::string, uint64_t>;

class Database;

/// How far this rank's part of an Event is.
struct EventProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  ///< as far as it is known: it may grow
};

/// Something collective that goes on in the background: all ranks hold one. It goes on where the
/// Event is let go; it is given up, unfinished, with its Context.
///
/// Where Context::Description() does not say "handler thread" it goes on inside the program's
/// calls: those of the Event, Context::Progress, and those that wait.
///
/// Source     SC17, section 4.2.
class Event {
 public:
  virtual ~Event() = default;
  /// True once Wait would not wait. Does not wait.
  virtual bool Ready() = 0;
  /// Waits for its end on all ranks. May be called again.
  ///
  /// Errors     The first failure of any rank, on all ranks alike, with the rank and what it was.
  ///            kTimedOut: a rank did not answer, or this one got no further, for
  ///            ContextOptions::timeout_ms; it goes on and may be waited for again. kPeerFailed: a
  ///            rank died, and it has failed.
  virtual Status Wait() = 0;
  /// Bytes moved so far, and in total.
  virtual EventProgress Progress() const = 0;
};

/// What becomes of earlier checkpoints.
struct CheckpointOptions {
  /// [0: all] So many complete checkpoints of the database stay at the path, the newest: older ones
  /// are removed once this one is complete.
  int keep = 0;
};

/// Which checkpoint, and how it comes back.
struct RestartOptions {
  uint64_t number = 0;    ///< 0: the newest that is complete and not damaged
  /// Nothing is copied: the database reads the checkpoint where it lies, which must stay there
  /// until all pairs have moved (DatabaseOptions::redistribute).
  bool in_place = false;
  /// A database of the name that is there is replaced in one step, once all is copied and verified;
  /// until then, and where the restart fails, it stays as it is. It takes room for both.
  bool replace = false;
};

/// The runtime of one repository on one communicator: transport, threads, memory limit. Ending it
/// closes the databases that are open. With MPI it ends before MPI_Finalize, on all ranks.
class Context {
 public:
  /// One rank alone, without MPI. (With MPI: OpenContext in quire/mpi.h.)
  ///
  /// @param repository  directory; made 0700 if absent. "$NAME" at its beginning is an environment
  ///                    variable's value. A relative one is resolved now: chdir later is no matter.
  ///
  /// Errors     kInvalidArgument  The repository is not this user's, not a directory or a symbolic
  ///                              link, or an option is out of range: named.
  static Result<std::unique_ptr<Context>> OpenSerial(const std::string& repository,
                                                     const ContextOptions& options = {});
  virtual ~Context() = default;

  /// This rank in the context's communicator, [0, size()).
  virtual int rank() const = 0;
  /// The number of ranks.
  virtual int size() const = 0;
  /// The directory, from the root, environment variables replaced.
  virtual const std::string& repository() const = 0;
  /// "self", "shm+mpi, MPI_THREAD_MULTIPLE, handler thread", ... : what was chosen, for logs.
  virtual std::string Description() const = 0;

  /// Opens or creates the database `name`.
  ///
  /// Collective   Yes.
  ///
  /// @param name  [A-Za-z0-9._-]{1,255}, no leading dot or dash.
  ///
  /// Errors       kInvalidArgument  The name or an option is not allowed, options or names differ
  ///                                between ranks, the database was made with another partitioner,
  ///                                or it exists and the mode is kMustNotExist.
  ///              kNotFound         It does not exist, and the mode is kMustExist.
  ///              kBusy             Open elsewhere, or what is left of the job that wrote it still
  ///                                lives: the text names the holder.
  ///              kUnsupported      Made by a newer version; or pairs of several older generations
  ///                                have not moved, and these ranks share no storage.
  ///              kCorruption       Files are damaged or missing; or, where nodes have storage of
  ///                                their own, ranks are on other nodes than their parts.
  ///              kNoSpace          No room for log segments.
  /// Made by another number of ranks: all pairs are there at once where all ranks see the storage,
  /// and move to their owners in the background; else they move before Open returns.
  /// Cost         Some collectives, and manifests, whatever the size; after a kill also a walk
  ///              through the log. Tables are opened where they are read first.
  /// Source       SC17, section 4.1 (zero-copy workflow).
  virtual Result<std::unique_ptr<Database>> Open(const std::string& name,
                                                 const DatabaseOptions& options) = 0;
  /// Removes a closed database and all its files, nothing else.
  ///
  /// Collective   Yes.
  /// Errors       kNotFound    There is none.
  ///              kBusy        It is open, here or elsewhere.
  ///              kCorruption  Ranks see parts of it, but rank 0 no descriptor: nothing is removed.
  virtual Status Destroy(const std::string& name) = 0;

  /// The same in the background. At return nothing opens the database any more, whatever becomes of
  /// this job: Open answers kBusy until the event has ended, then kNotFound. Its files are gone by
  /// the end of the event.
  ///
  /// Collective   Yes.
  /// Source       SC17, table 1 (papyruskv_destroy).
  virtual Result<std::unique_ptr<Event>> DestroyAsync(const std::string& name) = 0;
  /// Brings the database `name` back from a checkpoint below `path`, in the background; there must
  /// be none of this name in the repository, or RestartOptions::replace. Once the event has ended
  /// well, Open opens it, with any number of ranks. Every byte is compared with its checksum on the
  /// way; of a checkpoint that is used where it lies, that all files are there with their sizes.
  ///
  /// Collective   Yes.
  /// Errors       kNotFound         There is no complete checkpoint, or not the one asked for.
  ///              kInvalidArgument  There is a database `name`, and it is not to be replaced; a
  ///                                relative path.
  ///              kBusy             It is open, here or elsewhere.
  ///              kIo               A checkpoint cannot be read, even if none was asked for: this
  ///                                may pass, it is not taken for damage. An older one comes back
  ///                                where RestartOptions::number asks for it.
  ///              kCorruption       The one asked for is damaged. Where none was asked for, a
  ///                                damaged one is passed over for the one before it, and the log
  ///                                (quire/log.h) says so.
  ///              Those of the transfer come from the event, alike on all ranks, with rank and
  ///              file: kNoSpace, kIo, kCorruption; then there is no database, or the one that was
  ///              to be replaced.
  /// Source       SC17, section 4.3.
  virtual Result<std::unique_ptr<Event>> Restart(const std::string& path, const std::string& name,
                                                 const RestartOptions& options) = 0;

  /// The names of the databases in the repository, in order, also of those that cannot be opened.
  ///
  /// Collective   Yes: what any rank finds, on all ranks.
  virtual Result<std::vector<std::string>> ListDatabases() = 0;

  /// One outcome for all ranks: OK where all give OK, else that of the lowest failing rank, its
  /// text with that rank.
  ///
  /// Collective   Yes.
  virtual Status Agree(const Status& mine) = 0;

  /// Waits for all ranks.
  ///
  /// Collective   Yes.
  virtual Status Barrier() = 0;
  /// Sends `signal` to `ranks` (SC17, section 3.1). Their WaitSignal sees what this rank wrote
  /// before, if that was sequential or fenced.
  ///
  /// Errors       kInvalidArgument  There is no such rank.
  virtual Status Notify(int signal, const std::vector<int>& ranks) = 0;
  /// Waits for one `signal` from each of `ranks`; takes them all, or none.
  ///
  /// Errors       kInvalidArgument  There is no such rank.
  virtual Status WaitSignal(int signal, const std::vector<int>& ranks) = 0;
  /// Handles what other ranks asked. Needed only in programs that compute for long where
  /// Description() does not say "handler thread"; cheap and harmless elsewhere.
  virtual void Progress() = 0;
};

/// A get under way. May outlive its Database, not its Context; Take comes before the database is
/// destroyed.
class PendingGet {
 public:
  virtual ~PendingGet() = default;
  /// True once Take would not wait.
  virtual bool Ready() = 0;
  /// Waits, and gives the value once. Errors as Database::Get.
  virtual Result<std::string> Take() = 0;
};

/// Ordered walk over the pairs that this rank owns, as they were when it was made. Keys are ordered
/// as unsigned bytes. Close ends the walk (kInvalidArgument), and must not run beside a call of it.
class LocalIterator {
 public:
  virtual ~LocalIterator() = default;
  /// True while it stands on a pair. False at either end, and after a failure: see status().
  virtual bool Valid() const = 0;
  /// To the first pair, if there is one.
  virtual void SeekToFirst() = 0;
  /// To the last pair, if there is one.
  virtual void SeekToLast() = 0;
  /// To the first pair whose key is `key` or above.
  virtual void Seek(Slice key) = 0;
  /// To the next pair. Nothing where it is not Valid().
  virtual void Next() = 0;
  /// To the pair before. Nothing where it is not Valid().
  virtual void Prev() = 0;
  /// The key, where it is Valid(); readable until it moves.
  virtual Slice key() const = 0;
  /// The value, where it is Valid(); readable until it moves. A large one is read now: empty, with
  /// status(), where that fails.
  virtual Slice value() = 0;
  /// OK, or what ended the walk.
  virtual Status status() const = 0;
};

/// Writes that take effect together at each owner: all or nothing per owner. Of several writes of a
/// key the last one counts.
class Batch {
 public:
  /// Adds a put. Key and value are copied.
  void Put(Slice key, Slice value);
  /// Adds a delete. The key is copied.
  void Delete(Slice key);
  /// Empties it.
  void Clear();
  /// The number of writes.
  size_t count() const { return operations_.size(); }
  /// One write of the batch; the bytes are the batch's own.
  struct Operation {
    bool is_delete;
    std::string key;
    std::string value;
  };
  /// The writes, in the order in which they were added.
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// Gives the place for `size` bytes of a value; null refuses (kOutOfMemory). May be called again:
/// the last place has the value. If it throws, the get fails; calls of Quire inside it fail.
using PlaceFunction = std::function<char*(size_t size)>;

/// An open database. Ends before its Context.
class Database {
 public:
  /// Closes without waiting for other ranks where Close() was not called; staged remote writes are
  /// sent, failures are logged (quire/log.h).
  virtual ~Database() = default;

  /// The name it was opened by.
  virtual const std::string& name() const = 0;
  /// The rank that owns `key`: what the partitioner answers; negative if it throws.
  virtual int Owner(Slice key) const = 0;

  /// Inserts one pair, or replaces the value of an existing key.
  ///
  /// Visibility   This rank: at return. Other ranks: at return if the database is sequential, else
  ///              after this rank's next Fence() or Barrier().
  /// Durability   At the owner: as StorageOptions::log says. Relaxed, at another rank: none before
  ///              Fence().
  /// Order        Two Puts of one key by one rank take effect in program order. Two Puts by two
  ///              ranks with no Fence() between them: one of the two values wins.
  ///
  /// @param key    [bytes] size in [1, 65536], and a few KiB less than memtable_bytes. Copied
  ///               before return.
  /// @param value  [bytes] size in [0, 2^32 - 1]. Copied before return.
  ///
  /// Errors       kInvalidArgument  A size is out of range, or the partitioner answered no rank.
  ///              kReadOnly         Protected, or after a background failure: the text says which.
  ///              kNoSpace          The device is full. Works again once there is room.
  ///              kBusy             No MemTable became free for half of
  ///                                ContextOptions::timeout_ms. Iterators alone are no cause.
  ///              A relaxed remote Put that fails later, on its owner, is reported by this rank's
  ///              next Fence() or Barrier(), with the count of lost operations; never dropped.
  ///
  /// Cost         Local: one copy. Remote, relaxed: one copy, sent in batches. Remote, sequential:
  ///              one round trip. Blocks, asleep, while the flushing or migration queue is full.
  /// Source       SC17, sections 2.4 and 3.1, figure 2.
  virtual Status Put(Slice key, Slice value) = 0;
  /// Removes one pair: a Put of a tombstone, in every respect. OK also where the key is absent.
  ///
  /// Source       SC17, section 2.5.
  virtual Status Delete(Slice key) = 0;
  /// The newest value that this rank may see, in the place that `place` gives.
  ///
  /// Visibility   This rank's own writes: always. Other ranks': as their calls say.
  /// Errors       kNotFound         The key is absent or deleted: an answer, not a failure.
  ///              kInvalidArgument  The key's size is out of range, or the database is protected
  ///                                write-only.
  /// Cost         Own keys, and those of members of the storage group that share memory (ranks of
  ///              this node, but with TransportChoice::kMpi or a full /dev/shm): no message.
  ///              Others: one round trip; of a member of the group the value travels only if it is
  ///              in memory, and else is read from the member's tables. In a MemTable about two
  ///              cache misses; in tables at most one read. One copy.
  /// Source       SC17, section 2.6, figure 3; 2.7.
  virtual Status Get(Slice key, const PlaceFunction& place) = 0;
  /// The same into a string.
  Status Get(Slice key, std::string* value);
  /// Asks now, answers later. Many may be under way. Never null: errors come from Take.
  ///
  /// Cost         As Get; tables of a member of the storage group are read by Ready or Take.
  virtual std::unique_ptr<PendingGet> GetAsync(Slice key) = 0;

  /// Puts many pairs, in order: sequential, one message per owner, all under way together; relaxed,
  /// they are staged.
  ///
  /// Errors       As Put: each pair is tried, and the first failure is returned with their count.
  virtual Status PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) = 0;
  /// Deletes many keys, as PutMany puts pairs.
  virtual Status DeleteMany(const std::vector<Slice>& keys) = 0;
  /// `values[i]` and `found[i]` for `keys[i]`. Absent keys are no failure.
  ///
  /// Errors       As Get: each key is tried, and the first failure is returned with their count;
  ///              what was found is there.
  /// Cost         One message per owner whose memory is not shared, all under way together; what
  ///              is in tables of members of the storage group is read there, as by Get.
  virtual Status GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                         std::vector<bool>* found) = 0;
  /// Applies a batch: all or nothing at each owner, for readers and across crashes. Waits for the
  /// owners' answers, in both consistencies.
  ///
  /// Errors       As Put; kInvalidArgument also where an owner's part fits no MemTable. The text
  ///              says how many operations failed: those of the owners that failed.
  virtual Status Write(const Batch& batch) = 0;

  /// Registers `function` under `id` on this rank, in place of the one that had the id. All ranks
  /// register the same functions before the first Update (a Barrier lies between).
  ///
  /// Errors       kInvalidArgument  The function is empty.
  virtual Status RegisterUpdate(uint32_t id, UpdateFunction function) = 0;
  /// Runs update `id` at the owner of `key`, atomically for the key. Visibility, durability, order
  /// and errors as Put: relaxed, it is staged and sent in batches.
  ///
  /// Errors       kInvalidArgument  No function has this id at the owner.
  virtual Status Update(Slice key, uint32_t id, Slice argument) = 0;
  /// As RegisterUpdate, of a function that also answers. Both kinds share their numbers, and Update
  /// runs both.
  virtual Status RegisterAnsweringUpdate(uint32_t id, AnsweringUpdateFunction function) = 0;
  /// Runs update `id` at the owner of `key` as Update does, waits for it in both consistencies, and
  /// gives what the function answered: empty where it is of the kind that does not.
  ///
  /// Order        After what this rank has staged for that owner.
  /// Errors       As Update, and what the function says.
  /// Cost         One round trip.
  virtual Status UpdateAndAnswer(Slice key, uint32_t id, Slice argument, std::string* answer) = 0;

  /// Sends what this rank has staged and waits until the owners have applied it.
  ///
  /// Errors       The first failure of an earlier relaxed write, with the count of those lost.
  /// Source       SC17, section 3.1.
  virtual Status Fence() = 0;
  /// Writes this rank's MemTables into tables, which survive power loss, and waits for that. What
  /// is staged for other ranks is not waited for.
  ///
  /// Errors       kNoSpace where a table does not fit.
  virtual Status Flush() = 0;
  /// A fence by all ranks: afterwards all see the same data. With kSsTable, every rank's MemTables
  /// are in tables, and these survive power loss.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank; kNoSpace where a table does not fit; kInvalidArgument
  ///              where levels differ.
  /// Source       SC17, section 3.1.
  virtual Status Barrier(Level level) = 0;
  /// Changes the consistency; what was staged is fenced first.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank: the consistency stays as it was.
  virtual Status SetConsistency(Consistency consistency) = 0;
  /// Changes the protection; what was staged is fenced first.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank: the protection stays as it was.
  /// Source       SC17, section 3.2.
  virtual Status Protect(Protection protection) = 0;

  /// Writes a checkpoint of what all ranks have written so far: <path>/<name>/<number>/, on storage
  /// that all ranks see. Returns after a barrier and a flush; files are copied in the background
  /// while writes go on, which are in no checkpoint. Files that an earlier checkpoint there has are
  /// linked, not copied. Several may be under way.
  ///
  /// A checkpoint is there, complete and durable, once the event has ended well. If the event
  /// failed it is not there, unless the text says that this is not known: a rank cannot know what
  /// became of rank 0, which publishes. Those before it stay as they are.
  /// What is copied is verified against its checksums; a file that is linked was, by the checkpoint
  /// before, and is read again where it was written to since, and now and then
  /// (docs/format/checkpoint.md).
  /// Which checkpoints there are, with their states, the command `quire checkpoint list` tells
  /// (docs/tool.md). What an interrupted checkpoint or removal left, the next one removes.
  ///
  /// Collective   Yes.
  /// @param path  absolute; made where it is absent.
  /// Errors       kInvalidArgument  A relative path, or ranks give different ones.
  ///              As Barrier(kSsTable). Those of the copying come from the event, alike on all
  ///              ranks: kNoSpace, kIo (also where a rank does not see the path that rank 0
  ///              writes to), kCorruption (a file of the database is damaged or gone, or the
  ///              copy is not what was written to it: the text says which), with rank and file.
  /// Cost         As Barrier(kSsTable). In the background one reading and one writing of what no
  ///              earlier checkpoint has, and one reading of the copy.
  /// Source       SC17, section 4.2.
  virtual Result<std::unique_ptr<Event>> Checkpoint(const std::string& path,
                                                    const CheckpointOptions& options) = 0;

  /// An iterator over the pairs that this rank owns. Never null: errors are in its status().
  ///
  /// Cost         The first one after many puts sorts their keys. With many open, a Flush.
  virtual std::unique_ptr<LocalIterator> NewLocalIterator() = 0;
  /// Merges this rank's tables into one run, without dead versions. Waits.
  virtual Status Compact() = 0;
  /// This rank's counts since open.
  virtual Statistics GetStatistics() const = 0;
  /// Fences, brings what MemTables have into tables, closes, keeps all data: the next program that
  /// opens it reads manifests alone. Other calls fail afterwards.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank, and as Barrier(kSsTable); with the log on, kNoSpace for
  ///              tables is none, for the log keeps what they lack. It is closed in any case.
  /// Source       SC17, section 4.1 (zero-copy workflow).
  virtual Status Close() = 0;
};

}  // namespace quire
