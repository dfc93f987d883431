#include "tests/nodes/compacting_owners.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace quire::test {
namespace {

// Each rank has cold pairs, which are in tables from the beginning and never written again, so that
// each read of one reads tables; and hot pairs, which are overwritten all the time.
constexpr size_t kCold = 40;
constexpr size_t kHot = 30;
// The least that each member must show.
constexpr uint64_t kTableReads = 3 * kCold;
constexpr int kRounds = 10;
constexpr uint64_t kCompactions = 10;
constexpr double kSecondsMin = 0.6;
constexpr double kSecondsMax = 60;

using Keys = std::vector<std::string>;
using Time = std::chrono::steady_clock::time_point;

double SecondsSince(Time begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string ValueOf(const std::string& key, int round) {
  const size_t filler = key.back() == '0' ? 20'000 : 400;  // apart from keys, or in the table
  return std::to_string(round) + " of " + key + std::string(filler, 'v');
}

Keys KeysOf(const Database& db, int owner, const std::string& kind, size_t count) {
  Keys keys;
  for (int i = 0; keys.size() < count; ++i) {
    std::string key = kind + " " + std::to_string(i);
    if (db.Owner(key) == owner) keys.push_back(std::move(key));
  }
  return keys;
}

Status Put(Database& db, const Keys& keys, int round) {
  for (const std::string& key : keys) QUIRE_RETURN_IF_ERROR(db.Put(key, ValueOf(key, round)));
  return Status();
}

Status OrMissing(const Status& got, const std::string& key) {
  if (got.code() != Code::kNotFound) return got;
  return Status(Code::kCorruption, key + " is missing");
}

Status GetTogether(Database& db, const Keys& keys, std::vector<std::string>* values) {
  std::vector<bool> found;
  QUIRE_RETURN_IF_ERROR(db.GetMany({keys.begin(), keys.end()}, values, &found));
  const auto absent = std::find(found.begin(), found.end(), false) - found.begin();
  if (static_cast<size_t>(absent) == keys.size()) return Status();
  return OrMissing(Status(Code::kNotFound), keys[static_cast<size_t>(absent)]);
}

Status GetLater(Database& db, const Keys& keys, std::vector<std::string>* values) {
  std::vector<std::unique_ptr<PendingGet>> gets;
  for (const std::string& key : keys) gets.push_back(db.GetAsync(key));
  for (const auto& get : gets) {
    Result<std::string> value = get->Take();
    QUIRE_RETURN_IF_ERROR(OrMissing(value.status(), keys[values->size()]));
    values->push_back(std::move(*value));
  }
  return Status();
}

uint64_t CountOf(const Database& db, const char* name) {
  return db.GetStatistics().at(name);
}

// Another rank of the group, as this rank reads it.
class Member {
 public:
  Member(Database& db, int owner)
      : db_(db),
        cold_(KeysOf(db, owner, "cold", kCold)),
        hot_(KeysOf(db, owner, "hot", kHot)),
        floors_(kHot, 0) {}

  /// Reads all its pairs once; the ways of reading take turns.
  Status Read() {
    QUIRE_RETURN_IF_ERROR(ReadCold());
    QUIRE_RETURN_IF_ERROR(ReadHot());
    ++turn_;
    return Status();
  }
  bool SeenEnough() const {
    return by_memory_ + by_files_ >= kTableReads && floors_.front() >= kRounds;
  }
  uint64_t by_memory() const { return by_memory_; }
  uint64_t by_files() const { return by_files_; }

 private:
  Status ReadCold() {
    const uint64_t direct = CountOf(db_, "gets.direct");
    const uint64_t group = CountOf(db_, "gets.group");
    for (const Keys& keys : Portions(cold_)) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> values, Get(keys));
      for (size_t i = 0; i < keys.size(); ++i) {
        if (values[i] != ValueOf(keys[i], 0)) return Wrong(keys[i], values[i], 0);
      }
    }
    by_memory_ += CountOf(db_, "gets.direct") - direct;
    by_files_ += CountOf(db_, "gets.group") - group;
    return Status();
  }

  Status ReadHot() {
    size_t first = 0;
    for (const Keys& keys : Portions(hot_)) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> values, Get(keys));
      std::vector<int> rounds;
      for (size_t i = 0; i < keys.size(); ++i) {
        rounds.push_back(std::atoi(values[i].c_str()));
        const int floor = floors_[first + i];
        if (rounds[i] < floor || values[i] != ValueOf(keys[i], rounds[i])) {
          return Wrong(keys[i], values[i], floor);
        }
      }
      for (size_t i = 0; i < keys.size(); ++i) Learn(first + i, rounds[i]);
      first += keys.size();
    }
    return Status();
  }

  // The owner puts in order: keys before this one have this round, too, and keys behind it have at
  // least the round before.
  void Learn(size_t index, int round) {
    for (size_t i = 0; i < floors_.size(); ++i) {
      floors_[i] = std::max(floors_[i], i <= index ? round : round - 1);
    }
  }

  // Returns the keys of each call.
  std::vector<Keys> Portions(const Keys& keys) const {
    if (turn_ % 3 != 0) return {keys};
    std::vector<Keys> portions;
    for (const std::string& key : keys) portions.push_back({key});
    return portions;
  }

  Result<std::vector<std::string>> Get(const Keys& keys) {
    std::vector<std::string> values;
    if (turn_ % 3 == 0) {
      values.emplace_back();
      QUIRE_RETURN_IF_ERROR(OrMissing(db_.Get(keys.front(), &values.front()), keys.front()));
    } else {
      QUIRE_RETURN_IF_ERROR(turn_ % 3 == 1 ? GetTogether(db_, keys, &values)
                                           : GetLater(db_, keys, &values));
    }
    return values;
  }

  static Status Wrong(const std::string& key, const std::string& value, int floor) {
    return Status(Code::kCorruption, key + " of round " + std::to_string(floor) +
                                         " or above is \"" + value.substr(0, 30) + "\", " +
                                         std::to_string(value.size()) + " bytes");
  }

  Database& db_;
  const Keys cold_;
  const Keys hot_;
  std::vector<int> floors_;  // by hot key: a round that it has reached
  int turn_ = 0;
  uint64_t by_memory_ = 0;
  uint64_t by_files_ = 0;
};

// Writes a round for each of this rank's walks through the members, beside the next walk. So the
// readers of other ranks, which walk at their own pace, get a share of the cores, too.
class Writer {
 public:
  Writer(Database& db, Keys hot) : db_(db), hot_(std::move(hot)), thread_([this] { Run(); }) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { Stop(); }

  void Next() {
    walks_.fetch_add(1);
    walks_.notify_one();
  }
  Status End() {
    Stop();
    return result_;
  }

 private:
  void Stop() {
    if (!thread_.joinable()) return;
    enough_.store(true);
    Next();
    thread_.join();
  }
  void Run() {
    for (int round = 1; !enough_.load() && result_.ok(); ++round) {
      const int walks = walks_.load();
      result_ = Write(round);
      if (!enough_.load()) walks_.wait(walks);
    }
  }
  Status Write(int round) {
    QUIRE_RETURN_IF_ERROR(Put(db_, hot_, round));
    QUIRE_RETURN_IF_ERROR(db_.Flush());
    return round % 2 == 0 ? db_.Compact() : Status();
  }

  Database& db_;
  const Keys hot_;
  std::atomic<bool> enough_ = false;
  std::atomic<int> walks_ = 0;
  Status result_;
  std::thread thread_;
};

// Reads until all ranks have seen enough or failed, so that the pairs that a rank reads are being
// written meanwhile.
Status ReadUntilAllHaveSeenEnough(Database& db, std::vector<Member>& members, Writer& writer) {
  const Time begin = std::chrono::steady_clock::now();
  Status result;
  MPI_Request all = MPI_REQUEST_NULL;
  for (int done = 0; done == 0;) {
    for (Member& member : members) {
      if (result.ok()) result = member.Read();
    }
    writer.Next();
    const bool enough =
        SecondsSince(begin) > kSecondsMin && CountOf(db, "compactions") >= kCompactions &&
        std::all_of(members.begin(), members.end(), [](auto& each) { return each.SeenEnough(); });
    if (result.ok() && !enough && SecondsSince(begin) > kSecondsMax) {
      result = Status(Code::kTimedOut, "tables of members were read too seldom");
    }
    if (all != MPI_REQUEST_NULL) {
      MPI_Test(&all, &done, MPI_STATUS_IGNORE);
    } else if (enough || !result.ok()) {
      MPI_Ibarrier(MPI_COMM_WORLD, &all);
    }
  }
  return result;
}

}  // namespace

DatabaseOptions CompactingDatabase(int group_size) {
  DatabaseOptions options;
  options.mode = OpenMode::kMustNotExist;
  options.consistency = Consistency::kSequential;
  options.group_size = group_size;
  options.storage.memtable_bytes = 128 << 10;
  options.storage.value_segment_bytes = 1 << 20;
  options.storage.cache_bytes = 64 << 10;
  return options;
}

Status ReadWhileOwnersCompact(int group_size, Context& context, Database& db, std::string* told) {
  const int rank = context.rank();
  const Keys hot = KeysOf(db, rank, "hot", kHot);
  Status put = Put(db, KeysOf(db, rank, "cold", kCold), 0);
  if (put.ok()) put = Put(db, hot, 0);
  QUIRE_RETURN_IF_ERROR(context.Agree(put));
  QUIRE_RETURN_IF_ERROR(db.Barrier(Level::kSsTable));
  std::vector<Member> members;
  const int first = rank - rank % group_size;
  for (int other = first; other < std::min(first + group_size, context.size()); ++other) {
    if (other != rank) members.emplace_back(db, other);
  }
  Writer writer(db, hot);
  const Status read = ReadUntilAllHaveSeenEnough(db, members, writer);
  const Status written = writer.End();
  uint64_t by_memory = 0;
  uint64_t by_files = 0;
  for (const Member& member : members) {
    by_memory += member.by_memory();
    by_files += member.by_files();
  }
  *told = "tables by memory: " + std::to_string(by_memory) +
          ", by files: " + std::to_string(by_files) +
          ", by message: " + std::to_string(CountOf(db, "gets.message")) +
          ", compactions: " + std::to_string(CountOf(db, "compactions"));
  return context.Agree(read.ok() ? written : read);
}

}  // namespace quire::test
