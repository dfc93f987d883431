#include "kv/database/crash_journal_testing.h"

#include <algorithm>

namespace quire::kv::model {
namespace {

std::string Shown(const Value& value) {
  return value ? "\"" + value->substr(0, 40) + "\" of " + std::to_string(value->size())
               : std::string("absent");
}

}  // namespace

Journal::Journal(int rank_count, const OwnerOf& owner_of, Model base)
    : rank_count_(static_cast<size_t>(rank_count)), base_(std::move(base)) {
  for (int i = 0; i < kKeys; ++i) owners_[KeyOf(i)] = static_cast<size_t>(owner_of(KeyOf(i)));
  streams_.resize(rank_count_ * rank_count_);
}

void Journal::AllIsInTables(const Model& model) {
  base_ = model;
  for (Stream& stream : streams_) stream = Stream();
}

void Journal::Issue(size_t writer, const Operation& operation) {
  std::map<size_t, Entry> at_once;
  for (const auto& [key, value] : operation.pairs) {
    const size_t owner = owners_.at(key);
    if (operation.kind == Kind::kBatch) {
      at_once[owner].round = round_;
      at_once[owner].pairs.emplace_back(key, value);
    } else {
      StreamOf(writer, owner).entries.push_back({round_, {{key, value}}});
    }
  }
  for (auto& [owner, entry] : at_once) StreamOf(writer, owner).entries.push_back(std::move(entry));
}

// Notes a flush. It surely includes other ranks' writes from before the round. Some of their writes
// in the round may come after it.
void Journal::NoteFlush(size_t owner, const std::vector<Stream>& before) {
  for (size_t writer = 0; writer < rank_count_; ++writer) {
    Stream& stream = StreamOf(writer, owner);
    stream.in_tables = writer == owner ? stream.entries.size()
                                       : before[writer * rank_count_ + owner].entries.size();
  }
}

void Journal::EndRound(const Round& round) {
  ++round_;
  const std::vector<Stream> before = streams_;
  for (size_t rank = 0; rank < rank_count_; ++rank) {
    for (const Operation& operation : round.ranks[rank]) {
      if (operation.kind == Kind::kFlush) NoteFlush(rank, before);
      Issue(rank, operation);
    }
  }
  for (Stream& stream : streams_) stream.applied = stream.entries.size();
}

void Journal::EndLastRound(const Round& round, const std::vector<LastSteps>& ranks) {
  ++round_;
  const std::vector<Stream> before = streams_;
  for (size_t rank = 0; rank < rank_count_; ++rank) {
    const LastSteps& steps = ranks[rank];
    for (size_t i = 0; i < steps.issued; ++i) {
      Issue(rank, round.ranks[rank][i]);
      if (i + 1 == steps.flushed) NoteFlush(rank, before);
      for (size_t owner = 0; owner < rank_count_; ++owner) {
        Stream& stream = StreamOf(rank, owner);
        if (i < steps.acknowledged[owner]) stream.applied = stream.entries.size();
      }
    }
  }
  for (Stream& stream : streams_) {
    for (const LastSteps& steps : ranks) {
      if (steps.applied) stream.applied = stream.entries.size();
      if (steps.in_tables) stream.in_tables = stream.entries.size();
    }
  }
}

size_t Journal::Least(const Stream& stream, bool keeps_applied) {
  return keeps_applied ? std::max(stream.applied, stream.in_tables) : stream.in_tables;
}

// Sorts the writes of a key by their rounds: no two ranks write it in the same round.
Journal::WritesOf Journal::WritesAt(size_t owner) const {
  WritesOf writes;
  for (size_t writer = 0; writer < rank_count_; ++writer) {
    const std::vector<Entry>& entries = StreamOf(writer, owner).entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      for (const auto& [key, value] : entries[i].pairs) {
        writes[key].push_back({entries[i].round, writer, i, value});
      }
    }
  }
  for (auto& [key, of_key] : writes) {
    std::stable_sort(of_key.begin(), of_key.end(),
                     [](const Write& a, const Write& b) { return a.round < b.round; });
  }
  return writes;
}

// Whether the first `kept[w]` entries of each rank `w` leave what was found.
bool Journal::Matches(size_t owner, const WritesOf& writes, const std::vector<size_t>& kept,
                      const Model& found) const {
  return std::all_of(owners_.begin(), owners_.end(), [&](const auto& key) {
    if (key.second != owner) return true;
    Value value = Find(base_, key.first);
    const auto of_key = writes.find(key.first);
    if (of_key != writes.end()) {
      for (const Write& write : of_key->second) {
        if (write.index < kept[write.writer]) value = write.value;
      }
    }
    return value == Find(found, key.first);
  });
}

// Whether each key has a value that was written after all of its writes that cannot be lost, or the
// last of those.
bool Journal::HasAllThatStays(size_t owner, const WritesOf& writes, const Model& found,
                              bool keeps_applied) const {
  return std::all_of(owners_.begin(), owners_.end(), [&](const auto& key) {
    if (key.second != owner) return true;
    const Value value = Find(found, key.first);
    const auto of_key = writes.find(key.first);
    if (of_key != writes.end()) {
      for (auto write = of_key->second.rbegin(); write != of_key->second.rend(); ++write) {
        if (write->value == value) return true;
        if (write->index < Least(StreamOf(write->writer, owner), keeps_applied)) return false;
      }
    }
    return value == Find(base_, key.first);
  });
}

bool Journal::Explains(size_t owner, const WritesOf& writes, const Model& found,
                       bool keeps_applied, std::vector<size_t>* kept) const {
  const size_t writer = kept->size();
  if (writer == rank_count_) return Matches(owner, writes, *kept, found);
  const Stream& stream = StreamOf(writer, owner);
  kept->push_back(0);
  for (size_t left = stream.entries.size() + 1; left-- > Least(stream, keeps_applied);) {
    (*kept)[writer] = left;
    if (Explains(owner, writes, found, keeps_applied, kept)) return true;
  }
  kept->pop_back();
  return false;
}

std::string Journal::Problem(size_t owner, const WritesOf& writes, const Model& found,
                             bool keeps_applied) const {
  std::string text = "what is found at rank " + std::to_string(owner) + " is no crash's doing:";
  for (size_t writer = 0; writer < rank_count_; ++writer) {
    const Stream& stream = StreamOf(writer, owner);
    text += " of rank " + std::to_string(writer) + " at least " +
            std::to_string(Least(stream, keeps_applied)) + " of " +
            std::to_string(stream.entries.size()) + " writes;";
  }
  for (const auto& [key, of_key] : owners_) {
    if (of_key != owner) continue;
    text += "\n  " + key + ": found " + Shown(Find(found, key)) + ", before " +
            Shown(Find(base_, key));
    const auto list = writes.find(key);
    if (list == writes.end()) continue;
    for (const Write& write : list->second) {
      text += ", by rank " + std::to_string(write.writer) + " number " +
              std::to_string(write.index) + " " + Shown(write.value);
    }
  }
  return text;
}

std::string Journal::Check(const Model& found, bool keeps_applied, bool in_order) const {
  for (size_t owner = 0; owner < rank_count_; ++owner) {
    const WritesOf writes = WritesAt(owner);
    std::vector<size_t> kept;
    const bool possible = in_order ? Explains(owner, writes, found, keeps_applied, &kept)
                                   : HasAllThatStays(owner, writes, found, keeps_applied);
    if (!possible) {
      return Problem(owner, writes, found, keeps_applied);
    }
  }
  for (const auto& [key, value] : found) {
    if (!owners_.contains(key)) return "nobody wrote " + key;
  }
  return "";
}

}  // namespace quire::kv::model
