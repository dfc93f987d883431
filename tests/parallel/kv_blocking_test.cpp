// A function of the program that blocks inside a call of one rank: what other ranks do meanwhile,
// also at that rank, goes on.
#include <string>
#include <utility>
#include <vector>

#include "parallel_fixture.h"

namespace quire::test {
namespace {

constexpr uint32_t kAppends = 1;
constexpr int kBlocker = 0;
constexpr int kOther = 1;

Status Append(Slice, const Slice* present, Slice argument, std::string* updated) {
  *updated = std::string(present == nullptr ? Slice() : *present) + std::string(argument);
  return Status();
}

// Whether the partitioner blocks the next time.
thread_local bool blocks_once = false;

// The program's own messages say when: the ranks have an MPI_THREAD_MULTIPLE.
void Tell(int rank) { MPI_Send(nullptr, 0, MPI_BYTE, rank, 0, MPI_COMM_WORLD); }
void AwaitWord(int rank) {
  MPI_Recv(nullptr, 0, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// At kBlocker, inside the function: until kOther has done what it does meanwhile.
void Block() {
  Tell(kOther);
  AwaitWord(kOther);
}

int BlocksAndAnswersTheFirstLetter(Slice key, int) {
  if (std::exchange(blocks_once, false)) Block();
  return key[0] - 'a';
}

class Blocking : public Parallel {
 protected:
  void SetUp() override {
    Parallel::SetUp();
    if (!HasThreads()) GTEST_SKIP() << "without MPI_THREAD_MULTIPLE there is no handler";
    ContextOptions limited;
    limited.timeout_ms = 20'000;
    context_ = NewContext(limited);
    ASSERT_NE(context_, nullptr);
    DatabaseOptions options = Small();
    options.consistency = Consistency::kSequential;
    options.local_cache_bytes = 1 << 20;
    options.group_size = 1;  // no rank reads another rank's memory
    options.partitioner = BlocksAndAnswersTheFirstLetter;
    db_ = NewDatabase(*context_, "db", options);
    ASSERT_NE(db_, nullptr);
    ASSERT_OK(db_->RegisterUpdate(kAppends, Append));
    ASSERT_OK(db_->Barrier(Level::kMemTable));
  }
  void TearDown() override {
    if (db_ != nullptr) EXPECT_OK(db_->Close());
    db_.reset();
    context_.reset();
    Parallel::TearDown();
  }
  // kBlocker makes `call`, which blocks in the function; kOther writes and reads `keys` meanwhile.
  template <typename Call>
  void Meanwhile(const std::vector<std::string>& keys, Call call) {
    if (rank_ == kBlocker) call();
    if (rank_ != kOther) return;
    AwaitWord(kBlocker);
    for (const std::string& key : keys) {
      SCOPED_TRACE(key);
      WriteAndRead(key);
    }
    Tell(kBlocker);
  }
  void WriteAndRead(const std::string& key) {
    EXPECT_OK(db_->Put(key, "of rank 1"));
    EXPECT_EQ(GetOr(*db_, key, "absent"), "of rank 1");
    EXPECT_OK(db_->Update(key, kAppends, ", again"));
    EXPECT_EQ(GetOr(*db_, key, "absent"), "of rank 1, again");
    EXPECT_OK(db_->Delete(key));
    EXPECT_OK(db_->Put(key, std::string(100'000, 'v')));
    EXPECT_OK(db_->PutMany({{key, "value"}}));
    EXPECT_EQ(GetOr(*db_, key, "absent"), "value");
  }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Database> db_;
};

// In memory and in tables, of the blocking rank and of the other one, at first and from the cache.
TEST_F(Blocking, APlaceHoldsUpNoOtherRank) {
  for (const Level level : {Level::kMemTable, Level::kSsTable}) {
    for (const std::string key : {"a", "b"}) {
      if (rank_ == kBlocker) EXPECT_OK(db_->Put(key, "value"));
      ASSERT_OK(db_->Barrier(level));
      for (int round = 0; round < 2; ++round) {
        Meanwhile({"a of others", "b of others", key}, [&] {
          std::string value;
          EXPECT_OK(db_->Get(key, [&](size_t size) {
            Block();
            value.resize(size);
            return value.data();
          }));
          EXPECT_EQ(value, "value");
        });
        ASSERT_OK(context_->Barrier());
      }
    }
  }
}

TEST_F(Blocking, APartitionerHoldsUpNoOtherRank) {
  for (const std::string key : {"a", "b"}) {
    Meanwhile({"a of others", "b of others", key}, [&] {
      blocks_once = true;
      EXPECT_OK(db_->Put(key, "late"));
      EXPECT_FALSE(blocks_once);
    });
    ASSERT_OK(db_->Barrier(Level::kMemTable));
    EXPECT_EQ(GetOr(*db_, key, "absent"), "late");
    ASSERT_OK(db_->Barrier(Level::kMemTable));
  }
}

}  // namespace
}  // namespace quire::test
