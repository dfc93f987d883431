#include "kv/database/history_testing.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

namespace quire::kv {
namespace {

std::string Describe(const HistoryEvent& event) {
  return "  rank " + std::to_string(event.rank) +
         (event.kind == HistoryEvent::Kind::kWrite ? " writes \"" : " reads \"") + event.value +
         "\" [" + std::to_string(event.called) + ", " +
         (event.returned == UINT64_MAX ? "?" : std::to_string(event.returned)) + "]\n";
}

// Searches for an order of one key's events; remembers the states from which there is none.
class OrderSearch {
 public:
  explicit OrderSearch(std::vector<HistoryEvent> events) : events_(std::move(events)) {}
  bool Found() { return Search(0, ""); }

 private:
  bool Search(uint64_t taken, const std::string& value) {
    uint64_t first_return = UINT64_MAX;
    bool all_done = true;
    for (size_t i = 0; i < events_.size(); ++i) {
      if ((taken >> i & 1) != 0) continue;
      first_return = std::min(first_return, events_[i].returned);
      all_done = all_done && events_[i].returned == UINT64_MAX;
    }
    if (all_done) return true;
    if (!tried_.insert({taken, value}).second) return false;
    for (size_t i = 0; i < events_.size(); ++i) {
      const HistoryEvent& event = events_[i];
      if ((taken >> i & 1) != 0 || event.called > first_return) continue;
      const bool is_write = event.kind == HistoryEvent::Kind::kWrite;
      if (!is_write && event.value != value) continue;
      if (Search(taken | uint64_t{1} << i, is_write ? event.value : value)) return true;
    }
    return false;
  }

  const std::vector<HistoryEvent> events_;
  std::set<std::pair<uint64_t, std::string>> tried_;
};

struct WriterOf {
  int rank;
  uint64_t number;
};

WriterOf ParseValue(const std::string& value) {
  const size_t colon = value.find(':');
  return {std::stoi(value), std::stoull(value.substr(colon + 1))};
}

class RelaxedCheck {
 public:
  explicit RelaxedCheck(const RelaxedHistory& history) : history_(history) {}

  std::string Run() {
    IndexWrites();
    for (size_t epoch = 0; epoch < history_.states.size(); ++epoch) CheckState(epoch);
    for (size_t rank = 0; rank < history_.ranks.size(); ++rank) CheckReads(static_cast<int>(rank));
    return problems_;
  }

 private:
  void Fail(const std::string& text) { problems_ += text + "\n"; }

  void IndexWrites() {
    for (const auto& events : history_.ranks) {
      for (const RelaxedEvent& event : events) {
        if (event.is_write) writes_[event.value] = &event;
      }
    }
    for (size_t i = 0; i < history_.keys.size(); ++i) key_index_[history_.keys[i]] = i;
  }

  std::string StateBefore(int epoch, const std::string& key) const {
    if (epoch == 0) return "";
    return history_.states[static_cast<size_t>(epoch) - 1][0][key_index_.at(key)];
  }

  // Checks the state after a barrier: the same on all ranks; each key has the last write of some
  // rank, or its earlier value.
  void CheckState(size_t epoch) {
    const auto& states = history_.states[epoch];
    for (size_t i = 0; i < history_.keys.size(); ++i) {
      const std::string& key = history_.keys[i];
      for (size_t rank = 1; rank < states.size(); ++rank) {
        if (states[rank][i] != states[0][i]) {
          Fail("after barrier " + std::to_string(epoch) + " key " + key + " is \"" + states[0][i] +
               "\" on rank 0 and \"" + states[rank][i] + "\" on rank " + std::to_string(rank));
        }
      }
      std::set<std::string> allowed;
      for (const auto& events : history_.ranks) {
        std::string last;
        for (const RelaxedEvent& event : events) {
          if (event.is_write && event.key == key && event.epoch == static_cast<int>(epoch)) {
            last = event.value;
          }
        }
        if (!last.empty()) allowed.insert(last);
      }
      if (allowed.empty()) allowed.insert(StateBefore(static_cast<int>(epoch), key));
      if (allowed.count(states[0][i]) == 0) {
        Fail("barrier " + std::to_string(epoch) + " leaves key " + key + " as \"" + states[0][i] +
             "\", the last write of nobody");
      }
    }
  }

  void CheckReads(int reader) {
    std::map<std::string, std::string> own;        // key: this epoch's last own write
    std::map<std::pair<int, int>, uint64_t> seen;  // writer, owner: highest number read
    int epoch = -1;
    for (const RelaxedEvent& event : history_.ranks[static_cast<size_t>(reader)]) {
      if (event.epoch != epoch) {
        own.clear();
        epoch = event.epoch;
      }
      if (event.is_write) {
        own[event.key] = event.value;
      } else {
        CheckRead(reader, event, own, &seen);
      }
    }
  }

  void CheckRead(int reader, const RelaxedEvent& read,
                 const std::map<std::string, std::string>& own,
                 std::map<std::pair<int, int>, uint64_t>* seen) {
    const std::string what = "rank " + std::to_string(reader) + " reads \"" + read.value +
                             "\" for " + read.key + " in epoch " + std::to_string(read.epoch) +
                             ": ";
    const auto mine = own.find(read.key);
    const std::string before = StateBefore(read.epoch, read.key);
    bool of_this_epoch = false;
    if (!read.value.empty()) {
      const auto write = writes_.find(read.value);
      if (write == writes_.end() || write->second->key != read.key ||
          write->second->called > read.returned) {
        return Fail(what + "nobody wrote that");
      }
      of_this_epoch = write->second->epoch == read.epoch;
    }
    if (!of_this_epoch && mine != own.end()) return Fail(what + "own write " + mine->second);
    if (!of_this_epoch && read.value != before) {
      return Fail(what + "the last barrier left \"" + before + "\"");
    }
    if (of_this_epoch && mine != own.end() && ParseValue(read.value).rank == reader &&
        read.value != mine->second) {
      return Fail(what + "own write " + mine->second);
    }
    CheckOrder(reader, read, what, seen);
  }

  // Checks the order for each other writer: no value that it overwrote before one that was already
  // seen at this owner.
  void CheckOrder(int reader, const RelaxedEvent& read, const std::string& what,
                  std::map<std::pair<int, int>, uint64_t>* seen) {
    for (int writer = 0; writer < static_cast<int>(history_.ranks.size()); ++writer) {
      if (writer == reader) continue;
      uint64_t& highest = (*seen)[{writer, read.owner}];
      uint64_t needed = 0;
      for (const RelaxedEvent& event : history_.ranks[static_cast<size_t>(writer)]) {
        if (!event.is_write || event.key != read.key) continue;
        const uint64_t number = ParseValue(event.value).number;
        if (number <= highest) needed = number;
      }
      if (needed > 0 && read.value.empty())
        Fail(what + "rank " + std::to_string(writer) + " wrote");
      if (read.value.empty()) continue;
      const WriterOf of = ParseValue(read.value);
      if (of.rank != writer) continue;
      if (of.number < needed) Fail(what + "later writes of that rank were seen before");
      highest = std::max(highest, of.number);
    }
  }

  const RelaxedHistory& history_;
  std::map<std::string, const RelaxedEvent*> writes_;
  std::map<std::string, size_t> key_index_;
  std::string problems_;
};

}  // namespace

std::string CheckLinearizable(const std::vector<HistoryEvent>& events) {
  std::map<std::string, std::vector<HistoryEvent>> by_key;
  for (const HistoryEvent& event : events) by_key[event.key].push_back(event);
  for (auto& [key, own] : by_key) {
    if (own.size() > 64) return "more than 64 events of key " + key;
    std::sort(own.begin(), own.end(),
              [](const HistoryEvent& a, const HistoryEvent& b) { return a.called < b.called; });
    if (OrderSearch(own).Found()) continue;
    std::string text = "no order explains key " + key + "\n";
    for (const HistoryEvent& event : own) text += Describe(event);
    return text;
  }
  return "";
}

std::string CheckRelaxed(const RelaxedHistory& history) {
  return RelaxedCheck(history).Run();
}

}  // namespace quire::kv
