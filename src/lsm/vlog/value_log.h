/// Large values apart from keys: written once, into value segments, and never rewritten until half
/// of a segment is dead.
///
/// Layer      lsm
/// Source     WiscKey (FAST16): keys and values apart; docs/decisions/0003-large-values-apart.md
/// Encoding   docs/format/segment.md, docs/format/record.md
/// Threads    any number of threads
/// Invariants a segment id is given once; what a ValueRef names never changes; a segment that is
///            sealed is never appended to again
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/executor.h"
#include "io/files/file_system.h"
#include "log/record.h"
#include "lsm/vlog/held_directory.h"
#include "quire/buffer_allocator.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::lsm {

/// Values of so many bytes are read outside of an EpochGuard, and, if they are separated, also
/// stored outside of one: other databases' retired memory, and every open or close of a database,
/// waits for guards.
constexpr uint64_t kHoldUpBytes = 256 << 10;

/// Copies `value` into the memory that `allocate` returns. kOutOfMemory: it returned none.
Status Deliver(Slice value, const BufferAllocator& allocate);

struct ValueSegmentInfo {
  uint64_t id = 0;
  uint64_t file_bytes = 0;
  uint64_t record_bytes = 0;  ///< appended, headers and keys included
  bool sealed = false;        ///< nothing is appended to it any more
};

/// The initial state of a value log.
struct ValueLogStart {
  uint64_t next_id = 1;  ///< of the next segment; no file in the directory has it or a higher one
  uint64_t owner_epoch = 0;
  CheckHeldFn check_held = AlwaysHeld;
  std::vector<ValueSegmentInfo> sealed;  ///< segments that are there already
};

class ValueLog {
 public:
  /// Opens the value log in `directory`. Creates no file before the first Append.
  static Result<std::unique_ptr<ValueLog>> Open(io::FileSystem& fs, const std::string& directory,
                                                const StorageOptions& options,
                                                base::Executor& executor,
                                                const ValueLogStart& start);
  /// Seals the active segment. Waits only for a segment that is just being made.
  virtual ~ValueLog() = default;
  /// Appends one pair to the active segment (a new one is begun when it is full; the next one is
  /// made in the background). P1 at return. Makes a system call only at a switch of segments; at
  /// pages that the background did not make present in time, 2 MiB of them at once; and for values
  /// of 64 KiB and more, for which a write costs less than the page faults it saves. kNoSpace:
  /// nothing was stored; works again once there is room. kBusy: a segment is needed, and the
  /// directory belongs to another opener.
  virtual Status Append(Slice key, Slice value, log::ValueRef* ref) = 0;
  /// Copies the value into the memory that `allocate` returns and verifies it. kCorruption names
  /// file and offset; kNotFound: there is no such segment. Cost: one pread, or one copy while the
  /// segment is the active one.
  virtual Status Read(const log::ValueRef& ref, const BufferAllocator& allocate) const = 0;
  /// Returns whether Read would succeed; needs little memory, however large the value.
  virtual Status Check(const log::ValueRef& ref) const = 0;
  /// Makes everything appended so far durable (P2). Appends go on.
  virtual Status Sync() = 0;
  /// Closes the active segment; the next Append begins a new one. At return every segment that was
  /// begun before is sealed, so that the manifest may list it: waits until the writes under way
  /// into these segments have ended.
  virtual Status Seal() = 0;
  virtual std::vector<ValueSegmentInfo> Segments() const = 0;
  virtual uint64_t next_id() const = 0;
  /// Returns the bytes of records that write calls appended; the others went through the mapping.
  virtual uint64_t call_bytes() const = 0;
  /// Returns the id below which every segment is sealed (and so among Segments()) or gone: later
  /// appends go to this segment or higher ones.
  virtual uint64_t open_floor() const = 0;
  /// Removes the file of a segment that is in no live version any more. (Neighbours that still need
  /// it find it missing and read the board again.)
  virtual Status Remove(uint64_t segment_id) = 0;
};

/// A reader of a database's value segments (for neighbours and tools), with a bounded number of
/// descriptors.
class ValueReader {
 public:
  static std::unique_ptr<ValueReader> Create(io::FileSystem& fs, const std::string& directory);
  virtual ~ValueReader() = default;
  /// As ValueLog::Read.
  virtual Status Read(const log::ValueRef& ref, const BufferAllocator& allocate) const = 0;
  /// As ValueLog::Check.
  virtual Status Check(const log::ValueRef& ref) const = 0;
};

/// Returns whether `checked`, a result of Check, says that the value is damaged or gone. Any other
/// failure (of the device, for lack of memory or descriptors) says nothing about the value.
inline bool ValueIsLost(const Status& checked) {
  return checked.code() == Code::kCorruption || checked.code() == Code::kNotFound;
}

std::string ValueSegmentName(uint64_t segment_id);  ///< "val-<id>.seg"

}  // namespace quire::lsm
