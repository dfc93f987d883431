// The n-th allocation of a process fails while it takes a checkpoint and restarts from an earlier
// one, for n = 0, 1, ...: calls and events answer with a code, the checkpoint of before stays good,
// and what was there is there.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "child_process.h"
#include "failing_allocations.h"
#include "quire/quire.h"
#include "starved_program.h"

namespace {

using quire::test::InProcess;
using quire::test::kRan;
using quire::test::kTooFar;
using quire::test::kWrong;
using quire::test::Outcome;

constexpr int kKeys = 16;

// How far the process came. Survives it.
struct Record {
  int tried = 0;         // so many keys were to have their second value
  int acknowledged = 0;  // so many have it
  bool checkpointed = false;
  bool restart_tried = false;
  bool restarted = false;
};

// A database with first values, and checkpoint 1 of that; then second values.
class Workload : private quire::test::StarvedProgram {
 public:
  Workload(const std::string& directory, Record* record)
      : StarvedProgram(directory + "/repository", kKeys),
        checkpoints_(directory + "/pfs"),
        record_(record) {}

  Outcome Make() {
    if (OpenContext() && OpenDatabase()) {
      for (int i = 0; i < kKeys; ++i) Put(i, 1);
      Check(quire_db_checkpoint(db_, checkpoints_.c_str(), 0, nullptr));
    }
    CloseAll();
    return failed_ ? kWrong : kRan;
  }

  Outcome Run(int64_t n) {
    quire::test::FailAllocation(n);
    if (OpenContext()) {
      if (OpenDatabase()) WriteAndCheckpoint();
      CloseDatabase();
      record_->restart_tried = true;
      record_->restarted = Restart(1);
      if (OpenDatabase()) ReadAll();
    }
    const bool failed = quire::test::AllocationFailed();
    CloseAll();
    if (wrong_) return kWrong;
    return failed ? kRan : kTooFar;
  }

  // With memory again, in another process.
  Outcome Verify() {
    if (!OpenContext() || !OpenDatabase()) Complain("cannot be opened again");
    for (int i = 0; i < kKeys; ++i) {
      const int round = RoundOf(i);
      const bool old = record_->restarted || (i >= record_->acknowledged || record_->restart_tried);
      const bool fresh = !record_->restarted && i < record_->tried;
      if (!(round == 1 && old) && !(round == 2 && fresh)) ComplainOf(i, round, "the database");
    }
    Put(0, 2);
    CloseDatabase();
    if (record_->checkpointed) ExpectRestarted(0, record_->acknowledged);
    ExpectRestarted(1, 0);
    CloseAll();
    return wrong_ || failed_ ? kWrong : kRan;
  }

 private:
  void ComplainOf(int i, int round, const std::string& where) {
    Complain("key " + std::to_string(i) + " of " + where + " has value " + std::to_string(round));
  }

  void WriteAndCheckpoint() {
    bool all = true;
    for (int i = 0; i < kKeys && all; ++i) {
      record_->tried = i + 1;
      all = Put(i, 2);
      if (all) record_->acknowledged = i + 1;
    }
    quire_event* event = nullptr;
    if (!Check(quire_db_checkpoint(db_, checkpoints_.c_str(), 0, &event))) return;
    record_->checkpointed = Check(quire_event_wait(event));
    quire_event_destroy(event);
  }

  // Restarts. If only the wait for it failed, the restart goes on.
  bool Restart(uint64_t number) {
    const bool restarted = Check(quire_context_restart(context_, checkpoints_.c_str(), "db", number,
                                                       QUIRE_RESTART_REPLACE, nullptr));
    AllowBusy(!restarted);
    return restarted;
  }

  void ReadAll() {
    for (int i = 0; i < kKeys; ++i) Read(i);
  }

  // Checkpoint `number` (0: the newest) has second values of so many keys.
  void ExpectRestarted(uint64_t number, int second) {
    if (!Restart(number) || !OpenDatabase()) return Complain("cannot be restarted from");
    for (int i = 0; i < kKeys; ++i) {
      const int round = RoundOf(i);
      const bool maybe_second = number == 0 && i < record_->tried;
      if (i < second ? round != 2 : round != 1 && !(round == 2 && maybe_second)) {
        ComplainOf(i, round, "checkpoint " + std::to_string(number));
      }
    }
    CloseDatabase();
  }

  const std::string checkpoints_;
  Record* const record_;
};

class PersistenceAllocations : public quire::test::StarvedTest<Record> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StarvedTest::SetUp());
    const std::string made = directory_ + "/made";
    ASSERT_TRUE(std::filesystem::create_directory(made));
    ASSERT_EQ(InProcess([&] { return Workload(made, record_).Make(); }), kRan);
  }

  Outcome RunWithout(int64_t n) {
    const std::string copy = directory_ + "/copy";
    std::filesystem::copy(directory_ + "/made", copy, std::filesystem::copy_options::recursive);
    return RunAndVerify<Workload>(copy, n);
  }
};

TEST_F(PersistenceAllocations, OneFailsAndNoCheckpointAndNoDatabaseIsLost) {
  quire::test::FailInTurn([this](int64_t n) { return RunWithout(n); });
}

}  // namespace
