/// The log-structured heap of one process: commits appended behind the tail, taken away at the
/// head, walked after a crash.
///
/// Layer      stream
/// Source     NVStream, HPDC18, sections 4.2, 4.3 and 6.3; docs/decisions/0013-streams.md
/// Encoding   docs/format/stream.md
/// Threads    one at a time
/// Invariants What lies in [head, tail) is whole commits. A commit's record is stored after a fence
///            behind all else of it. Nothing at or above the stored head is overwritten.
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
  /// OK: there is no commit's record. kCorruption: there is one, and what belongs to it is damaged.
  Status status;
};

class LogHeap {
 public:
  /// A new log under `path`, empty, all its room set aside; nothing of it is there before it is
  /// whole.
  static Status Create(io::FileSystem& fs, const std::string& path, const Identity& identity,
                       const Head& head);
  /// kNotFound, kCorruption, kIo.
  static Result<std::unique_ptr<LogHeap>> Open(io::FileSystem& fs, const std::string& path,
                                               io::MapMode mode);

  /// The identity of the log that has this path by now. kNotFound, kCorruption, kUnsupported.
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

  /// Whether `bytes` from a position on lie in one piece.
  bool HasRoomAt(Position at, uint64_t bytes) const { return bytes <= RestOf(at); }
  /// Bytes at a position that a commit of [head, tail) has.
  const char* At(Position at) const { return memory_.data() + OffsetOf(at); }
  /// Whether bytes there can be looked at: if not, a look would end the program with SIGBUS. kIo:
  /// the device cannot give them, or another program shortened the log.
  Status CheckReadable(Position at, uint64_t bytes) const {
    return memory_.TouchReadable(OffsetOf(at), std::min(bytes, RestOf(at)));
  }
  /// The entry at `at`. kCorruption, kIo.
  Result<VersionEntry> EntryAt(Position at) const;
  /// The commit that begins at `at`, without its entries. kCorruption: there is none. kIo.
  Result<Record> RecordAt(Position at) const;
  /// The entries of that commit. kCorruption, kIo.
  Result<std::vector<VersionEntry>> EntriesOf(Position at, const Record& record) const;

  /// Walks from the head until no commit follows; with `check_data` also verifies the data's
  /// checksums. Sets the tail there. A page that cannot be read is an error (kIo), not an end.
  Result<WalkEnd> Walk(bool check_data, const VisitCommit& visit);
  /// Whether a walk that ended at `end` lacks commits that replace what the head has passed: a loss
  /// of power may leave the head and take them.
  bool Lacks(Position end) const { return end < head_.relies_on; }
  /// After such a walk: begins the log where the next older head does, which passed less. False:
  /// there is none, and the log is empty.
  bool FallBack();
  bool fell_back() const { return position_of_ != head_.sequence; }
  /// Takes away records behind the tail that a loss of power left beyond a hole: nothing may run
  /// into them later, also after the next loss of power. Returns how many there were. Takes those
  /// away again that an earlier program had, which may have died or failed before that was durable.
  Result<uint64_t> EraseBehindTail();

  /// Bytes by which the tail advances when a contiguous commit of `bytes` is appended, including a
  /// skip at the end of the file.
  uint64_t Needs(uint64_t bytes) const;
  /// From the tail on to the end of the file.
  uint64_t rest_of_file() const { return RestOf(tail_); }
  uint64_t free_bytes() const { return identity_.capacity - live_bytes(); }

  /// Begins a commit of at most `bytes`. One that was begun and not committed is forgotten.
  /// kNoSpace: free_bytes() is less than Needs(bytes).
  Status Begin(uint64_t bytes);
  /// The beginning of the commit that was begun last.
  Position begin() const { return begin_; }
  /// The place of the next bytes.
  Position cursor() const { return cursor_; }
  /// Stores bytes there; XXH3-64 of them under `seed`.
  uint64_t Append(Slice bytes, uint64_t seed);
  /// Skips `bytes` that the caller fills, and reports by Filled.
  char* RoomFor(uint64_t bytes);
  void Filled(Position at, uint64_t bytes);
  /// After all data: an entry of the commit's directory. Returns where it lies.
  Position AppendEntry(const VersionEntry& entry);
  /// Fence, record, fence. The tail is behind it.
  void Commit(RecordKind kind, uint64_t snapshot, uint64_t unix_time_ns);

  /// Appends a record that stands for the rest of the file; there is room.
  void SkipRest() { Skip(RestOf(tail_)); }

  /// Stores `head`, and waits until it is durable if something before it was promised to be. If
  /// that fails, nothing below the previous head is released. Writes it twice if it changes what
  /// only heads contain, so that one damaged page loses none of that; if that fails, the log
  /// contains the former again (but after a loss of power it may have either, since the device
  /// failed).
  Status WriteHead(Head head);
  /// All up to the tail survives loss of power, also if an earlier program stored it and its sync
  /// failed. After a failure all later calls fail, because the state of the device is unknown.
  Status Sync();

 private:
  LogHeap(Identity identity, std::unique_ptr<io::MappedFile> map);
  // A head and room for its page: to store it takes no memory.
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
  std::array<uint64_t, kHeadSlots> slots_{};  // sequences of the heads; 0: none that is whole
};

}  // namespace quire::stream
