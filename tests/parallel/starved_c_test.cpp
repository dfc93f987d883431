// The collective calls of the C interface if one rank of the job lacks memory for one allocation:
// all ranks receive the same code, and later calls match again.
#include <gtest/gtest.h>
#include <mpi.h>

#include <string>

#include "parallel_fixture.h"
#include "quire/quire.h"
#include "quire/quire_dataset.h"
#include "quire/quire_mpi.h"
#include "tests/support/starved_rank.h"

namespace quire {
namespace {

class StarvedRank : public test::Parallel {
 protected:
  void SetUp() override {
    Parallel::SetUp();
    const std::string repository = directory_ + "/repository";
    checkpoints_ = directory_ + "/checkpoints";
    ASSERT_EQ(quire_context_open_mpi(MPI_COMM_WORLD, repository.c_str(), nullptr, &context_),
              QUIRE_OK);
    ASSERT_EQ(OpenIt(), QUIRE_OK);
    ASSERT_EQ(quire_db_put(db_, "k", 1, "v", 1), QUIRE_OK);
    ASSERT_EQ(quire_db_barrier(db_, QUIRE_MEMTABLE), QUIRE_OK);
  }
  void TearDown() override {
    EXPECT_EQ(quire_context_close(context_), QUIRE_OK);
    Parallel::TearDown();
  }
  int OpenIt() { return quire_db_open(context_, "db", nullptr, &db_); }
  void CloseIt() { ASSERT_EQ(quire_db_close(db_), QUIRE_OK) << quire_error_message(); }
  // The allocation may also have failed behind the call, in what it began.
  void WaitFor(quire_event* event) {
    const int code = quire_event_wait(event);
    EXPECT_TRUE(code == QUIRE_OK || code == QUIRE_OUT_OF_MEMORY) << quire_error_message();
    quire_event_destroy(event);
  }
  template <typename Call, typename Restore>
  static void Sweep(const char* name, const Call& call, const Restore& restore) {
    EXPECT_GT(SweepAny(name, call, restore), 0) << name << " took no memory";
  }
  // Sweeps a call that may need no memory. Returns how often it failed.
  template <typename Call, typename Restore>
  static int SweepAny(const char* name, const Call& call, const Restore& restore) {
    const test::StarvedCalls calls = test::StarveLastRank(name, call, restore);
    EXPECT_EQ(calls.parted, 0) << name;
    return calls.failed;
  }
  // The same while this rank's thread has no memory until the call returns.
  template <typename Call, typename Restore>
  static void SweepLasting(const char* name, const Call& call, const Restore& restore) {
    test::StarvedCalls calls;
    test::StarveLastRankOf(test::kLastingShortage, name, call, restore, &calls);
    EXPECT_EQ(calls.parted, 0) << name;
  }
  void OpenSet() {
    quire_dataset_writer_destroy(set_);
    set_ = nullptr;
    ASSERT_EQ(quire_dataset_writer_open(context_, "set", nullptr, &set_), QUIRE_OK)
        << quire_error_message();
  }
  // With a pair of this rank's.
  void BeginEpoch() {
    OpenSet();
    uint64_t last = 0;
    quire_dataset_writer_last_epoch(set_, &last);
    ASSERT_EQ(quire_dataset_writer_begin_epoch(set_, last + 1), QUIRE_OK);
    ASSERT_EQ(quire_dataset_writer_put(set_, "k", 1, "v", 1), QUIRE_OK);
  }

  std::string checkpoints_;
  quire_context* context_ = nullptr;
  quire_db* db_ = nullptr;
  quire_dataset_writer* set_ = nullptr;
};

TEST_F(StarvedRank, OpensADatabaseAsTheOthersDo) {
  CloseIt();
  Sweep(
      "quire_db_open", [&] { return OpenIt(); },
      [&](bool done) {
        if (done) CloseIt();
      });
}

TEST_F(StarvedRank, TakesACheckpointAsTheOthersDo) {
  quire_event* event = nullptr;
  Sweep(
      "quire_db_checkpoint that waits",
      [&] { return quire_db_checkpoint(db_, checkpoints_.c_str(), 1, nullptr); }, [](bool) {});
  Sweep(
      "quire_db_checkpoint",
      [&] { return quire_db_checkpoint(db_, checkpoints_.c_str(), 1, &event); },
      [&](bool done) {
        if (done) WaitFor(event);
      });
}

TEST_F(StarvedRank, RestartsAsTheOthersDo) {
  ASSERT_EQ(quire_db_checkpoint(db_, checkpoints_.c_str(), 0, nullptr), QUIRE_OK);
  CloseIt();
  Sweep(
      "quire_context_restart",
      [&] {
        return quire_context_restart(context_, checkpoints_.c_str(), "db", 0, QUIRE_RESTART_REPLACE,
                                     nullptr);
      },
      [](bool) {});
  ASSERT_EQ(OpenIt(), QUIRE_OK) << quire_error_message();
  void* value = nullptr;
  size_t size = 0;
  ASSERT_EQ(quire_db_get(db_, "k", 1, &value, &size), QUIRE_OK) << quire_error_message();
  EXPECT_EQ(std::string(static_cast<const char*>(value), size), "v");
  quire_free(value);
  ASSERT_EQ(quire_context_barrier(context_), QUIRE_OK);  // the owner of the pair has not left
}

TEST_F(StarvedRank, DestroysADatabaseAsTheOthersDo) {
  CloseIt();
  const auto destroy = [&] {
    return quire_context_destroy_database_async(context_, "db", nullptr);
  };
  const auto open_again = [&](bool) {
    ASSERT_EQ(OpenIt(), QUIRE_OK) << quire_error_message();
    CloseIt();
  };
  Sweep("quire_context_destroy_database_async", destroy, open_again);
  SweepLasting("quire_context_destroy_database_async", destroy, open_again);
}

TEST_F(StarvedRank, WaitsForADestructionAsTheOthersDo) {
  CloseIt();
  Sweep(
      "quire_context_destroy_database",
      [&] { return quire_context_destroy_database(context_, "db"); },
      [&](bool) {
        ASSERT_EQ(OpenIt(), QUIRE_OK) << quire_error_message();
        CloseIt();
      });
}

TEST_F(StarvedRank, ListsDatabasesAndAgreesAsTheOthersDo) {
  char* names = nullptr;
  Sweep(
      "quire_context_list_databases",
      [&] { return quire_context_list_databases(context_, &names); },
      [&](bool done) {
        if (!done) return;
        EXPECT_STREQ(names, "db\n");
        quire_free(names);
      });
  const std::string text(100, 't');
  const auto agree = [&] {
    const bool fails = rank_ == size_ - 1;
    return quire_context_agree(context_, fails ? QUIRE_BUSY : QUIRE_OK, text.c_str());
  };
  Sweep("quire_context_agree", agree, [](bool) {});
}

TEST_F(StarvedRank, OpensADatasetAsTheOthersDo) {
  quire_dataset_writer* writer = nullptr;
  Sweep(
      "quire_dataset_writer_open",
      [&] { return quire_dataset_writer_open(context_, "set", nullptr, &writer); },
      [&](bool done) {
        if (!done) return;
        ASSERT_EQ(quire_dataset_writer_finish(writer), QUIRE_OK) << quire_error_message();
        quire_dataset_writer_destroy(writer);
      });
}

TEST_F(StarvedRank, MeetsTheOthers) {
  const auto put = [&](bool) { ASSERT_EQ(quire_db_put(db_, "k", 1, "v", 1), QUIRE_OK); };
  const auto leave = [](bool) {};
  SweepAny(
      "quire_context_barrier", [&] { return quire_context_barrier(context_); }, leave);
  for (const int level : {QUIRE_MEMTABLE, QUIRE_SSTABLE}) {
    put(true);
    SweepAny(
        "quire_db_barrier", [&] { return quire_db_barrier(db_, level); }, put);
  }
  ASSERT_EQ(quire_db_barrier(db_, QUIRE_MEMTABLE), QUIRE_OK) << quire_error_message();
}

TEST_F(StarvedRank, ChangesTheModeAsTheOthersDo) {
  const auto leave = [](bool) {};
  for (const int consistency : {QUIRE_SEQUENTIAL, QUIRE_RELAXED}) {
    SweepAny(
        "quire_db_set_consistency", [&] { return quire_db_set_consistency(db_, consistency); },
        leave);
  }
  for (const int protection : {QUIRE_PROTECT_READ_ONLY, QUIRE_UPDATE_ONLY, QUIRE_READ_WRITE}) {
    SweepAny(
        "quire_db_protect", [&] { return quire_db_protect(db_, protection); }, leave);
  }
  EXPECT_EQ(quire_db_put(db_, "k", 1, "v", 1), QUIRE_OK) << quire_error_message();
  ASSERT_EQ(quire_db_barrier(db_, QUIRE_MEMTABLE), QUIRE_OK) << quire_error_message();
}

TEST_F(StarvedRank, ClosesADatabaseAsTheOthersDo) {
  SweepAny(
      "quire_db_close", [&] { return quire_db_close(db_); },
      [&](bool) { ASSERT_EQ(OpenIt(), QUIRE_OK) << quire_error_message(); });
}

TEST_F(StarvedRank, BeginsAnEpochAtASecondTry) {
  OpenSet();
  uint64_t epoch = 0;
  SweepAny(
      "quire_dataset_writer_begin_epoch",
      [&] {
        const int code = quire_dataset_writer_begin_epoch(set_, epoch + 1);
        return code == QUIRE_OUT_OF_MEMORY ? quire_dataset_writer_begin_epoch(set_, epoch + 1)
                                           : code;
      },
      [&](bool done) {
        ASSERT_TRUE(done) << quire_error_message();
        ++epoch;
        ASSERT_EQ(quire_dataset_writer_end_epoch(set_), QUIRE_OK) << quire_error_message();
      });
  quire_dataset_writer_destroy(set_);
}

TEST_F(StarvedRank, EndsAnEpochAsTheOthersDo) {
  BeginEpoch();
  Sweep(
      "quire_dataset_writer_end_epoch", [&] { return quire_dataset_writer_end_epoch(set_); },
      [&](bool) { BeginEpoch(); });
  ASSERT_EQ(quire_dataset_writer_end_epoch(set_), QUIRE_OK) << quire_error_message();
  Sweep(
      "quire_dataset_writer_finish", [&] { return quire_dataset_writer_finish(set_); },
      [&](bool) { OpenSet(); });
  quire_dataset_writer_destroy(set_);
}

}  // namespace
}  // namespace quire
