/// The log-structured heap of one process: commits are appended at the tail, removed at the head,
/// and walked after a crash.
///
/// Layer      stream
/// Source     NVStream, HPDC18, sections 4.2, 4.3 and 6.3; docs/decisions/0013-streams.md
/// Encoding   docs/format/stream.md
/// Threads    one at a time
/// Invariants [head, tail) consists of whole commits. A commit's record is stored last, after a
///            fence. Nothing at or above the stored head is overwritten.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "stream/log/log_format.h"
#include "stream/log/log_memory.h"

namespace quire::stream {

/// Called by a walk for each commit; an error ends the walk.
using VisitCommit = std::function<Status(Position at, const Record& record,
                                         const std::vector<VersionEntry>& entries)>;

/// The end of a walk, and its reason.
struct WalkEnd {
  Position at = 0;
  /// OK: no further commit's record exists. kCorruption: one exists, and its commit is damaged.
  Status status;
};

class LogHeap {
 public:
  /// Creates an empty log at `path` and allocates all its space; the file appears at `path` only
  /// when it is complete.
  static Status Create(io::FileSystem& fs, const std::string& path, const Identity& identity,
                       const Head& head);
  /// kNotFound, kCorruption, kIo.
  static Result<std::unique_ptr<LogHeap>> Open(io::FileSystem& fs, const std::string& path,
                                               io::MapMode mode);

  /// Returns the identity of the log that is at this path now. kNotFound, kCorruption,
  /// kUnsupported.
  static Result<Identity> IdentityAt(io::FileSystem& fs, const std::string& path);
  const Identity& identity() const { return identity_; }
  const Head& head() const { return head_; }
  /// Returns the writer's current head, for readers. kCorruption.
  Result<Head> ReadHead() const;
  Position tail() const { return tail_; }
  uint64_t live_bytes() const { return tail_ - head_.head; }
  bool persistent() const { return memory_.persistent(); }
  const std::string& path() const { return memory_.path(); }
  LogMemory& memory() { return memory_; }

  /// Returns whether `bytes` from a position on are contiguous.
  bool HasRoomAt(Position at, uint64_t bytes) const { return bytes <= RestOf(at); }
  /// Returns the bytes at a position of a commit in [head, tail).
  const char* At(Position at) const { return memory_.data() + OffsetOf(at); }
  /// Checks that bytes can be read there: if not, reading them would end the program with SIGBUS.
  /// kIo: the device cannot read them, or another program shortened the log.
  Status CheckReadable(Position at, uint64_t bytes) const {
    return memory_.TouchReadable(OffsetOf(at), std::min(bytes, RestOf(at)));
  }
  /// Returns the entry at `at`. kCorruption, kIo.
  Result<VersionEntry> EntryAt(Position at) const;
  /// Returns the commit that begins at `at`, without its entries. kCorruption: there is none. kIo.
  Result<Record> RecordAt(Position at) const;
  /// Returns the entries of that commit. kCorruption, kIo.
  Result<std::vector<VersionEntry>> EntriesOf(Position at, const Record& record) const;

  /// Walks from the head until no commit follows; with `check_data` also verifies the data's
  /// checksums. Sets the tail there. A page that cannot be read is an error (kIo), not an end.
  Result<WalkEnd> Walk(bool check_data, const VisitCommit& visit);
  /// Returns whether a walk that ended at `end` lacks commits that replace those that the head has
  /// passed: after a loss of power the head may have survived without them.
  bool Lacks(Position end) const { return end < head_.relies_on; }
  /// After such a walk: begins the log at the next older head, which passed less. Returns false if
  /// there is none; then the log is empty.
  bool FallBack();
  bool fell_back() const { return position_of_ != head_.sequence; }
  /// Erases records behind the tail that a loss of power left beyond a hole, so that no later walk
  /// meets them, even after another loss of power. Returns how many there were. Repeats the
  /// erasures of an earlier program, which may have died or failed before they were durable.
  Result<uint64_t> EraseBehindTail();

  /// Bytes by which the tail advances when a contiguous commit of `bytes` is appended, including a
  /// skip at the end of the file.
  uint64_t Needs(uint64_t bytes) const;
  /// Returns the bytes from the tail to the end of the file.
  uint64_t rest_of_file() const { return RestOf(tail_); }
  uint64_t free_bytes() const { return identity_.capacity - live_bytes(); }

  /// Begins a commit of at most `bytes`. Drops a commit that was begun and not committed. kNoSpace:
  /// free_bytes() is less than Needs(bytes).
  Status Begin(uint64_t bytes);
  /// Returns the beginning of the commit that was begun last.
  Position begin() const { return begin_; }
  /// Returns the position of the next bytes.
  Position cursor() const { return cursor_; }
  /// Stores bytes at cursor(); returns their XXH3-64 under `seed`.
  uint64_t Append(Slice bytes, uint64_t seed);
  /// Skips `bytes`, which the caller fills and then reports by Filled.
  char* RoomFor(uint64_t bytes);
  void Filled(Position at, uint64_t bytes);
  /// Appends an entry of the commit's directory; call it after all data. Returns its position.
  Position AppendEntry(const VersionEntry& entry);
  /// Ends the commit: fence, record, fence. Then the tail is behind it.
  void Commit(RecordKind kind, uint64_t snapshot, uint64_t unix_time_ns);

  /// Appends a record that skips the rest of the file; there must be room.
  void SkipRest() { Skip(RestOf(tail_)); }

  /// Stores `head`, and waits until it is durable if something before it was promised to be. If
  /// that fails, nothing below the previous head is released. Writes the head twice if it changes
  /// data that only heads contain, so that one damaged page does not lose them; if that fails, the
  /// log contains the former head again (but after a loss of power it may contain either one, since
  /// the device failed).
  Status WriteHead(Head head);
  /// Makes everything up to the tail survive loss of power, including bytes of an earlier program
  /// whose sync failed. After a failure all later calls fail, because the state of the device is
  /// unknown.
  Status Sync();

 private:
  LogHeap(Identity identity, std::unique_ptr<io::MappedFile> map);
  // A head and room for its page, so that storing it allocates no memory.
  struct ReadyHead {
    explicit ReadyHead(Head from) : head(std::move(from)) { page.reserve(kPageBytes); }
    Head head;
    std::string page;
  };
  Status StoreHead(ReadyHead ready);
  uint64_t StorePage(ReadyHead ready);
  Status SyncFoundHead();
  uint64_t FreeHeadSlot() const;
  uint64_t OffsetOf(Position at) const { return kLogHeaderBytes + at % identity_.capacity; }
  uint64_t RestOf(Position at) const { return identity_.capacity - at % identity_.capacity; }
  Result<Record> CheckedRecord(Position at) const;
  Status CheckData(const VersionEntry& entry) const;
  void Skip(uint64_t bytes);
  Status SyncBytes(uint64_t offset, uint64_t size);
  Status SyncRange(Position from, Position to);
  Status StoreFoundAgain(Position from, Position to);

  Identity identity_;
  Head head_;
  uint64_t position_of_ = 0;  // the sequence of the stored head with which the log begins
  LogMemory memory_;
  Position tail_ = 0;
  Position found_end_ = 0;  // of what earlier programs stored
  Position begin_ = 0;  // of the commit under way
  Position cursor_ = 0;
  Position limit_ = 0;      // where its room ends
  Position directory_ = 0;  // 0: no entry yet
  uint32_t entry_count_ = 0;
  uint64_t directory_hash_ = 0;  // of the entries so far
  Status sync_status_;                        // the first failure
  std::array<uint64_t, kHeadSlots> slots_{};  // sequences of the heads; 0: no valid head
};

}  // namespace quire::stream
