// What is written to a checkpoint is not what arrives there: the checkpoint fails, and says so of
// the copy and not of the database, which is sound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "kv/persistence/checkpoint_files.h"
#include "kv/database/persistence_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::damaged_copy_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kRanks = 2;
constexpr int kKeys = 100;

std::string Value(int round, int i) {
  return std::string(i % 5 == 0 ? 900 : 30, static_cast<char>('a' + round)) + std::to_string(i);
}

void PutShare(Database& db, int rank, int round) {
  for (int i = rank; i < kKeys; i += kRanks) {
    ASSERT_OK(db.Put("key " + std::to_string(i), Value(round, i)));
  }
}

struct Damage {
  const char* name;
  const char* kind;  // of the file: how its name begins
  std::function<void(std::string*)> change;
  bool dead = false;  // of a value that nothing refers to
};

void Flip(std::string* bytes) {
  const size_t at = bytes->size() > 5000 ? 4096 + 60 : bytes->size() / 3;
  (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 4);
}
void Cut(std::string* bytes) {
  bytes->resize(bytes->size() / 2);
}

void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.name;
}

class DamagedCopies : public testing::TestWithParam<Damage> {
 protected:
  DamagedCopies() {
    SimCluster::Options options;
    options.rank_count = kRanks;
    options.file_system = [this](int rank) {
      return rank == 1 ? static_cast<io::FileSystem*>(watched_.get()) : &cluster_->disk(0);
    };
    cluster_ = std::make_unique<SimCluster>(options);
    watched_ = io::NewFaultFileSystem(cluster_->disk(0));
    watched_->BeforeCalls(io::kFaultOpen, [this](const std::string& path) { Meet(path); });
  }
  // A copy that is opened when it is written is opened to be verified.
  void Meet(const std::string& path) {
    if (!armed_ || path.rfind(kPart + GetParam().kind, 0) != 0) return;
    const auto bytes = io::ReadFile(cluster_->disk(0), path, 1 << 24);
    if (!bytes.ok() || bytes->empty()) return;
    armed_ = false;
    damaged_ = path;
    EXPECT_OK(cluster_->disk(0).Damage(path, GetParam().change));
  }
  std::vector<uint64_t> Complete() {
    std::vector<uint64_t> complete;
    const auto found = FindCheckpoints(cluster_->disk(0), "/pfs/db");
    EXPECT_OK(found.status());
    for (const CheckpointFound& one : *found) {
      if (one.state == CheckpointState::kComplete) complete.push_back(one.number);
    }
    return complete;
  }
  void ExpectRestart(uint64_t number, int round) {
    cluster_->Run([&](int rank, Context& context) {
      ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = number, .replace = true})));
      auto db = context.Open("db", Existing());
      ASSERT_OK(db.status());
      for (int i = rank; i < kKeys; i += kRanks) {
        EXPECT_EQ(SimCluster::ValueOf(**db, "key " + std::to_string(i)), Value(round, i)) << i;
      }
      ASSERT_OK((*db)->Close());
    });
  }

  const std::string kPart = "/pfs/db/.partial-2/rank-1/";
  std::unique_ptr<SimCluster> cluster_;
  std::unique_ptr<io::FaultFileSystem> watched_;
  std::atomic<bool> armed_{false};
  std::string damaged_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedCopies,
                         testing::Values(Damage{"Table", "t-", Flip}, Damage{"TableCut", "t-", Cut},
                                         Damage{"Values", "val-", Flip},
                                         Damage{"ValuesCut", "val-", Cut},
                                         Damage{"DeadValue", "val-", Flip, true}),
                         [](const auto& damage) { return damage.param.name; });

TEST_P(DamagedCopies, FailTheCheckpointAndTheDatabaseIsNotToBlame) {
  DatabaseOptions options = SimCluster::SmallDatabase();
  options.storage.value_separation_bytes_min = 256;
  Status told[kRanks];
  cluster_->RunDatabase(options, [&](int rank, Context& context, Database& db) {
    PutShare(db, rank, 0);
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 1})));
    // The first values of the next segment are dead before it is sealed.
    for (int round = GetParam().dead ? 2 : 1; round >= 1; --round) {
      PutShare(db, rank, round);
      ASSERT_OK(db.Barrier(Level::kSsTable));
    }
    ASSERT_OK(db.Compact());
    ASSERT_OK(context.Barrier());
    if (rank == 1) armed_ = true;
    told[rank] = WaitFor(db.Checkpoint("/pfs", {.keep = 1}));
    if (rank == 0) {
      EXPECT_EQ(Complete(), std::vector<uint64_t>{1});
    }
    ASSERT_OK(context.Barrier());
    ASSERT_OK(WaitFor(db.Checkpoint("/pfs", {.keep = 2})));
    ASSERT_OK(db.Close());
  });
  ASSERT_NE(damaged_, "");
  EXPECT_EQ(told[0].ToString(), told[1].ToString());
  EXPECT_EQ(told[0].code(), Code::kCorruption) << told[0].ToString();
  EXPECT_THAT(std::string(told[0].message()),
              AllOf(HasSubstr("rank 1: " + damaged_ + " is not what was written"),
                    HasSubstr("take another"), Not(HasSubstr("repair"))));
  EXPECT_EQ(Complete(), (std::vector<uint64_t>{1, 3}));
  ExpectRestart(1, 0);
  ExpectRestart(3, 1);
}

}  // namespace
}  // namespace quire::kv::damaged_copy_test
