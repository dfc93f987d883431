// Random jobs against a model: all options of a context, a database, its readers, restarts and
// checkpoints, and all of their calls, on one to three ranks, by turns and on threads of their own;
// ended by Close, by the death of all ranks, on another node, without power; opened again by other
// numbers of ranks.
//
// Every rank draws the same plan from the seed, and so knows the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "io/sim/sim_file_system.h"
#include "kv/database/crash_journal_testing.h"
#include "kv/database/database_reader.h"
#include "kv/database/random_calls_testing.h"
#include "kv/database/random_plan_testing.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/persistence/checkpoint_files.h"
#include "quire/option_table.h"
#include "tests/support/model_seeds.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::model::random_model_test {
namespace {

using testing::HasSubstr;

const char* const kCheckpoints = "/checkpoints";

// The values from which each option is drawn. A row of the option table that is missing here fails
// a test.
const std::map<std::string, std::vector<std::string>>& Choices() {
  static const std::map<std::string, std::vector<std::string>> choices = {
      {"timeout_ms", {"60000", "3600000"}},
      {"transport", {"auto", "mpi"}},
      {"memory_bytes", {"0", "67108864"}},
      {"background_threads", {"1", "2", "4"}},
      {"memtable_bytes", {"65536", "131072"}},
      {"flushing_queue_length", {"1", "2", "3"}},
      {"wal", {"off", "on", "sync"}},
      {"value_separation_bytes_min", {"64", "500", "1048576"}},
      {"value_segment_bytes", {"65536", "262144"}},
      {"block_bytes", {"512", "4096"}},
      {"bloom_bits_per_key", {"0", "1", "10"}},
      {"compression", {"none", "lz4", "zstd"}},
      {"search", {"sequential", "binary", "tagged"}},
      {"table_bytes_max", {"65536", "1048576"}},
      {"compaction", {"tiered", "every_nth"}},
      {"compaction_trigger", {"2", "4"}},
      {"dead_percent_max", {"10", "33", "1000"}},
      {"cache_bytes", {"0", "65536", "1048576"}},
      {"verify_checksums", {"on", "off"}},
      {"mode", {"open_or_create", "must_exist", "must_not_exist"}},
      {"consistency", {"sequential", "relaxed"}},
      {"protection", {"read_write", "write_only", "read_only", "update_only"}},
      {"partitioner_name", {"", "by length"}},
      {"local_cache_bytes", {"0", "4096", "1048576"}},
      {"remote_cache_bytes", {"0", "4096", "1048576"}},
      {"migrate_batch_bytes", {"1024", "4096"}},
      {"remote_memtable_bytes", {"65536", "131072"}},
      {"group_size", {"0", "1", "2"}},
      {"redistribute", {"off", "on"}},
      {"force_redistribute", {"off", "on"}},
      {"memory_percent_max", {"0", "50"}},
  };
  return choices;
}

bool OfADatabase(const OptionRow& row) {
  return row.group == OptionGroup::kDatabase || row.group == OptionGroup::kStorage;
}

template <typename Options>
void DrawRow(const OptionRow& row, base::Random& random, Options* options) {
  const std::vector<std::string>& choices = Choices().at(row.name);
  EXPECT_OK(OptionTable::Set(row.name, choices[random.Below(choices.size())], options));
}

ContextOptions DrawContext(base::Random& random) {
  ContextOptions options;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (row.group == OptionGroup::kContext) DrawRow(row, random, &options);
  }
  return options;
}

int ByLength(Slice key, int rank_count) {
  return static_cast<int>(key.size() + static_cast<unsigned char>(key.back())) % rank_count;
}

// Draws the options of a database. `stored`: the database exists, and has its partitioner.
DatabaseOptions DrawDatabase(base::Random& random, bool by_length, bool stored) {
  DatabaseOptions options;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (OfADatabase(row)) DrawRow(row, random, &options);
  }
  // These two depend on what is there.
  options.mode = random.OneIn(2) ? OpenMode::kOpenOrCreate
                                 : (stored ? OpenMode::kMustExist : OpenMode::kMustNotExist);
  options.partitioner_name = by_length ? "by length" : "";
  if (by_length) options.partitioner = ByLength;
  return options;
}

// Options outside of the table. A field that is added is to be drawn, too: these do not compile
// then.
DatabaseReaderOptions DrawReader(base::Random& random, bool by_length) {
  DatabaseReaderOptions options;
  auto& [partitioner, cache_bytes] = options;
  static constexpr uint64_t kCaches[] = {0, 4096, 64 << 20};
  cache_bytes = kCaches[random.Below(std::size(kCaches))];
  if (by_length) partitioner = ByLength;
  return options;
}

CheckpointOptions DrawCheckpoint(base::Random& random) {
  CheckpointOptions options;
  auto& [keep] = options;
  keep = static_cast<int>(random.Below(3));
  return options;
}

// From the checkpoint `wanted`, the newest of which is `newest`.
RestartOptions DrawRestart(base::Random& random, uint64_t wanted, uint64_t newest, bool there) {
  RestartOptions options;
  auto& [number, in_place, replace] = options;
  number = wanted == newest && random.OneIn(2) ? 0 : wanted;
  in_place = random.OneIn(3);
  replace = there || random.OneIn(2);
  return options;
}

// The complete checkpoints, by number.
using Checkpoints = std::map<uint64_t, Model>;

// How the job ends.
enum class End { kClose, kKilled, kMoved, kWithoutPower };

// What is drawn of a job before it begins.
struct Job {
  SimCluster::Options ranks;
  DatabaseOptions database;
  bool there = false;        // the database
  bool is_in_tables = true;  // what it has cannot be lost
  bool in_place = false;     // it may read a checkpoint's files
  bool destroys = false;
  std::optional<RestartOptions> restart;
  Model before;             // of the database that is opened
  Checkpoints checkpoints;  // those that are there
  End end = End::kClose;
  base::Random play{0};

  bool keeps_applied() const {
    return database.storage.wal == WalMode::kSync ||
           (database.storage.wal == WalMode::kOn && end != End::kWithoutPower);
  }
};

// Those that a newer one leaves.
void Keep(Checkpoints* checkpoints, int keep) {
  while (keep > 0 && checkpoints->size() > static_cast<size_t>(keep)) {
    checkpoints->erase(checkpoints->begin());
  }
}

// A checkpoint that was begun.
struct BegunCheckpoint {
  Model saved;
  int keep = 0;
};

uint64_t NewestCheckpoint(io::FileSystem& fs) {
  const auto found = FindCheckpoints(fs, CheckpointHome(kCheckpoints, "db"));
  EXPECT_OK(found.status());
  uint64_t newest = 0;
  for (const CheckpointFound& one : *found) {
    if (one.state == CheckpointState::kComplete) newest = one.number;
  }
  return newest;
}

// The calls of a context before the database is open.
void Prepare(Context& context, const Job& job) {
  const std::vector<std::string> before =
      job.there ? std::vector<std::string>{"db"} : std::vector<std::string>();
  const Result<std::vector<std::string>> listed = context.ListDatabases();
  ASSERT_OK(listed.status());
  ASSERT_EQ(*listed, before);
  if (job.destroys) {
    if (base::Random(job.play).OneIn(2)) {
      ASSERT_OK(context.Destroy("db"));
    } else {
      const Result<std::unique_ptr<Event>> event = context.DestroyAsync("db");
      ASSERT_OK(event.status());
      ASSERT_OK((*event)->Wait());
    }
    EXPECT_CODE(context.Destroy("db"), Code::kNotFound);
  }
  if (!job.restart) return;
  RestartOptions refused = *job.restart;
  refused.replace = false;
  if (job.there && !job.destroys) {
    EXPECT_CODE(context.Restart(kCheckpoints, "db", refused).status(), Code::kInvalidArgument);
  }
  const Result<std::unique_ptr<Event>> event =
      context.Restart(kCheckpoints, "db", *job.restart);
  ASSERT_OK(event.status());
  ASSERT_OK((*event)->Wait());
}

// A walk that began when the database was as `seen`.
struct Walk {
  std::unique_ptr<LocalIterator> iterator;
  Model seen;
};

// One rank's part of a job. All ranks draw the same.
class Player {
 public:
  Player(io::SimFileSystem& fs, Context& context, Database& db, const Job& job)
      : fs_(fs), context_(context), db_(db), job_(job), random_(job.play), model_(job.before),
        consistency_(job.database.consistency), protection_(job.database.protection),
        checkpoints_(job.checkpoints),
        journal_(context.size(), [&](const std::string& key) { return db.Owner(key); }, model_) {}

  void Play() {
    RegisterUpdates(db_);
    ASSERT_OK(db_.Barrier(Level::kMemTable));
    ASSERT_NO_FATAL_FAILURE(CheckNames());
    CheckAll();
    for (uint64_t left = 3 + random_.Below(12); left > 0; --left) {
      if (testing::Test::HasFatalFailure()) return;
      PlayRound(static_cast<int>(left));
    }
    if (testing::Test::HasFatalFailure()) return;
    if (job_.end == End::kClose) {
      Close();
    } else {
      PlayLastRound();
    }
  }

  const Model& model() const { return model_; }
  const Checkpoints& checkpoints() const { return checkpoints_; }
  // The last steps of a job that did not close.
  const LastSteps& last_steps() const { return last_; }
  const Round& last_round() const { return last_round_; }
  const Journal& journal() const { return journal_; }
  const std::optional<BegunCheckpoint>& begun() const { return begun_; }

 private:
  void PlayRound(int number) {
    if (MayGet() && random_.OneIn(2)) BeginWalk();
    const Round round = Planner(random_, model_, context_.size(), number).Draw(protection_);
    for (const Operation& operation : round.ranks[Rank()]) {
      RunOperation(db_, operation);
      if (testing::Test::HasFatalFailure()) return;
    }
    CheckRefusal();
    if (random_.OneIn(4)) context_.Progress();
    if (random_.OneIn(3)) PassSignal(round);
    if (testing::Test::HasFatalFailure()) return;
    model_ = round.after;
    journal_.EndRound(round);
    const bool to_tables = random_.OneIn(2);
    ASSERT_OK(db_.Barrier(to_tables ? Level::kSsTable : Level::kMemTable));
    if (to_tables) NoteTables();
    CheckAll();
    if (to_tables) ReadBeside();
    if (!walks_.empty() && random_.OneIn(2)) CheckFirstWalk();
    Change();
    ASSERT_OK(context_.Barrier());
  }

  size_t Rank() const { return static_cast<size_t>(context_.rank()); }
  bool MayGet() const { return protection_ != Protection::kWriteOnly; }
  bool Sequential() const { return consistency_ == Consistency::kSequential; }
  void NoteTables() {
    is_in_tables_ = true;
    journal_.AllIsInTables(model_);
  }

  void CheckNames() {
    EXPECT_EQ(context_.size(), job_.ranks.rank_count);
    EXPECT_LT(context_.rank(), context_.size());
    EXPECT_EQ(context_.repository(), job_.ranks.repository);
    EXPECT_FALSE(context_.Description().empty());
    EXPECT_EQ(db_.name(), "db");
    const Result<std::vector<std::string>> listed = context_.ListDatabases();
    ASSERT_OK(listed.status());
    EXPECT_EQ(*listed, std::vector<std::string>{"db"});
  }

  // The protection refuses what it should.
  void CheckRefusal() {
    const std::string key = KeyOf(0);
    if (protection_ == Protection::kReadOnly || protection_ == Protection::kUpdateOnly) {
      EXPECT_CODE(db_.Put(key, "refused"), Code::kReadOnly);
      EXPECT_CODE(db_.DeleteMany({key}), Code::kReadOnly);
    }
    std::string value;
    if (!MayGet()) {
      EXPECT_CODE(db_.Get(key, &value), Code::kInvalidArgument);
    }
  }

  // Each rank signals to the next one that its writes are there.
  void PassSignal(const Round& round) {
    const int signal = static_cast<int>(random_.Below(3));
    const int count = context_.size();
    const int previous = (context_.rank() + count - 1) % count;
    ASSERT_OK(db_.Fence());
    EXPECT_CODE(context_.Notify(signal, {count}), Code::kInvalidArgument);
    ASSERT_OK(context_.Notify(signal, {(context_.rank() + 1) % count}));
    ASSERT_OK(context_.WaitSignal(signal, {previous}));
    if (!MayGet()) return;
    for (const Operation& operation : round.ranks[static_cast<size_t>(previous)]) {
      for (const auto& [key, value] : operation.pairs) {
        EXPECT_EQ(GetNow(db_, key), Find(round.after, key)) << key;
      }
    }
  }

  void CheckAll() {
    if (!MayGet()) return;
    std::vector<std::string> keys, values;
    std::vector<bool> found;
    for (int i = 0; i < kKeys; ++i) keys.push_back(KeyOf(i));
    ASSERT_OK(db_.GetMany({keys.begin(), keys.end()}, &values, &found));
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(found[i] ? Value(values[i]) : Value(), Find(model_, keys[i])) << keys[i];
      if (i % 7 == 0) {
        EXPECT_EQ(GetNow(db_, keys[i]), Find(model_, keys[i])) << keys[i];
      }
    }
    ASSERT_OK(context_.Barrier());  // before any rank writes again
  }

  // One rank looks, as another program would: what a barrier has put into tables is published.
  void ReadBeside() {
    base::Random random(random_.Next());
    if (random.Below(static_cast<uint64_t>(3 * context_.size())) == Rank()) {
      if (beside_ == nullptr) {
        const DatabaseReaderOptions options =
            DrawReader(random, job_.database.partitioner != nullptr);
        auto opened = OpenDatabaseReader(fs_, job_.ranks.repository + "/db", options);
        ASSERT_OK(opened.status());
        beside_ = std::move(*opened);
      } else {
        ASSERT_OK(beside_->Refresh());
      }
      ASSERT_OK(OpenAllFiles(*beside_));
      CheckReader(*beside_, model_, random);
    }
    ASSERT_OK(context_.Barrier());
  }

  void BeginWalk() {
    Walk walk{db_.NewLocalIterator(), {}};
    for (const auto& [key, value] : model_) {
      if (db_.Owner(key) == context_.rank()) walk.seen[key] = value;
    }
    walks_.push_back(std::move(walk));
    ASSERT_OK(context_.Barrier());
  }

  void CheckFirstWalk() {
    base::Random moves(random_.Next());
    CheckWalk(*walks_.front().iterator, walks_.front().seen, moves);
    walks_.erase(walks_.begin());
  }
  void CheckWalks() {
    while (!walks_.empty()) CheckFirstWalk();
    ASSERT_OK(context_.Barrier());
  }

  void Change() {
    static constexpr Protection kProtections[] = {Protection::kReadWrite, Protection::kReadWrite,
                                                  Protection::kWriteOnly, Protection::kReadOnly,
                                                  Protection::kUpdateOnly};
    switch (random_.Below(7)) {
      case 0:
        consistency_ = random_.OneIn(2) ? Consistency::kRelaxed : Consistency::kSequential;
        ASSERT_OK(db_.SetConsistency(consistency_));
        break;
      case 1:
      case 2:
        protection_ = kProtections[random_.Below(std::size(kProtections))];
        ASSERT_OK(db_.Protect(protection_));
        break;
      case 3:
        if (begun_) return AwaitCheckpoint();
        BeginCheckpoint();
        break;
      case 4:
        Agree();
        break;
      case 5:
        EXPECT_CODE(context_.Destroy("db"), Code::kBusy);
        break;
      default:
        EXPECT_FALSE(db_.GetStatistics().empty());
    }
  }

  // All ranks receive the failure of the lowest rank that fails.
  void Agree() {
    const uint64_t failing = random_.Below(8);
    const bool fails = (failing >> Rank() & 1) != 0;
    const Status agreed = context_.Agree(fails ? Status(Code::kNoSpace, "as planned") : Status());
    int lowest = 0;
    while (lowest < context_.size() && (failing >> lowest & 1) == 0) ++lowest;
    if (lowest == context_.size()) {
      ASSERT_OK(agreed);
      return;
    }
    EXPECT_CODE(agreed, Code::kNoSpace);
    EXPECT_THAT(agreed.message(), HasSubstr("rank " + std::to_string(lowest)));
  }

  void BeginCheckpoint() {
    const CheckpointOptions options = DrawCheckpoint(random_);
    // A walk may be in the files of a checkpoint that goes.
    if (job_.in_place && options.keep > 0) CheckWalks();
    auto begun = db_.Checkpoint(kCheckpoints, options);
    ASSERT_OK(begun.status());
    event_ = std::move(*begun);
    begun_ = BegunCheckpoint{model_, options.keep};
    NoteTables();
  }
  void AwaitCheckpoint() {
    ASSERT_OK(event_->Wait());
    EXPECT_TRUE(event_->Ready());
    EXPECT_LE(event_->Progress().bytes_done, event_->Progress().bytes_total);
    event_.reset();
    const uint64_t number = NewestCheckpoint(fs_);
    EXPECT_TRUE(checkpoints_.empty() || number > checkpoints_.rbegin()->first);
    checkpoints_[number] = begun_->saved;
    Keep(&checkpoints_, begun_->keep);
    begun_.reset();
  }

  void Close() {
    if (begun_) AwaitCheckpoint();
    ASSERT_OK(db_.Close());
  }

  // The machine goes down in it, or after it.
  void PlayLastRound() {
    if (job_.end == End::kWithoutPower && !is_in_tables_) {
      ASSERT_OK(db_.Barrier(Level::kSsTable));
      NoteTables();
    }
    last_round_ = Planner(random_, model_, context_.size(), 0).Draw(protection_);
    last_.acknowledged.assign(static_cast<size_t>(context_.size()), 0);
    const uint64_t steps = random_.OneIn(3) ? UINT64_MAX : random_.Below(40);
    const uint64_t call = random_.Below(6);
    ASSERT_OK(context_.Barrier());
    if (Rank() == 0) fs_.CrashAfter(steps);
    for (const Operation& operation : last_round_.ranks[Rank()]) {
      if (!RunLast(operation)) break;
    }
    if (!fs_.crashed()) RunLastCall(call);
    fs_.CrashAfter(0);
  }

  // Runs a step, which is complete unless the machine is down; then returns false.
  bool RunLast(const Operation& operation) {
    ++last_.issued;
    if (Gets(operation.kind)) return true;
    std::string answer;
    const Status status = RunCall(db_, operation, &answer);
    if (fs_.crashed()) return false;
    EXPECT_OK(status);
    if (operation.kind == Kind::kAnswer) {
      EXPECT_EQ(answer, operation.answer) << operation.key;
    }
    if (operation.kind == Kind::kFlush) last_.flushed = last_.issued;
    const bool all = operation.kind == Kind::kFence;
    const bool waits = Sequential() || operation.kind == Kind::kBatch ||
                       operation.kind == Kind::kAnswer;
    for (size_t owner = 0; owner < last_.acknowledged.size(); ++owner) {
      const bool written =
          std::any_of(operation.pairs.begin(), operation.pairs.end(), [&](const auto& pair) {
            return static_cast<size_t>(db_.Owner(pair.first)) == owner;
          });
      if (all || (written && (waits || owner == Rank()))) {
        last_.acknowledged[owner] = last_.issued;
      }
    }
    return status.ok();
  }

  // Runs a last call of all ranks, or none. If the machine goes down in it, its outcome is unknown.
  void RunLastCall(uint64_t call) {
    Status status;
    if (call == 0) status = context_.Barrier();
    if (call == 1) status = db_.Barrier(Level::kMemTable);
    if (call == 2) status = db_.Barrier(Level::kSsTable);
    if (call == 3) status = db_.Close();
    if (fs_.crashed() || call == 0 || call > 3) return;
    EXPECT_OK(status);
    last_.applied = true;
    last_.in_tables = call > 1;
  }

  io::SimFileSystem& fs_;
  Context& context_;
  Database& db_;
  const Job& job_;
  base::Random random_;
  Model model_;
  Consistency consistency_;
  Protection protection_;
  bool is_in_tables_ = job_.is_in_tables;
  std::vector<Walk> walks_;
  std::unique_ptr<DatabaseReader> beside_;
  Checkpoints checkpoints_;
  std::unique_ptr<Event> event_;  // of the checkpoint that has begun
  std::optional<BegunCheckpoint> begun_;
  Journal journal_;
  Round last_round_;
  LastSteps last_;
};

// What is known of a job that did not close, once it has ended.
struct Ended {
  std::optional<Journal> journal;
  Round last_round;
  std::vector<LastSteps> ranks;
  std::optional<BegunCheckpoint> checkpoint;
};

// Several jobs on one disk, one after another.
class Jobs {
 public:
  explicit Jobs(uint64_t seed) : seed_(seed), random_(seed), by_length_(random_.OneIn(3)) {}

  void Run() {
    for (uint64_t left = 2 + random_.Below(4); left > 0 && !testing::Test::HasFailure(); --left) {
      const Job job = Draw();
      Ended ended;
      RunOne(job, &ended);
      there_ = true;
      is_in_tables_ = job.end == End::kClose;
      if (!testing::Test::HasFailure() && job.end != End::kClose) Crash(job, &ended);
      if (!testing::Test::HasFailure()) ReadAfterwards();
    }
  }

 private:
  Job Draw() {
    Job job;
    job.ranks.rank_count = static_cast<int>(1 + random_.Below(3));
    job.ranks.seed = seed_ + 1;
    job.ranks.deterministic = !random_.OneIn(4);
    job.ranks.context = DrawContext(random_);
    job.ranks.share_memory = job.ranks.context.transport == TransportChoice::kAuto;
    job.ranks.file_system = [this](int) { return fs_.get(); };
    job.there = there_;
    job.destroys = there_ && random_.OneIn(6);
    if (!checkpoints_.empty() && random_.OneIn(3)) {
      auto from = checkpoints_.begin();
      std::advance(from, random_.Below(checkpoints_.size()));
      job.restart = DrawRestart(random_, from->first, checkpoints_.rbegin()->first,
                                there_ && !job.destroys);
      model_ = from->second;
      in_place_ = job.restart->in_place;
      // A restart that was answered keeps what it read from.
      if (from->first == unacknowledged_) unacknowledged_ = 0;
    } else if (job.destroys) {
      model_.clear();
      in_place_ = false;
    }
    job.in_place = in_place_;
    const bool stored = job.restart || (there_ && !job.destroys);
    job.is_in_tables = is_in_tables_ || job.restart || job.destroys;
    job.database = DrawDatabase(random_, by_length_, stored);
    job.before = model_;
    job.checkpoints = checkpoints_;
    static constexpr End kEnds[] = {End::kClose, End::kClose, End::kClose,
                                    End::kKilled, End::kMoved, End::kWithoutPower};
    job.end = kEnds[random_.Below(std::size(kEnds))];
    job.play = base::Random(random_.Next());
    return job;
  }

  void RunOne(const Job& job, Ended* ended) {
    ended->ranks.resize(static_cast<size_t>(job.ranks.rank_count));
    SimCluster(job.ranks).Run([&](int rank, Context& context) {
      ASSERT_NO_FATAL_FAILURE(Prepare(context, job));
      auto db = context.Open("db", job.database);
      ASSERT_OK(db.status());
      Player player(*fs_, context, **db, job);
      player.Play();
      ended->ranks[static_cast<size_t>(rank)] = player.last_steps();
      if (rank != 0) return;
      model_ = player.model();
      checkpoints_ = player.checkpoints();
      // An answer about a newer one holds for those before it, too.
      if (!checkpoints_.empty() && checkpoints_.rbegin()->first > newest_) {
        newest_ = checkpoints_.rbegin()->first;
        unacknowledged_ = 0;
      }
      ended->journal.emplace(player.journal());
      ended->last_round = player.last_round();
      ended->checkpoint = player.begun();
    });
  }

  // The machine comes up again, or another one sees its files.
  void Crash(const Job& job, Ended* ended) {
    const io::CrashKind kind = job.end == End::kKilled  ? io::CrashKind::kProcess
                               : job.end == End::kMoved ? io::CrashKind::kMoved
                                                        : io::CrashKind::kPower;
    fs_->Restart(kind, random_.Next());
    ended->journal->EndLastRound(ended->last_round, ended->ranks);
    const std::unique_ptr<DatabaseReader> reader = OpenReader("/repository/db");
    if (reader == nullptr) return;
    model_ = Walked(*reader->NewIterator());
    // Files freeze one after the other: what other threads store meanwhile comes in any order.
    const bool in_order = job.ranks.deterministic;
    EXPECT_EQ(ended->journal->Check(model_, job.keeps_applied(), in_order), "")
        << "after the end " << static_cast<int>(job.end) << " with the log "
        << static_cast<int>(job.database.storage.wal);
    if (kind == io::CrashKind::kPower) ForgetUnacknowledged();
    if (ended->checkpoint) NoteCheckpoint(*ended->checkpoint, kind);
  }

  // Notes whether the checkpoint is there. If no rank's call reported it, a power loss may still
  // remove it.
  void NoteCheckpoint(const BegunCheckpoint& begun, io::CrashKind kind) {
    const uint64_t number = NewestCheckpoint(*fs_);
    if (number <= newest_) return;
    checkpoints_[number] = begun.saved;
    Keep(&checkpoints_, begun.keep);
    newest_ = number;
    unacknowledged_ = kind == io::CrashKind::kPower ? 0 : number;
  }

  // The power is back: what is there of it now is there for good.
  void ForgetUnacknowledged() {
    if (unacknowledged_ == 0) return;
    const auto left = FindCheckpoints(*fs_, CheckpointHome(kCheckpoints, "db"));
    EXPECT_OK(left.status());
    const bool there = std::any_of(left->begin(), left->end(), [&](const CheckpointFound& one) {
      return one.number == unacknowledged_ && one.state == CheckpointState::kComplete;
    });
    if (!there) {
      checkpoints_.erase(unacknowledged_);
      newest_ = unacknowledged_ - 1;
    }
    unacknowledged_ = 0;
  }

  std::unique_ptr<DatabaseReader> OpenReader(const std::string& directory) {
    auto opened = OpenDatabaseReader(*fs_, directory, DrawReader(random_, by_length_));
    EXPECT_OK(opened.status());
    return opened.ok() ? std::move(*opened) : nullptr;
  }

  // Without the database being opened.
  void ReadAfterwards() {
    const std::unique_ptr<DatabaseReader> reader = OpenReader("/repository/db");
    if (reader == nullptr) return;
    CheckReader(*reader, model_, random_);
    for (const auto& [number, saved] : checkpoints_) {
      if (!random_.OneIn(3)) continue;
      const auto checkpoint =
          OpenReader(CheckpointDirectory(CheckpointHome(kCheckpoints, "db"), number));
      if (checkpoint != nullptr) CheckReader(*checkpoint, saved, random_);
    }
  }

  const uint64_t seed_;
  base::Random random_;
  const bool by_length_;
  const std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  bool there_ = false;
  bool is_in_tables_ = true;
  bool in_place_ = false;
  Model model_;
  Checkpoints checkpoints_;
  uint64_t newest_ = 0;          // the newest checkpoint's number, reported by a call or not
  uint64_t unacknowledged_ = 0;  // the checkpoint whose end no call reported; 0 if none
};

TEST(RandomModel, EveryOptionIsDrawn) {
  size_t drawn = 0;
  for (const OptionRow& row : OptionTable::Rows()) {
    const bool of_a_context = row.group == OptionGroup::kContext;
    if (!of_a_context && !OfADatabase(row)) continue;
    ++drawn;
    ASSERT_TRUE(Choices().contains(row.name)) << row.name << ": say what it is drawn from";
    EXPECT_GE(Choices().at(row.name).size(), 2u) << row.name;
    for (const std::string& value : Choices().at(row.name)) {
      ContextOptions context;
      DatabaseOptions database;
      EXPECT_OK(of_a_context ? OptionTable::Set(row.name, value, &context)
                             : OptionTable::Set(row.name, value, &database));
    }
  }
  EXPECT_EQ(drawn, Choices().size());
}

TEST(RandomModel, JobsGiveWhatTheModelHas) {
  test::ForEachModelSeed([](uint64_t seed) { Jobs(seed).Run(); });
}

}  // namespace
}  // namespace quire::kv::model::random_model_test
