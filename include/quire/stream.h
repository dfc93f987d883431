/// Streams: versioned objects. A simulation stores them while it runs; an analysis on the same node
/// or on another one reads any version, in place or as a copy.
///
/// Layer      public
/// Source     NVStream, HPDC18; docs/decisions/0013-streams.md
/// Threads    any; a writer's calls must not overlap. The program guards the memory of its objects:
///            no thread may write to an object while a call stores it
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quire/database.h"
#include "quire/export.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire QUIRE_EXPORT {

/// The type of an array's elements. The numbers are part of the file format.
enum class ElementType : uint8_t {
  kBytes = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUInt8 = 5,
  kUInt16 = 6,
  kUInt32 = 7,
  kUInt64 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
  kComplex64 = 11,   ///< two of kFloat32
  kComplex128 = 12,  ///< two of kFloat64
};
/// Returns the size of one element [bytes].
uint64_t ElementBytes(ElementType element);
/// Returns NumPy's name of the type, such as "float64".
const char* ElementName(ElementType element);

/// The element type and extents of an object, for programs that display it.
struct StreamShape {
  ElementType element = ElementType::kBytes;
  /// Up to 8 extents, the slowest-varying first. If empty: one dimension with all elements.
  std::vector<uint64_t> extents;
};

/// How versions are stored, in full or as deltas, and how changed blocks are detected.
enum class StreamDeltas {
  kOff = 0,      ///< store every version in full
  kAuto = 1,     ///< choose the cheapest way for each object and step, full versions included
  kHash = 2,     ///< compare hashes of blocks; causes no page faults
  kProtect = 3,  ///< protect pages; a handler of SIGSEGV records which ones are written to.
                 ///< System calls (also those of MPI) that write into an object fail with EFAULT;
                 ///< a store by a thread that blocks SIGSEGV ends the program
  kWatch = 4,    ///< the kernel records which pages are written to (userfaultfd, Linux 6.7)
};

/// The options of one rank's stream. Each field is one row of the option table
/// (quire::OptionTable), which also gives its environment variable (QUIRE_STREAM_<NAME>). Open sets
/// each option that has its default from its variable. A later writer may have other options; an
/// existing log keeps its size.
struct StreamOptions {
  /// [bytes, 1 MiB .. 16 TiB] Size of the log, allocated when it is created. A snapshot is stored
  /// contiguously, and kept versions are copied out of the way. To keep k versions (kept snapshots
  /// included), plan (k + 2) s, where s is the sum over all objects of size + key + 384 bytes; with
  /// deltas (k + full_every + 2) s, and full_every s more for each kept snapshot, because a kept
  /// delta also needs the versions back to the last full one. An object that was freed counts as
  /// well. If objects are small, plan at least 4 KiB for each kept version: the index has one place
  /// for each 4 KiB of log. Then no put fails for lack of space unless a reader holds part of the
  /// log.
  uint64_t log_bytes = 256ull << 20;
  /// [1 .. 2^20] Number of newest versions of each object to keep.
  uint32_t keep_versions = 1;
  /// [ms, to 100 years] Also keep versions that are younger than this by the machine's clock. No
  /// version counts as younger than its successor. So if the clock is changed, versions may be
  /// collected earlier, but versions with a time in the future never fill the log.
  uint64_t keep_ms = 0;
  /// [10 .. 100] Start to collect versions that are not kept when this percentage of the log is
  /// in use.
  uint32_t collect_percent = 75;
  /// [ms, to a day] How long a put waits for space while readers hold the log. 0: fail with
  /// kNoSpace at once.
  uint64_t wait_ms = 0;
  /// [1 .. 2^20] Capacity of the index, in objects.
  uint32_t objects_max = 4096;
  StreamDeltas deltas = StreamDeltas::kOff;
  /// [1 .. 1024] Store a full version at least once every `full_every` versions.
  uint32_t full_every = 16;
  /// [0 .. 2^20] Every `audit_every` snapshots, hash all objects and fail with kCorruption if a
  /// block changed that the tracker missed. 0 disables audits.
  uint32_t audit_every = 0;
  /// kNone or kLz4.
  Compression compression = Compression::kNone;
};

/// The failures that a commit survives.
enum class StreamDurability {
  kMemory = 0,   ///< kill -9 of all processes (P1). A crash of the machine loses everything, even
                 ///< after Sync. For directories in memory (tmpfs)
  kProcess = 1,  ///< kill -9 of all processes (P1); after Sync also loss of power. For disks
  kMachine = 2,  ///< loss of power (P2). For persistent memory (DAX)
};

/// Counters of a writer, from when it was opened.
struct StreamStatistics {
  uint64_t commits = 0;
  uint64_t versions = 0;         ///< versions stored, of all objects
  uint64_t deltas = 0;           ///< those of them that were stored as deltas
  uint64_t object_bytes = 0;     ///< sum of the objects' sizes over all versions
  uint64_t stored_bytes = 0;     ///< bytes of data written for these versions
  uint64_t relocated_bytes = 0;  ///< bytes copied to free the log in front of them
  uint64_t collected = 0;        ///< versions collected
  uint64_t pinned_waits = 0;     ///< collections that a reader's pin stopped
  uint64_t log_bytes = 0;        ///< size of the log
  uint64_t live_bytes = 0;       ///< bytes of it in use
  uint64_t audits = 0;
};

/// One rank's objects, and the log of their versions. An MPI program opens one for each rank. No
/// call is collective, and no rank waits for another.
class StreamWriter {
 public:
  /// Opens the part of rank `rank` in the store `name`; creates it if it is absent. The versions
  /// that an earlier program committed are kept.
  ///
  /// @param place  a directory, created with mode 0700 if it is absent. The storage under it
  ///               decides which failures a commit survives: durability().
  /// @param name   [A-Za-z0-9._-]{1,255}, no leading dot or dash.
  ///
  /// Errors   kInvalidArgument  The name or an option is not allowed, or the place is a symbolic
  ///                            link.
  ///          kNotFound         The place and its parent directory are absent.
  ///          kBusy             Another program writes this part; the text names it. Open waits
  ///              half a second for a writer that may just have died, and a minute for the daemon
  ///              or for a reader that rebuilds the index.
  ///          kNoSpace          No space for a log of log_bytes.
  ///          kCorruption       The log is damaged; the text names the place.
  /// Cost     Walks all kept commits. Reads their bytes if the machine was rebooted since.
  static Result<std::unique_ptr<StreamWriter>> Open(const std::string& place,
                                                    const std::string& name, uint32_t rank,
                                                    const StreamOptions& options = {});
  /// Ends the stream like Finish, but reports no failure. Releases the memory of all objects.
  virtual ~StreamWriter() = default;

  /// Creates an object: zeroed, page-aligned memory for the program to compute in.
  ///
  /// @param key    [bytes] 1 to 1024, any.
  /// @param bytes  1 ..
  /// @param shape  the product of its extents and the size of its elements must be `bytes`.
  ///
  /// Errors   kInvalidArgument  An object has the key, or sizes do not fit.
  ///          kNoSpace          More objects than objects_max, or more than fit the log.
  ///          kOutOfMemory
  virtual Result<char*> Create(Slice key, uint64_t bytes, const StreamShape& shape = {}) = 0;
  /// Makes an object of memory that the program owns; the memory must stay valid until Free. If it
  /// does not begin and end at page boundaries, or shares pages with an object of this or another
  /// writer, changes are found by hashes. Objects that share memory are restored in key order.
  virtual Status Attach(Slice key, char* memory, uint64_t bytes, const StreamShape& shape = {}) = 0;
  /// Releases an object's memory. kNotFound. Its newest keep_versions versions stay in the log
  /// forever, and the object still counts in objects_max: reuse keys instead of creating ever new
  /// ones.
  virtual Status Free(Slice key) = 0;

  /// Commits the next version of one object. No thread may write to the object meanwhile.
  ///
  /// Visibility   At return all readers of this node see the whole version.
  /// Durability   durability().
  /// Errors       kNotFound  No such object. kNoSpace  The log is full and nothing can be
  ///              collected; the text says what holds the space. kCorruption  An audit found an
  ///              unrecorded change (MarkDirty). kOutOfMemory. kInvalidArgument  After Finish, in a
  ///              forked child of the writer's process, or inside a function that Quire called.
  ///              After an error nothing was stored; a later put can succeed.
  /// Cost         One copy that bypasses the caches, two fences. With deltas also the search for
  ///              changes; with compression one more pass. If the log is full, Put collects
  ///              versions, copies kept ones out of the way, and waits up to wait_ms for readers.
  /// Returns the version, 1 for the first.
  virtual Result<uint64_t> Put(Slice key) = 0;
  /// Commits the next version of all objects, or of the named ones, atomically: readers see all of
  /// them or none. Errors of Put; also kInvalidArgument if there is no object, or if one is named
  /// twice. Returns the snapshot's number, which grows by one with each commit.
  virtual Result<uint64_t> Snapshot() = 0;
  virtual Result<uint64_t> Snapshot(const std::vector<Slice>& keys) = 0;
  /// Records that bytes of an object were changed by something other than a processor's store
  /// (RDMA, devices). kNotFound. kInvalidArgument: the range exceeds the object.
  virtual Status MarkDirty(Slice key, uint64_t offset, uint64_t bytes) = 0;
  /// Fills all objects (or only `key`, unless it is empty) with their bytes at `snapshot` (0: the
  /// newest). For a program that continues after a crash. Restore removes no snapshot, and the next
  /// one still gets the number after LastSnapshot(). So once ranks have continued from an older
  /// snapshot, the same number means different steps on different ranks: store the step in an
  /// object, and let ranks compare steps (examples/heat).
  ///
  /// Errors   kNotFound  An object had no version then. kInvalidArgument  An object had another
  ///          size then. After these two nothing was filled. kCorruption  A version is damaged;
  ///          the objects before it are filled.
  virtual Status Restore(uint64_t snapshot, Slice key = {}) = 0;
  /// Returns the newest snapshot; 0 if there is none, or inside a function that Quire called, such
  /// as a log sink.
  virtual uint64_t LastSnapshot() const = 0;

  /// Makes all commits so far survive loss of power, unless the place is in memory (durability()).
  /// An object's newest version then survives, and older versions unless later commits collect
  /// them. Does nothing on persistent memory. After a failed Sync all later ones fail: reopen the
  /// stream.
  virtual Status Sync() = 0;
  virtual StreamDurability durability() const = 0;

  /// Keeps all versions of `snapshot`, whatever the policy, until Release; also after this program
  /// has ended. kNotFound: there was no such snapshot, parts of it were collected, or this is
  /// unknown (the first version of an object that was created later was collected). kNoSpace: 480
  /// snapshots are kept already, or the log would become too small for further commits. Waits up to
  /// wait_ms for readers.
  virtual Status Keep(uint64_t snapshot) = 0;
  /// Ends Keep: `snapshot` is subject to the policy again. kNotFound: it is not kept.
  virtual Status Release(uint64_t snapshot) = 0;
  /// Collects all versions that the policy does not keep.
  virtual Status Collect() = 0;

  /// Returns how changes of `key` are currently found: "whole", "hash", "protect" or "watch".
  virtual Result<std::string> Tracking(Slice key) const = 0;
  /// Returns this writer's counters; all 0 inside a function that Quire called.
  virtual StreamStatistics Statistics() const = 0;
  /// Syncs, and ends the stream: waiting readers get kNotFound. No other call may follow. The
  /// memory of the objects stays until the writer is destroyed.
  virtual Status Finish() = 0;
};

/// One version of one object.
struct StreamVersion {
  uint64_t version = 0;
  uint64_t snapshot = 0;      ///< the commit that stored it
  uint64_t bytes = 0;         ///< size of the object
  uint64_t stored_bytes = 0;  ///< size in the log
  uint64_t unix_time_ns = 0;
  bool whole = true;  ///< false: stored as a delta to the previous version
  StreamShape shape;
};

/// The bytes of one version, in the log; or in the view's own memory if the version had to be
/// assembled. They are not collected while the view exists. It must not outlive its reader.
class StreamView {
 public:
  virtual ~StreamView() = default;
  /// Returns the whole object.
  virtual Slice bytes() const = 0;
  virtual const StreamVersion& version() const = 0;
  /// Returns whether the bytes are in the log. False if the reader cannot write to the place.
  virtual bool in_place() const = 0;
  /// Reads the bytes and compares their checksum; kCorruption.
  virtual Status Verify() const = 0;
};

struct StreamReaderOptions {
  /// [ms] Deadline of each answer from another node. Like ContextOptions::timeout_ms.
  uint64_t timeout_ms = 60'000;
  /// Whether to ask this node's daemon if the place does not contain the store.
  bool remote = true;
};

/// Reads one rank's part of a store: beside its writer, after the writer has ended, or from another
/// node. It does not slow the writer down. But a view's bytes cannot be collected, and if the log
/// is full, the writer waits for the reader or fails (StreamWriter::Put).
///
/// In a place that this program cannot write to, the reader cannot hold versions. Then its views
/// are copies, and a copy is repeated if the writer overwrites the source meanwhile. Wait polls
/// every few milliseconds.
///
/// In a forked child of the process that opened the reader, its calls and Verify of its views fail
/// (kInvalidArgument). The child may open a reader of its own.
class StreamReader {
 public:
  /// @param place  as for StreamWriter::Open; for a store of another node, this node's place.
  /// Errors   kNotFound     There is no such store, neither on this node nor on the nodes that the
  ///                        daemon knows. To wait for a writer that has not started yet, call Open
  ///                        again after a pause.
  ///          kBusy         A writer has been opening the part for a minute.
  ///          kInvalidArgument  The name is not allowed; or users other than the place's owner may
  ///                        write to the store (docs/security.md).
  ///          kCorruption, kTimedOut, kPeerFailed
  /// Cost     Two mappings. The first reader after a writer died walks the log and rebuilds the
  ///          index; after a reboot it also reads the log's bytes. It stops in favour of a writer
  ///          that opens the part. If this program cannot write there, each reader does this for
  ///          itself.
  static Result<std::unique_ptr<StreamReader>> Open(const std::string& place,
                                                    const std::string& name, uint32_t rank,
                                                    const StreamReaderOptions& options = {});
  virtual ~StreamReader() = default;

  /// Returns all objects that have a version.
  virtual Result<std::vector<std::string>> Objects() = 0;
  /// Returns the versions of an object, newest first. Errors of Get.
  virtual Result<std::vector<StreamVersion>> Versions(Slice key) = 0;
  /// Returns the newest snapshot; 0: there is none yet.
  virtual Result<uint64_t> LastSnapshot() = 0;

  /// Copies a version (0: the newest) into the memory that `allocate` returns, and verifies its
  /// checksum. `allocate` is called again if the copy is repeated; the last memory gets the bytes.
  /// If it throws, the get fails; calls of Quire inside it fail with kInvalidArgument.
  ///
  /// Errors   kNotFound  No such object or version, or it has been collected. kCorruption. kBusy
  ///          1000 readers hold versions; or, in a place that this program cannot write to, the
  ///          writer overwrote the source during 1000 attempts. kInvalidArgument  `allocate` threw;
  ///          the text contains the exception's text. kOutOfMemory  Also if `allocate` returns no
  ///          memory, or throws std::bad_alloc. kPeerFailed  The store was removed or moved before
  ///          the reader held a version: open it again. After an error the memory's content is
  ///          undefined.
  /// Cost     One copy; for a delta one of each version back to the last full one. From another
  ///          node the copy is made while the bytes arrive.
  virtual Status Get(Slice key, uint64_t version, const BufferAllocator& allocate) = 0;
  Status Get(Slice key, uint64_t version, std::string* bytes);
  /// Copies the version that the object had at `snapshot` (0: the newest); otherwise like Get.
  virtual Status GetAt(Slice key, uint64_t snapshot, const BufferAllocator& allocate) = 0;
  Status GetAt(Slice key, uint64_t snapshot, std::string* bytes);
  /// Returns a version without a copy. Its checksum is not verified: StreamView::Verify.
  ///
  /// Errors   as Get.
  /// Cost     Independent of the size, unless it is a delta or compressed.
  virtual Result<std::unique_ptr<StreamView>> View(Slice key, uint64_t version) = 0;
  /// Returns a view of the version that the object had at `snapshot`.
  virtual Result<std::unique_ptr<StreamView>> ViewAt(Slice key, uint64_t snapshot) = 0;

  /// Sleeps until a snapshot after `after` exists; returns the newest one.
  ///
  /// Errors   kTimedOut    No snapshot came in `timeout_ms` (from another node: plus the time of an
  ///                       answer).
  ///          kNotFound    No further snapshot will come: the writer has finished.
  ///          kPeerFailed  The writer ended without Finish, or the store was removed or moved.
  virtual Result<uint64_t> Wait(uint64_t after, uint64_t timeout_ms) = 0;
  /// Returns whether the writer has finished.
  virtual Result<bool> Finished() = 0;
};

/// Returns the ranks that have a part of the store `name` at `place`.
Result<std::vector<uint32_t>> StreamRanks(const std::string& place, const std::string& name);
/// Returns the stores at `place`.
Result<std::vector<std::string>> StreamStores(const std::string& place);

}  // namespace quire
