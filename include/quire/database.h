/// The parallel database: one key space over all ranks of a communicator; each key lives at its owner rank.
///
/// Layer      public
/// Source     PapyrusKV, SC17, sections 2 and 3; table 1
/// Threads    Context, Database: every call that is not collective may be made from any number of threads at once.
///            Collective calls: all ranks, one thread each, in the same order per Context.
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

/// Which transport moves messages between ranks of one node.
enum class TransportChoice { kAuto = 0, kMpi = 1 };

/// What holds for all databases of a Context.
struct ContextOptions {
  uint64_t timeout_ms = 60'000;     ///< [ms, 100 .. 86400000] deadline of every wait for another rank
  TransportChoice transport = TransportChoice::kAuto;
  uint64_t memory_bytes = 0;        ///< [bytes] limit over everything of this rank; 0: a quarter of the cgroup's or machine's memory, divided by the ranks of the node
  int background_threads = 1;       ///< [1 .. 64] flushing and compaction, per rank
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

/// How far a barrier goes.
enum class Level { kMemTable = 1, kSsTable = 2 };

/// How Open treats what is there.
enum class OpenMode { kOpenOrCreate, kMustExist, kMustNotExist };

/// Owner rank of a key: a pure function, the same on all ranks, answering [0, rank_count).
using Partitioner = std::function<int(Slice key, int rank_count)>;

/// One database's properties. The same on all ranks (checked; a difference is kInvalidArgument on all ranks and names it).
struct DatabaseOptions {
  StorageOptions storage;
  OpenMode mode = OpenMode::kOpenOrCreate;
  Consistency consistency = Consistency::kRelaxed;
  Protection protection = Protection::kReadWrite;
  Partitioner partitioner;                     ///< empty: hash of the key modulo ranks
  std::string partitioner_name;                ///< stored; a database is opened with the name it was made with. Empty: "hash" (or "custom")
  uint64_t local_cache_bytes = 0;              ///< [bytes] pairs read from tables of this rank; 0: off (blocks are cached anyway)
  uint64_t remote_cache_bytes = 64ull << 20;   ///< [bytes] pairs of other ranks, while protected kReadOnly; 0: off
  uint64_t migrate_batch_bytes = 64 * 1024;    ///< [bytes, 1 KiB .. 16 MiB] remote puts are sent in batches of this size, per owner
  uint64_t remote_memtable_bytes = 64ull << 20;  ///< [bytes] staged remote puts of this rank: further ones wait
  bool direct_reads = true;                    ///< gets from ranks of this node read their memory and tables without a message
};

/// Changes the value of a key at its owner. `present` is null where the key is absent. Leave `updated` empty and answer
/// kNotFound to write nothing; answer OK to store `updated`. Must be quick and must not call the Database.
using UpdateFunction = std::function<Status(Slice key, const Slice* present, Slice argument, std::string* updated)>;

/// Counts of one rank since open, by name ("bytes.log", "memory.memtables", ...: docs/statistics.md).
using Statistics = std::map<std::string, uint64_t>;

class Database;

/// The runtime of one repository on one communicator: transport, threads, memory limit.
class Context {
 public:
  /// One rank alone, without MPI. (With MPI: OpenContext in quire/mpi.h.)
  ///
  /// @param repository  directory; made 0700 where absent; "$NAME" reads an environment variable.
  /// Errors   kInvalidArgument  Not ours, not a directory, or an option out of range: named.
  static Result<std::unique_ptr<Context>> OpenSerial(const std::string& repository, const ContextOptions& options = {});
  virtual ~Context() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& repository() const = 0;
  /// "serial", "shm+mpi, MPI_THREAD_MULTIPLE, handler thread", ... : what was chosen, for logs.
  virtual std::string Description() const = 0;

  /// Opens or creates the database `name`. Collective.
  ///
  /// @param name  [A-Za-z0-9._-]{1,255}, no leading dot or dash.
  /// Errors (alike on all ranks)  kInvalidArgument, kBusy (open elsewhere: names the holder), kNotFound / kInvalidArgument (mode), kCorruption,
  ///          kUnsupported, kNoSpace, kIo
  virtual Result<std::unique_ptr<Database>> Open(const std::string& name, const DatabaseOptions& options) = 0;
  /// Removes a closed database and all its files, nothing else. Collective.
  virtual Status Destroy(const std::string& name) = 0;

  /// Waits for all ranks. Collective.
  virtual Status Barrier() = 0;
  /// Sends `signal` to `ranks` (SC17, section 3.1). Their WaitSignal sees what this rank wrote before, if it was
  /// sequential or fenced.
  virtual Status Notify(int signal, const std::vector<int>& ranks) = 0;
  /// Waits for one `signal` from each of `ranks`. Errors: kTimedOut, kPeerFailed.
  virtual Status WaitSignal(int signal, const std::vector<int>& ranks) = 0;
  /// Handles what other ranks asked. Needed only in programs that compute long where Description() says "no handler
  /// thread"; cheap and harmless elsewhere.
  virtual void Progress() = 0;
};

/// A get under way.
class PendingGet {
 public:
  virtual ~PendingGet() = default;
  virtual bool Ready() = 0;
  /// Waits, and gives the value once. Errors as Get.
  virtual Result<std::string> Take() = 0;
};

/// Ordered walk over the pairs that this rank owns, as they were when it was made.
class LocalIterator {
 public:
  virtual ~LocalIterator() = default;
  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(Slice key) = 0;
  virtual void Next() = 0;
  virtual void Prev() = 0;
  virtual Slice key() const = 0;
  virtual Slice value() = 0;
  virtual Status status() const = 0;
};

/// Writes that take effect together at each owner: all or nothing per owner.
class Batch {
 public:
  void Put(Slice key, Slice value);
  void Delete(Slice key);
  void Clear();
  size_t count() const { return operations_.size(); }
  /// One write of the batch; the bytes are the batch's own.
  struct Operation { bool is_delete; std::string key; std::string value; };
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// Gives the place for `size` bytes of a value; null refuses (kOutOfMemory).
using PlaceFunction = std::function<char*(size_t size)>;

class Database {
 public:
  /// Closes without waiting for other ranks where Close() was not called; staged remote puts are sent, failures are logged.
  virtual ~Database() = default;

  virtual const std::string& name() const = 0;
  /// The rank that owns `key`.
  virtual int Owner(Slice key) const = 0;

  /// Inserts one pair, or replaces the value of an existing key.
  ///
  /// Collective   No.
  /// Visibility   This rank: at return. Other ranks: at return if the database is sequential, else after this rank's
  ///              next Fence() or Barrier().
  /// Durability   At the owner: as StorageOptions::log says. Relaxed remote: none before Fence().
  /// Order        Two Puts of one key by one rank take effect in program order.
  ///
  /// @param key    [bytes] size in [1, 65536]. Copied before return.
  /// @param value  [bytes] size in [0, 2^32 - 1]. Copied before return.
  ///
  /// Errors       kInvalidArgument, kReadOnly, kNoSpace, kIo: nothing was stored. A relaxed remote Put that fails later,
  ///              on its owner, is reported by this rank's next Fence() or Barrier() with the count of lost operations.
  ///              kTimedOut, kPeerFailed: unknown.
  /// Cost         Local: one copy. Remote, relaxed: one copy, sent in batches. Remote, sequential: one round trip.
  ///              Blocks, asleep, while the flushing or migration queue is full.
  /// Source       SC17, sections 2.4 and 3.1, figure 2.
  virtual Status Put(Slice key, Slice value) = 0;
  /// A Put of a tombstone (SC17, section 2.5). OK also where the key is absent.
  virtual Status Delete(Slice key) = 0;
  /// The newest value that this rank may see (SC17, section 2.6, figure 3). kNotFound: absent or deleted.
  /// Cost: own and same-node ranks: no message; others: one round trip. One copy.
  virtual Status Get(Slice key, const PlaceFunction& place) = 0;
  Status Get(Slice key, std::string* value);
  /// Asks now, answers later. Many may be under way.
  virtual std::unique_ptr<PendingGet> GetAsync(Slice key) = 0;

  /// Many at once: one message per owner. Status per pair only where they differ: the first failure is returned, and says how many failed.
  virtual Status PutMany(const std::vector<std::pair<Slice, Slice>>& pairs) = 0;
  virtual Status DeleteMany(const std::vector<Slice>& keys) = 0;
  /// `values[i]` and `found[i]` for `keys[i]`. Absent keys are no failure.
  virtual Status GetMany(const std::vector<Slice>& keys, std::vector<std::string>* values, std::vector<bool>* found) = 0;
  /// All or nothing per owner; waits for the owners' answers.
  virtual Status Write(const Batch& batch) = 0;

  /// Registers `function` under `id` on this rank. All ranks register the same functions before the first Update
  /// (a Barrier lies between). Not collective.
  virtual Status RegisterUpdate(uint32_t id, UpdateFunction function) = 0;
  /// Runs update `id` at the owner of `key`, atomically for the key. Relaxed: staged and sent in batches, as Put.
  virtual Status Update(Slice key, uint32_t id, Slice argument) = 0;

  /// Sends what this rank has staged and waits until the owners have applied it (SC17, section 3.1).
  /// Errors   the first failure of an earlier relaxed write, with the count of those lost.
  virtual Status Fence() = 0;
  /// Collective fence; with kSsTable also flushes every rank's MemTables to tables: durable against power loss (P2).
  virtual Status Barrier(Level level) = 0;
  /// Collective. Changes the mode; what was staged is fenced first.
  virtual Status SetConsistency(Consistency consistency) = 0;
  /// Collective. Changes the protection; what was staged is fenced first.
  virtual Status Protect(Protection protection) = 0;

  virtual std::unique_ptr<LocalIterator> NewLocalIterator() = 0;
  /// This rank's tables merged into one run. Waits. Not collective.
  virtual Status Compact() = 0;
  virtual Statistics GetStatistics() const = 0;
  /// Collective. Fences, closes, keeps all data. The Database must not be used any more.
  virtual Status Close() = 0;
};

}  // namespace quire
