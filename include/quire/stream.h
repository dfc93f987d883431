/// Streams: versioned objects that a simulation stores as it goes, and that an analysis beside it,
/// or on another node, reads at any of its versions, in place or as a copy.
///
/// Layer      public
/// Source     NVStream, HPDC18; docs/decisions/0013-streams.md
/// Threads    any; calls of a writer come one after another. Objects' memory is the program's to
///            guard: nobody writes to it while a call stores it
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

/// What an array is made of. The numbers are on disk.
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
/// [bytes] of one element.
uint64_t ElementBytes(ElementType element);
/// As NumPy calls it: "float64".
const char* ElementName(ElementType element);

/// What the bytes of an object are, for those who show them.
struct StreamShape {
  ElementType element = ElementType::kBytes;
  /// Up to 8 extents, the slowest first; empty: one dimension of as many elements as there are.
  std::vector<uint64_t> extents;
};

/// Whether versions store what changed, and who tells what did.
enum class StreamDeltas {
  kOff = 0,      ///< every version is stored whole
  kAuto = 1,     ///< for each object and step whatever is cheapest, a whole version among it
  kHash = 2,     ///< hashes of blocks are compared: no page faults
  kProtect = 3,  ///< pages are protected, and a handler of SIGSEGV notes which are written to.
                 ///< System calls (MPI's among them) that write into an object fail with EFAULT
  kWatch = 4,    ///< the kernel notes which pages are written to (userfaultfd, Linux 6.7)
};

/// What shapes a rank's stream. Each field is one row of the option table (quire::OptionTable),
/// from which its name and its environment variable (QUIRE_STREAM_<NAME>) follow.
struct StreamOptions {
  /// [bytes, 1 MiB .. 16 TiB] Room of the log, set aside when it is made. A snapshot lies in one
  /// piece, and what is kept is moved out of the way: for k versions of s bytes in all (of each
  /// object, its size, its key and 256 more, with kept snapshots in k) plan (k + 2) s. Then no put
  /// is refused for want of room unless a reader holds the log.
  uint64_t log_bytes = 256ull << 20;
  /// [1 .. 2^20] Newest versions of each object that are kept.
  uint32_t keep_versions = 1;
  /// [ms, to 100 years] Versions younger than this are kept, too, by the machine's clock. No
  /// version counts as younger than the next one: if the clock is set, versions can go earlier, and
  /// those from a time that the clock has left do not fill the log.
  uint64_t keep_ms = 0;
  /// [10 .. 100] From so much of the log on versions that are not kept are collected.
  uint32_t collect_percent = 75;
  /// [ms, to a day] How long a put waits for room where readers hold the log. 0: kNoSpace at once.
  uint64_t wait_ms = 0;
  /// [1 .. 2^20] Objects that the index has room for.
  uint32_t objects_max = 4096;
  StreamDeltas deltas = StreamDeltas::kOff;
  /// [1 .. 1024] At the latest so many versions after a whole one there is the next.
  uint32_t full_every = 16;
  /// [0 .. 2^20] At every so many snapshots whole objects are hashed, and what did change without
  /// having been noted is an error. 0: never.
  uint32_t audit_every = 0;
  /// kNone or kLz4.
  Compression compression = Compression::kNone;
};

/// What one commit survives.
enum class StreamDurability {
  kMemory = 0,   ///< kill -9 of all (P1); with the machine all goes, synced or not: tmpfs
  kProcess = 1,  ///< kill -9 of all (P1), and loss of power after Sync: files of a device
  kMachine = 2,  ///< loss of power (P2): persistent memory (DAX)
};

/// What a writer did since it was opened.
struct StreamStatistics {
  uint64_t commits = 0;
  uint64_t versions = 0;         ///< stored, of all objects
  uint64_t deltas = 0;           ///< of those, as what changed
  uint64_t object_bytes = 0;     ///< that the versions stand for
  uint64_t stored_bytes = 0;     ///< of data that were written for them
  uint64_t relocated_bytes = 0;  ///< that were written again, to free the log before them
  uint64_t collected = 0;        ///< versions
  uint64_t pinned_waits = 0;     ///< collections that a reader's pin stopped
  uint64_t log_bytes = 0;        ///< room of the log
  uint64_t live_bytes = 0;       ///< of it in use
  uint64_t audits = 0;
};

/// One rank's objects, and the log of their versions. Programs in MPI open one per rank; nothing
/// here is collective, and no rank waits for another.
class StreamWriter {
 public:
  /// Opens rank `rank`'s part of the store `name`, or makes it. Versions that an earlier program
  /// committed are there.
  ///
  /// @param place  a directory, made (0700) where it is absent. What lies under it decides what a
  ///               commit survives: durability().
  /// @param name   [A-Za-z0-9._-]{1,255}, no leading dot or dash.
  ///
  /// Errors   kInvalidArgument  The name or an option is not allowed.
  ///          kBusy             A program writes this rank's part: the text names it. Half a second
  ///              is waited for a writer that may just have died, a minute for who tends the part
  ///              (the daemon, a reader that makes the index anew).
  ///          kNoSpace          No room for a log of log_bytes.
  ///          kCorruption       The log is damaged: the text names the place.
  /// Cost     The commits that are kept are walked; where the machine has been started anew, their
  ///          bytes are read.
  static Result<std::unique_ptr<StreamWriter>> Open(const std::string& place,
                                                    const std::string& name, uint32_t rank,
                                                    const StreamOptions& options = {});
  /// Ends the stream as Finish does, but tells no failure. Memory of objects goes.
  virtual ~StreamWriter() = default;

  /// Makes an object: zeroed memory that starts at a page, in which the program computes.
  ///
  /// @param key    [bytes] 1 to 1024, any.
  /// @param bytes  1 ..
  /// @param shape  its product must be `bytes`.
  ///
  /// Errors   kInvalidArgument  An object has the key, or sizes do not fit.
  ///          kNoSpace          More objects than objects_max, or more than the log has room for.
  ///          kOutOfMemory
  virtual Result<char*> Create(Slice key, uint64_t bytes, const StreamShape& shape = {}) = 0;
  /// The same of memory that the program has and keeps until Free. Where it does not begin and
  /// end at a page, or shares pages with an object of this or another writer, hashes tell what
  /// changed. Objects that share memory are restored in the order of their keys.
  virtual Status Attach(Slice key, char* memory, uint64_t bytes, const StreamShape& shape = {}) = 0;
  /// Lets go of an object's memory. Its versions stay, under the policy. kNotFound.
  virtual Status Free(Slice key) = 0;

  /// Commits the next version of one object. While it runs, nobody writes to the object.
  ///
  /// Visibility   All readers of this node: at return, whole.
  /// Durability   durability().
  /// Errors       kNotFound  No such object. kNoSpace  The log is full and nothing can go: the
  ///              text says what holds it. kCorruption  An audit found what nobody noted:
  ///              MarkDirty. kOutOfMemory. kInvalidArgument  After Finish, or in a program that
  ///              the writer's forked. Nothing was stored; a later put can succeed.
  /// Cost         One copy past the caches, two fences. With deltas what it takes to find what
  ///              changed; compressed, one pass more. Where the log is full, what can go is
  ///              collected, what is kept and lies in the way is copied; and up to wait_ms are
  ///              waited for readers.
  /// Returns the version, 1 for the first.
  virtual Result<uint64_t> Put(Slice key) = 0;
  /// Commits the next version of all objects, or of those named, as one: readers see all or none.
  /// As Put; kInvalidArgument, too, where there is no object, or one is named twice. Returns the
  /// snapshot's number; each commit takes the next.
  virtual Result<uint64_t> Snapshot() = 0;
  virtual Result<uint64_t> Snapshot(const std::vector<Slice>& keys) = 0;
  /// Bytes of an object changed that no store of a processor wrote (RDMA, devices). kNotFound,
  /// kInvalidArgument: it has not so many bytes.
  virtual Status MarkDirty(Slice key, uint64_t offset, uint64_t bytes) = 0;
  /// Fills all objects, or where `key` is not empty that one, with what they were at `snapshot`
  /// (0: the newest). For who goes on after a crash.
  ///
  /// Errors   kNotFound  An object has no version then. kInvalidArgument  Another size then.
  ///          Nothing was filled. kCorruption  A version is damaged: those before it are filled.
  virtual Status Restore(uint64_t snapshot, Slice key = {}) = 0;
  /// The newest snapshot; 0: none.
  virtual uint64_t LastSnapshot() const = 0;

  /// What was committed survives loss of power, unless it lies in memory alone (durability()).
  /// Nothing to do on persistent memory. What failed once fails for good: open the stream again.
  virtual Status Sync() = 0;
  virtual StreamDurability durability() const = 0;

  /// All that makes up `snapshot` is kept whatever the policy, until Release. For all programs:
  /// kept beyond this one's end. kNotFound: it never was, parts of it have gone, or nobody knows:
  /// an object that came later has lost its first version. kNoSpace: 480 are kept already, or with
  /// it the log had no room to go on; up to wait_ms are waited for readers, as by a put.
  virtual Status Keep(uint64_t snapshot) = 0;
  /// The policy alone decides about `snapshot` again. kNotFound: it is not kept.
  virtual Status Release(uint64_t snapshot) = 0;
  /// Collects now what the policy does not keep.
  virtual Status Collect() = 0;

  /// How changes of `key` are found at this moment: "whole", "hash", "protect", "watch".
  virtual Result<std::string> Tracking(Slice key) const = 0;
  /// What this writer did so far.
  virtual StreamStatistics Statistics() const = 0;
  /// Syncs; readers that wait hear that no version will come. Nothing may be called after it.
  virtual Status Finish() = 0;
};

/// One version of one object.
struct StreamVersion {
  uint64_t version = 0;
  uint64_t snapshot = 0;      ///< the commit it came with
  uint64_t bytes = 0;         ///< of the object
  uint64_t stored_bytes = 0;  ///< in the log
  uint64_t unix_time_ns = 0;
  bool whole = true;  ///< false: what changed since the version before
  StreamShape shape;
};

/// An object's bytes where they lie, or in memory of its own where they had to be put together.
/// While it lives nobody collects them. Must not outlive its reader.
class StreamView {
 public:
  virtual ~StreamView() = default;
  /// All of the object.
  virtual Slice bytes() const = 0;
  /// Which version they are of.
  virtual const StreamVersion& version() const = 0;
  /// Whether they lie in the log. Not if the reader cannot write to the place.
  virtual bool in_place() const = 0;
  /// Reads the bytes and compares their checksum; kCorruption.
  virtual Status Verify() const = 0;
};

struct StreamReaderOptions {
  /// [ms] For what is on another node: how long an answer may take. As of ContextOptions.
  uint64_t timeout_ms = 60'000;
  /// Asks the daemon of this node where the place does not have the store.
  bool remote = true;
};

/// Reads one rank's part of a store, beside its writer, after it, or from another node. The writer
/// takes no notice of it; but what a view holds cannot be collected, and a full log waits for it or
/// says so (StreamWriter::Put).
///
/// In a place that this program cannot write to it holds nothing: its views are copies, which are
/// made again if the writer overwrites meanwhile what they are copied from, and Wait looks every
/// few milliseconds.
class StreamReader {
 public:
  /// @param place  as of StreamWriter::Open; of another node's store this node's place.
  /// Errors   kNotFound     There is no such store, here or where the daemon looks.
  ///          kBusy         A writer has been opening it for a minute, or 1000 readers have it.
  ///          kInvalidArgument  The name; or others than the place's owner may write to the store
  ///                        (docs/security.md).
  ///          kCorruption, kTimedOut, kPeerFailed
  /// Cost     Two mappings. The first after a writer that died walks the log and makes its index
  ///          anew, and after the machine was started anew reads its bytes, too; it gives way to a
  ///          writer that opens the part meanwhile. If this program cannot write there, each reader
  ///          does so for itself.
  static Result<std::unique_ptr<StreamReader>> Open(const std::string& place,
                                                    const std::string& name, uint32_t rank,
                                                    const StreamReaderOptions& options = {});
  virtual ~StreamReader() = default;

  /// All objects of which there is a version.
  virtual Result<std::vector<std::string>> Objects() = 0;
  /// The versions of an object, newest first. kNotFound.
  virtual Result<std::vector<StreamVersion>> Versions(Slice key) = 0;
  /// The newest snapshot; 0: none yet.
  virtual Result<uint64_t> LastSnapshot() = 0;

  /// A copy of a version (0: the newest), checked against its checksum. `place` makes no call of
  /// this reader.
  ///
  /// Errors   kNotFound  No such object or version, or it has been collected. kCorruption. kBusy
  ///          1000 readers hold something; or the writer overwrote what was copied 1000 times in a
  ///          row, in a place that this program cannot write to. kOutOfMemory  Also where `place`
  ///          gives no memory. After an error that place may have any bytes. `place` is asked again
  ///          if a copy has to be made again.
  /// Cost     One copy; of a delta of each version back to the last whole one. Of another node's:
  ///          while it comes.
  virtual Status Get(Slice key, uint64_t version, const PlaceFunction& place) = 0;
  Status Get(Slice key, uint64_t version, std::string* bytes);
  /// The same as the object was at `snapshot` (0: the newest).
  virtual Status GetAt(Slice key, uint64_t snapshot, const PlaceFunction& place) = 0;
  Status GetAt(Slice key, uint64_t snapshot, std::string* bytes);
  /// A version without a copy, and unchecked: StreamView::Verify.
  ///
  /// Errors   as Get.
  /// Cost     Independent of the size, unless it is a delta or compressed.
  virtual Result<std::unique_ptr<StreamView>> View(Slice key, uint64_t version) = 0;
  /// The same of the version that the object had at `snapshot`.
  virtual Result<std::unique_ptr<StreamView>> ViewAt(Slice key, uint64_t snapshot) = 0;

  /// Sleeps until there is a snapshot after `after`; returns the newest.
  ///
  /// Errors   kTimedOut    None came in `timeout_ms` (of another node: and what an answer takes).
  ///          kNotFound    None will come: the writer has finished.
  ///          kPeerFailed  The writer is gone without having finished, or the store was removed.
  virtual Result<uint64_t> Wait(uint64_t after, uint64_t timeout_ms) = 0;
  /// Whether the writer has finished.
  virtual Result<bool> Finished() = 0;
};

/// The ranks that have a part of a store at a place.
Result<std::vector<uint32_t>> StreamRanks(const std::string& place, const std::string& name);
/// The stores at a place.
Result<std::vector<std::string>> StreamStores(const std::string& place);

}  // namespace QUIRE_EXPORT
