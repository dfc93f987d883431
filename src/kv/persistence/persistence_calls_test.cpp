// Checkpoints, restarts and redistributions in which one call on files fails: any call of any rank,
// alone or with all later ones. All ranks receive the same error, with file and rank; what was
// there before stays whole; and a second attempt succeeds. Above a certain number only some calls
// are tried, more of them with QUIRE_TEST_SCALE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kv/protocol/descriptor.h"
#include "kv/database/persistence_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::kv::persistence_calls_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using Files = std::map<std::string, std::string>;

constexpr int kKeys = 12;
constexpr int kRanksMax = 4;
// Calls that are tried one after another, before they are tried ever more sparsely: for long lives
// and for short ones.
constexpr int kSampled = 6;
constexpr int kSampledOfRestarts = 20;
constexpr char kRepository[] = "/repository";

std::string KeyOf(int i) {
  return "key " + std::to_string(i);
}

std::string ValueFor(int round, int i) {
  return std::string(i % 4 == 0 ? 900 : 20, static_cast<char>('a' + round)) + std::to_string(i);
}

enum class Deed {
  kCheckpoint,  // the second of a database
  kRestart,     // replaces a database, or makes one if there is none
  kOpen,        // by other ranks, until all pairs have moved
  kGoOn,        // a checkpoint of a database whose pairs have not moved yet
};

// What is done by `ranks` with what `wrote` ranks have left.
struct Way {
  friend void PrintTo(const Way& way, std::ostream* to) { *to << way.name; }

  const char* name;
  Deed deed;
  int wrote = 2;
  int ranks = 2;
  bool own_disks = false;
  bool in_place = false;  // the restart, or what is opened
  bool replace = false;
  bool threads = false;  // not by turns
};

// Which calls fail.
struct Fault {
  uint32_t ops = io::kFaultAll;
  Code code = Code::kIo;
  int rank = 0;
  uint64_t count = 1;
  uint64_t first = 1;
  uint64_t room = UINT64_MAX;  // less: no call fails that has it
};

// One life of a repository, in which `fault` falls on one deed.
class FaultyDeed {
 public:
  FaultyDeed(const Way& way, const Fault& fault, uint64_t seed)
      : way_(way), fault_(fault), seed_(seed * 16), told_(static_cast<size_t>(way.ranks)) {
    for (int rank = 0; rank < (way.own_disks ? kRanksMax : 1); ++rank) {
      disks_.push_back(io::NewSimFileSystem());
    }
    for (int rank = 0; rank < kRanksMax; ++rank) {
      faults_.push_back(io::NewFaultFileSystem(DiskOf(rank)));
    }
  }

  // Returns false if no call failed, because there were fewer.
  bool Run() {
    Begin();
    if (testing::Test::HasFailure()) return false;
    RunJob(way_.ranks, [&](int rank, Context& context) {
      if (checkpoints()) {
        CheckpointFaulty(rank, context);
      } else {
        DoFaulty(rank, context, [&] { return Do(context); });
        if (again_in_same_job()) DoAgain(context);
      }
    });
    if (testing::Test::HasFailure()) return false;
    ExpectTold();
    if (way_.deed == Deed::kOpen && fault_.first % 3 == 0) ExpectThoseOfBefore();
    RunJob(way_.ranks, [&](int rank, Context& context) {
      if (!again_in_same_job()) DoAgain(context);
      ASSERT_OK(context.Barrier());
      ExpectWhole(rank, context);
    });
    for (const auto& disk : disks_) {
      EXPECT_FALSE(*disk->Exists(std::string(kRepository) + "/db"));
    }
    return failures_ > 0 && !testing::Test::HasFailure();
  }

 private:
  io::SimFileSystem& DiskOf(int rank) {
    return *disks_[way_.own_disks ? static_cast<size_t>(rank) : 0];
  }
  bool again_in_same_job() const { return fault_.first % 2 == 0; }
  bool checkpoints() const { return way_.deed == Deed::kCheckpoint || way_.deed == Deed::kGoOn; }
  bool failed() const { return !told_[0].ok(); }

  void RunJob(int size, const SimCluster::Program& program) {
    SimCluster::Options options;
    options.rank_count = size;
    options.seed = ++seed_;
    options.own_disks = way_.own_disks;
    options.deterministic = !way_.threads;
    options.repository = kRepository;
    options.file_system = [this](int rank) { return faults_[static_cast<size_t>(rank)].get(); };
    SimCluster(options).Run(program);
  }

  static void PutShare(Database& db, int rank, int size, int round) {
    for (int i = rank; i < kKeys; i += size) ASSERT_OK(db.Put(KeyOf(i), ValueFor(round, i)));
  }
  static void ExpectAll(Database& db, int round) {
    for (int i = 0; i < kKeys; ++i) {
      ASSERT_EQ(SimCluster::ValueOf(db, KeyOf(i)), ValueFor(round, i)) << KeyOf(i);
    }
  }
  // Checkpoint 1 in /pfs is of round 0, and so is what is to be opened; what is to be replaced is
  // of round 2.
  void Begin() {
    RunJob(way_.wrote, [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      PutShare(**db, rank, way_.wrote, 0);
      if (!way_.own_disks) ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      if (way_.replace) PutShare(**db, rank, way_.wrote, 2);
      ASSERT_OK((*db)->Close());
      const bool from_checkpoint = way_.deed == Deed::kRestart || way_.in_place;
      if (from_checkpoint && !way_.replace) ASSERT_OK(context.Destroy("db"));
      if (way_.deed == Deed::kRestart || !way_.in_place) return;
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.in_place = true})));
    });
    if (!way_.own_disks) checkpoint_ = Tree("/pfs/db/1");
  }

  Status Do(Context& context) {
    if (way_.deed == Deed::kRestart) {
      return WaitFor(
          context.Restart("/pfs", "db", {.in_place = way_.in_place, .replace = way_.replace}));
    }
    DatabaseOptions options = Existing(true);
    options.force_redistribute = way_.wrote == way_.ranks;
    auto db = context.Open("db", options);
    return db.ok() ? (*db)->Close() : db.status();
  }

  void DoFaulty(int rank, Context& context, const std::function<Status()>& deed) {
    io::FaultFileSystem& fs = *faults_[static_cast<size_t>(rank)];
    ASSERT_OK(context.Barrier());
    const bool full = fault_.room != UINT64_MAX;
    if (rank == fault_.rank) {
      if (!full) fs.FailAt(fault_.ops, fault_.first, fault_.count, fault_.code);
      DiskOf(rank).SetFreeBytes(fault_.room);
    }
    Status& told = told_[static_cast<size_t>(rank)];
    told = deed();
    ASSERT_OK(context.Barrier());
    if (rank == fault_.rank) {
      failures_ = full && !told.ok() ? 1 : fs.failures();
      fs.FailAt(0, 1, 0, Code::kOk);
      DiskOf(rank).SetFreeBytes(UINT64_MAX);
    }
    ASSERT_OK(context.Barrier());
  }

  // The database goes on, or where its own files failed can be read, and be opened again.
  void CheckpointFaulty(int rank, Context& context) {
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    PutShare(**db, rank, way_.ranks, 1);
    ASSERT_OK((*db)->Barrier(Level::kMemTable));
    DoFaulty(rank, context, [&] { return WaitFor((*db)->Checkpoint("/pfs", {})); });
    ExpectAll(**db, 1);
    const Status flushed = (*db)->Barrier(Level::kSsTable);
    if (flushed.ok()) {
      if (again_in_same_job()) ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      ASSERT_OK((*db)->Close());
    } else {
      EXPECT_GT(failures_, 0u);
      EXPECT_EQ(flushed.code(), Code::kReadOnly) << flushed.ToString();
      EXPECT_EQ((*db)->Close().code(), Code::kReadOnly);
      if (again_in_same_job()) DoAgain(context);
    }
  }

  void ExpectTold() {
    for (const Status& told : told_) EXPECT_EQ(told.ToString(), told_[0].ToString());
    if (!failed()) return;
    EXPECT_GT(failures_, 0u);
    // If a full device makes an outcome unknown, the error is that of a failed device.
    EXPECT_THAT(told_[0].code(), AnyOf(fault_.code, Code::kIo, Code::kReadOnly));
    if (way_.ranks > 1) {  // else there is no other that it could have been
      EXPECT_THAT(told_[0].message(), HasSubstr("rank " + std::to_string(fault_.rank) + ": "));
    }
    EXPECT_THAT(told_[0].message(), HasSubstr(" /")) << "no file";
  }

  // The number of ranks that wrote the database can open it again. On disks of their own they can
  // do so only until all pairs have moved.
  void ExpectThoseOfBefore() {
    const auto descriptor = ReadDescriptor(*disks_[0], std::string(kRepository) + "/db");
    ASSERT_OK(descriptor.status());
    if (way_.own_disks && descriptor->generations.size() == 1 &&
        descriptor->generations[0].number > 1) {
      return;
    }
    RunJob(way_.wrote, [](int, Context& context) {
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      ExpectAll(**db, 0);
      ASSERT_OK((*db)->Close());
    });
  }

  void DoAgain(Context& context) {
    if (checkpoints()) {
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      ExpectAll(**db, 1);
      ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      ASSERT_OK((*db)->Close());
      return;
    }
    if (way_.deed == Deed::kRestart) return RestartAgain(context);
    ASSERT_OK(Do(context));
  }

  // Until a restart has ended well, what it is to replace stays. One for good may not have been
  // taken back: then it is whole.
  void RestartAgain(Context& context) {
    auto found = context.Open("db", Existing());
    ASSERT_OK(context.Barrier());
    const bool there = found.ok();
    if (!there) {
      EXPECT_TRUE(failed() && !way_.replace) << found.status().ToString();
      EXPECT_EQ(found.status().code(), Code::kNotFound) << found.status().ToString();
    } else {
      const bool stuck =
          fault_.count > 1 && SimCluster::ValueOf(**found, KeyOf(0)) == ValueFor(0, 0);
      ASSERT_TRUE(!failed() || way_.replace || stuck) << told_[0].ToString();
      ExpectAll(**found, way_.replace && failed() && !stuck ? 2 : 0);
      ASSERT_OK(context.Barrier());
      ASSERT_OK((*found)->Close());
    }
    if (!there || way_.replace) ASSERT_OK(Do(context));
  }

  // The present database can be read, written and removed; the earlier checkpoint is unchanged.
  void ExpectWhole(int rank, Context& context) {
    auto db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    ExpectAll(**db, checkpoints() ? 1 : 0);
    ASSERT_OK(context.Barrier());
    PutShare(**db, rank, way_.ranks, 3);
    ASSERT_OK((*db)->Barrier(Level::kSsTable));
    ExpectAll(**db, 3);
    ASSERT_OK((*db)->Close());
    ASSERT_OK(context.Destroy("db"));
    if (way_.own_disks) return;
    if (rank == 0) {
      EXPECT_TRUE(Tree("/pfs/db/1") == checkpoint_);
    }
    if (!checkpoints()) return;
    const uint64_t number = seed_ / 16 % 2;  // 0: the newest
    ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = number})));
    db = context.Open("db", Existing());
    ASSERT_OK(db.status());
    ExpectAll(**db, number == 0 ? 1 : 0);
    ASSERT_OK((*db)->Close());
    ASSERT_OK(context.Destroy("db"));
  }

  // Every file below, with what it holds.
  void AddTree(const std::string& directory, Files* tree) {
    const auto entries = DiskOf(0).List(directory);
    ASSERT_OK(entries.status());
    for (const io::FileInfo& entry : *entries) {
      const std::string path = directory + "/" + entry.name;
      if (entry.is_directory) {
        AddTree(path, tree);
        continue;
      }
      const auto content = io::ReadFile(DiskOf(0), path, 1 << 24);
      ASSERT_OK(content.status());
      (*tree)[path] = *content;
    }
  }
  Files Tree(const std::string& directory) {
    Files tree;
    AddTree(directory, &tree);
    tree.erase(directory + "/LOCK");
    return tree;
  }

  const Way way_;
  const Fault fault_;
  uint64_t seed_;
  std::vector<std::unique_ptr<io::SimFileSystem>> disks_;
  std::vector<std::unique_ptr<io::FaultFileSystem>> faults_;
  std::vector<Status> told_;  // by rank
  uint64_t failures_ = 0;
  Files checkpoint_;
};

class EveryCall : public testing::TestWithParam<Way> {
 protected:
  // Over the calls of `ops`, first one, then all later ones too; on each rank.
  void Sweep(uint32_t ops, Code code) {
    const Way& way = GetParam();
    const bool brief = way.deed == Deed::kRestart && way.ranks < 3;
    const int usual = brief ? kSampledOfRestarts : way.ranks > 3 ? kSampled / 2 : kSampled;
    const auto sampled = static_cast<uint64_t>(test::ScaledCount(way.threads ? 1 : usual));
    uint64_t most = 0;
    Fault fault{.ops = ops, .code = code};
    for (fault.rank = 0; fault.rank < way.ranks; ++fault.rank) {
      for (const uint64_t count : {uint64_t{1}, UINT64_MAX}) {
        fault.count = count;
        // Not the same ones on all ranks.
        const uint64_t phase = static_cast<uint64_t>(fault.rank) * 2 + (count == 1 ? 0 : 1);
        fault.first = 1;
        while (FaultyDeed(way, fault, ++lives_).Run()) {
          fault.first += 1 + (fault.first + phase) / sampled;
        }
        ASSERT_FALSE(HasFailure())
            << "rank " << fault.rank << ", call " << fault.first
            << (count == 1 ? " alone" : " and all later ones") << ", life " << lives_;
        most = std::max(most, fault.first);
      }
    }
    EXPECT_GT(most, 12u);
  }

  uint64_t lives_ = test::FirstSeed() - 1;
};

std::string NameOf(const testing::TestParamInfo<Way>& way) {
  return way.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Of, EveryCall,
    testing::Values(
        Way{.name = "ACheckpoint", .deed = Deed::kCheckpoint},
        Way{.name = "ACheckpointByOneRank", .deed = Deed::kCheckpoint, .wrote = 1, .ranks = 1},
        Way{.name = "ACheckpointByFourRanks", .deed = Deed::kCheckpoint, .wrote = 4, .ranks = 4},
        Way{.name = "ACheckpointByOtherRanks", .deed = Deed::kGoOn, .wrote = 3},
        Way{.name = "ARestart", .deed = Deed::kRestart},
        Way{.name = "ARestartByOneRank", .deed = Deed::kRestart, .ranks = 1},
        Way{.name = "ARestartByMoreRanks", .deed = Deed::kRestart, .ranks = 3},
        Way{.name = "ARestartByFewerRanks", .deed = Deed::kRestart, .wrote = 3},
        Way{.name = "ARestartInPlace", .deed = Deed::kRestart, .in_place = true},
        Way{.name = "AReplacement", .deed = Deed::kRestart, .replace = true},
        Way{.name = "AReplacementByMoreRanks", .deed = Deed::kRestart, .ranks = 3, .replace = true},
        Way{.name = "AReplacementInPlace",
            .deed = Deed::kRestart,
            .in_place = true,
            .replace = true},
        Way{.name = "AnOpenByMoreRanks", .deed = Deed::kOpen, .ranks = 3},
        Way{.name = "AnOpenByFourRanks", .deed = Deed::kOpen, .wrote = 3, .ranks = 4},
        Way{.name = "AnOpenByFewerRanks", .deed = Deed::kOpen, .wrote = 3},
        Way{.name = "AnOpenByOneRank", .deed = Deed::kOpen, .ranks = 1},
        Way{.name = "AForcedRedistribution", .deed = Deed::kOpen},
        Way{.name = "AnOpenOnOwnDisks", .deed = Deed::kOpen, .ranks = 3, .own_disks = true},
        Way{.name = "AForcedRedistributionOnOwnDisks", .deed = Deed::kOpen, .own_disks = true},
        Way{.name = "AnOpenInPlaceOfACheckpoint",
            .deed = Deed::kOpen,
            .wrote = 3,
            .in_place = true}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    ByThreadsOf, EveryCall,
    testing::Values(
        Way{.name = "ACheckpointByOtherRanks", .deed = Deed::kGoOn, .wrote = 3, .threads = true},
        Way{.name = "AReplacement", .deed = Deed::kRestart, .replace = true, .threads = true},
        Way{.name = "AForcedRedistributionOnOwnDisks",
            .deed = Deed::kOpen,
            .own_disks = true,
            .threads = true}),
    NameOf);

TEST_P(EveryCall, AFailingCallIsReportedAlikeOnAllRanksAndARetrySucceeds) {
  Sweep(io::kFaultAll, Code::kIo);
}

// Beyond those of persistence_faults_test.cpp.
class EveryCallForRoom : public EveryCall {};

INSTANTIATE_TEST_SUITE_P(
    Of, EveryCallForRoom,
    testing::Values(
        Way{.name = "ACheckpointByOtherRanks", .deed = Deed::kGoOn, .wrote = 3},
        Way{.name = "AReplacementByMoreRanks", .deed = Deed::kRestart, .ranks = 3, .replace = true},
        Way{.name = "AForcedRedistribution", .deed = Deed::kOpen},
        Way{.name = "AnOpenOnOwnDisks", .deed = Deed::kOpen, .ranks = 3, .own_disks = true},
        Way{.name = "AForcedRedistributionOnOwnDisks", .deed = Deed::kOpen, .own_disks = true}),
    NameOf);

TEST_P(EveryCallForRoom, ACallWithoutRoomIsReportedAlikeOnAllRanksAndARetrySucceeds) {
  Sweep(
      io::kFaultWrite | io::kFaultAllocate | io::kFaultRename | io::kFaultWritable | io::kFaultSync,
      Code::kNoSpace);
}

// As of EveryCallForRoom: a few of the deeds.
class EveryFile : public EveryCall {};

INSTANTIATE_TEST_SUITE_P(
    Of, EveryFile,
    testing::Values(
        Way{.name = "ACheckpointByOtherRanks", .deed = Deed::kGoOn, .wrote = 3},
        Way{.name = "AReplacementByMoreRanks", .deed = Deed::kRestart, .ranks = 3, .replace = true},
        Way{.name = "AForcedRedistribution", .deed = Deed::kOpen},
        Way{.name = "AnOpenOnOwnDisks", .deed = Deed::kOpen, .ranks = 3, .own_disks = true}),
    NameOf);

TEST_P(EveryFile, AnUnusableFileIsReportedAlikeOnAllRanksAndARetrySucceeds) {
  Sweep(io::kFaultOpen | io::kFaultMap, Code::kOutOfMemory);
}

// A disk of a rank's own that is full earlier or later, until what is left on it is enough.
class LittleRoom : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(
    For, LittleRoom,
    testing::Values(
        Way{.name = "AnOpenOnOwnDisks", .deed = Deed::kOpen, .ranks = 3, .own_disks = true},
        Way{.name = "AForcedRedistributionOnOwnDisks", .deed = Deed::kOpen, .own_disks = true}),
    NameOf);

TEST_P(LittleRoom, IsReportedAlikeOnAllRanksAndARetryWithMoreRoomSucceeds) {
  uint64_t lives = test::FirstSeed() - 1;
  Fault fault{.code = Code::kNoSpace};
  for (fault.rank = 0; fault.rank < GetParam().ranks; ++fault.rank) {
    fault.room = 0;
    for (fault.first = 1; FaultyDeed(GetParam(), fault, ++lives).Run(); ++fault.first) {
      fault.room += fault.room / 2 + 100;
    }
    ASSERT_FALSE(HasFailure()) << "rank " << fault.rank << ", " << fault.room << " bytes";
    EXPECT_GT(fault.first, 10u);
  }
}

}  // namespace
}  // namespace quire::kv::persistence_calls_test
