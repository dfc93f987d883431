// Ranks that die over the simulated network, by SIGKILL or by loss of power: what was acknowledged
// is there at its level (docs/durability.md), what each writer's operations left at an owner is a
// prefix of them, and no deleted key returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "kv/database/sim_cluster_testing.h"
#include "tests/support/test_scale.h"

namespace quire::kv::death_test {
namespace {

constexpr uint32_t kAppend = 7;
constexpr size_t kAppendedBytesMax = 400;
constexpr int kSteps = 60;
constexpr int kKeysPerRank = 12;

// Returns the value after an update. An update that is done twice, or left out, shows.
std::string Appended(const std::string& present, const std::string& argument) {
  return (present.size() > kAppendedBytesMax ? "" : present) + argument;
}

Status Append(Slice, const Slice* present, Slice argument, std::string* updated) {
  *updated = Appended(present == nullptr ? "" : std::string(*present), std::string(argument));
  return Status();
}

struct Operation {
  enum class Kind { kPut, kDelete, kUpdate };
  Kind kind = Kind::kPut;
  std::string key;
  std::string value;
};
using State = std::map<std::string, std::string>;

void Apply(const Operation& operation, State* state) {
  switch (operation.kind) {
    case Operation::Kind::kPut:
      (*state)[operation.key] = operation.value;
      break;
    case Operation::Kind::kDelete:
      state->erase(operation.key);
      break;
    case Operation::Kind::kUpdate:
      (*state)[operation.key] = Appended((*state)[operation.key], operation.value);
      break;
  }
}

// The operations of one rank on the keys of one owner, in program order, and how many of them were
// acknowledged at which level. Each entry takes effect whole.
class Stream {
 public:
  void Issue(std::vector<Operation> operations) {
    entries_.push_back({std::move(operations), false, 0});
  }
  // The newest entry failed: it is there, or not, whatever comes after it.
  void Doubt() { entries_.back().in_doubt = true; }
  // Something on the way to the owner has failed: nothing more is acknowledged in this job.
  void Break() { broken_ = true; }
  // All that was issued so far is P1, or P2.
  void Acknowledge(bool power_safe) {
    if (broken_) return;
    process_safe_ = entries_.size();
    if (power_safe) power_safe_ = entries_.size();
  }
  // The same after a settlement.
  void AllIsInTables() { power_safe_ = entries_.size(); }

  // "" where `found` is what a prefix of the entries leaves that has all that must be there; the
  // rest is forgotten then, as it was by the owner. Else what is wrong.
  std::string Settle(const State& found, bool lost_process_safe) {
    const size_t least = lost_process_safe ? power_safe_ : process_safe_;
    Match match{found, least, false, {}};
    std::vector<Entry> path;
    Search(0, State(), &path, &match);
    if (!match.matched) return Problem(found, least);
    const auto was_safe = [this](const Entry& entry) { return entry.number < power_safe_; };
    power_safe_ =
        static_cast<size_t>(std::count_if(match.longest.begin(), match.longest.end(), was_safe));
    entries_ = std::move(match.longest);
    process_safe_ = entries_.size();
    broken_ = false;
    return "";
  }

 private:
  struct Entry {
    std::vector<Operation> operations;
    bool in_doubt = false;
    size_t number = 0;  // before the settlement
  };
  struct Match {
    const State& found;
    const size_t least;
    bool matched = false;
    std::vector<Entry> longest;
  };

  // The longest prefix that matches, over all choices of what is in doubt.
  void Search(size_t at, State state, std::vector<Entry>* path, Match* match) const {
    const size_t depth = path->size();
    for (; at <= entries_.size(); ++at) {
      const bool longer = !match->matched || path->size() >= match->longest.size();
      if (at >= match->least && state == match->found && longer) {
        match->matched = true;
        match->longest = *path;
      }
      if (at == entries_.size()) break;
      if (entries_[at].in_doubt) Search(at + 1, state, path, match);
      for (const Operation& made : entries_[at].operations) death_test::Apply(made, &state);
      path->push_back({entries_[at].operations, false, at});
    }
    path->resize(depth);
  }

  std::string Problem(const State& found, size_t least) const {
    std::string text = "no prefix of at least " + std::to_string(least) + " of " +
                       std::to_string(entries_.size()) + " entries leaves";
    for (const auto& [key, value] : found) text += "\n  " + key + " = " + value.substr(0, 60);
    text += "\nentries:";
    for (size_t i = 0; i < entries_.size(); ++i) {
      text += "\n  " + std::to_string(i) + (entries_[i].in_doubt ? " (perhaps):" : ":");
      for (const Operation& operation : entries_[i].operations) {
        const char* const names[] = {" put ", " delete ", " update "};
        text += names[static_cast<int>(operation.kind)] + operation.key + " " +
                operation.value.substr(0, 30);
      }
    }
    return text;
  }

  std::vector<Entry> entries_;
  size_t process_safe_ = 0;
  size_t power_safe_ = 0;
  bool broken_ = false;
};

// How one seed lives and dies.
struct Plan {
  uint64_t seed = 0;
  SimCluster::Options ranks;
  DatabaseOptions database;
  bool all_die = false;

  bool sequential() const { return database.consistency == Consistency::kSequential; }
  // Returns whether an owner that dies loses writes with the promise P1.
  bool LosesProcessSafe() const {
    return ranks.crash == io::CrashKind::kPower || database.storage.wal == WalMode::kOff;
  }
};

Plan PlanFor(uint64_t seed, io::CrashKind crash, bool deterministic) {
  Plan plan;
  plan.seed = seed;
  plan.ranks.seed = seed;
  plan.ranks.rank_count = 2 + static_cast<int>(seed % 3);
  plan.ranks.deterministic = deterministic;
  plan.ranks.own_disks = true;
  plan.ranks.crash = crash;
  // On real threads only news of deaths end waits, however busy the machine is.
  plan.ranks.context.timeout_ms = deterministic ? 2000 : 60'000;
  plan.all_die = seed / 3 % 4 == 0;
  plan.database = SimCluster::SmallDatabase();
  plan.database.consistency = seed % 2 == 0 ? Consistency::kSequential : Consistency::kRelaxed;
  const uint64_t log = seed / 2 % 5;
  plan.database.storage.wal = log == 0 ? WalMode::kSync : log == 1 ? WalMode::kOff : WalMode::kOn;
  return plan;
}

// Streams by writer and owner.
using Streams = std::vector<std::vector<Stream>>;

// Writes until the end, as a program does while its neighbours die. The results of its calls go
// into its streams.
class DyingProgram {
 public:
  DyingProgram(SimCluster* cluster, const Plan& plan, std::vector<Stream>* streams, int rank,
               int job)
      : cluster_(cluster),
        plan_(plan),
        streams_(*streams),
        rank_(rank),
        job_(job),
        random_(plan.seed * 100 + static_cast<uint64_t>(job * 10 + rank)) {}

  void Run(Result<std::unique_ptr<Context>> context) {
    if (!Expect(context.status())) return;
    auto opened = (*context)->Open("db", plan_.database);
    if (!Expect(opened.status())) return;
    db_ = opened->get();
    if (!Expect(db_->RegisterUpdate(kAppend, Append))) return;
    if (!Expect((*context)->Barrier())) return;
    for (step_ = 0; step_ < kSteps; ++step_) {
      WriteSomething();
      if (step_ % 20 == 19) Barrier();
    }
    if (plan_.seed % 3 == 0) Expect(db_->Close());
  }

 private:
  // Expects OK, or a failure because other ranks died or left; the latter only after a death.
  bool Expect(const Status& status) {
    if (status.ok() || cluster_->Killed(rank_)) return status.ok();
    EXPECT_TRUE(status.code() == Code::kPeerFailed || status.code() == Code::kTimedOut)
        << "seed " << plan_.seed << " rank " << rank_ << ": " << status.ToString();
    return false;
  }

  Stream& StreamOf(int owner) { return streams_[static_cast<size_t>(owner)]; }

  void Barrier() {
    const bool to_tables = step_ < kSteps / 2;  // the end is not made durable
    const Status status = db_->Barrier(to_tables ? Level::kSsTable : Level::kMemTable);
    if (!Expect(status)) return BreakAll();
    if (cluster_->Killed(rank_)) return;
    const bool power_safe = to_tables || plan_.database.storage.wal == WalMode::kSync;
    for (Stream& stream : streams_) stream.Acknowledge(power_safe);
  }

  // Breaks the streams to all owners: a fence does not say which owner failed. Writes that are at
  // their owner when the call returns are not affected.
  void BreakAll() {
    if (plan_.sequential()) return;
    for (int owner = 0; owner < plan_.ranks.rank_count; ++owner) {
      if (owner != rank_) StreamOf(owner).Break();
    }
  }

  // A call for this owner was answered OK, and those before it with it.
  void Acknowledge(int owner) {
    if (cluster_->Killed(rank_)) return;
    StreamOf(owner).Acknowledge(plan_.database.storage.wal == WalMode::kSync);
  }

  Operation Choose() {
    Operation operation;
    const uint64_t choice = random_.Next() % 10;
    operation.kind = choice < 5   ? Operation::Kind::kPut
                     : choice < 8 ? Operation::Kind::kDelete
                                  : Operation::Kind::kUpdate;
    operation.key = std::to_string(rank_) + "/" + std::to_string(random_.Next() % kKeysPerRank);
    if (operation.kind == Operation::Kind::kDelete) return operation;
    operation.value = std::to_string(job_) + "." + std::to_string(step_) + ";";
    if (operation.kind == Operation::Kind::kPut) {
      // Enough for a MemTable to be full now and then; some values lie apart.
      operation.value.append(random_.Next() % 10 == 0 ? 3000 : random_.Next() % 1000, 'v');
    }
    return operation;
  }

  Status Call(const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::kPut:
        return db_->Put(operation.key, operation.value);
      case Operation::Kind::kDelete:
        return db_->Delete(operation.key);
      case Operation::Kind::kUpdate:
        return db_->Update(operation.key, kAppend, operation.value);
    }
    return Status();
  }

  void WriteSomething() {
    if (random_.Next() % 10 == 0) return WriteBatch();
    const Operation operation = Choose();
    const int owner = db_->Owner(operation.key);
    StreamOf(owner).Issue({operation});
    if (!Expect(Call(operation))) return StreamOf(owner).Break();
    if (plan_.sequential() || owner == rank_) return Acknowledge(owner);
    if (random_.Next() % 8 != 0) return;
    const Status fenced = db_->Fence();
    if (!Expect(fenced)) return BreakAll();
    for (int other = 0; other < plan_.ranks.rank_count; ++other) Acknowledge(other);
  }

  void WriteBatch() {
    Batch batch;
    std::map<int, std::vector<Operation>> parts;
    for (int i = 0; i < 6; ++i) {
      Operation operation = Choose();
      if (operation.kind == Operation::Kind::kUpdate) continue;  // a batch has none
      if (operation.kind == Operation::Kind::kPut) {
        batch.Put(operation.key, operation.value);
      } else {
        batch.Delete(operation.key);
      }
      parts[db_->Owner(operation.key)].push_back(operation);
    }
    for (const auto& [owner, part] : parts) StreamOf(owner).Issue(part);
    const bool written = Expect(db_->Write(batch));
    for (const auto& [owner, part] : parts) {
      if (!written) StreamOf(owner).Doubt();
    }
    if (!written) return BreakAll();
    for (const auto& [owner, part] : parts) Acknowledge(owner);
  }

  SimCluster* const cluster_;
  const Plan& plan_;
  std::vector<Stream>& streams_;
  const int rank_;
  const int job_;
  base::Random random_;
  Database* db_ = nullptr;
  int step_ = 0;
};

// One job in which some ranks die. Which did, by rank.
std::vector<bool> RunAndKill(SimCluster& cluster, const Plan& plan, int job, Streams* streams) {
  base::Random random(plan.seed * 10 + static_cast<uint64_t>(job));
  const auto count = static_cast<uint64_t>(plan.ranks.rank_count);
  const int victim = static_cast<int>(random.Next() % count);
  for (int rank = 0; rank < plan.ranks.rank_count; ++rank) {
    if (rank == victim || plan.all_die) cluster.KillAfter(rank, 1 + random.Next() % 1500);
  }
  cluster.RunRaw([&](int rank, Result<std::unique_ptr<Context>> context) {
    DyingProgram(&cluster, plan, &(*streams)[static_cast<size_t>(rank)], rank, job)
        .Run(std::move(context));
  });
  std::vector<bool> died;
  for (int rank = 0; rank < plan.ranks.rank_count; ++rank) died.push_back(cluster.Killed(rank));
  return died;
}

// A job without deaths reads everything.
void ExpectWhatWasPromised(SimCluster& cluster, const Plan& plan, const std::vector<bool>& died,
                           bool to_tables, Streams* streams) {
  cluster.RunDatabase(plan.database, [&](int rank, Context& context, Database& db) {
    for (int writer = 0; writer < context.size() && rank == 0; ++writer) {
      std::map<int, State> found;
      for (int i = 0; i < kKeysPerRank; ++i) {
        const std::string key = std::to_string(writer) + "/" + std::to_string(i);
        std::string value;
        const Status got = db.Get(key, &value);
        ASSERT_TRUE(got.ok() || got.code() == Code::kNotFound) << got.ToString();
        if (got.ok()) found[db.Owner(key)][key] = value;
      }
      for (int owner = 0; owner < context.size(); ++owner) {
        Stream& stream = (*streams)[static_cast<size_t>(writer)][static_cast<size_t>(owner)];
        const bool lost = died[static_cast<size_t>(owner)] && plan.LosesProcessSafe();
        ASSERT_EQ(stream.Settle(found[owner], lost), "")
            << "from rank " << writer << " to rank " << owner;
      }
    }
    ASSERT_TRUE(context.Barrier().ok());
    if (to_tables) {
      const Status barrier = db.Barrier(Level::kSsTable);
      ASSERT_TRUE(barrier.ok()) << barrier.ToString();
    }
    const Status closed = db.Close();
    ASSERT_TRUE(closed.ok()) << closed.ToString();
  });
  if (!to_tables) return;
  for (std::vector<Stream>& of_writer : *streams) {
    for (Stream& stream : of_writer) stream.AllIsInTables();
  }
}

// The next job runs on other nodes, to which the files of all ranks have come: of those that died,
// and of those that lived on.
void MoveAllRanks(SimCluster& cluster, const Plan& plan, int job) {
  for (int rank = 0; rank < plan.ranks.rank_count; ++rank) {
    cluster.disk(rank).Restart(io::CrashKind::kMoved,
                               plan.seed * 10 + static_cast<uint64_t>(job));
  }
}

void LiveAndDie(const Plan& plan) {
  SimCluster cluster(plan.ranks);
  const auto count = static_cast<size_t>(plan.ranks.rank_count);
  Streams streams(count, std::vector<Stream>(count));
  for (int job = 0; job < 2; ++job) {
    const std::vector<bool> died = RunAndKill(cluster, plan, job, &streams);
    if (plan.ranks.crash == io::CrashKind::kMoved) MoveAllRanks(cluster, plan, job);
    // Without a barrier to tables, the second death finds the logs that the first one has left.
    ASSERT_NO_FATAL_FAILURE(
        ExpectWhatWasPromised(cluster, plan, died, plan.seed % 2 == 0, &streams));
  }
}

void RunDeaths(int64_t count, io::CrashKind crash, bool deterministic) {
  const uint64_t first = test::FirstSeed();
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count); ++seed) {
    LiveAndDie(PlanFor(seed, crash, deterministic));
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(Deaths, SurvivorsLearnOfADeathAndARestartFindsAcknowledgedPairs) {
  RunDeaths(test::ScaledCount("QUIRE_DEATH_COUNT", 150), io::CrashKind::kProcess, true);
}

TEST(Deaths, AJobThatGoesOnOnOtherNodesFindsWhatWasAcknowledged) {
  RunDeaths(test::ScaledCount("QUIRE_DEATH_COUNT", 150), io::CrashKind::kMoved, true);
}

TEST(Deaths, ALossOfPowerLeavesAPrefixWithAllThatWasSynced) {
  RunDeaths(test::ScaledCount("QUIRE_DEATH_COUNT", 150), io::CrashKind::kPower, true);
}

TEST(Deaths, TheSameOnRealThreads) {
  RunDeaths(test::ScaledCount(10), io::CrashKind::kProcess, false);
  RunDeaths(test::ScaledCount(10), io::CrashKind::kMoved, false);
  RunDeaths(test::ScaledCount(10), io::CrashKind::kPower, false);
}

TEST(Deaths, ARankThatCannotFenceKeepsItsOwnPairsAlsoWithoutALog) {
  SimCluster::Options ranks;
  ranks.own_disks = true;
  SimCluster cluster(ranks);
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.storage.wal = WalMode::kOff;
  cluster.RunDatabase(options, [&](int rank, Context& context, Database& db) {
    if (rank == 1) {
      ASSERT_TRUE(context.WaitSignal(1, {0}).ok());
      return cluster.network().Kill(1);
    }
    ASSERT_TRUE(context.Notify(1, {1}).ok());
    ASSERT_TRUE(db.Put(SimCluster::KeyOwnedBy(db, 0), "own").ok());
    ASSERT_TRUE(db.Put(SimCluster::KeyOwnedBy(db, 1), "lost").ok());
    // Ends without Close, and with a staged write that no rank accepts any more.
  });
  cluster.RunDatabase(options, [&](int, Context&, Database& db) {
    EXPECT_EQ(SimCluster::ValueOf(db, SimCluster::KeyOwnedBy(db, 0)), "own");
    EXPECT_TRUE(db.Close().ok());
  });
}

}  // namespace
}  // namespace quire::kv::death_test
