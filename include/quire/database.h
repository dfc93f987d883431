/// The parallel database: one key space over all ranks of a communicator; each key is stored at its
/// owner rank.
///
/// Layer      public
/// Source     PapyrusKV, SC17, sections 2 and 3; table 1
/// Threads    Context, Database: any number of threads may make calls that are not collective at
///            once, if the program requested MPI_THREAD_MULTIPLE from MPI. Collective calls: all
///            ranks, one thread each, in the same order per Context. The other classes: one thread
///            at a time.
///
/// Unless its comment says otherwise, a call is not collective, and after an error nothing was
/// stored. Every call may also return these codes; they are not repeated below:
///   kInvalidArgument  The database or context is closed, or this thread may not call (a forked
///                     child; inside a function that Quire calls; MPI at MPI_THREAD_FUNNELED).
///   kTimedOut         A rank did not answer within ContextOptions::timeout_ms. It is unknown
///                     whether a write was applied.
///   kPeerFailed       A rank died or left. It is unknown whether a write was applied.
///   kOutOfMemory      Too little memory, or too few descriptors or threads. The call works again
///                     later.
///   kIo, kCorruption  The device failed (it is unknown whether a write was applied), or returned
///                     damaged data. The text names the file and the offset.
/// If a collective call fails, it fails on all ranks with the same code; the text names the rank
/// that caused it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quire/buffer_allocator.h"
#include "quire/export.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire QUIRE_EXPORT {

/// The transport of messages between ranks of one node. kAuto: shared memory if the ranks can share
/// it, else MPI. kMpi: MPI everywhere.
enum class TransportChoice { kAuto = 0, kMpi = 1 };

/// Options of a Context, for all its databases. All ranks must pass the same values.
struct ContextOptions {
  /// [ms, 100 .. 86400000] Deadline of every wait for another rank.
  uint64_t timeout_ms = 60'000;
  TransportChoice transport = TransportChoice::kAuto;
  /// [bytes] Limit on the memory of all databases and dataset writers of this rank. 0: a quarter of
  /// the cgroup's or the machine's memory, divided by the number of ranks on the node.
  uint64_t memory_bytes = 0;
  /// [1 .. 64] Threads for flushing, compaction, and the tables of datasets, per rank. A thread in
  /// a long merge also runs other waiting work, except other long merges.
  int background_threads = 1;
};

/// When other ranks see a write (SC17, section 3.1). The numbers are PapyrusKV's.
enum class Consistency { kSequential = 1, kRelaxed = 2 };

/// Protection attribute (SC17, section 3.2).
enum class Protection {
  kReadWrite = 8,
  kWriteOnly = 16,   ///< gets are refused; the local cache is off
  kReadOnly = 32,    ///< writes are refused; the remote cache is on (if it has bytes)
  kUpdateOnly = 64,  ///< only registered updates write; gets are allowed
};

/// The state that a barrier waits for: every write is in its owner's MemTable, or in its tables.
enum class Level { kMemTable = 1, kSsTable = 2 };

/// Whether a database must exist, must not exist, or is created by Open if it is absent.
enum class OpenMode { kOpenOrCreate, kMustExist, kMustNotExist };

/// Returns the owner rank of a key, in [0, rank_count). Must be a pure function, the same on all
/// ranks. If it throws, the call fails with kInvalidArgument and the exception's text
/// (std::bad_alloc: with kOutOfMemory); a get never returns kNotFound instead. Calls of Quire
/// inside it fail with kInvalidArgument.
using Partitioner = std::function<int(Slice key, int rank_count)>;

/// Options of one database. All ranks must pass the same values; if they differ, Open fails on all
/// ranks with kInvalidArgument, and the text names the option.
struct DatabaseOptions {
  StorageOptions storage = {};
  OpenMode mode = OpenMode::kOpenOrCreate;
  Consistency consistency = Consistency::kRelaxed;
  Protection protection = Protection::kReadWrite;
  /// Empty: a hash of the key, which spreads keys evenly over all ranks.
  Partitioner partitioner;
  /// The partitioner's name, stored with the database, which must be opened with the same name.
  /// Empty: "hash", or "custom" if a partitioner is given. Open refuses "hash" with a partitioner,
  /// and another name without one.
  std::string partitioner_name = {};
  /// [bytes] Cache of pairs read from this rank's tables. 0: off (blocks are cached anyway).
  uint64_t local_cache_bytes = 0;
  /// [bytes] Cache of other ranks' pairs, used while protected kReadOnly. 0: off.
  uint64_t remote_cache_bytes = 64ull << 20;
  /// [bytes, 1 KiB .. 16 MiB] Size of the batches in which staged writes are sent to an owner.
  uint64_t migrate_batch_bytes = 64 * 1024;
  /// [bytes] Limit on this rank's staged remote writes; further ones wait.
  uint64_t remote_memtable_bytes = 64ull << 20;
  /// [0 .. 2^30] Ranks per storage group. Members of a group read each other's tables directly and,
  /// if they share memory, also each other's MemTables. 0: one group for each node. 1: no groups.
  /// n: the first n ranks, the next n, and so on, regardless of nodes; ranks of one node that are
  /// in different groups exchange messages. Members need storage that all of them see; the values
  /// of a member whose tables are not visible are requested from it by messages. SC17, section 2.7.
  int group_size = 0;
  /// If the database was written by another number of ranks, move all pairs to their new owners
  /// before Open returns. By default this happens in the background if all ranks see the storage,
  /// and before Open returns if pairs of more than two other numbers of ranks have not moved yet.
  bool redistribute = false;
  /// Move all pairs into new parts before Open returns, even if the number of ranks is the same.
  /// (If an earlier redistribution is unfinished, only its pairs are moved.)
  bool force_redistribute = false;
  /// [per cent, 0 .. 100] Limit on the database's share of the remaining
  /// ContextOptions::memory_bytes; sizes are reduced to fit. 0: only sizes with their default value
  /// are reduced, until the share is at most a half; Open fails if the others do not fit.
  int memory_percent_max = 0;
};

/// Changes the value of a key at its owner. `present` is null if the key is absent. Return OK to
/// store `updated` (empty at first), kNotFound to write nothing, any other code to fail the update.
/// If it throws, the update fails; calls of Quire inside it fail. It runs again if the key changes
/// before the value is stored. Must be quick: it runs on the thread that serves other ranks. While
/// it blocks, their writes and updates at this rank wait, also of other keys, and return kTimedOut
/// after ContextOptions::timeout_ms. Once it returns, its value is stored, and waiting calls
/// proceed.
using UpdateFunction =
    std::function<Status(Slice key, const Slice* present, Slice argument, std::string* updated)>;

/// An UpdateFunction that also sets an `answer` (empty at first) for the calling rank: see
/// Database::UpdateAndAnswer. The caller receives it if the function returns OK or kNotFound.
using AnsweringUpdateFunction = std::function<Status(
    Slice key, const Slice* present, Slice argument, std::string* updated, std::string* answer)>;

/// Counters of one rank since Open, by name ("bytes.log", "memory.memtables", ...:
/// docs/statistics.md).
using Statistics = std::map<std::string, uint64_t>;

class Database;

/// Progress of this rank's part of an Event.
struct EventProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  ///< as far as it is known; may grow
};

/// A collective background operation; every rank holds a handle. Destroying the Event does not stop
/// the operation. Destroying the Context cancels it.
///
/// If Context::Description() does not contain "handler thread", the operation proceeds only inside
/// calls of the program: calls of the Event, Context::Progress, and collective calls. While a rank
/// waits for a signal, a get or a fence, the operation does not proceed.
///
/// Source     SC17, section 4.2.
class Event {
 public:
  virtual ~Event() = default;
  /// Returns whether Wait would return at once. Does not wait.
  virtual bool Ready() = 0;
  /// Waits until the operation has ended on all ranks. May be called again.
  ///
  /// Errors     The first failure of any rank, the same on all ranks; the text names the rank.
  ///            kTimedOut: a rank, which the text names, did not answer or made no progress within
  ///            ContextOptions::timeout_ms (Wait detects this within four times that); the
  ///            operation continues, and Wait may be called again.
  ///            kPeerFailed: a rank died; the operation has failed.
  virtual Status Wait() = 0;
  /// Returns the bytes moved so far, and in total.
  virtual EventProgress Progress() const = 0;
};

/// Options of a checkpoint.
struct CheckpointOptions {
  /// Number of complete checkpoints of the database to keep at the path, this one included. Older
  /// ones are removed once this one is complete. If a later checkpoint was completed before this
  /// one, both are kept until the next one is complete. 0: keep all.
  int keep = 0;
};

/// The checkpoint that a restart uses, and how it uses it.
struct RestartOptions {
  uint64_t number = 0;    ///< 0: the newest complete and undamaged one
  /// Copy nothing: the database reads the checkpoint's files. They must stay until all pairs have
  /// been moved (DatabaseOptions::redistribute) and all iterators created before then are
  /// destroyed.
  bool in_place = false;
  /// Replace an existing database of this name, in one step, once everything is copied and
  /// verified. If the restart fails, the existing database is unchanged. Needs space for both.
  bool replace = false;
};

/// The runtime of one repository on one communicator: transport, threads, memory limit. Destroying
/// it closes its open databases. With MPI, all ranks destroy it before MPI_Finalize.
class Context {
 public:
  /// Opens a context of one rank, without MPI. (With MPI: OpenContext in quire/mpi.h.)
  ///
  /// @param repository  directory; created with mode 0700 if absent. A leading "$NAME" is replaced
  ///                    by the environment variable. A relative path is resolved now, so that a
  ///                    later chdir does not matter.
  ///
  /// Errors     kInvalidArgument  The repository belongs to another user, or is no directory, or a
  ///                              symbolic link; or an option is out of range (the text names it).
  ///            kNotFound         The repository and its parent directory are absent.
  static Result<std::unique_ptr<Context>> OpenSerial(const std::string& repository,
                                                     const ContextOptions& options = {});
  virtual ~Context() = default;

  /// Returns this rank's number in the context's communicator, [0, size()).
  virtual int rank() const = 0;
  /// Returns the number of ranks.
  virtual int size() const = 0;
  /// Returns the directory as an absolute path, with environment variables replaced.
  virtual const std::string& repository() const = 0;
  /// Returns the transport and threads in use, for logs: "self", "shm+mpi, MPI_THREAD_MULTIPLE,
  /// handler thread", ...
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
  ///              kBusy             Another program has it open, or a process of the job that wrote
  ///                                it is still alive; the text names the holder.
  ///              kUnsupported      A newer version created it; or pairs of several older
  ///                                generations have not moved, and these ranks share no storage.
  ///              kCorruption       Files are damaged or missing; or each node has its own storage,
  ///                                and a rank runs on another node than the one that stores its
  ///                                part.
  ///              kNoSpace          No space for log segments.
  /// If another number of ranks wrote it: all pairs can be read at once if all ranks see the
  /// storage, and move to their owners in the background; otherwise they move before Open returns.
  /// Cost         A few collectives and reading the manifests, for any size of the database; after
  ///              a kill also a walk through the log. Tables are opened when they are first read.
  /// Source       SC17, section 4.1 (zero-copy workflow).
  virtual Result<std::unique_ptr<Database>> Open(const std::string& name,
                                                 const DatabaseOptions& options) = 0;
  /// Removes a closed database and all its files, and nothing else.
  ///
  /// Collective   Yes.
  /// Errors       kNotFound    The repository has no such database.
  ///              kBusy        This program or another one has it open.
  ///              kCorruption  Some ranks see parts of it, but rank 0 sees no descriptor. Nothing
  ///                           is removed.
  ///              kTimedOut    A rank did not answer in time. If the removal has begun, it
  ///                           continues in the background; repeated calls return kBusy until it
  ///                           has ended, then kNotFound.
  virtual Status Destroy(const std::string& name) = 0;

  /// Destroys a closed database in the background. From the return of this call no program can open
  /// it, even if this job is killed: Open returns kBusy until the event has ended, then kNotFound.
  /// The files are removed when the event ends.
  ///
  /// Collective   Yes.
  /// Source       SC17, table 1 (papyruskv_destroy).
  virtual Result<std::unique_ptr<Event>> DestroyAsync(const std::string& name) = 0;
  /// Restores the database `name` from a checkpoint below `path`, in the background. The repository
  /// must not contain this name, unless RestartOptions::replace is set. After the event has ended
  /// with OK, any number of ranks can open the database. The copy of every byte is compared with
  /// its checksum; with RestartOptions::in_place only the presence and sizes of the files are
  /// checked.
  ///
  /// Collective   Yes.
  /// Errors       kNotFound         There is no complete checkpoint, or the requested one does not
  ///                                exist.
  ///              kInvalidArgument  A database `name` exists, and `replace` is not set; or the path
  ///                                is relative.
  ///              kBusy             This program or another one has the database open.
  ///              kIo               A checkpoint cannot be read. This may be temporary: the
  ///                                checkpoint is not treated as damaged, and no older one is used
  ///                                instead, unless RestartOptions::number names it.
  ///              kCorruption       The requested checkpoint is damaged. If number is 0, Restart
  ///                                uses the newest undamaged one and logs a warning (quire/log.h).
  ///              The event reports failures of the transfer, the same on all ranks, with rank and
  ///              file: kNoSpace, kIo, kCorruption. After a failure the repository is unchanged,
  ///              unless the text says that it is unknown whether the database is the restored one
  ///              (rank 0 did not answer, or its last step failed and could not be undone). Then
  ///              repeat the restart with `replace`.
  /// Source       SC17, section 4.3.
  virtual Result<std::unique_ptr<Event>> Restart(const std::string& path, const std::string& name,
                                                 const RestartOptions& options) = 0;

  /// Returns the names of the repository's databases, sorted, including damaged ones.
  ///
  /// Collective   Yes: all ranks get the names that any rank finds.
  virtual Result<std::vector<std::string>> ListDatabases() = 0;

  /// Returns one outcome on all ranks: OK if all ranks pass OK, else the status of the lowest
  /// failing rank, with that rank in its text.
  ///
  /// Collective   Yes.
  virtual Status Agree(const Status& mine) = 0;

  /// Waits for all ranks.
  ///
  /// Collective   Yes.
  virtual Status Barrier() = 0;
  /// Sends `signal` to `ranks` (SC17, section 3.1). After their WaitSignal has returned, they see
  /// all earlier writes of this rank that were sequential or fenced.
  ///
  /// Errors       kInvalidArgument  There is no such rank.
  virtual Status Notify(int signal, const std::vector<int>& ranks) = 0;
  /// Waits for one `signal` from each of `ranks`; consumes all of them or none.
  ///
  /// Errors       kInvalidArgument  There is no such rank.
  virtual Status WaitSignal(int signal, const std::vector<int>& ranks) = 0;
  /// Handles requests of other ranks. Needed only in programs that compute for a long time and
  /// whose Description() does not contain "handler thread"; cheap and harmless otherwise.
  virtual void Progress() = 0;
};

/// A get in progress. May outlive its Database but not its Context; call Take before the Database
/// is destroyed.
class PendingGet {
 public:
  virtual ~PendingGet() = default;
  /// Returns whether Take would return at once.
  virtual bool Ready() = 0;
  /// Waits for the value and returns it; may be called once. Errors as Database::Get.
  virtual Result<std::string> Take() = 0;
};

/// An ordered walk over the pairs that this rank owned when the iterator was created. Keys are
/// ordered as unsigned bytes. Database::Close ends the walk (kInvalidArgument); it must not run at
/// the same time as a call of the iterator. A failure ends the walk, including a failure of value()
/// and lack of memory (kOutOfMemory); no exception is thrown. A seek resumes the walk.
class LocalIterator {
 public:
  virtual ~LocalIterator() = default;
  /// Returns whether the iterator is at a pair. False at either end, and after a failure: status().
  virtual bool Valid() const = 0;
  /// Moves to the first pair, if there is one.
  virtual void SeekToFirst() = 0;
  /// Moves to the last pair, if there is one.
  virtual void SeekToLast() = 0;
  /// Moves to the first pair whose key is at or above `key`.
  virtual void Seek(Slice key) = 0;
  /// Moves to the next pair. Does nothing unless Valid().
  virtual void Next() = 0;
  /// Moves to the previous pair. Does nothing unless Valid().
  virtual void Prev() = 0;
  /// Returns the key; requires Valid(). Readable until the iterator moves.
  virtual Slice key() const = 0;
  /// Returns the value; requires Valid(). Readable until the iterator moves. A large value is read
  /// by this call: if that fails, the result is empty, and the walk ends.
  virtual Slice value() = 0;
  /// Returns OK, or the failure that ended the walk. A seek clears the failure.
  virtual Status status() const = 0;
};

/// Writes that take effect together at each owner: all or nothing per owner. If a batch writes a
/// key more than once, the last write wins.
class Batch {
 public:
  /// Adds a put. Key and value are copied.
  void Put(Slice key, Slice value);
  /// Adds a delete. The key is copied.
  void Delete(Slice key);
  /// Removes all writes.
  void Clear();
  /// Returns the number of writes.
  size_t count() const { return operations_.size(); }
  /// One write of the batch, with its own copy of the bytes.
  struct Operation {
    bool is_delete;
    std::string key;
    std::string value;
  };
  /// Returns the writes in the order in which they were added.
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// An open database. It must be destroyed before its Context.
class Database {
 public:
  /// If Close() was not called: closes without waiting for other ranks, sends staged remote writes,
  /// and logs failures (quire/log.h).
  virtual ~Database() = default;

  /// Returns the name that Open was given.
  virtual const std::string& name() const = 0;
  /// Returns the rank that owns `key`, by the partitioner; a negative number if it throws.
  virtual int Owner(Slice key) const = 0;

  /// Inserts one pair, or replaces the value of an existing key.
  ///
  /// Visibility   This rank: at return. Other ranks: at return if the database is sequential, else
  ///              after this rank's next Fence() or Barrier().
  /// Durability   At the owner: as StorageOptions::wal says. A relaxed Put to another rank: none
  ///              before Fence().
  /// Order        Two Puts of one key by one rank take effect in program order. Two Puts by two
  ///              ranks with no Fence() between them: one of the two values wins.
  ///
  /// @param key    [bytes] size in [1, 65536], and a few KiB less than memtable_bytes. Copied
  ///               before return.
  /// @param value  [bytes] size in [0, 2^32 - 1]. Copied before return.
  ///
  /// Errors       kInvalidArgument  A size is out of range, or the partitioner returned no rank.
  ///              kReadOnly         The database is protected, or a background failure occurred:
  ///                                the text says which.
  ///              kNoSpace          The device is full. Works again once there is space.
  ///              kBusy             No MemTable became free for half of
  ///                                ContextOptions::timeout_ms. Open iterators alone do not cause
  ///                                this.
  ///              If a relaxed remote Put fails later, at its owner, this rank's next Fence() or
  ///              Barrier() reports it, with the number of lost operations.
  ///
  /// Cost         Local: one copy. Remote, relaxed: one copy, sent in batches. Remote, sequential:
  ///              one round trip. Sleeps while the flushing or migration queue is full.
  /// Source       SC17, sections 2.4 and 3.1, figure 2.
  virtual Status Put(Slice key, Slice value) = 0;
  /// Removes one pair. In every respect like a Put (of a tombstone). Returns OK also if the key is
  /// absent.
  ///
  /// Source       SC17, section 2.5.
  virtual Status Delete(Slice key) = 0;
  /// Copies the newest value that this rank may see into the memory that `allocate` returns.
  ///
  /// Visibility   This rank's own writes: always. Writes of other ranks: as the Visibility of their
  ///              calls says.
  /// Errors       kNotFound         The key is absent or deleted: a result, not a failure.
  ///              kInvalidArgument  The key's size is out of range, or the database is protected
  ///                                write-only.
  /// Cost         Keys of this rank, and of group members that share memory with it (ranks of this
  ///              node, unless TransportChoice::kMpi is set or /dev/shm is full): no message.
  ///              Others: one round trip. A group member sends the value only if it is in memory;
  ///              otherwise this rank reads it from the member's tables. In a MemTable about two
  ///              cache misses; in tables at most one read. Two copies, because Quire holds the
  ///              value until `allocate` has returned; one copy into a string.
  /// Source       SC17, section 2.6, figure 3; 2.7.
  virtual Status Get(Slice key, const BufferAllocator& allocate) = 0;
  /// Copies the value into a string. As above.
  Status Get(Slice key, std::string* value);
  /// Sends the request and returns. Many gets may be in progress at once. Never null: Take reports
  /// errors.
  ///
  /// Cost         As Get; Ready or Take read the tables of members of the storage group.
  virtual std::unique_ptr<PendingGet> GetAsync(Slice key) = 0;

  /// Puts many pairs, in order. Sequential: one message per owner, all in flight at once. Relaxed:
  /// the pairs are staged.
  ///
  /// Errors       As Put. Every pair is tried; the first failure is returned with the number of
  ///              failures.
  virtual Status PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) = 0;
  /// Deletes many keys, as PutMany puts pairs.
  virtual Status DeleteMany(const std::vector<Slice>& keys) = 0;
  /// Sets `values[i]` and `found[i]` for each `keys[i]`. An absent key is no failure.
  ///
  /// Errors       As Get. Every key is tried; the first failure is returned with the number of
  ///              failures; the values that were found are set.
  /// Cost         One message per owner whose memory is not shared, all in flight at once; tables
  ///              of members of the storage group are read as by Get.
  virtual Status GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values,
                         std::vector<bool>* found) = 0;
  /// Applies a batch: all or nothing at each owner, for readers and across crashes. Waits for the
  /// owners' answers, in both consistencies.
  ///
  /// Errors       As Put; also kInvalidArgument if an owner's part does not fit into a MemTable.
  ///              The text says how many operations failed: all those of the owners that failed.
  virtual Status Write(const Batch& batch) = 0;

  /// Registers `function` under `id` on this rank; replaces an earlier one. All ranks register the
  /// same functions, followed by a Barrier, before the first Update.
  ///
  /// Errors       kInvalidArgument  The function is empty.
  virtual Status RegisterUpdate(uint32_t id, UpdateFunction function) = 0;
  /// Runs update `id` at the owner of `key`, atomically for the key. Visibility, durability, order
  /// and errors are those of Put: under relaxed consistency, updates are staged and sent in
  /// batches.
  ///
  /// Errors       kInvalidArgument  No function has this id at the owner.
  virtual Status Update(Slice key, uint32_t id, Slice argument) = 0;
  /// Registers a function that also returns an answer. As RegisterUpdate; both kinds share the ids,
  /// and Update runs both.
  virtual Status RegisterAnsweringUpdate(uint32_t id, AnsweringUpdateFunction function) = 0;
  /// Runs update `id` at the owner of `key` as Update does, and waits for it in both consistencies.
  /// Sets `answer` to the function's answer; empty if it is an UpdateFunction.
  ///
  /// Order        After all writes that this rank has staged for that owner.
  /// Errors       As Update, and the code that the function returns.
  ///              kTimedOut  Also if this rank has no memory for the answer: it is unknown whether
  ///                         the update was done.
  /// Cost         One round trip.
  virtual Status UpdateAndAnswer(Slice key, uint32_t id, Slice argument, std::string* answer) = 0;

  /// Sends all staged writes of this rank and waits until their owners have applied them.
  ///
  /// Errors       The first failure of an earlier relaxed write, with the number of lost writes.
  /// Source       SC17, section 3.1.
  virtual Status Fence() = 0;
  /// Writes this rank's MemTables into tables, which survive power loss, and waits for that. Does
  /// not wait for writes that are staged for other ranks.
  ///
  /// Errors       kNoSpace if a table does not fit.
  virtual Status Flush() = 0;
  /// Fences all ranks: afterwards all see the same data. With kSsTable, every rank's MemTables have
  /// been written into tables, which survive power loss.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank; kNoSpace if a table does not fit; kInvalidArgument if
  ///              ranks pass different levels.
  /// Source       SC17, section 3.1.
  virtual Status Barrier(Level level) = 0;
  /// Fences all ranks, then changes the consistency: each rank waits for all others.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank; then the consistency is unchanged.
  virtual Status SetConsistency(Consistency consistency) = 0;
  /// Fences all ranks, then changes the protection: each rank waits for all others.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank; then the protection is unchanged.
  /// Source       SC17, section 3.2.
  virtual Status Protect(Protection protection) = 0;

  /// Writes a checkpoint of everything that all ranks have written so far, into
  /// <path>/<name>/<number>/, on storage that all ranks see. Returns after a barrier and a flush.
  /// Files are copied in the background; writes may go on and do not enter the checkpoint. Files
  /// that an earlier checkpoint there contains are linked, not copied. Several checkpoints may be
  /// in progress.
  ///
  /// The checkpoint is complete and durable once the event has ended with OK. If the event failed,
  /// there is no such checkpoint, unless the text says that this is unknown: rank 0, which
  /// publishes the checkpoint, may have succeeded. Earlier checkpoints are unchanged. Copies are
  /// verified against their checksums. A linked file was verified by an earlier checkpoint; it is
  /// read again if it was written to since, and from time to time (docs/format/checkpoint.md). The
  /// command `quire checkpoint list` shows all checkpoints and their states (docs/tool.md). The
  /// next checkpoint removes the remains of an interrupted one.
  ///
  /// Collective   Yes.
  /// @param path  absolute; created if it is absent.
  /// Errors       kInvalidArgument  The path is relative, or differs between ranks.
  ///              kNotFound         The path and its parent directory are absent.
  ///              As Barrier(kSsTable). The event reports failures of the copying, the same on all
  ///              ranks, with rank and file: kNoSpace, kIo (also if a rank does not see the path
  ///              that rank 0 writes to), kCorruption (a file of the database is damaged or
  ///              missing, or the copy differs from what was written: the text says which).
  /// Cost         As Barrier(kSsTable). In the background: files that no earlier checkpoint
  ///              contains are read once and written once, and the copy is read once.
  /// Source       SC17, section 4.2.
  virtual Result<std::unique_ptr<Event>> Checkpoint(const std::string& path,
                                                    const CheckpointOptions& options) = 0;

  /// Returns an iterator over the pairs that this rank owns. Never null: its status() returns
  /// errors.
  ///
  /// Cost         The first iterator after many puts sorts their keys. If many iterators are open,
  ///              the call flushes.
  virtual std::unique_ptr<LocalIterator> NewLocalIterator() = 0;
  /// Merges this rank's tables into one run without dead versions, and waits for it. The call also
  /// waits until value files whose values are mostly dead by then are emptied. It does not wait for
  /// data that other threads write meanwhile.
  virtual Status Compact() = 0;
  /// Returns this rank's counters since Open. Empty inside a function that Quire called.
  virtual Statistics GetStatistics() const = 0;
  /// Fences, waits for the end of running checkpoints, writes all MemTables into tables and closes
  /// the database. All data stay; the next program that opens it reads only manifests. Other calls
  /// fail afterwards.
  ///
  /// Collective   Yes.
  /// Errors       As Fence, of any rank, and as Barrier(kSsTable). With the log on, lack of space
  ///              for tables is no error, because the log keeps the pairs. kTimedOut also if a
  ///              checkpoint made no progress on a rank for ContextOptions::timeout_ms: the
  ///              checkpoint is abandoned, and its event reports how it ended. A failed checkpoint
  ///              is no error here. The database is closed even after an error.
  /// Source       SC17, section 4.1 (zero-copy workflow).
  virtual Status Close() = 0;
};

}  // namespace quire
