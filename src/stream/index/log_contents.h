/// The content of a log: the versions of each object, as a walk finds them, and the index made of
/// them.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 6.3 (failure recovery)
/// Threads    one at a time
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "stream/index/index.h"
#include "stream/log/log_heap.h"

namespace quire::stream {

/// [bytes] What an entry and its data take in a log, and would take if they were whole and not
/// packed.
struct EntrySizes {
  uint64_t stored = 0;
  uint64_t whole = 0;
};
EntrySizes SizesOf(const VersionEntry& entry);

/// A commit that a walk met, and its entries.
struct FoundCommit {
  struct FoundEntry {
    const std::string* key;
    uint64_t version;
    Position at;
    EntrySizes sizes;
  };
  Position at;
  uint64_t bytes;
  std::vector<FoundEntry> entries;
};

/// A relocation comes later in the log than what it stands for.
struct LogContents {
  std::map<std::string, std::map<uint64_t, VersionRef>, std::less<>> objects;
  std::vector<FoundCommit> commits;
  uint64_t version_count = 0;
  uint64_t key_bytes = 0;
  uint64_t snapshot = 0;        ///< the newest
  uint64_t largest_commit = 0;  ///< [bytes] were all its versions whole
};

/// Returns the index record of an entry at `at`.
VersionRef RefOf(const VersionEntry& entry, Position at);
/// Takes away those of an object's versions, newest first, that lie below `from`, and those that
/// rest upon one that is not there.
void KeepReadable(std::vector<VersionRef>* refs, Position from);
struct HowToRead {
  bool check_data = false;  ///< verify the checksums of data
  /// The power may have failed since, where pages are written in any order: the head may be there
  /// without commits that it relies on. Then the log is walked from an older head.
  bool any_order = false;
  std::function<Status()> go_on = {};  ///< asked at each commit; its error ends the walk
};
/// How a log that nobody writes is read during the boot `boot_id`. The data is verified if the
/// machine has started anew since it was written.
HowToRead HowToReadDuring(uint64_t boot_id, const LogHeap& heap);
/// Walks the log; `end` as of LogHeap::Walk.
Result<LogContents> ReadContents(LogHeap* heap, const HowToRead& how, WalkEnd* end);
/// Whether a walk ended where the log does. `told`: the end of the log according to a gate of this
/// log and boot; 0: there is no such gate. `ordered`: what was stored is there in the order in
/// which it was stored; if not, what was not synced may be lost with the power, and is no damage.
///
/// Errors  kCorruption: commits are missing or damaged.
Status CheckEnd(const LogHeap& heap, const WalkEnd& end, Position told, bool ordered);
/// Sizes with room for them, for `objects_min` objects, and for what a log of `capacity` can hold.
IndexSizes SizesFor(const LogContents& contents, uint32_t objects_min, uint64_t capacity);
/// Into an empty index of such sizes.
Status FillIndex(const LogContents& contents, Index* index);

}  // namespace quire::stream
