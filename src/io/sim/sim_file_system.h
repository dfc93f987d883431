/// File systems for tests: one in memory that can crash, where what was not synced is kept,
/// dropped, torn or garbled by a seeded choice; and a wrapper of which the n-th call fails.
///
/// Layer      io (tests and tools only)
/// Source     SQLite's crash VFS, LevelDB's fault injection, ALICE (reordered directory operations)
/// Threads    any, serialized inside
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/files/file_system.h"

namespace quire::io {

/// The effect of the crash on unsynced state.
enum class CrashKind {
  kProcess,  ///< kill -9: all that happened is kept (the page cache survives); same boot id
  kMoved,    ///< as kProcess, and the next job runs on another node that sees the files, or on a
             ///< copy of them: new boot id
  kPower,    ///< power loss: unsynced pages kept, dropped, torn at 64 bytes or (bytes that differ
             ///< from what was synced) garbled; unsynced sizes either; of each directory's unsynced
             ///< operations a prefix survives; new boot id
};

/// A machine with one file system in memory; paths are below "/", which is there.
///
/// A step is a call that changed stored state: WriteAt, Allocate, Truncate, Sync (of a file, a
/// mapping, a directory), Rename, Unlink, MakeDirectory, RemoveDirectory, an Open or Lock that
/// created, MappedFile::Stored. Syncing a file that was just created does not make its directory
/// entry durable. A synced range of a mapping makes durable that range and no byte beside it.
///
/// If a FaultFileSystem fails a sync of a file or a mapping, the pages that were to be written stay
/// as they are in the page cache, but count as written, as on Linux: a later sync returns OK and
/// passes over them, and a power loss drops them. They count again once they are stored to: by
/// WriteAt, by a store that MappedFile::Stored reports, or by one that changes them. A directory
/// forgets nothing: journaling file systems stop if they cannot write their journal.
///
/// The write (or Stored range) that is the first to come after the crash was under way when it
/// fell: it fails, but a part of its bytes, from the front, may be there after Restart(). Not so
/// where another call of its thread has failed before it: no program lives to see a call fail
/// because the machine goes down, and to write something else.
///
/// Differs from the real one: renames between directories are kUnsupported (no file system
/// promises to keep both halves through a crash); a mapped file cannot grow.
class SimFileSystem : public FileSystem {
 public:
  /// The crash falls right after the `steps`-th step from now; UINT64_MAX: never. From then on
  /// every call fails with kIo ("simulated crash") and changes nothing, and stores through
  /// mappings go to dead memory.
  virtual void CrashAfter(uint64_t steps) = 0;
  /// Steps since construction or the last Restart().
  virtual uint64_t steps() const = 0;
  virtual bool crashed() const = 0;
  /// The machine comes up again: state as `kind` leaves it under `seed`. Crashes first where
  /// CrashAfter has not. All Files, maps and locks of before are dead: their calls fail with kIo.
  virtual void Restart(CrashKind kind, uint64_t seed) = 0;
  /// Flips, truncates, swaps: direct access to a file's bytes for damage tests, while it is not
  /// mapped. Durable at once; no step, and not seen in FileInfo::modified_ns.
  virtual Status Damage(const std::string& path,
                        const std::function<void(std::string*)>& change) = 0;
  /// Makes later mappings persistent memory (DAX): a store that was reported by
  /// MappedFile::Stored survives loss of power after the next fence; any other one survives line by
  /// line (64 bytes) or not. Fences are steps, then. Whether a line was written back from the
  /// caches is not simulated.
  virtual void SetPersistent(bool persistent) = 0;
  /// Room left: calls that need more fail with kNoSpace. UINT64_MAX: no limit (the default).
  virtual void SetFreeBytes(uint64_t bytes) = 0;
};

/// An empty one. It must outlive the files, maps and locks that it hands out.
std::unique_ptr<SimFileSystem> NewSimFileSystem();

/// Operations that can be made to fail.
enum FaultOp : uint32_t {
  kFaultOpen = 1,         ///< Open, Lock, LockShared, LockHolder
  kFaultRead = 2,         ///< ReadAt, Size
  kFaultWrite = 4,        ///< WriteAt (a failing one has written the first half), Truncate
  kFaultSync = 8,         ///< Sync of files and mappings, SyncDirectory
  kFaultRename = 16,      ///< Rename
  kFaultUnlink = 32,      ///< Unlink, RemoveDirectory
  kFaultAllocate = 64,    ///< Allocate, GrowRoom
  kFaultMap = 128,        ///< Map
  kFaultDirectory = 256,  ///< MakeDirectory, CheckDirectory, SoleWriter, List, Exists,
                         ///< FreeBytes
  kFaultAll = 511,
  /// of the above, those that ask for more than reading: Open and Map in a writing mode, Lock,
  /// MakeDirectory
  kFaultWritable = 512,
  /// what no call on a read-only file system can do
  kFaultChange =
      kFaultWritable | kFaultWrite | kFaultSync | kFaultRename | kFaultUnlink | kFaultAllocate
};

/// Wraps a file system; the n-th call (counted over the chosen operations) fails, once or more.
/// Failing calls are not made at all, except that a failing WriteAt writes its first half, and that
/// a failing Sync of a simulated file (not with kOutOfMemory: then the device was not asked) lets
/// the system take its pages for written.
class FaultFileSystem : public FileSystem {
 public:
  /// Calls number `n` to n + count - 1 (1-based; UINT64_MAX: for good) of the operations in `ops`
  /// answer `code`. Replaces the last FailAt; count 0: none fail, calls are counted.
  virtual void FailAt(uint32_t ops, uint64_t n, uint64_t count, Code code) = 0;
  /// From now on calls elsewhere than below `directory` are neither counted nor failed. Empty:
  /// everywhere (the default).
  virtual void OnlyBelow(const std::string& directory) = 0;
  /// Before each call of `ops`, wherever, `hook` is run with the path: another program that comes
  /// in between. It may use the file system below this one. Set it while no call runs; empty: none.
  virtual void BeforeCalls(uint32_t ops, std::function<void(const std::string& path)> hook) = 0;
  /// The process that uses it dies, for good, and nothing that it does from now on reaches a file:
  /// every call fails with kIo (only a write before which the hook called this has written its
  /// first half); locks are released; what is stored in mappings is gone when they are unmapped.
  virtual void Kill() = 0;
  /// Calls of operations in the last FailAt's `ops` since it was made.
  virtual uint64_t calls() const = 0;
  /// How many calls were failed since the last FailAt.
  virtual uint64_t failures() const = 0;
};

/// Around `base`, which must outlive it; it must outlive the files and maps that it hands out.
std::unique_ptr<FaultFileSystem> NewFaultFileSystem(FileSystem& base);

}  // namespace quire::io
