// Crashes at every step of a small life: writes, log switches, flushes, merges, manifest switches,
// closing, and recovery itself. What is found afterwards is a prefix of what was written, and
// contains everything that was promised.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash/hash.h"
#include "lsm/db/db_testing.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/offline/inspect.h"
#include "lsm/offline/repair.h"
#include "lsm/version/manifest.h"
#include "quire/log.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::db_crash_test {
namespace {

struct Op {
  enum class Kind {
    kPut,
    kDelete,
    kDeleteRange,
    kBatch,
    kUpdate,
    kFlush,
    kSyncLog,
    kCompact,
    kReopen
  };
  Kind kind = Kind::kPut;
  // kDelete: no value; kDeleteRange: begin, end
  std::vector<std::pair<std::string, std::string>> pairs;
};

void ApplyTo(const Op& op, Model* model) {
  switch (op.kind) {
    case Op::Kind::kPut:
    case Op::Kind::kUpdate:
    case Op::Kind::kBatch:
      for (const auto& [key, value] : op.pairs) {
        if (value == "-") {
          model->erase(key);
        } else {
          (*model)[key] = value;
        }
      }
      break;
    case Op::Kind::kDelete: model->erase(op.pairs[0].first); break;
    case Op::Kind::kDeleteRange:
      model->erase(model->lower_bound(op.pairs[0].first),
                   model->lower_bound(op.pairs[0].second));
      break;
    default: break;
  }
}

// The operations of one life: the same for every point at which it may end.
struct Plan {
  std::vector<Op> ops;
  std::vector<uint32_t> jobs;   // background jobs run after each operation
};

Plan MakePlan(uint64_t seed, size_t count, uint64_t keys) {
  base::Random random(seed);
  Plan plan;
  const auto key = [&] { return "key" + std::to_string(random.Below(keys)); };
  const auto value = [&](size_t i) {
    std::string text = std::to_string(seed) + "." + std::to_string(i) + ".";
    const uint64_t size = random.OneIn(4) ? 900 + random.Below(2500) : random.Below(700);
    text.resize(std::max<size_t>(text.size(), size), static_cast<char>('a' + i % 26));
    return text;
  };
  for (size_t i = 0; i < count; ++i) {
    Op op;
    const uint64_t kind = random.Below(100);
    if (kind < 70) {
      op.kind = random.OneIn(4) ? Op::Kind::kUpdate : Op::Kind::kPut;
      op.pairs = {{key(), value(i)}};
    } else if (kind < 83) {
      op.kind = Op::Kind::kDelete;
      op.pairs = {{key(), ""}};
    } else if (kind < 86) {
      op.kind = Op::Kind::kDeleteRange;
      std::string begin = key();
      std::string end = key();
      if (end < begin) std::swap(begin, end);
      op.pairs = {{begin, end}};
    } else if (kind < 94) {
      op.kind = Op::Kind::kBatch;
      for (int j = 0; j < 4; ++j) op.pairs.push_back({key(), random.OneIn(3) ? "-" : value(i)});
    } else if (kind < 96) {
      op.kind = Op::Kind::kSyncLog;
    } else if (kind < 98) {
      op.kind = Op::Kind::kFlush;
    } else {
      op.kind = random.OneIn(3) ? Op::Kind::kCompact : Op::Kind::kReopen;
    }
    plan.ops.push_back(std::move(op));
    plan.jobs.push_back(random.OneIn(3) ? 1 : 0);
  }
  return plan;
}

Status Do(const Op& op, TestDb& test) {
  switch (op.kind) {
    case Op::Kind::kPut: return test->Put(op.pairs[0].first, op.pairs[0].second);
    case Op::Kind::kUpdate:
      return test->Update(op.pairs[0].first, [&](Slice, const Slice*, std::string* updated) {
        *updated = op.pairs[0].second;
        return true;
      });
    case Op::Kind::kDelete: return test->Delete(op.pairs[0].first);
    case Op::Kind::kDeleteRange: return test->DeleteRange(op.pairs[0].first, op.pairs[0].second);
    case Op::Kind::kBatch: {
      engine::WriteBatch batch;
      for (const auto& [key, value] : op.pairs) {
        if (value == "-") {
          batch.Delete(key);
        } else {
          batch.Put(key, value);
        }
      }
      return test->Write(batch);
    }
    case Op::Kind::kFlush: return test->Flush();
    case Op::Kind::kSyncLog: return test->SyncLog();
    case Op::Kind::kCompact: return test->Compact();
    case Op::Kind::kReopen: return test.Reopen();
  }
  return Status();
}

bool Durable(Op::Kind kind) {
  return kind == Op::Kind::kFlush || kind == Op::Kind::kSyncLog || kind == Op::Kind::kCompact;
}

struct Case {
  io::CrashKind crash;
  WalMode log;
  CompactionPolicy compaction = CompactionPolicy::kTiered;
  uint64_t keys = 50;
};

// One life and its end: what was acknowledged, and what was durable by then.
class Life {
 public:
  Life(const Plan& plan, const Case& kind, uint64_t seed)
      : plan_(plan), case_(kind), random_(seed), test_(Options(kind)) {}

  // Until the plan is done or the machine crashes.
  void Run(uint64_t crash_after) {
    test_.fs().CrashAfter(crash_after);
    if (!test_.Open().ok()) return;
    for (size_t i = 0; i < plan_.ops.size(); ++i) {
      // A store into a mapping cannot fail; that the machine is gone shows only here.
      if (!Do(plan_.ops[i], test_).ok() || test_.fs().crashed()) return;
      acknowledged_ = i + 1;
      if (Durable(plan_.ops[i].kind) || case_.log == WalMode::kSync) durable_ = i + 1;
      for (uint32_t job = 0; job < plan_.jobs[i]; ++job) test_.executor().RunOne();
    }
    test_.Close();
    closed_ = !test_.fs().crashed();
  }
  uint64_t steps() { return test_.fs().steps(); }

  // Comes up again, perhaps after more crashes on the way, and compares.
  void RecoverAndCheck() {
    test_.fs().Restart(case_.crash, random_.Next());
    test_.Close();
    for (uint64_t crashes = random_.Below(3); crashes > 0; --crashes) {
      test_.fs().CrashAfter(random_.Below(60));
      if (test_.Open().ok() && random_.OneIn(2)) test_.executor().RunOne();
      test_.fs().Restart(NextCrash(), random_.Next());
      test_.Close();
    }
    test_.fs().CrashAfter(UINT64_MAX);
    Model found;
    ASSERT_NO_FATAL_FAILURE(OpenAndRead(&found));
    ASSERT_NO_FATAL_FAILURE(CheckPrefix(found));
    // Once more, after a kill, on this node or another: the same.
    test_.fs().Restart(random_.OneIn(2) ? io::CrashKind::kProcess : io::CrashKind::kMoved,
                       random_.Next());
    test_.Close();
    Model again;
    ASSERT_NO_FATAL_FAILURE(OpenAndRead(&again));
    if (case_.log != WalMode::kOff) {
      ASSERT_EQ(again, found) << "recovery gives another result the second time";
    }
    if (random_.OneIn(4)) {
      ASSERT_NO_FATAL_FAILURE(GoOn(again));
    }
  }

 private:
  // Returns a kind of crash that takes no more than the first crash may: without a power loss, a
  // log that is not synced is whole.
  io::CrashKind NextCrash() {
    constexpr io::CrashKind kKinds[] = {io::CrashKind::kProcess, io::CrashKind::kMoved,
                                        io::CrashKind::kPower};
    const bool power = case_.log != WalMode::kOn || case_.crash == io::CrashKind::kPower;
    return kKinds[random_.Below(power ? 3 : 2)];
  }
  static StorageOptions Options(const Case& kind) {
    StorageOptions options = SmallOptions();
    options.wal = kind.log;
    options.compaction = kind.compaction;
    options.flushing_queue_length = 1;
    options.compaction_trigger = 2;
    options.value_separation_bytes_min = 800;
    return options;
  }

  void OpenAndRead(Model* found) {
    const Status opened = test_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    *found = AllOf(*test_->NewIterator({}));
    for (const auto& [key, value] : *found) ASSERT_EQ(GetText(test_.db(), key), value);
    const Status verified = test_->Verify();
    ASSERT_TRUE(verified.ok()) << verified.ToString();
  }

  void CheckPrefix(const Model& found) {
    const bool all_acknowledged =
        case_.log != WalMode::kOff && case_.crash != io::CrashKind::kPower;
    const size_t least = all_acknowledged ? acknowledged_ : durable_;
    const size_t most = std::min(acknowledged_ + 1, plan_.ops.size());
    Model model;
    for (size_t i = 0; i < least; ++i) ApplyTo(plan_.ops[i], &model);
    for (size_t i = least;; ++i) {
      if (model == found) return;
      if (i >= most) break;
      ApplyTo(plan_.ops[i], &model);
    }
    FAIL() << "what was found is no prefix of at least " << least << " operations; "
           << acknowledged_ << " were acknowledged, " << durable_ << " durable; found "
           << found.size() << " keys";
  }

  // The database is as usable as ever.
  void GoOn(Model model) {
    for (size_t i = 0; i < 30; ++i) {
      const Op& op = plan_.ops[random_.Below(plan_.ops.size())];
      const Status status = Do(op, test_);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ApplyTo(op, &model);
      test_.executor().RunOne();
    }
    ASSERT_TRUE(test_->Flush().ok());
    ASSERT_EQ(AllOf(*test_->NewIterator({})), model);
  }

  const Plan& plan_;
  const Case case_;
  base::Random random_;
  TestDb test_;
  size_t acknowledged_ = 0;
  size_t durable_ = 0;
  bool closed_ = false;
};

// Ends a life at every second of its steps, or at fewer where `wanted` points are enough, and
// counts how often.
void CrashEverywhere(const Case& kind, uint64_t seed, uint64_t wanted, uint64_t* points) {
  const Plan plan = MakePlan(seed, 300, kind.keys);
  Life whole(plan, kind, seed);
  whole.Run(UINT64_MAX);
  const uint64_t steps = whole.steps();
  const uint64_t stride = std::max<uint64_t>(2, steps / wanted);
  ASSERT_NO_FATAL_FAILURE(whole.RecoverAndCheck()) << "seed " << seed << ", no crash";
  for (uint64_t step = seed % stride; step < steps; step += stride) {
    Life life(plan, kind, seed * 1'000'003 + step);
    life.Run(step);
    ASSERT_NO_FATAL_FAILURE(life.RecoverAndCheck()) << "seed " << seed << ", step " << step;
    ++*points;
  }
}

// The share of each test, in percent, of all crash points that are asked for.
struct Shares {
  int kill, move, move_synced, move_without_log, power, synced, kill_without_log, power_without_log;
};
constexpr Shares kShares = {20, 12, 5, 3, 25, 20, 5, 10};
static_assert(kShares.kill + kShares.move + kShares.move_synced + kShares.move_without_log +
                  kShares.power + kShares.synced + kShares.kill_without_log +
                  kShares.power_without_log ==
              100);
constexpr int64_t kUsualPoints = 10'000;

void CrashManyLives(Case kind, int percent) {
  const int64_t asked = test::ScaledCount("QUIRE_CRASH_POINTS", kUsualPoints);
  const auto least = static_cast<uint64_t>((asked * percent + 99) / 100);
  uint64_t points = 0;
  for (uint64_t seed = test::FirstSeed(); points < least; ++seed) {
    kind.compaction = seed % 3 == 0 ? CompactionPolicy::kEveryNth : CompactionPolicy::kTiered;
    kind.keys = seed % 2 == 0 ? 300 : 50;
    ASSERT_NO_FATAL_FAILURE(CrashEverywhere(kind, seed, least - points, &points));
  }
  std::printf("%llu crash points: %d %% of the %lld asked for, or more\n",
              static_cast<unsigned long long>(points), percent, static_cast<long long>(asked));
}

TEST(Crash, AfterAKillEverythingAcknowledgedIsThere) {
  CrashManyLives({io::CrashKind::kProcess, WalMode::kOn}, kShares.kill);
}

TEST(Crash, KilledAndOpenedOnAnotherNodeEverythingAcknowledgedIsThere) {
  CrashManyLives({io::CrashKind::kMoved, WalMode::kOn}, kShares.move);
}

TEST(Crash, WithTheLogSyncedEverythingAcknowledgedIsThereOnAnotherNode) {
  CrashManyLives({io::CrashKind::kMoved, WalMode::kSync}, kShares.move_synced);
}

TEST(Crash, WithoutTheLogAPrefixWithEverythingFlushedIsThereOnAnotherNode) {
  CrashManyLives({io::CrashKind::kMoved, WalMode::kOff}, kShares.move_without_log);
}

// On a thread of its own, which is over at return: what it finished is acknowledged.
void OnAThread(const std::function<Status()>& work) {
  std::jthread([&] { EXPECT_TRUE(work().ok()); }).join();
}

// Damages the record of `key` in the log, as its writer leaves it that dies half way.
void Unfinish(io::SimFileSystem& fs, const std::string& key) {
  ASSERT_TRUE(fs.Damage("/db/log-0.seg", [&](std::string* bytes) {
                  const size_t at = bytes->find(key + key);
                  ASSERT_NE(at, std::string::npos);
                  std::fill_n(bytes->data() + at - 24, 8, '\0');
                }).ok());
}

TEST(Crash, AWriterThatDiesInARecordTakesNoOtherWritersRecordsWithItOnAnotherNode) {
  TestDb test(SmallOptions());
  ASSERT_TRUE(test.Open().ok());
  for (int i = 0; i < 40; ++i) {
    const std::string key = "key" + std::to_string(100 + i);
    OnAThread([&] { return test->Put(key, key); });
  }
  OnAThread([&] { return test->Delete("key105"); });
  engine::WriteBatch batch;
  batch.Put("batch1", "1");
  batch.Put("batch2", "2");
  OnAThread([&] { return test->Write(batch); });
  test.fs().Restart(io::CrashKind::kMoved, 1);
  test.Close();
  ASSERT_NO_FATAL_FAILURE(Unfinish(test.fs(), "key139"));  // the last of its writer
  ASSERT_TRUE(test.Open().ok());
  Model found = AllOf(*test->NewIterator({}));
  EXPECT_EQ(found.size(), 40u) << "40 keys, one of them unfinished, one deleted, and the batch";
  EXPECT_FALSE(found.contains("key139"));
  EXPECT_FALSE(found.contains("key105")) << "a deleted key is back";
  EXPECT_TRUE(found.contains("batch1") && found.contains("batch2"));
  EXPECT_EQ(test->Statistics().recovered_holes, 1u);
  EXPECT_EQ(test->Statistics().recovered_torn_bytes, 0u);
  ASSERT_TRUE(test.Reopen().ok());
  EXPECT_EQ(AllOf(*test->NewIterator({})), found);
}

// Two batches meet in an empty MemTable. The keys of the second are too many beside those of the
// first, which are counted before they are stored: it closes the MemTable with nothing in it.
class CrashOfAnEmptyMemTable {
 public:
  CrashOfAnEmptyMemTable() : test_(Options()), faulty_(io::NewFaultFileSystem(test_.fs())) {
    test_.environment().fs = faulty_.get();
  }
  ~CrashOfAnEmptyMemTable() { test_.Close(); }

  // Dies after so many steps of the second batch. False: that one was stored by then.
  bool DieAfter(uint64_t steps) {
    EXPECT_TRUE(test_.Open().ok());
    std::atomic<bool> meets = false;
    faulty_->BeforeCalls(io::kFaultAllocate, [&](const std::string&) {
      if (meets.exchange(true)) return;
      test_.fs().CrashAfter(steps);
      std::jthread([&] {
        stored_ = test_->Write(BatchOf('b')).ok() && !test_.fs().crashed();
      }).join();
      test_.fs().CrashAfter(0);
    });
    static_cast<void>(test_->Write(BatchOf('a')));
    faulty_->BeforeCalls(0, {});
    EXPECT_TRUE(meets);
    return !stored_;
  }

  void ExpectWhatWasStored(io::CrashKind kind) {
    ASSERT_NO_FATAL_FAILURE(Restart(kind));
    Model found = AllOf(*test_->NewIterator({}));
    EXPECT_TRUE(found.size() == kKeys || (found.empty() && !stored_)) << found.size();
    ASSERT_TRUE(test_->Put("later", "1").ok());
    found["later"] = "1";
    ASSERT_NO_FATAL_FAILURE(Restart(kind));
    EXPECT_EQ(AllOf(*test_->NewIterator({})), found);
  }

 private:
  static constexpr size_t kKeys = 4000;

  // The first one asks for more room than a segment begins with.
  static std::string Value() { return std::string(40, 'v'); }
  static StorageOptions Options() {
    StorageOptions options = SmallOptions();
    options.memtable_bytes = 512 << 10;
    return options;
  }
  static engine::WriteBatch BatchOf(char prefix) {
    engine::WriteBatch batch;
    for (size_t i = 0; i < kKeys; ++i) batch.Put(prefix + std::to_string(i), Value());
    return batch;
  }
  void Restart(io::CrashKind kind) {
    test_.fs().Restart(kind, 1);
    test_.Close();
    const Status opened = test_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }

  TestDb test_;
  const std::unique_ptr<io::FaultFileSystem> faulty_;
  bool stored_ = false;
};

TEST(Crash, PairsBehindAMemTableThatWasClosedEmptySurvive) {
  for (const io::CrashKind kind : {io::CrashKind::kProcess, io::CrashKind::kMoved}) {
    bool early = true;
    for (uint64_t steps = 0; early; ++steps) {
      SCOPED_TRACE("crash " + std::to_string(static_cast<int>(kind)) + " after step " +
                   std::to_string(steps));
      CrashOfAnEmptyMemTable crash;
      early = crash.DieAfter(steps);
      crash.ExpectWhatWasStored(kind);
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST(Crash, AfterAPowerLossAPrefixIsThereWithEverythingThatWasSynced) {
  CrashManyLives({io::CrashKind::kPower, WalMode::kOn}, kShares.power);
}

TEST(Crash, WithTheLogSyncedAPowerLossTakesNothingAcknowledged) {
  CrashManyLives({io::CrashKind::kPower, WalMode::kSync}, kShares.synced);
}

TEST(Crash, ASyncReachesTheSegmentsThatWaitToBeFlushed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StorageOptions options = SmallOptions();
    options.flushing_queue_length = 4;
    TestDb test(options);
    ASSERT_TRUE(test.Open().ok());
    Model model;
    for (int i = 0; i < 800; ++i) {  // three MemTables, and no job that would flush one
      const std::string key = "key" + std::to_string(i);
      model[key] = std::string(200, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(test->Put(key, model[key]).ok());
    }
    ASSERT_TRUE(test->SyncLog().ok());
    ASSERT_EQ(test->Statistics().flush_count, 0u);
    test.fs().CrashAfter(0);
    test.fs().Restart(io::CrashKind::kPower, seed);
    test.Close();
    const Status opened = test.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    ASSERT_EQ(AllOf(*test->NewIterator({})), model) << "seed " << seed;
  }
}

// The lines about bytes that a recovery dropped.
class DropLines {
 public:
  DropLines() {
    SetLogSink([this](LogLevel, const std::string& line) {
      if (line.find("bytes are dropped") != std::string::npos) lines_.push_back(line);
    });
  }
  ~DropLines() { SetLogSink({}); }
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
};

// Segments behind the place where a power loss ended the log: what they hold counts neither at a
// later open nor in a repair, and is not reported again.
TEST(Crash, APowerLossCutsPairsOffForGood) {
  StorageOptions options = SmallOptions();
  options.flushing_queue_length = 4;
  for (const int torn : {0, 50}) {  // the first record, one in the middle
    SCOPED_TRACE(torn);
    DropLines said_of_drops;
    TestDb test(options);
    ASSERT_TRUE(test.Open().ok());
    for (int i = 0; i < 800; ++i) {  // three MemTables, and no job that would flush one
      ASSERT_TRUE(test->Put("key" + std::to_string(1000 + i), std::string(200, 'v')).ok());
    }
    const auto damage = [&test](const std::string& path, const std::string& key) {
      ASSERT_TRUE(test.fs().Damage(path, [&](std::string* bytes) {
                      const size_t at = bytes->find(key);
                      ASSERT_NE(at, std::string::npos);
                      (*bytes)[at] ^= 1;
                    }).ok());
    };
    test.fs().Restart(io::CrashKind::kMoved, 1);
    test.Close();
    damage("/db/log-0.seg", "key" + std::to_string(1000 + torn));
    ASSERT_TRUE(test.Open().ok());
    const Model found = AllOf(*test->NewIterator({}));
    EXPECT_EQ(found.size(), static_cast<size_t>(torn));
    const uint64_t dropped = test->Statistics().recovered_torn_bytes;
    EXPECT_NE(dropped, 0u);
    const std::vector<std::string> said = said_of_drops.Take();
    ASSERT_EQ(said.size(), 1u);
    EXPECT_NE(said[0].find("the log in /db lost records"), std::string::npos) << said[0];
    EXPECT_NE(said[0].find(" " + std::to_string(dropped) + " bytes"), std::string::npos) << said[0];
    ASSERT_TRUE(test->Put("later", "1").ok());
    ASSERT_TRUE(test->SyncLog().ok());

    test.fs().Restart(io::CrashKind::kProcess, 1);
    test.Close();
    ASSERT_TRUE(test.Open().ok());
    EXPECT_EQ(test->Statistics().recovered_torn_bytes, 0u) << "reported a second time";
    EXPECT_EQ(test->Statistics().recovered_holes, 0u);
    EXPECT_EQ(said_of_drops.Take().size(), 0u) << "logged a second time";
    EXPECT_EQ(AllOf(*test->NewIterator({})).size(), found.size() + 1);
    ASSERT_TRUE(test->Put("latest", "1").ok());

    test.fs().Restart(io::CrashKind::kProcess, 1);
    test.Close();
    const Manifest manifest = *ReadManifest(test.fs(), "/db");
    damage("/db/" + LogSegmentName(static_cast<int>(manifest.log_segments.front().pool_slot)),
           "later");
    EXPECT_EQ(test.Open().code(), Code::kCorruption);
    RepairOptions repair;
    repair.storage = options;
    repair.dry_run = false;
    repair.lost_directory = "/lost";
    ASSERT_TRUE(Repair(test.fs(), "/db", repair).ok());
    ASSERT_TRUE(test.Open().ok());
    Model rest = found;
    rest["latest"] = "1";
    EXPECT_EQ(AllOf(*test->NewIterator({})).size(), rest.size());
    EXPECT_EQ(GetText(test.db(), "key1799"), "<absent>") << "what was given up is back";
  }
}

TEST(Crash, APowerLossLeavesLargeValuesThatVerifyOnceTheyAreInTables) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    TestDb test(SmallOptions());
    ASSERT_TRUE(test.Open().ok());
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(test->Put("key" + std::to_string(i), std::string(700, 'v')).ok());
    }
    test.fs().CrashAfter(0);
    test.fs().Restart(io::CrashKind::kPower, seed);
    test.Close();
    test.fs().CrashAfter(UINT64_MAX);
    ASSERT_TRUE(test.Open().ok());
    ASSERT_TRUE(test->Flush().ok());
    test.Close();
    const auto found = Inspect(test.fs(), "/db", {test.options(), false, true, {}});
    ASSERT_TRUE(found.ok());
    for (const Finding& finding : found->findings) {
      FAIL() << "seed " << seed << ": " << finding.status.ToString();
    }
  }
}

TEST(Crash, WithoutALogAKillLeavesWhatWasFlushed) {
  CrashManyLives({io::CrashKind::kProcess, WalMode::kOff}, kShares.kill_without_log);
}

TEST(Crash, WithoutALogAPowerLossLeavesWhatWasFlushed) {
  CrashManyLives({io::CrashKind::kPower, WalMode::kOff}, kShares.power_without_log);
}

// Values of bytes that are 0 or 1, as masks are: in a segment that is used again, their remains
// look like headers of records of 64 KiB at every eighth byte.
TEST(DbMasks, APutSurvivesAKillWhateverTheSegmentHeldBefore) {
  constexpr uint64_t kLikeAHeader = 0x0001000100000000;
  std::string mask;
  while (mask.size() < 200) base::PutFixed(&mask, kLikeAHeader);
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 1 << 20;
  TestDb test(options);
  ASSERT_OK(test.Open());
  for (int round = 0; round < 12; ++round) {  // more than there are segments
    for (int i = 1000; i < 5000; ++i) ASSERT_OK(test->Put("mask" + std::to_string(i), mask));
    ASSERT_OK(test->Flush());
  }
  ASSERT_OK(test->Put("last", "there"));
  test.fs().Restart(io::CrashKind::kProcess, 1);
  test.Close();
  ASSERT_OK(test.Open());
  EXPECT_EQ(GetText(test.db(), "last"), "there");
}

}  // namespace
}  // namespace quire::lsm::db_crash_test
