// Persistence on several ranks: checkpoints while writes go on, restarts on any number of ranks,
// storage groups. Also on nodes that share nothing but one directory: --shared=DIRECTORY.
#include <atomic>
#include <map>
#include <vector>

#include "parallel_fixture.h"

namespace quire::test {
namespace {

constexpr int kPairs = 300;
constexpr char kSharedArgument[] = "--shared=";

class Persistence : public Parallel {
 protected:
  void SetUp() override {
    Parallel::SetUp();
    shared_ = directory_ + "/shared";
    for (const std::string& argument : testing::internal::GetArgvs()) {
      if (argument.rfind(kSharedArgument, 0) != 0) continue;
      shared_ =
          argument.substr(sizeof kSharedArgument - 1) + directory_.substr(directory_.rfind('/'));
    }
    std::filesystem::create_directories(shared_);
  }
  void TearDown() override {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (rank_ == 0) std::filesystem::remove_all(shared_, ignored);
    Parallel::TearDown();
  }

  // On the first `count` ranks; the others go on at once.
  void RunOn(int count, const std::function<void(Context& context, int rank)>& program) {
    MPI_Comm ranks = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank_ < count ? 0 : MPI_UNDEFINED, rank_, &ranks);
    if (ranks != MPI_COMM_NULL) {
      auto context = OpenContext(ranks, directory_ + "/of-" + std::to_string(count), {});
      ASSERT_OK(context.status());
      program(**context, rank_);
      context->reset();
      MPI_Comm_free(&ranks);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::string shared_;
};

Status WaitFor(Result<std::unique_ptr<Event>> event) {
  return event.ok() ? (*event)->Wait() : event.status();
}

std::string ValueOf(int round, int i) {
  return std::string(i % 10 == 0 ? 20'000 : 40, static_cast<char>('a' + round)) + std::to_string(i);
}

void PutRound(Database& db, int rank, int size, int round) {
  for (int i = rank; i < kPairs; i += size) {
    ASSERT_OK(db.Put("key " + std::to_string(i), ValueOf(round, i)));
  }
}

// Every rank reads every pair.
void ExpectRound(Database& db, int round) {
  for (int i = 0; i < kPairs; ++i) {
    ASSERT_EQ(GetOr(db, "key " + std::to_string(i), "(absent)"), ValueOf(round, i)) << i;
  }
}

TEST_F(Persistence, ACheckpointIsTakenWhileWritesGoOnAndComesBack) {
  const auto context = NewContext();
  ASSERT_NE(context, nullptr);
  auto db = NewDatabase(*context, "db", Small());
  PutRound(*db, rank_, size_, 0);
  auto event = db->Checkpoint(shared_, {.keep = 2});
  ASSERT_OK(event.status());
  PutRound(*db, rank_, size_, 1);
  ASSERT_OK((*event)->Wait());
  EXPECT_TRUE((*event)->Ready());
  ASSERT_OK(db->Barrier(Level::kMemTable));
  ExpectRound(*db, 1);
  ASSERT_OK(WaitFor(db->Checkpoint(shared_, {.keep = 2})));
  ASSERT_OK(db->Close());
  ASSERT_OK(WaitFor(context->DestroyAsync("db")));
  ASSERT_OK(WaitFor(context->Restart(shared_, "db", {.number = 1})));
  db = NewDatabase(*context, "db", Small());
  ASSERT_NE(db, nullptr);
  ExpectRound(*db, 0);
  ASSERT_OK(db->Close());
}

TEST_F(Persistence, EveryNumberOfRanksRestartsFromACheckpoint) {
  {
    const auto context = NewContext();
    ASSERT_NE(context, nullptr);
    const auto db = NewDatabase(*context, "db", Small());
    PutRound(*db, rank_, size_, 0);
    ASSERT_OK(WaitFor(db->Checkpoint(shared_, {})));
    ASSERT_OK(db->Close());
  }
  for (int count = 1; count <= size_; ++count) {
    RunOn(count, [&](Context& context, int rank) {
      for (const bool in_place : {false, true}) {
        ASSERT_OK(WaitFor(context.Restart(shared_, "db", {.in_place = in_place})));
        DatabaseOptions options = Small();
        options.mode = OpenMode::kMustExist;
        for (const bool redistribute : {false, true}) {
          options.redistribute = redistribute;
          auto db = context.Open("db", options);
          ASSERT_OK(db.status());
          ExpectRound(**db, redistribute ? 1 : 0);
          ASSERT_OK(context.Barrier());
          PutRound(**db, rank, count, 1);
          ASSERT_OK((*db)->Barrier(Level::kMemTable));
          ExpectRound(**db, 1);
          ASSERT_OK((*db)->Close());
        }
        ASSERT_OK(context.Destroy("db"));
      }
    });
  }
}

TEST_F(Persistence, AStorageGroupOnSharedStorageReadsItsTables) {
  auto context = OpenContext(MPI_COMM_WORLD, shared_ + "/repository", {});
  ASSERT_OK(context.status());
  DatabaseOptions options = Small();
  options.group_size = size_;
  const auto db = NewDatabase(**context, "db", options);
  for (int round = 0; round < 3; ++round) {
    PutRound(*db, rank_, size_, round);
    ASSERT_OK(db->Barrier(Level::kSsTable));
    ExpectRound(*db, round);
    ASSERT_OK((*context)->Barrier());
  }
  // Those of this node are read without asking.
  const Statistics statistics = db->GetStatistics();
  if (NodeCount() > 1 && size_ > 1) {
    EXPECT_GT(statistics.at("gets.group"), 0u);
  }
  ASSERT_OK(db->Close());
}

}  // namespace
}  // namespace quire::test
