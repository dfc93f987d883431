// One thread of one rank stands at a sync point while all ranks go through everything that a
// database does, and other threads of theirs call it: every pair of such a place and such a call,
// with 1, 2 and 4 background threads, against what was acknowledged under the consistency in force.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/core/sanitizer.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/held_thread.h"
#include "tests/support/status_asserts.h"
#include "tests/support/sync_point_places.h"
#include "tests/support/test_scale.h"

namespace quire::kv::database_sync_points_test {
namespace {

// Enough for a few calls. If a call needs the held thread, it waits so long.
constexpr int kHoldMs = 10;
// For each rank, in one run after another.
constexpr int kBackgroundThreads[] = {1, 2, 4};
constexpr uint32_t kSet = 1;  // an update that stores its argument
constexpr int kKeys = 6;      // of each thread
constexpr uint64_t kDeleteEvery = 7;
constexpr int kModeChanges = 4;
constexpr char kPath[] = "/checkpoints";

// Every so many writes of a key are a delete.
bool IsDelete(uint64_t number) {
  return number % kDeleteEvery == 0;
}

std::string ValueAt(const std::string& key, uint64_t number) {
  std::string value = key + "." + std::to_string(number) + ".";
  value.resize(number % 3 == 0 ? 2500 : 40, 'v');
  return value;
}

// A key that one thread of one rank writes; its writes are numbered.
struct Known {
  int rank = 0;
  std::atomic<uint64_t> begun = 0;
  std::atomic<uint64_t> acknowledged = 0;  // what the writer's rank sees
  std::atomic<uint64_t> fenced = 0;        // what all ranks see
};

using Numbers = std::map<std::string, uint64_t>;

// All pairs of a database, and what may be their values.
class Pairs {
 public:
  explicit Pairs(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (const char* prefix : {"work-", "act-"}) {
        for (const std::string& key : KeysOf(rank, prefix)) {
          known_[key] = std::make_unique<Known>();
          known_[key]->rank = rank;
        }
      }
    }
  }
  static std::vector<std::string> KeysOf(int rank, const std::string& prefix) {
    std::vector<std::string> keys;
    for (int i = 0; i < kKeys; ++i) {
      keys.push_back(prefix + std::to_string(rank) + "-" + std::to_string(i));
    }
    return keys;
  }
  Known& At(const std::string& key) const { return *known_.at(key); }
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, known] : known_) keys.push_back(key);
    return keys;
  }
  // The least number of each key that `rank` must see at this moment.
  Numbers SeenBy(int rank) const {
    Numbers numbers;
    for (const auto& [key, known] : known_) {
      numbers[key] = known->rank == rank ? known->acknowledged : known->fenced;
    }
    return numbers;
  }
  // After a call that fences, of what was acknowledged before it.
  void Fenced(int rank, const Numbers& before) const {
    for (const auto& [key, number] : before) {
      std::atomic<uint64_t>& fenced = At(key).fenced;
      if (At(key).rank == rank) fenced = std::max<uint64_t>(fenced, number);
    }
  }
  // The database is again as it was when `rank` must have seen `numbers`.
  void Restored(int rank, const Numbers& numbers) const {
    for (const auto& [key, number] : numbers) {
      Known& known = At(key);
      if (known.rank != rank) continue;
      known.acknowledged = number;
      known.fenced = number;
    }
  }
  // A value that is at least as new as `floor`, and of a write that has begun.
  void Expect(const std::string& key, uint64_t floor, const Status& status,
              const std::string& value) const {
    const uint64_t begun = At(key).begun;
    if (status.code() == Code::kNotFound) {
      bool can_be_absent = floor == 0;
      for (uint64_t i = floor; i <= begun; ++i) can_be_absent = can_be_absent || IsDelete(i);
      EXPECT_TRUE(can_be_absent) << key << " is lost: " << floor << " to " << begun;
      return;
    }
    ASSERT_OK(status);
    uint64_t number = floor;
    while (number <= begun && (IsDelete(number) || ValueAt(key, number) != value)) ++number;
    EXPECT_LE(number, begun) << key << " is " << value.substr(0, 40) << ", not " << floor << " to "
                             << begun;
  }

 private:
  std::map<std::string, std::unique_ptr<Known>> known_;
};

// The state that all ranks of one run share.
struct Shared {
  explicit Shared(int ranks) : pairs(ranks) {}
  const Pairs pairs;
  std::atomic<bool> sequential = false;  // on all ranks
  std::atomic<int> acted = 0;            // ranks
};

// One thread of a rank.
class User {
 public:
  User(Shared& shared, Database& db, int rank, const std::string& prefix)
      : shared_(shared), db_(db), rank_(rank), keys_(Pairs::KeysOf(rank, prefix)) {}
  Database& db() { return db_; }

  void Write(int which) {
    WriteBy(which, false, [this](const std::string& key, uint64_t number) {
      return IsDelete(number) ? db_.Delete(key) : db_.Put(key, ValueAt(key, number));
    });
  }
  void Update(int which) {
    WriteBy(which, false, [this](const std::string& key, uint64_t number) {
      return IsDelete(number) ? db_.Delete(key) : db_.Update(key, kSet, ValueAt(key, number));
    });
  }
  void UpdateAndAnswer(int which) {
    WriteBy(which, true, [this](const std::string& key, uint64_t number) {
      std::string answer;
      if (!IsDelete(number)) {
        return db_.UpdateAndAnswer(key, kSet, ValueAt(key, number), &answer);
      }
      Batch batch;
      batch.Delete(key);
      return db_.Write(batch);
    });
  }
  void WriteBatch() {
    Batch batch;
    const bool was_sequential = shared_.sequential;
    for (const std::string& key : keys_) {
      const uint64_t number = ++shared_.pairs.At(key).begun;
      if (IsDelete(number)) batch.Delete(key);
      if (!IsDelete(number)) batch.Put(key, ValueAt(key, number));
    }
    const Status status = db_.Write(batch);
    for (const std::string& key : keys_) Wrote(key, status, was_sequential, true);
  }
  void WriteAll() {
    for (int i = 0; i < kKeys; ++i) Write(i);
  }
  // A call that all of this rank's writes before it are fenced by.
  void Fencing(const std::function<Status()>& call) {
    const Numbers before = shared_.pairs.SeenBy(rank_);
    const Status status = call();
    if (status.ok()) shared_.pairs.Fenced(rank_, before);
    EXPECT_OK(status);
  }

  void Get() {
    for (const auto& [key, floor] : shared_.pairs.SeenBy(rank_)) {
      std::string value;
      const Status status = db_.Get(key, &value);
      shared_.pairs.Expect(key, floor, status, value);
    }
  }
  void GetMany() {
    const Numbers floors = shared_.pairs.SeenBy(rank_);
    const std::vector<std::string> keys = shared_.pairs.Keys();
    const std::vector<Slice> asked(keys.begin(), keys.end());
    std::vector<std::string> values;
    std::vector<bool> found;
    ASSERT_OK(db_.GetMany(asked, &values, &found));
    for (size_t i = 0; i < keys.size(); ++i) {
      shared_.pairs.Expect(keys[i], floors.at(keys[i]),
                           found[i] ? Status() : Status(Code::kNotFound), values[i]);
    }
  }
  void GetLater() {
    const Numbers floors = shared_.pairs.SeenBy(rank_);
    std::vector<std::pair<std::string, std::unique_ptr<PendingGet>>> gets;
    for (const auto& [key, floor] : floors) gets.emplace_back(key, db_.GetAsync(key));
    for (const auto& [key, get] : gets) {
      const Result<std::string> value = get->Take();
      shared_.pairs.Expect(key, floors.at(key), value.status(), value.ok() ? *value : "");
    }
  }
  void Iterate() {
    const Numbers floors = shared_.pairs.SeenBy(rank_);
    std::map<std::string, std::string> there;
    const std::unique_ptr<LocalIterator> iterator = db_.NewLocalIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      there[std::string(iterator->key())] = std::string(iterator->value());
    }
    ASSERT_OK(iterator->status());
    for (const auto& [key, floor] : floors) {
      if (db_.Owner(key) != rank_) continue;
      const auto found = there.find(key);
      const bool absent = found == there.end();
      shared_.pairs.Expect(key, floor, absent ? Status(Code::kNotFound) : Status(),
                           absent ? "" : found->second);
    }
  }

 private:
  void WriteBy(int which, bool waits,
               const std::function<Status(const std::string&, uint64_t)>& write) {
    const std::string& key = keys_[static_cast<size_t>(which)];
    const bool was_sequential = shared_.sequential;
    const uint64_t number = ++shared_.pairs.At(key).begun;
    Wrote(key, write(key, number), was_sequential, waits);
  }
  // Refused while protected: it is none.
  void Wrote(const std::string& key, const Status& status, bool was_sequential, bool waits) {
    if (status.code() == Code::kReadOnly) return;
    ASSERT_OK(status);
    Known& known = shared_.pairs.At(key);
    known.acknowledged = known.begun.load();
    if (waits || (was_sequential && shared_.sequential)) known.fenced = known.begun.load();
  }

  Shared& shared_;
  Database& db_;
  const int rank_;
  const std::vector<std::string> keys_;
};

struct Action {
  const char* name;
  std::function<void(User& user)> body;
};

std::vector<Action> AllActions() {
  return {
      {"puts and deletes",
       [](User& user) {
         for (int i = 0; i < 3; ++i) user.WriteAll();
         user.Get();
       }},
      {"updates",
       [](User& user) {
         for (int i = 0; i < 2 * kKeys; ++i) user.Update(i % kKeys);
         for (int i = 0; i < kKeys; ++i) user.UpdateAndAnswer(i);
         user.Get();
       }},
      {"writes batches",
       [](User& user) {
         user.WriteAll();
         for (int i = 0; i < 3; ++i) user.WriteBatch();
         user.Get();
       }},
      {"fences",
       [](User& user) {
         user.WriteAll();
         user.Fencing([&] { return user.db().Fence(); });
         user.WriteAll();
         user.Get();
       }},
      {"flushes and compacts",
       [](User& user) {
         user.WriteAll();
         EXPECT_OK(user.db().Flush());
         user.WriteAll();
         EXPECT_OK(user.db().Compact());
         user.Get();
       }},
      {"gets",
       [](User& user) {
         for (int i = 0; i < 20; ++i) user.Get();
       }},
      {"gets many",
       [](User& user) {
         user.WriteAll();
         user.GetMany();
         user.GetLater();
       }},
      {"iterates",
       [](User& user) {
         user.WriteAll();
         user.Iterate();
         user.Iterate();
       }},
  };
}

struct Ranks {
  const char* name;
  int count;
  bool share_memory;  // else they read each other's tables alone
};
void PrintTo(const Ranks& ranks, std::ostream* out) {
  *out << ranks.name;
}
constexpr Ranks kRanks[] = {{"two that share memory", 2, true}, {"three in a group", 3, false}};

class DatabaseSyncPoints : public testing::TestWithParam<Ranks> {
 protected:
  // One run of all ranks: the thread that is held, and the calls made meanwhile.
  struct Trial {
    test::HeldThread& holder;
    const Action* action;  // null: nothing
    int background_threads;
    bool moves;  // at its end pairs move out of a checkpoint
  };

  static SimCluster::Options Cluster(const Trial& trial) {
    SimCluster::Options options;
    options.context.background_threads = trial.background_threads;
    options.rank_count = GetParam().count;
    options.share_memory = GetParam().share_memory;
    options.deterministic = false;
    return options;
  }
  static DatabaseOptions Options() {
    DatabaseOptions options = SimCluster::SmallDatabase();
    options.local_cache_bytes = 64 << 10;
    options.group_size = GetParam().share_memory ? 0 : GetParam().count;
    return options;
  }
  static Status Follow(Result<std::unique_ptr<Event>> event) {
    return event.ok() ? (*event)->Wait() : event.status();
  }

  static void Relaxed(User& work) {
    for (int i = 0; i < 4; ++i) work.WriteAll();
    for (int i = 0; i < kKeys; ++i) work.Update(i);
    work.Get();
    work.Fencing([&] { return work.db().Fence(); });
    work.Get();
    work.WriteAll();
    work.Fencing([&] { return work.db().Barrier(Level::kMemTable); });
    work.WriteAll();
    work.Fencing([&] { return work.db().Barrier(Level::kSsTable); });
    work.Get();
    work.GetMany();
  }
  static void Sequential(Shared& shared, Context& context, User& work) {
    Database& db = work.db();
    work.Fencing([&] { return db.SetConsistency(Consistency::kSequential); });
    ASSERT_OK(context.Barrier());
    shared.sequential = true;
    ASSERT_OK(context.Barrier());
    work.WriteAll();
    work.Get();
    work.Fencing([&] { return db.Protect(Protection::kReadOnly); });
    work.Get();
    work.Get();
    work.GetMany();
    work.Fencing([&] { return db.Protect(Protection::kReadWrite); });
    work.WriteAll();
    work.Get();
    ASSERT_OK(context.Barrier());
    shared.sequential = false;
    ASSERT_OK(context.Barrier());
    work.Fencing([&] { return db.SetConsistency(Consistency::kRelaxed); });
  }
  // Returns what the checkpoint has at the least.
  static Numbers Checkpoints(Shared& shared, int rank, User& work) {
    work.WriteAll();
    std::unique_ptr<Event> event;
    Numbers before = shared.pairs.SeenBy(rank);
    work.Fencing([&] {
      Result<std::unique_ptr<Event>> begun = work.db().Checkpoint(kPath, {});
      if (begun.ok()) event = *std::move(begun);
      return begun.status();
    });
    work.WriteAll();
    if (event != nullptr) EXPECT_OK(event->Wait());
    return before;
  }
  static void ExpectAll(Shared& shared, Database& db, const Numbers& floors) {
    for (const auto& [key, floor] : floors) {
      std::string value;
      const Status status = db.Get(key, &value);
      shared.pairs.Expect(key, floor, status, value);
    }
  }
  // The pairs that are there once the database is opened.
  static void ExpectStored(Shared& shared, Context& context, const Numbers& floors) {
    Result<std::unique_ptr<Database>> db = context.Open("db", Options());
    ASSERT_OK(db.status());
    ExpectAll(shared, **db, floors);
    EXPECT_OK((*db)->Close());
  }
  static Result<std::unique_ptr<Database>> OpenForUpdates(Context& context) {
    Result<std::unique_ptr<Database>> db = context.Open("db", Options());
    if (!db.ok()) return db;
    QUIRE_RETURN_IF_ERROR(
        (*db)->RegisterUpdate(kSet, [](Slice, const Slice*, Slice argument, std::string* updated) {
          updated->assign(argument.data(), argument.size());
          return Status();
        }));
    QUIRE_RETURN_IF_ERROR((*db)->Barrier(Level::kMemTable));
    return db;
  }
  // Works with the database and closes it; if a thread is held meanwhile, another one acts.
  static void Use(Shared& shared, int rank, Context& context, const Trial& trial,
                  const std::function<void(User& work)>& body) {
    const bool acts = trial.action != nullptr && !trial.holder.held();  // not once more
    Result<std::unique_ptr<Database>> db = OpenForUpdates(context);
    ASSERT_OK(db.status());
    std::atomic<bool> ends = false;
    std::thread actor([&] {
      while (acts && !ends) {
        if (!trial.holder.WaitUntilHeld(1)) continue;
        User user(shared, **db, rank, "act-");
        trial.action->body(user);
        if (++shared.acted == GetParam().count) trial.holder.Release();
        return;
      }
    });
    User work(shared, **db, rank, "work-");
    body(work);
    ends = true;
    actor.join();
    EXPECT_OK((*db)->Close());
  }
  static Numbers Acknowledged(const Shared& shared) {
    Numbers acknowledged;
    for (const std::string& key : shared.pairs.Keys()) {
      acknowledged[key] = shared.pairs.At(key).acknowledged;
    }
    return acknowledged;
  }
  static void Program(Shared& shared, int rank, Context& context, const Trial& trial) {
    Numbers in_checkpoint;
    Use(shared, rank, context, trial, [&](User& work) {
      Relaxed(work);
      Sequential(shared, context, work);
      in_checkpoint = Checkpoints(shared, rank, work);
    });
    ExpectStored(shared, context, Acknowledged(shared));
    ASSERT_OK(Follow(context.Restart(kPath, "db", {.replace = true})));
    ExpectStored(shared, context, in_checkpoint);
    if (!trial.moves) return;
    // Its pairs move out of the checkpoint while it is used.
    ASSERT_OK(Follow(context.Restart(kPath, "db", {.in_place = true, .replace = true})));
    shared.pairs.Restored(rank, in_checkpoint);
    ASSERT_OK(context.Barrier());
    Use(shared, rank, context, trial, [&](User& work) {
      work.Get();
      work.WriteAll();
      work.Iterate();
      Checkpoints(shared, rank, work);  // once all have moved
    });
    ExpectStored(shared, context, Acknowledged(shared));
  }

  // A shorter test tries each so many runs; each seed begins with another one.
  static int64_t Stride() { return std::max<int64_t>(1, 300 / test::ScaledCount(50)); }
  // Moving pairs takes a third of a run: a shorter test does it only if the place is one of moving.
  static bool Moves(const std::string& place) {
    return place.empty() || place.starts_with("kv.move.") || Stride() <= 6;
  }
  static bool IsOurs(const std::string& place) {
    return place.starts_with("kv.") || place.starts_with("lsm.peer.") ||
           place.starts_with("io.sync.");
  }
  // How often each place is passed.
  std::map<std::string, int> Places() {
    test::HeldThread counter(test::Hold{});
    Go(counter, {}, nullptr, 1);
    std::map<std::string, int> places;
    for (const auto& [name, count] : counter.arrivals()) {
      if (IsOurs(name)) places[name] = count;
    }
    return places;
  }
  void Go(test::HeldThread& holder, const std::string& place, const Action* action, int threads) {
    const Trial trial = {holder, action, threads, Moves(place)};
    SCOPED_TRACE(std::to_string(threads) + " background threads");
    SimCluster cluster(Cluster(trial));
    Shared shared(GetParam().count);
    cluster.Run([&](int rank, Context& context) { Program(shared, rank, context, trial); });
    for (const auto& [name, count] : holder.arrivals()) {
      if (IsOurs(name)) passed_.insert(name);
    }
  }
  // The places that a run need not pass, or need not pass again.
  static std::map<std::string, std::string> NotPassed() {
    std::map<std::string, std::string> reasons = {
        {"kv.fill.refused", "an owner without memory refuses pairs: allocation_answers_test.cpp"}};
    if (GetParam().share_memory && !QUIRE_THREAD_SANITIZER) {
      for (const char* place : {"kv.get.named", "kv.get.answered", "kv.serve.asked"}) {
        reasons[place] = "ranks that share memory ask each other by chance, while pairs move";
      }
      return reasons;
    }
    for (const std::string& place : test::SyncPointsIn(Sources() + "lsm", "lsm.peer.")) {
      reasons[place] = "no memory is shared";
    }
    return reasons;
  }
  static std::string Sources() { return std::string(QUIRE_SOURCE_DIR) + "/src/"; }
  static std::set<std::string> PlacesInSources() {
    std::set<std::string> places = test::SyncPointsIn(Sources() + "kv", "kv.");
    places.merge(test::SyncPointsIn(Sources() + "lsm", "lsm.peer."));
    places.merge(test::SyncPointsIn(Sources() + "io/files", "io.sync."));
    return places;
  }
  const std::set<std::string>& passed() const { return passed_; }

 private:
  std::set<std::string> passed_;  // in any run
};

TEST_P(DatabaseSyncPoints, EveryRankReadsWhatWasAcknowledgedWhicheverThreadIsHeldWhere) {
  const int64_t stride = Stride();
  auto run = static_cast<int64_t>(test::FirstSeed());
  std::map<std::string, int> held;
  for (const auto& [place, count] : Places()) {
    held[place] = 0;
    for (const Action& action : AllActions()) {
      for (const int threads : kBackgroundThreads) {
        // However short the test is, a thread is held once.
        const bool was_held = held[place] > 0;
        if (++run % stride != 0 && was_held) continue;
        // Runs differ: not among the last arrivals, which there may not be.
        const auto skips = static_cast<uint64_t>(was_held ? std::max(1, count / 4 * 3) : 1);
        const auto skip = static_cast<int>(base::Random(static_cast<uint64_t>(run)).Below(skips));
        test::HeldThread holder({.place = place, .skip = skip, .wait_ms_max = kHoldMs});
        Go(holder, place, &action, threads);
        held[place] += holder.held() ? 1 : 0;
        ASSERT_FALSE(HasFailure()) << place << ", " << action.name;
      }
    }
  }
  for (const auto& [place, count] : held) {
    EXPECT_TRUE(count > 0 || NotPassed().contains(place)) << place << " was never held";
  }
  test::ExpectPassed(PlacesInSources(), passed(), NotPassed());
}

// At each of the changes, of each rank: others may write already.
TEST_P(DatabaseSyncPoints, NoRankReadsWhatItCachedBeforeTheModeChanged) {
  const std::vector<Action> actions = AllActions();
  const auto gets = std::find_if(actions.begin(), actions.end(), [](const Action& action) {
    return std::string(action.name) == "gets";
  });
  const int64_t stride = std::max<int64_t>(1, Stride() / 3);
  auto run = static_cast<int64_t>(test::FirstSeed());
  for (const char* place : {"kv.mode.closed", "kv.mode.agreed", "kv.mode.opened"}) {
    for (int skip = 0; skip < kModeChanges * GetParam().count; ++skip) {
      if (++run % stride != 0) continue;
      test::HeldThread holder({.place = place, .skip = skip, .wait_ms_max = kHoldMs});
      Go(holder, place, &*gets,
         kBackgroundThreads[static_cast<size_t>(skip) % std::size(kBackgroundThreads)]);
      EXPECT_TRUE(holder.held()) << place << ", " << skip;
      ASSERT_FALSE(HasFailure()) << place << ", " << skip;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DatabaseSyncPoints, testing::ValuesIn(kRanks),
                         [](const auto& ranks) { return std::to_string(ranks.param.count); });

}  // namespace
}  // namespace quire::kv::database_sync_points_test
