/// The content of a log: the versions of each object, as found by a walk, and the index built from
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

/// [bytes] The size of an entry with its data in a log; and their size if the version were whole
/// and not packed.
struct EntrySizes {
  uint64_t stored = 0;
  uint64_t whole = 0;
};
EntrySizes SizesOf(const VersionEntry& entry);

/// A commit that a walk found, and its entries.
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

/// A relocation comes later in the log than the commit that it replaces.
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
/// Removes from an object's versions (newest first) those that lie below `from`, and deltas whose
/// previous version is missing.
void KeepReadable(std::vector<VersionRef>* refs, Position from);
struct HowToRead {
  bool check_data = false;  ///< verify the checksums of data
  /// Whether power may have failed since, on a device that writes pages in any order: then the head
  /// may have been stored without commits that it relies on, and the log is walked from an older
  /// head.
  bool any_order = false;
  std::function<Status()> go_on = {};  ///< asked at each commit; its error ends the walk
};
/// Returns how to read a log without a writer during the boot `boot_id`. The data is verified if
/// the machine was rebooted since it was written.
HowToRead HowToReadDuring(uint64_t boot_id, const LogHeap& heap);
/// Walks the log; `end` as of LogHeap::Walk.
Result<LogContents> ReadContents(LogHeap* heap, const HowToRead& how, WalkEnd* end);
/// Checks that a walk ended at the end of the log. `told`: the end of the log according to a gate
/// of this log and boot; 0: there is no such gate. `ordered`: stores reached the device in the
/// order in which they were made; if not, data that was not synced may be lost when power fails,
/// which is no damage.
///
/// Errors  kCorruption: commits are missing or damaged.
Status CheckEnd(const LogHeap& heap, const WalkEnd& end, Position told, bool ordered);
/// Returns sizes with room for these contents, for `objects_min` objects, and for the versions that
/// a log of `capacity` can hold.
IndexSizes SizesFor(const LogContents& contents, uint32_t objects_min, uint64_t capacity);
/// Fills an empty index of such sizes.
Status FillIndex(const LogContents& contents, Index* index);

}  // namespace quire::stream
