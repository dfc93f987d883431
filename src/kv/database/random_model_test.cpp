// Random jobs against a model: all options of a database, drawn from the option table, and all of
// its operations, on one to three ranks, opened again by other numbers of ranks.
//
// Every rank draws the same plan from the seed, and so knows the model. In a round each key has one
// rank that writes it: that rank knows its value at every moment, the others know which values it
// may have; after the round's barrier all know it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "io/sim/sim_file_system.h"
#include "kv/database/database_reader.h"
#include "kv/database/sim_cluster_testing.h"
#include "quire/option_table.h"
#include "tests/support/model_seeds.h"
#include "tests/support/status_asserts.h"

namespace quire::kv {
namespace {

using Model = std::map<std::string, std::string>;
using Value = std::optional<std::string>;  // none: the key is absent

constexpr int kKeys = 36;
constexpr uint32_t kAppend = 1;
constexpr uint32_t kAppendAndAnswer = 2;
constexpr size_t kAppendMax = 3000;
const char* const kCheckpoints = "/checkpoints";

// What each option is drawn from. A row of the table that is not here fails a test.
const std::map<std::string, std::vector<std::string>>& Choices() {
  static const std::map<std::string, std::vector<std::string>> choices = {
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

int ByLength(Slice key, int rank_count) {
  return static_cast<int>(key.size() + static_cast<unsigned char>(key.back())) % rank_count;
}

// What a database is opened with. `stored`: it is there, and has its partitioner.
DatabaseOptions DrawOptions(base::Random& random, bool by_length, bool stored) {
  DatabaseOptions options;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (!OfADatabase(row)) continue;
    const std::vector<std::string>& choices = Choices().at(row.name);
    EXPECT_OK(OptionTable::Set(row.name, choices[random.Below(choices.size())], &options));
  }
  // These two depend on what is there.
  options.mode = random.OneIn(2) ? OpenMode::kOpenOrCreate
                                 : (stored ? OpenMode::kMustExist : OpenMode::kMustNotExist);
  options.partitioner_name = by_length ? "by length" : "";
  if (by_length) options.partitioner = ByLength;
  return options;
}

std::string Appended(const Value& present, Slice argument) {
  const bool begins = !present || present->size() > kAppendMax;
  return (begins ? std::string() : *present) + std::string(argument);
}

std::string AnswerTo(const Value& present) {
  return present ? std::to_string(present->size()) : "absent";
}

void RegisterUpdates(Database& db) {
  const auto value_of = [](const Slice* present) {
    return present == nullptr ? Value() : Value(std::string(*present));
  };
  ASSERT_OK(db.RegisterUpdate(
      kAppend, [value_of](Slice, const Slice* present, Slice argument, std::string* updated) {
        *updated = Appended(value_of(present), argument);
        return Status();
      }));
  ASSERT_OK(db.RegisterAnsweringUpdate(
      kAppendAndAnswer, [value_of](Slice, const Slice* present, Slice argument,
                                   std::string* updated, std::string* answer) {
        *updated = Appended(value_of(present), argument);
        *answer = AnswerTo(value_of(present));
        return Status();
      }));
}

enum class Kind { kPut, kDelete, kUpdate, kAnswer, kPutMany, kDeleteMany, kBatch, kGet, kGetAsync,
                  kGetMany, kFence, kFlush, kCompact, kOtherGet, kCount };

// One operation of one rank, and what it must give.
struct Operation {
  Kind kind = Kind::kGet;
  std::vector<std::pair<std::string, Value>> pairs;  // written; an absent value: deleted
  std::string key;
  std::string argument;
  Value expected;           // of a get of a key of this rank's
  std::string answer;
  std::set<Value> allowed;  // of a get of another rank's key
};

struct Round {
  std::vector<std::vector<Operation>> ranks;
  Model after;
};

bool Writes(Kind kind) { return kind <= Kind::kBatch; }
bool Updates(Kind kind) { return kind == Kind::kUpdate || kind == Kind::kAnswer; }
bool Gets(Kind kind) {
  return kind == Kind::kGet || kind == Kind::kGetAsync || kind == Kind::kGetMany ||
         kind == Kind::kOtherGet;
}

bool Allowed(Kind kind, Protection protection) {
  switch (protection) {
    case Protection::kReadWrite: return true;
    case Protection::kWriteOnly: return !Gets(kind);
    case Protection::kReadOnly: return !Writes(kind);
    case Protection::kUpdateOnly: return !Writes(kind) || Updates(kind);
  }
  return false;
}

// Draws what all ranks do until the next barrier, and follows it in the model.
class Planner {
 public:
  Planner(base::Random& random, const Model& before, int rank_count, int number)
      : random_(random), rank_count_(rank_count), number_(number) {
    round_.after = before;
    for (int i = 0; i < kKeys; ++i) allowed_[KeyOf(i)] = {Current(KeyOf(i))};
  }

  Round Draw(Protection protection) {
    round_.ranks.resize(static_cast<size_t>(rank_count_));
    for (int rank = 0; rank < rank_count_; ++rank) {
      for (uint64_t left = 3 + random_.Below(9); left > 0; --left) {
        const auto kind = static_cast<Kind>(random_.Below(static_cast<uint64_t>(Kind::kCount)));
        if (!Allowed(kind, protection)) continue;
        round_.ranks[static_cast<size_t>(rank)].push_back(Draw(kind, rank));
      }
    }
    for (auto& operations : round_.ranks) {
      for (Operation& operation : operations) {
        if (operation.kind == Kind::kOtherGet) operation.allowed = allowed_[operation.key];
      }
    }
    return std::move(round_);
  }

  static std::string KeyOf(int i) {
    return "key " + std::string(static_cast<size_t>(i % 3), 'k') + std::to_string(i);
  }

 private:
  Value Current(const std::string& key) const {
    const auto found = round_.after.find(key);
    return found == round_.after.end() ? Value() : Value(found->second);
  }
  // One of the keys that this rank writes in this round.
  std::string OwnKey(int rank) {
    int i = 0;
    do {
      i = static_cast<int>(random_.Below(kKeys));
    } while ((i + number_) % rank_count_ != rank);
    return KeyOf(i);
  }
  std::string NewValue() {
    static constexpr size_t kSizes[] = {0, 1, 20, 70, 300, 700, 5000};
    const size_t size = kSizes[random_.Below(std::size(kSizes))];
    return std::string(size, static_cast<char>('a' + random_.Below(26))) +
           (size == 0 ? "" : std::to_string(random_.Below(1000)));
  }
  void Set(const std::string& key, const Value& value) {
    if (value) {
      round_.after[key] = *value;
    } else {
      round_.after.erase(key);
    }
    allowed_[key].insert(value);
  }
  Operation Draw(Kind kind, int rank) {
    Operation drawn;
    drawn.kind = kind;
    drawn.key = OwnKey(rank);
    const bool many = kind == Kind::kPutMany || kind == Kind::kDeleteMany || kind == Kind::kBatch;
    if (kind == Kind::kOtherGet) {
      drawn.key = KeyOf(static_cast<int>(random_.Below(kKeys)));
    } else if (Updates(kind)) {
      drawn.argument = std::to_string(random_.Below(1000)) + ";";
      drawn.answer = AnswerTo(Current(drawn.key));
      Set(drawn.key, Appended(Current(drawn.key), drawn.argument));
    } else if (Writes(kind)) {
      for (uint64_t left = many ? 1 + random_.Below(5) : 1; left > 0; --left) {
        const bool deletes = kind == Kind::kDelete || kind == Kind::kDeleteMany ||
                             (kind == Kind::kBatch && random_.OneIn(3));
        drawn.pairs.emplace_back(OwnKey(rank), deletes ? Value() : Value(NewValue()));
        Set(drawn.pairs.back().first, drawn.pairs.back().second);
      }
    } else {
      drawn.expected = Current(drawn.key);
    }
    return drawn;
  }

  base::Random& random_;
  const int rank_count_;
  const int number_;
  Round round_;
  std::map<std::string, std::set<Value>> allowed_;
};

Value Got(const Status& status, const std::string& value) {
  if (status.code() == Code::kNotFound) return Value();
  EXPECT_OK(status);
  return Value(value);
}

Value GetNow(Database& db, const std::string& key) {
  std::string value;
  const Status status = db.Get(key, &value);
  return Got(status, value);
}

void RunGet(Database& db, const Operation& operation) {
  if (operation.kind == Kind::kGetAsync) {
    const std::unique_ptr<PendingGet> pending = db.GetAsync(operation.key);
    const Result<std::string> taken = pending->Take();
    EXPECT_EQ(Got(taken.status(), taken.ok() ? *taken : ""), operation.expected) << operation.key;
  } else if (operation.kind == Kind::kGetMany) {
    std::vector<std::string> values;
    std::vector<bool> found;
    ASSERT_OK(db.GetMany({operation.key, "never there"}, &values, &found));
    EXPECT_EQ(found[0] ? Value(values[0]) : Value(), operation.expected) << operation.key;
    EXPECT_FALSE(found[1]);
  } else if (operation.kind == Kind::kOtherGet) {
    EXPECT_TRUE(operation.allowed.contains(GetNow(db, operation.key))) << operation.key;
  } else {
    EXPECT_EQ(GetNow(db, operation.key), operation.expected) << operation.key;
  }
}

void RunWrite(Database& db, const Operation& operation) {
  std::vector<std::pair<Slice, Slice>> pairs;
  std::vector<Slice> keys;
  Batch batch;
  for (const auto& [key, value] : operation.pairs) {
    keys.push_back(key);
    pairs.emplace_back(key, value ? Slice(*value) : Slice());
    if (value) {
      batch.Put(key, *value);
    } else {
      batch.Delete(key);
    }
  }
  std::string answer;
  switch (operation.kind) {
    case Kind::kPut: ASSERT_OK(db.Put(pairs[0].first, pairs[0].second)); break;
    case Kind::kDelete: ASSERT_OK(db.Delete(keys[0])); break;
    case Kind::kPutMany: ASSERT_OK(db.PutMany(pairs)); break;
    case Kind::kDeleteMany: ASSERT_OK(db.DeleteMany(keys)); break;
    case Kind::kBatch: ASSERT_OK(db.Write(batch)); break;
    case Kind::kUpdate: ASSERT_OK(db.Update(operation.key, kAppend, operation.argument)); break;
    default:
      ASSERT_OK(db.UpdateAndAnswer(operation.key, kAppendAndAnswer, operation.argument, &answer));
      EXPECT_EQ(answer, operation.answer) << operation.key;
  }
}

void RunOperation(Database& db, const Operation& operation) {
  if (Gets(operation.kind)) return RunGet(db, operation);
  if (Writes(operation.kind)) return RunWrite(db, operation);
  const Kind kind = operation.kind;
  ASSERT_OK(kind == Kind::kFence ? db.Fence() : kind == Kind::kFlush ? db.Flush() : db.Compact());
}

// A walk that began when the database was as `seen`.
struct Walk {
  std::unique_ptr<LocalIterator> iterator;
  Model seen;
};

void Check(const Walk& walk) {
  Model forward, backward;
  for (walk.iterator->SeekToFirst(); walk.iterator->Valid(); walk.iterator->Next()) {
    forward[std::string(walk.iterator->key())] = std::string(walk.iterator->value());
  }
  for (walk.iterator->SeekToLast(); walk.iterator->Valid(); walk.iterator->Prev()) {
    backward[std::string(walk.iterator->key())] = std::string(walk.iterator->value());
  }
  EXPECT_OK(walk.iterator->status());
  EXPECT_EQ(forward, walk.seen);
  EXPECT_EQ(backward, walk.seen);
}

// One rank's part of a job. All ranks draw the same.
class Player {
 public:
  Player(Context& context, Database& db, base::Random random, Model model,
         const DatabaseOptions& options)
      : context_(context), db_(db), random_(random), model_(std::move(model)),
        protection_(options.protection) {}

  void Play() {
    RegisterUpdates(db_);
    ASSERT_OK(db_.Barrier(Level::kMemTable));
    CheckAll();
    for (uint64_t left = 3 + random_.Below(12); left > 0; --left) {
      if (testing::Test::HasFatalFailure()) return;
      PlayRound(static_cast<int>(left));
    }
    if (checkpoint_ != nullptr) AwaitCheckpoint();
  }
  const Model& model() const { return model_; }
  const std::optional<Model>& saved() const { return saved_; }

 private:
  void PlayRound(int number) {
    if (MayGet() && random_.OneIn(2)) BeginWalk();
    const Round round = Planner(random_, model_, context_.size(), number).Draw(protection_);
    for (const Operation& operation : round.ranks[static_cast<size_t>(context_.rank())]) {
      RunOperation(db_, operation);
      if (testing::Test::HasFatalFailure()) return;
    }
    CheckRefusal();
    if (random_.OneIn(4)) context_.Progress();
    model_ = round.after;
    ASSERT_OK(db_.Barrier(random_.OneIn(2) ? Level::kMemTable : Level::kSsTable));
    CheckAll();
    if (!walks_.empty() && random_.OneIn(2)) {
      Check(walks_.front());
      walks_.erase(walks_.begin());
    }
    Change();
    ASSERT_OK(context_.Barrier());
  }

  bool MayGet() const { return protection_ != Protection::kWriteOnly; }

  // The protection refuses what it should.
  void CheckRefusal() {
    const std::string key = Planner::KeyOf(0);
    if (protection_ == Protection::kReadOnly || protection_ == Protection::kUpdateOnly) {
      EXPECT_EQ(db_.Put(key, "refused").code(), Code::kReadOnly);
      EXPECT_EQ(db_.DeleteMany({key}).code(), Code::kReadOnly);
    }
    std::string value;
    if (!MayGet()) {
      EXPECT_EQ(db_.Get(key, &value).code(), Code::kInvalidArgument);
    }
  }

  void CheckAll() {
    if (!MayGet()) return;
    std::vector<std::string> keys, values;
    std::vector<bool> found;
    for (int i = 0; i < kKeys; ++i) keys.push_back(Planner::KeyOf(i));
    ASSERT_OK(db_.GetMany({keys.begin(), keys.end()}, &values, &found));
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto expected = model_.find(keys[i]);
      const bool there = expected != model_.end();
      EXPECT_EQ(found[i] ? Value(values[i]) : Value(), there ? Value(expected->second) : Value())
          << keys[i];
      if (i % 7 == 0) {
        EXPECT_EQ(GetNow(db_, keys[i]), there ? Value(expected->second) : Value()) << keys[i];
      }
    }
    ASSERT_OK(context_.Barrier());  // before anybody writes again
  }

  void BeginWalk() {
    Walk walk{db_.NewLocalIterator(), {}};
    for (const auto& [key, value] : model_) {
      if (db_.Owner(key) == context_.rank()) walk.seen[key] = value;
    }
    walks_.push_back(std::move(walk));
    ASSERT_OK(context_.Barrier());
  }

  void Change() {
    static constexpr Protection kProtections[] = {Protection::kReadWrite, Protection::kReadWrite,
                                                  Protection::kWriteOnly, Protection::kReadOnly,
                                                  Protection::kUpdateOnly};
    switch (random_.Below(5)) {
      case 0:
        ASSERT_OK(db_.SetConsistency(random_.OneIn(2) ? Consistency::kRelaxed
                                                      : Consistency::kSequential));
        break;
      case 1:
      case 2:
        protection_ = kProtections[random_.Below(std::size(kProtections))];
        ASSERT_OK(db_.Protect(protection_));
        break;
      case 3:
        if (checkpoint_ != nullptr) return AwaitCheckpoint();
        BeginCheckpoint();
        break;
      default:
        EXPECT_FALSE(db_.GetStatistics().empty());
    }
  }

  void BeginCheckpoint() {
    auto begun = db_.Checkpoint(kCheckpoints, {static_cast<int>(random_.Below(3))});
    ASSERT_OK(begun.status());
    checkpoint_ = std::move(*begun);
    being_saved_ = model_;
  }
  void AwaitCheckpoint() {
    ASSERT_OK(checkpoint_->Wait());
    EXPECT_TRUE(checkpoint_->Ready());
    EXPECT_LE(checkpoint_->Progress().bytes_done, checkpoint_->Progress().bytes_total);
    checkpoint_.reset();
    saved_ = being_saved_;
  }

  Context& context_;
  Database& db_;
  base::Random random_;
  Model model_;
  Protection protection_;
  std::vector<Walk> walks_;
  std::unique_ptr<Event> checkpoint_;
  Model being_saved_;
  std::optional<Model> saved_;  // of the newest checkpoint
};

// Several jobs on one disk, one after another.
class Jobs {
 public:
  explicit Jobs(uint64_t seed) : seed_(seed), random_(seed), by_length_(random_.OneIn(3)) {}

  void Run() {
    for (uint64_t left = 2 + random_.Below(4); left > 0 && !testing::Test::HasFailure(); --left) {
      RunOne();
      if (!testing::Test::HasFailure()) ReadBeside();
    }
  }

 private:
  void RunOne() {
    SimCluster::Options ranks;
    ranks.rank_count = static_cast<int>(1 + random_.Below(3));
    ranks.seed = seed_ + 1;
    ranks.share_memory = random_.OneIn(2);
    ranks.file_system = [this](int) { return fs_.get(); };
    const bool restarts = saved_ && random_.OneIn(3);
    const bool in_place = random_.OneIn(3);
    if (restarts) model_ = *saved_;
    const DatabaseOptions options = DrawOptions(random_, by_length_, there_);
    const base::Random play(random_.Next());
    const Model before = model_;
    SimCluster(ranks).Run([&](int rank, Context& context) {
      if (restarts) {
        auto restart = context.Restart(kCheckpoints, "db",
                                       {.in_place = in_place, .replace = true});
        ASSERT_OK(restart.status());
        ASSERT_OK((*restart)->Wait());
      }
      auto db = context.Open("db", options);
      ASSERT_OK(db.status());
      Player player(context, **db, play, before, options);
      player.Play();
      ASSERT_OK((*db)->Close());
      if (rank != 0) return;
      model_ = player.model();
      if (player.saved()) saved_ = player.saved();
    });
    there_ = true;
  }

  // Without the database being opened.
  void ReadBeside() {
    DatabaseReaderOptions options;
    if (by_length_) options.partitioner = ByLength;
    const auto reader = OpenDatabaseReader(*fs_, "/repository/db", options);
    ASSERT_OK(reader.status());
    Model walked;
    const std::unique_ptr<LocalIterator> iterator = (*reader)->NewIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      walked[std::string(iterator->key())] = std::string(iterator->value());
    }
    ASSERT_OK(iterator->status());
    EXPECT_EQ(walked, model_);
  }

  const uint64_t seed_;
  base::Random random_;
  const bool by_length_;
  const std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  bool there_ = false;
  Model model_;
  std::optional<Model> saved_;
};

TEST(RandomModel, EveryOptionIsDrawn) {
  for (const OptionRow& row : OptionTable::Rows()) {
    if (!OfADatabase(row)) continue;
    ASSERT_TRUE(Choices().contains(row.name)) << row.name << ": say what it is drawn from";
    EXPECT_GE(Choices().at(row.name).size(), 2u) << row.name;
    for (const std::string& value : Choices().at(row.name)) {
      DatabaseOptions options;
      EXPECT_OK(OptionTable::Set(row.name, value, &options));
    }
  }
}

TEST(RandomModel, JobsGiveWhatTheModelHas) {
  test::ForEachModelSeed([](uint64_t seed) { Jobs(seed).Run(); });
}

}  // namespace
}  // namespace quire::kv
