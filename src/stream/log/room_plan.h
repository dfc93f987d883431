/// Whether a log has room for a commit, and what must be moved before: the search is a small model
/// of the log, which is moved in thought until it fits.
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

/// A version that is needed, and what it takes.
struct NeededEntry {
  uint64_t bytes = 0;
  bool after = true;  ///< it is needed also once the new commit is there
};

/// A commit of the log, and the unneeded bytes between it and the next needed one.
struct LogPiece {
  uint64_t bytes = 0;  ///< by which the head moves when it goes
  std::vector<NeededEntry> needed;
};

struct RoomQuestion {
  uint64_t capacity = 0;
  Position head = 0;
  Position tail = 0;
  std::vector<LogPiece> pieces;  ///< all of [head, tail), the oldest first
  /// The new commit's versions. Empty: there is none, and whether all is well is asked.
  std::vector<NeededEntry> put;
  bool put_stays = true;  ///< false: it is not kept, as in a mirror
  /// [bytes] There must be room for such a commit behind it, at some time: for a whole version of
  /// an object whose deltas only that lets go.
  uint64_t reserve = 0;
};

/// [bytes] Of a commit of these versions.
uint64_t CommitOf(const std::vector<NeededEntry>& entries);
/// Which of the versions that are moved go before the file's end, `rest` bytes away: each that fits
/// behind those before it, so that little is left free there. They come first in `entries`
/// afterwards; returns how many they are. The others go behind the end. `stored` returns the bytes
/// of an entry.
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

/// How many pieces are appended again, from the head on, before the new commit; 0: it fits as it
/// is. It fits if there is room, and if afterwards the head can be moved over all of the log while
/// all needed commits are appended again. So no commit takes the room by which the head moves. No
/// value: no number of moves makes such room.
///
/// Cost  For each number of moves that is `tried`: a copy of all pieces, and two moves of each.
std::optional<uint64_t> MovesFor(const RoomQuestion& question, uint64_t* tried = nullptr);

}  // namespace quire::stream
