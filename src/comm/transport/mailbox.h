/// Holds one-way messages until a call takes them: signals, and the parts of collective calls.
///
/// Layer      comm
/// Source     PapyrusKV, SC17, section 3.1 (signals)
/// Threads    any
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "quire/slice.h"

namespace quire::comm {

/// Counts of signals by (signal, source). The first 64 different ones need no memory: so no sender
/// counts as failed because there was no memory for its signal.
class SignalBox {
 public:
  SignalBox() : small_(kSmallCountsMax) {}
  /// Adds a signal. Returns false if `source` has sent more different signals than a correct
  /// program does. Throws std::bad_alloc.
  bool Add(int signal, int source);
  /// Takes one `signal` of each of `ranks` (as many as a rank is named) if all are there; else
  /// takes nothing and sets `missing` to the first missing rank.
  bool TakeAll(int signal, const std::vector<int>& ranks, int* missing);

 private:
  static constexpr size_t kSmallCountsMax = 64;
  struct SmallCount {
    int signal = 0;
    int source = 0;
    uint64_t count = 0;  ///< none: the place is free
  };
  uint64_t* Find(int signal, int source);

  std::mutex mutex_;
  std::vector<SmallCount> small_;
  std::map<std::pair<int, int>, uint64_t> more_;  ///< what found no place
  std::map<int, uint32_t> kinds_;                 ///< how many of these are of a source
};

/// The number of a part is that of its call, shifted so far, and the round. A gathering has a
/// second pass of rounds; the last number of a call says that its sender gave the call up.
constexpr int kCallShift = 8;
constexpr uint64_t kPassRounds = 64;
constexpr uint64_t kGivenUpRound = 255;

/// At least the size of a part without a text: strings of this size need no allocation.
constexpr size_t kPlainPartBytes = 128;

/// Bytes of a note of a given up call before its text: the first call in a row that was given up,
/// and the failure (docs/format/message.md).
constexpr size_t kNoteHeadBytes = 14;

/// Bytes of a part before the text of its failure, and where the failing rank stands in them (as
/// above).
constexpr size_t kPartHeadBytes = 15;
constexpr size_t kPartFailureAt = 9;

/// Holds the parts of collectives by (source, number of the part), and the notes of calls that were
/// given up. Small parts and notes take no memory: a rank that has begun a call does not fail for
/// want of it. A note, or a part that reports a failure, is stored without its text if there is no
/// memory for it: its code must be the same on all ranks.
class CollectiveBox {
 public:
  CollectiveBox() : small_(kSmallPartsMax) {}
  /// Stores a part, or drops it if it belongs to a collective that this rank has left. An empty
  /// part represents one that was lost for lack of memory. Returns false if `source` is further
  /// ahead than it can be. Throws std::bad_alloc.
  bool Add(int source, uint64_t number, Slice payload);
  /// Removes the part if it has arrived, and sets `payload`, which must have room for a small one.
  bool Take(int source, uint64_t number, std::string* payload);
  /// Returns whether some rank abandoned this call. One load if no rank has abandoned this or a
  /// later one.
  bool IsGivenUp(uint64_t call) {
    return call <= given_up_.load(std::memory_order_acquire) && FindNote(call);
  }
  /// Returns the note of a rank that abandoned it; without its text if there is no memory for that.
  std::string WhyGivenUp(uint64_t call);
  /// Drops parts with numbers below `below`, which are no longer needed.
  void Forget(uint64_t below);
  uint64_t buffered_bytes();

 private:
  static constexpr size_t kSmallPartsMax = 64;
  static constexpr size_t kSmallBytesMax = 96;
  struct SmallPart {
    int source = -1;  ///< none: the place is free
    uint64_t number = 0;
    uint32_t size = 0;
    char bytes[kSmallBytesMax];

    void Set(int of, uint64_t its_number, Slice payload);
  };
  // Ranks at a distance of a power of two send notes.
  static constexpr size_t kNotesMax = 32;
  struct Note {
    int source = -1;  ///< none: the place is free
    uint64_t first = 0;
    uint64_t last = 0;
    std::string why;

    bool Covers(uint64_t call) const { return source >= 0 && first <= call && call <= last; }
  };
  bool FindNote(uint64_t call);
  bool AddNote(int source, uint64_t last, Slice why);
  Note* NoteOf(int source);
  SmallPart* FindSmall(int source, uint64_t number);
  size_t Keep(int source, uint64_t number, Slice payload);
  uint32_t CountOf(int source) const;

  std::mutex mutex_;
  uint64_t below_ = 0;
  uint64_t bytes_ = 0;
  std::vector<SmallPart> small_;
  std::map<std::pair<int, uint64_t>, std::string> large_;
  std::array<Note, kNotesMax> notes_;  ///< the last calls that each source gave up
  std::atomic<uint64_t> given_up_{0};
};

}  // namespace quire::comm
