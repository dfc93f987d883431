// Checkpoint, restart and redistribution with a crash at any point: any subset of ranks dies, or
// the machine goes down, at any step. The database is whole afterwards, old or new, and the same
// for every number of ranks. Either all files are on one disk that ranks share, or only checkpoints
// are, as on a cluster whose nodes have disks of their own.
//
// QUIRE_PERSISTENCE_CRASH_POINTS sets how many points (default 2000, over all tests here). Jobs
// that end before their point comes do not count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "kv/database/cut_jobs_testing.h"
#include "kv/database/persistence_testing.h"
#include "kv/database/rounds_testing.h"
#include "kv/persistence/checkpoint_files.h"
#include "kv/protocol/descriptor.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::kv::persistence_crash_test {
namespace {

// Ranks that write at first; as many for most lives as are worth their time.
constexpr int kSizeMax = 4;
constexpr int kSizes[] = {1, 1, 2, 2, 2, 2, 3, 3, kSizeMax};

enum class Phase { kCheckpoint, kRestart, kRedistribute };

// One life of a repository, cut off at one point.
class Life {
 public:
  Life(Phase phase, uint64_t seed)
      : phase_(phase),
        random_(seed),
        size_(kSizes[random_.Below(std::size(kSizes))]),
        replaces_(phase == Phase::kRestart && random_.OneIn(3)),
        repository_(phase == Phase::kRestart && !replaces_ ? "/other" : kRepository),
        jobs_(seed, random_.OneIn(phase == Phase::kRedistribute ? 3 : 4) ? 2 * kSizeMax + 1 : 0) {}

  void Run() {
    Begin();
    if (testing::Test::HasFailure()) return;
    CutOff();
    // What is there after one crash may be cut off once more.
    if (cut() && random_.OneIn(4)) CutOff();
    const bool nodes_replaced = cut() && jobs_.own_disks() && random_.OneIn(3);
    if (nodes_replaced) jobs_.ReplaceDisks(Widest());
    if (phase_ == Phase::kCheckpoint) return ExpectCheckpoints();
    nodes_replaced ? ExpectBroughtBack() : ExpectDatabase();
    if (nodes_replaced || phase_ == Phase::kRestart) ExpectCheckpoint(1, SomeSize());
  }

  bool cut() const { return jobs_.cut(); }
  bool cut_on_own_disks() const { return cut() && jobs_.own_disks(); }
  std::string Describe() const {
    return std::to_string(size_) + " ranks" + (replaces_ ? ", replaced" : "") + jobs_.description();
  }

 private:
  static constexpr char kRepository[] = "/repository";

  // A database with the first model, checkpointed, closed. One that is to be replaced has the
  // second model.
  void Begin() {
    jobs_.Run(size_, kRepository, [&](int rank, Context& context) {
      auto db = context.Open("db", SimCluster::SmallDatabase());
      ASSERT_OK(db.status());
      ASSERT_TRUE(Write(**db, rank, size_, 0));
      ASSERT_OK(WaitFor((*db)->Checkpoint("/pfs", {})));
      ASSERT_TRUE(!replaces_ || Write(**db, rank, size_, 1));
      ASSERT_OK((*db)->Close());
    });
  }

  void CutOff() {
    cut_size_ = SizeToCut();
    widest_cut_ = std::max(widest_cut_, cut_size_);
    durable_ = false;
    wrote_all_ = true;
    jobs_.RunCut(cut_size_, repository_,
                 [this](int rank, Context& context) { RunPhase(rank, context); });
    written_ = written_ || (durable_ && wrote_all_);
  }

  int SizeToCut() {
    if (phase_ == Phase::kCheckpoint) return size_;
    return phase_ == Phase::kRedistribute ? SizesThatSeeAll()[0] : SomeSize();
  }

  void RunPhase(int rank, Context& context) {
    switch (phase_) {
      case Phase::kCheckpoint:
        return Checkpoint(rank, context);
      case Phase::kRestart:
        return Restart(rank, context);
      case Phase::kRedistribute:
        told_ = true;
        return WriteOn(context.Open("db", Existing(redistribute_)), rank);
    }
  }

  void Checkpoint(int rank, Context& context) {
    auto db = context.Open("db", SimCluster::SmallDatabase());
    if (!db.ok()) return;
    static_cast<void>(Write(**db, rank, size_, 1));  // what counts is what a checkpoint has
    if (WaitFor((*db)->Checkpoint("/pfs", {.keep = keep_})).ok()) told_ = true;
    static_cast<void>((*db)->Close());
  }

  // Some number of ranks brings the checkpoint back, into another repository or over the database.
  void Restart(int rank, Context& context) {
    const RestartOptions options{.in_place = in_place_, .replace = replaces_};
    if (!WaitFor(context.Restart("/pfs", "db", options)).ok()) return;
    told_ = true;
    auto db = context.Open("db", Existing(redistribute_));
    if (!replaces_) WriteOn(std::move(db), rank);
  }

  // Overwrites, deletes and new keys in the generation that has just begun.
  void WriteOn(Result<std::unique_ptr<Database>> db, int rank) {
    if (!db.ok()) return;
    if (!Write(**db, rank, cut_size_, 1)) wrote_all_ = false;
    if ((*db)->Barrier(Level::kSsTable).ok()) durable_ = true;
    static_cast<void>((*db)->Close());
  }

  // 1, N-1, N, N+1 and 2N, in some order.
  std::vector<int> Sizes() {
    const std::set<int> all{std::max(1, size_ - 1), 1, size_, size_ + 1, 2 * size_};
    std::vector<int> sizes(all.begin(), all.end());
    for (size_t i = sizes.size(); i > 1; --i) std::swap(sizes[i - 1], sizes[random_.Below(i)]);
    return sizes;
  }
  int SomeSize() { return Sizes()[0]; }
  // Returns one of the sizes if nothing was cut off, else all.
  std::vector<int> Checked(std::vector<int> sizes) const {
    if (!cut()) sizes.resize(1);
    return sizes;
  }

  // The ranks on whose disks there may be something of the database.
  int Widest() const {
    const bool was_there = phase_ != Phase::kRestart || replaces_;
    return std::max(widest_cut_, was_there ? size_ : 1);
  }
  // If storage is not shared, ranks that have begun beside parts elsewhere move those first.
  std::vector<int> SizesBegun() {
    const auto descriptor = ReadDescriptor(jobs_.disk(0), repository_ + "/db");
    if (!descriptor.ok() || descriptor->generations.size() < 2) return {};
    return {descriptor->generations[0].rank_count};
  }
  // On disks of their own those that see all parts, wherever the pairs have got to, one after
  // another.
  std::vector<int> SizesThatSeeAll() {
    if (!jobs_.own_disks()) return Sizes();
    const int least = Widest();
    std::vector<int> sizes{least};
    if (least <= 2 * size_) sizes.push_back(least + 1);
    if (2 * size_ > least + 1) sizes.push_back(2 * size_);
    sizes.erase(sizes.begin(), sizes.begin() + static_cast<int>(random_.Below(sizes.size())));
    const std::vector<int> begun = SizesBegun();
    sizes.insert(sizes.begin(), begun.begin(), begun.end());
    return sizes;
  }

  // All pairs, from the walks of all ranks.
  static void Collect(Database& db, std::mutex* mutex, Model* all) {
    const auto iterator = db.NewLocalIterator();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      const std::lock_guard<std::mutex> lock(*mutex);
      EXPECT_TRUE(all->emplace(iterator->key(), iterator->value()).second);
    }
    EXPECT_OK(iterator->status());
  }

  // Returns the pairs that `size` ranks find. If there may be no database, they restore it from its
  // checkpoint.
  Model ContentOn(int size, const std::string& repository, bool may_be_absent,
                  uint64_t checkpoint = 0) {
    Model all;
    std::mutex mutex;
    jobs_.Run(size, repository, [&](int, Context& context) {
      auto db = context.Open("db", Existing(jobs_.own_disks()));
      if (may_be_absent && db.status().code() == Code::kNotFound) {
        ASSERT_OK(WaitFor(context.Restart("/pfs", "db", {.number = checkpoint})));
        db = context.Open("db", Existing(jobs_.own_disks()));
      }
      ASSERT_OK(db.status());
      Collect(**db, &mutex, &all);
      ASSERT_OK((*db)->Close());
    });
    return all;
  }

  void ExpectCheckpoint(uint64_t number, int size) {
    const std::string name = std::to_string(number) + " on " + std::to_string(size);
    ASSERT_EQ(ContentOn(size, "/restarted " + name, true, number), ModelOf(number == 1 ? 0 : 1))
        << "checkpoint " << name << " ranks";
  }

  // Each that is there is whole, the first one unless it was not to be kept.
  void ExpectCheckpoints() {
    std::vector<uint64_t> complete;
    for (const CheckpointFound& one : *FindCheckpoints(jobs_.shared_disk(), "/pfs/db")) {
      ASSERT_NE(one.state, CheckpointState::kPartial) << "its writer is gone";
      if (one.state == CheckpointState::kComplete) complete.push_back(one.number);
    }
    ASSERT_FALSE(complete.empty());
    ASSERT_TRUE(complete.back() > 1 || !told_) << "the new one was told to be complete";
    ASSERT_TRUE(complete.front() == 1 || keep_ != 0) << "the old one is gone";
    for (const int size : Checked(Sizes())) {
      ASSERT_NO_FATAL_FAILURE(ExpectCheckpoint(complete.back(), size));
    }
    complete.pop_back();
    for (const uint64_t number : complete) {
      ASSERT_NO_FATAL_FAILURE(ExpectCheckpoint(number, SomeSize()));
    }
  }

  // The database is there with all its pairs, or it can be restored (after a restart whose end no
  // call reported). Each number of ranks finds the same pairs.
  void ExpectDatabase() {
    std::optional<Model> first;
    for (const int size : Checked(SizesThatSeeAll())) {
      const Model all = ContentOn(size, repository_, !told_ && !replaces_ && !first);
      if (!first) ExpectOldOrNew(*(first = all));
      ASSERT_EQ(all, *first) << size << " ranks";
      ASSERT_NO_FATAL_FAILURE(ExpectNothingElse(size)) << size << " ranks";
    }
  }

  // Some disks are lost, and with them the database. Its checkpoint replaces what the others have
  // of it; unless they have parts of which rank 0 knows nothing: those count for nothing.
  void ExpectBroughtBack() {
    const bool refused = !ReadDescriptor(jobs_.disk(0), repository_ + "/db").ok();
    bool in_the_way = false;
    const int size = SizesThatSeeAll()[0];
    jobs_.Run(size, repository_, [&](int rank, Context& context) {
      const Status status = WaitFor(context.Restart("/pfs", "db", {.number = 1, .replace = true}));
      if (refused && status.code() == Code::kCorruption) {
        if (rank == 0) in_the_way = true;
        return;
      }
      ASSERT_OK(status);
    });
    if (in_the_way) return;
    ASSERT_EQ(ContentOn(size, repository_, false), ModelOf(0)) << size << " ranks";
    ASSERT_NO_FATAL_FAILURE(ExpectNothingElse(size));
  }

  void ExpectOldOrNew(const Model& all) {
    if (!replaces_) return ExpectRoundOfEachKey(all, written_);
    EXPECT_TRUE(all == ModelOf(0) || (!told_ && all == ModelOf(1)))
        << "neither what is replaced nor the new one";
  }

  // Only what the descriptor names is there, on the disks that so many ranks see.
  void ExpectNothingElse(int size) {
    const std::string directory = repository_ + "/db";
    const auto descriptor = ReadDescriptor(jobs_.disk(0), directory);
    ASSERT_OK(descriptor.status());
    std::set<std::string> named;
    for (const Generation& generation : descriptor->generations) {
      named.insert(kGenerationDirectoryPrefix + std::to_string(generation.number));
    }
    for (int rank = 0; rank < (jobs_.own_disks() ? size : 1); ++rank) {
      const auto entries = jobs_.disk(rank).List(directory);
      if (!entries.ok()) continue;  // a disk that no rank used
      for (const io::FileInfo& entry : *entries) {
        if (!entry.is_directory || named.contains(entry.name)) continue;
        ADD_FAILURE() << entry.name << " is left on disk " << rank << ", with "
                      << jobs_.disk(rank).List(directory + "/" + entry.name)->size() << " parts; "
                      << EncodeDescriptor(*descriptor);
      }
    }
  }

  const Phase phase_;
  base::Random random_;
  const int size_;
  const bool replaces_;  // the restart, a database that is there
  const std::string repository_;
  const int keep_ = static_cast<int>(random_.Below(3));
  const bool in_place_ = random_.OneIn(3);
  const bool redistribute_ = random_.OneIn(2);
  CutJobs jobs_;
  int cut_size_ = 0;
  int widest_cut_ = 0;
  std::atomic<bool> told_{false};
  std::atomic<bool> wrote_all_{true};  // in this job
  std::atomic<bool> durable_{false};   // what it wrote
  bool written_ = false;               // by one of the jobs: all of it, durable
};

constexpr int64_t kPhases = 3;

class PersistenceCrash : public testing::TestWithParam<Phase> {};

INSTANTIATE_TEST_SUITE_P(Phases, PersistenceCrash,
                         testing::Values(Phase::kCheckpoint, Phase::kRestart, Phase::kRedistribute),
                         [](const auto& phase) {
                           return phase.param == Phase::kCheckpoint ? "Checkpoint"
                                  : phase.param == Phase::kRestart  ? "Restart"
                                                                    : "Redistribute";
                         });

TEST_P(PersistenceCrash, LeavesTheOldOrTheNewWholeForEveryNumberOfRanks) {
  const int64_t asked = test::ScaledCount("QUIRE_PERSISTENCE_CRASH_POINTS", 2000);
  const int64_t wanted = (asked + kPhases - 1) / kPhases;
  int64_t points = 0;
  int64_t own_disks = 0;
  int64_t lives = 0;
  for (; points < wanted; ++lives) {
    const auto seed = static_cast<uint64_t>(lives * kPhases + static_cast<int64_t>(GetParam())) +
                      test::FirstSeed();
    Life life(GetParam(), seed);
    life.Run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ": " << life.Describe();
    if (life.cut()) ++points;
    if (life.cut_on_own_disks()) ++own_disks;
    ASSERT_LT(lives, 100 + 10 * wanted) << "hardly any life is cut off";
  }
  std::printf("%lld crash points, %lld of them on disks of their own, in %lld lives\n",
              static_cast<long long>(points), static_cast<long long>(own_disks),
              static_cast<long long>(lives));
}

}  // namespace
}  // namespace quire::kv::persistence_crash_test
