#include "stream/log/room_plan.h"

#include <algorithm>
#include <deque>

namespace quire::stream {
namespace {

class Ring {
 public:
  explicit Ring(const RoomQuestion& question)
      : capacity_(question.capacity),
        head_(question.head),
        tail_(question.tail),
        pieces_(question.pieces.begin(), question.pieces.end()) {
    DropUnneeded();
  }

  size_t pieces() const { return pieces_.size(); }
  // Returns whether a commit fits. If the log is empty, the rest of the file can be skipped.
  bool Fits(uint64_t bytes) const {
    return pieces_.empty() ? bytes <= capacity_ : Needs(bytes) <= free();
  }
  /// Returns whether there is room for any two commits of `bytes`: one of them may leave space
  /// unused at the file's end.
  bool FitsTwice(uint64_t bytes) const { return 2 * bytes <= free(); }

  // Returns false if the head's piece stays needed after such a commit, and cannot be moved then.
  bool FirstMovesBehind(const std::vector<NeededEntry>& put) const {
    if (pieces_.empty() || (pieces_.size() == 1 && put.empty())) return true;
    uint64_t bytes = kRecordBytes;
    for (const NeededEntry& entry : pieces_.front().needed) bytes += entry.after ? entry.bytes : 0;
    const uint64_t taken = put.empty() ? 0 : Needs(CommitOf(put));
    return bytes == kRecordBytes || taken + bytes <= free();
  }

  // Moves the needed entries of the head's piece to the tail. Returns false if there is no room.
  bool MoveFirst() {
    std::vector<NeededEntry> needed = pieces_.front().needed;
    const size_t first_count =
        FillFileEnd(needed, RestOfFile(), [](const NeededEntry& entry) { return entry.bytes; });
    const auto split = needed.begin() + static_cast<std::ptrdiff_t>(first_count);
    std::vector<NeededEntry> behind(split, needed.end());
    needed.erase(split, needed.end());
    const uint64_t first = needed.empty() ? 0 : CommitOf(needed);
    const uint64_t second = behind.empty() ? 0 : CommitOf(behind);
    const uint64_t all = second == 0 ? first : RestOfFile() + second;
    if (all > free()) return false;
    if (first != 0) Append(first, std::move(needed));
    if (second != 0) Append(second, std::move(behind));
    head_ += pieces_.front().bytes;
    pieces_.pop_front();
    DropUnneeded();
    return true;
  }

  // Appends the new commit, and drops what it makes unneeded. Returns the largest piece.
  uint64_t Put(const std::vector<NeededEntry>& put, bool stays) {
    if (!put.empty()) Append(CommitOf(put), stays ? put : std::vector<NeededEntry>());
    uint64_t largest = 0;
    for (LogPiece& piece : pieces_) {
      std::erase_if(piece.needed, [](const NeededEntry& entry) { return !entry.after; });
      if (!piece.needed.empty()) largest = std::max(largest, CommitOf(piece.needed));
    }
    DropUnneeded();
    return largest;
  }

 private:
  uint64_t free() const { return capacity_ - (tail_ - head_); }
  uint64_t RestOfFile() const { return capacity_ - tail_ % capacity_; }
  uint64_t Needs(uint64_t bytes) const {
    return RestOfFile() < bytes ? RestOfFile() + bytes : bytes;
  }
  void Append(uint64_t bytes, std::vector<NeededEntry> needed) {
    const uint64_t skipped = Needs(bytes) - bytes;
    if (pieces_.empty()) head_ += skipped;
    if (!pieces_.empty()) pieces_.back().bytes += skipped;
    tail_ += skipped + bytes;
    pieces_.push_back({bytes, std::move(needed)});
  }
  void DropUnneeded() {
    for (; !pieces_.empty() && pieces_.front().needed.empty(); pieces_.pop_front()) {
      head_ += pieces_.front().bytes;
    }
  }

  uint64_t capacity_;
  Position head_;
  Position tail_;
  std::deque<LogPiece> pieces_;
};

// Two laps, because the space that stays unused at the file's end differs from lap to lap.
constexpr size_t kLaps = 2;

bool StaysMovable(Ring ring, const RoomQuestion& question) {
  const uint64_t largest = ring.Put(question.put, question.put_stays);
  const uint64_t enough = std::max(largest, question.reserve);
  // A single commit is in no other's way.
  if (ring.pieces() <= 1 && question.reserve == 0) return true;
  bool reserved = question.reserve == 0;
  for (size_t moves = kLaps * ring.pieces(); moves > 0; --moves) {
    reserved = reserved || ring.Fits(question.reserve);
    if (ring.FitsTwice(enough)) return true;
    if (!ring.MoveFirst()) return false;
  }
  return reserved;
}

// Checks a necessary condition, whatever the order of the pieces: if more than one piece is needed
// behind the new commit, there must be room to move the largest version. A move may split a piece,
// but no version.
bool LeavesRoomToMove(const RoomQuestion& question) {
  uint64_t pieces = 0;
  uint64_t bytes = 0;
  uint64_t largest = 0;
  const auto add = [&](const std::vector<NeededEntry>& needed) {
    uint64_t versions = 0;
    for (const NeededEntry& entry : needed) {
      if (!entry.after) continue;
      ++versions;
      bytes += entry.bytes;
      largest = std::max(largest, entry.bytes);
    }
    pieces += versions != 0 ? 1 : 0;
  };
  for (const LogPiece& piece : question.pieces) add(piece.needed);
  if (question.put_stays) add(question.put);
  return pieces <= 1 || bytes + largest + (pieces + 1) * kRecordBytes <= question.capacity;
}

}  // namespace

uint64_t CommitOf(const std::vector<NeededEntry>& entries) {
  uint64_t bytes = kRecordBytes;
  for (const NeededEntry& entry : entries) bytes += entry.bytes;
  return bytes;
}

std::optional<uint64_t> MovesFor(const RoomQuestion& question, uint64_t* tried) {
  uint64_t own_tried = 0;
  if (tried == nullptr) tried = &own_tried;
  *tried = 0;
  if (!LeavesRoomToMove(question)) return std::nullopt;
  Ring ring(question);
  const uint64_t most = kLaps * ring.pieces();
  for (uint64_t moves = 0; moves <= most; ++moves) {
    const bool fits = question.put.empty() || ring.Fits(CommitOf(question.put));
    if (fits && ring.FirstMovesBehind(question.put)) {
      ++*tried;
      if (StaysMovable(ring, question)) return moves;
    }
    if (ring.pieces() == 0 || !ring.MoveFirst()) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace quire::stream
