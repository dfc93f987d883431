/// A file system in memory that can crash: what was not synced is kept, dropped, torn or garbled, by a seeded choice.
///
/// Layer      io (tests and tools only)
/// Source     SQLite's crash VFS, LevelDB's fault injection, ALICE (reordered directory operations)
/// Threads    any, serialized inside
///
/// A persistent step is any call that changes stored state: WriteAt, Allocate, Truncate, Sync, Rename, Unlink,
/// MakeDirectory, SyncDirectory, create, and each MappedFile::Stored. CrashAfter(k) lets k steps happen; every call after
/// them fails with kIo ("simulated crash") and changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "io/file_system.h"

namespace quire::io {

/// What the crash does to state that no sync covered.
enum class CrashKind {
  kProcess,  ///< kill -9: everything that happened is kept (the page cache survives); same boot id afterwards
  kPower,    ///< power loss: unsynced pages kept, dropped, torn at 64 bytes or garbled; unsynced directory entries may
             ///< vanish or stay (each directory's operations in order: a prefix survives); new boot id
};

class SimFileSystem : public FileSystem {
 public:
  /// Steps from now on until the crash; UINT64_MAX: never.
  virtual void CrashAfter(uint64_t steps) = 0;
  /// Steps since construction or the last Restart().
  virtual uint64_t steps() const = 0;
  virtual bool crashed() const = 0;
  /// The machine comes up again: state as `kind` leaves it under `seed`. All Files, maps and locks of before are dead.
  virtual void Restart(CrashKind kind, uint64_t seed) = 0;
  /// Flips, truncates, swaps: direct access to a file's bytes for damage tests.
  virtual Status Damage(const std::string& path, const std::function<void(std::string*)>& change) = 0;
  /// Room left: writes, allocations beyond it fail with kNoSpace. UINT64_MAX: no limit (default).
  virtual void SetFreeBytes(uint64_t bytes) = 0;
};

std::unique_ptr<SimFileSystem> NewSimFileSystem();

/// Operations that can be made to fail.
enum FaultOp : uint32_t {
  kFaultOpen = 1, kFaultRead = 2, kFaultWrite = 4, kFaultSync = 8, kFaultRename = 16, kFaultUnlink = 32,
  kFaultAllocate = 64, kFaultMap = 128, kFaultDirectory = 256, kFaultAll = 511
};

/// Wraps a file system; the n-th call (counted over the chosen operations) fails, once or from then on.
class FaultFileSystem : public FileSystem {
 public:
  /// Calls number `n`, n+1, ... (1-based; `count` of them, UINT64_MAX: for good) of the operations in `ops` answer `code`.
  virtual void FailAt(uint32_t ops, uint64_t n, uint64_t count, Code code) = 0;
  /// Calls of operations in the last FailAt's `ops` since it was made.
  virtual uint64_t calls() const = 0;
  /// How many calls were failed since the last FailAt.
  virtual uint64_t failures() const = 0;
};

std::unique_ptr<FaultFileSystem> NewFaultFileSystem(FileSystem& base);

}  // namespace quire::io
