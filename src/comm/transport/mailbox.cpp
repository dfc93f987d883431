#include "comm/transport/mailbox.h"

#include <algorithm>
#include <new>

#include "base/text/coding.h"

namespace quire::comm {
namespace {

constexpr uint32_t kSignalKindsMax = 65536;
// A rank can be one collective ahead of us, of at most 32 rounds.
constexpr uint32_t kPartsMax = 128;

// Assigns the note, without its text if there is no memory for that: a string of this size takes
// none.
void AssignNote(Slice note, std::string* to) {
  try {
    to->assign(note);
  } catch (const std::bad_alloc&) {
    to->assign(note.substr(0, kNoteHeadBytes));
    to->push_back('\0');  // the length of the text
  }
}

// Returns whether a part contains a failure. Nothing follows the text in such a part.
bool TellsOfFailure(Slice part) {
  return part.size() > kPartHeadBytes && base::LoadLe<int32_t>(part.data() + kPartFailureAt) >= 0;
}

}  // namespace

uint64_t* SignalBox::Find(int signal, int source) {
  for (SmallCount& small : small_) {
    if (small.count != 0 && small.signal == signal && small.source == source) return &small.count;
  }
  const auto more = more_.find({signal, source});
  return more == more_.end() ? nullptr : &more->second;
}

bool SignalBox::Add(int signal, int source) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (uint64_t* const count = Find(signal, source); count != nullptr) {
    ++*count;
    return true;
  }
  for (SmallCount& small : small_) {
    if (small.count != 0) continue;
    small = {signal, source, 1};
    return true;
  }
  const auto is_from = [source](const SmallCount& small) { return small.source == source; };
  const auto placed = std::count_if(small_.begin(), small_.end(), is_from);
  uint32_t& kinds = kinds_[source];
  if (kinds + static_cast<uint64_t>(placed) >= kSignalKindsMax) return false;
  more_[{signal, source}] = 1;
  ++kinds;
  return true;
}

bool SignalBox::TakeAll(int signal, const std::vector<int>& ranks, int* missing) {
  std::map<int, uint64_t> wanted;
  for (int rank : ranks) ++wanted[rank];
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [rank, count] : wanted) {
    const uint64_t* const there = Find(signal, rank);
    if (there != nullptr && *there >= count) continue;
    *missing = rank;
    return false;
  }
  for (const auto& [rank, count] : wanted) {
    *Find(signal, rank) -= count;
    const auto more = more_.find({signal, rank});
    if (more == more_.end() || more->second != 0) continue;
    more_.erase(more);
    --kinds_[rank];
  }
  return true;
}

CollectiveBox::SmallPart* CollectiveBox::FindSmall(int source, uint64_t number) {
  for (SmallPart& part : small_) {
    if (part.source == source && (source < 0 || part.number == number)) return &part;
  }
  return nullptr;
}

uint32_t CollectiveBox::CountOf(int source) const {
  uint32_t count = 0;
  for (const SmallPart& part : small_) count += part.source == source ? 1 : 0;
  for (auto part = large_.lower_bound({source, 0});
       part != large_.end() && part->first.first == source; ++part) {
    ++count;
  }
  return count;
}

// Returns the note of this source, or a free one.
CollectiveBox::Note* CollectiveBox::NoteOf(int source) {
  Note* free = nullptr;
  for (Note& note : notes_) {
    if (note.source == source) return &note;
    if (note.source < 0 && free == nullptr) free = &note;
  }
  return free;
}

bool CollectiveBox::AddNote(int source, uint64_t last, Slice why) {
  base::ByteReader reader(why);
  uint64_t first = 0;
  if (!reader.Fixed(&first) || first == 0 || first > last) return false;
  Note* const note = NoteOf(source);
  if (note == nullptr || last < note->last) return false;
  AssignNote(why, &note->why);
  note->source = source;
  note->first = first;
  note->last = last;
  if (last > given_up_.load(std::memory_order_relaxed)) {
    given_up_.store(last, std::memory_order_release);
  }
  return true;
}

bool CollectiveBox::FindNote(uint64_t call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(notes_.begin(), notes_.end(),
                     [call](const Note& note) { return note.Covers(call); });
}

bool CollectiveBox::Add(int source, uint64_t number, Slice payload) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if ((number & kGivenUpRound) == kGivenUpRound) {
    return AddNote(source, number >> kCallShift, payload);
  }
  if (number < below_) return true;
  const Note* const note = NoteOf(source);
  if (note != nullptr && note->Covers(number >> kCallShift)) return true;
  if (CountOf(source) >= kPartsMax || FindSmall(source, number) != nullptr ||
      large_.contains({source, number})) {
    return false;
  }
  bytes_ += Keep(source, number, payload);
  return true;
}

// Returns how many bytes of the part are kept.
size_t CollectiveBox::Keep(int source, uint64_t number, Slice payload) {
  SmallPart* const free = FindSmall(-1, 0);
  if (free != nullptr && payload.size() <= kSmallBytesMax) {
    free->Set(source, number, payload);
    return payload.size();
  }
  try {
    large_.try_emplace({source, number}, payload);
    return payload.size();
  } catch (const std::bad_alloc&) {
    if (free == nullptr || !TellsOfFailure(payload)) throw;
  }
  free->Set(source, number, payload.substr(0, kPartHeadBytes));
  free->bytes[free->size++] = '\0';  // the length of the text
  return free->size;
}

void CollectiveBox::SmallPart::Set(int of, uint64_t its_number, Slice payload) {
  payload.copy(bytes, payload.size());
  source = of;
  number = its_number;
  size = static_cast<uint32_t>(payload.size());
}

bool CollectiveBox::Take(int source, uint64_t number, std::string* payload) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (SmallPart* const small = FindSmall(source, number); small != nullptr) {
    payload->assign(small->bytes, small->size);
    small->source = -1;
  } else if (const auto part = large_.find({source, number}); part != large_.end()) {
    *payload = std::move(part->second);
    large_.erase(part);
  } else {
    return false;
  }
  bytes_ -= payload->size();
  return true;
}

std::string CollectiveBox::WhyGivenUp(uint64_t call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string why;
  for (const Note& note : notes_) {
    if (!note.Covers(call)) continue;
    AssignNote(note.why, &why);
    break;
  }
  return why;
}

void CollectiveBox::Forget(uint64_t below) {
  const std::lock_guard<std::mutex> lock(mutex_);
  below_ = below;
  for (SmallPart& part : small_) {
    if (part.source < 0 || part.number >= below) continue;
    bytes_ -= part.size;
    part.source = -1;
  }
  std::erase_if(large_, [&](const auto& part) {
    if (part.first.second >= below) return false;
    bytes_ -= part.second.size();
    return true;
  });
}

uint64_t CollectiveBox::buffered_bytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace quire::comm
