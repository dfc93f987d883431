/// Decides whether a log has room for a commit, and what must be moved before: simulates the moves
/// on a small model of the log until the commit fits.
///
/// Layer      stream (internal)
/// Source     docs/decisions/0013-streams.md (room comes back in order)
/// Threads    pure functions
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stream/log/log_format.h"

namespace quire::stream {

/// A version that is needed, and its size.
struct NeededEntry {
  uint64_t bytes = 0;
  bool after = true;  ///< it is still needed after the new commit
};

/// A commit of the log, and the unneeded bytes between it and the next needed one.
struct LogPiece {
  uint64_t bytes = 0;  ///< by which the head moves when this piece is removed
  std::vector<NeededEntry> needed;
};

struct RoomQuestion {
  uint64_t capacity = 0;
  Position head = 0;
  Position tail = 0;
  std::vector<LogPiece> pieces;  ///< all of [head, tail), the oldest first
  /// The new commit's versions. Empty: there is no new commit, and only the present log is checked.
  std::vector<NeededEntry> put;
  bool put_stays = true;  ///< false: it is not kept, as in a mirror
  /// [bytes] A commit of this size must fit at some later time: a whole version of an object,
  /// without which its deltas cannot be collected.
  uint64_t reserve = 0;
};

/// Returns the size of a commit of these versions [bytes].
uint64_t CommitOf(const std::vector<NeededEntry>& entries);
/// Chooses which moved versions are stored before the file's end, `rest` bytes away: each one that
/// still fits behind those chosen before it, so that little space is left free there. Moves them to
/// the front of `entries` and returns their number. The others are stored behind the end. `stored`
/// returns the bytes of an entry.
template <typename SomeEntry, typename Stored>
size_t FillFileEnd(std::vector<SomeEntry>& entries, uint64_t rest, const Stored& stored) {
  uint64_t bytes = kRecordBytes;
  const auto fits = [&](const SomeEntry& entry) {
    const uint64_t with = bytes + stored(entry);
    if (with > rest) return false;
    bytes = with;
    return true;
  };
  return static_cast<size_t>(std::stable_partition(entries.begin(), entries.end(), fits) -
                             entries.begin());
}

/// Returns the number of pieces, from the head on, that must be appended again before the new
/// commit: 0 if it fits as it is, no value if no number of moves makes enough room. A commit fits
/// if there is room for it, and if afterwards the head can still move over the whole log while all
/// needed commits are appended again. So no commit uses up the room that moving the head needs.
///
/// Cost  For each number of moves that is `tried`: a copy of all pieces, and two moves of each.
std::optional<uint64_t> MovesFor(const RoomQuestion& question, uint64_t* tried = nullptr);

}  // namespace quire::stream
