// The n-th allocation of a process fails, for n = 0, 1, ...: calls answer with a code, or the
// program stops with a message (where what readers may still see would have to be freed), and
// nothing that was acknowledged is lost.
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "base/core/out_of_memory.h"
#include "child_process.h"
#include "failing_allocations.h"
#include "quire/quire.h"
#include "starved_program.h"
#include "tests/support/temp_directory.h"

namespace {

constexpr int kKeys = 60;

using quire::test::kRan;
using quire::test::kTooFar;
using quire::test::kWrong;
using quire::test::Outcome;

// The rounds of each key: the last one tried, and the last one acknowledged. Survives the process.
struct Record {
  int tried[kKeys];
  int acknowledged[kKeys];
};

class Workload : private quire::test::StarvedProgram {
 public:
  Workload(const std::string& repository, Record* record)
      : StarvedProgram(repository, kKeys), record_(record) {}

  Outcome Run(int64_t n) {
    quire::test::FailAllocation(n);
    if (OpenContext() && OpenDatabase()) WriteAndRead();
    const bool failed = quire::test::AllocationFailed();
    CloseAll();
    if (wrong_) return kWrong;
    return failed ? kRan : kTooFar;
  }

  // With memory again, in another process: what was acknowledged is there.
  Outcome Verify() {
    if (!OpenContext() || !OpenDatabase()) Complain("cannot be opened again");
    for (int i = 0; i < kKeys && !wrong_; ++i) VerifyKey(i);
    if (!Put(0, 2)) Complain("refuses writes after reopening");
    CloseAll();
    return wrong_ ? kWrong : kRan;
  }

 private:
  void WriteAndRead() {
    for (int round = 1; round <= 2; ++round) {
      for (int i = 0; i < kKeys; ++i) {
        record_->tried[i] = round;
        if (Put(i, round)) record_->acknowledged[i] = round;
      }
      Check(quire_db_barrier(db_, QUIRE_SSTABLE));
      ReadAll();
    }
    Check(quire_db_compact(db_));
    ReadAll();
  }

  void ReadAll() {
    for (int i = 0; i < kKeys; i += 5) Read(i);
    quire_iter* iter = nullptr;
    if (!Check(quire_iter_create(db_, &iter))) return;
    Check(quire_iter_seek_to_first(iter));
    for (int i = 0; i < kKeys && quire_iter_valid(iter) == 1; ++i) Check(quire_iter_next(iter));
    quire_iter_destroy(iter);
  }

  void VerifyKey(int i) {
    const int round = RoundOf(i);
    if (round < record_->acknowledged[i] || round > record_->tried[i]) {
      Complain("key " + std::to_string(i) + " has value " + std::to_string(round));
    }
  }

  Record* const record_;
};

// When memory has run out, reporting this takes none.
TEST(OutOfMemory, TakesNoMemoryToSay) {
  quire::test::FailAllocation(0);
  const quire::Status status =
      quire::base::OrOutOfMemory([]() -> quire::Status { throw std::bad_alloc(); });
  const quire::Status copy = status;
  EXPECT_FALSE(quire::test::AllocationFailed());
  EXPECT_EQ(copy.code(), quire::Code::kOutOfMemory);
}

// A program that has no memory at all ends what it has in order.
class Ending : private quire::test::StarvedProgram {
 public:
  explicit Ending(const std::string& repository) : StarvedProgram(repository, kKeys) {}

  Outcome Run(bool close_database) {
    if (!OpenContext() || !OpenDatabase()) return kWrong;
    for (int i = 0; i < kKeys; ++i) Put(i, 1);
    quire::test::FailAllAllocations();
    const int closed = close_database ? quire_db_close(db_) : QUIRE_OUT_OF_MEMORY;
    const int ended = quire_context_close(context_);
    quire::test::AllowAllocations();
    if (closed != QUIRE_OUT_OF_MEMORY) Complain(quire_code_name(closed));
    if (ended != QUIRE_OK) Complain(quire_code_name(ended));
    return wrong_ ? kWrong : kRan;
  }
  Outcome Verify() {
    if (!OpenContext() || !OpenDatabase()) return kWrong;
    for (int i = 0; i < kKeys; ++i) {
      if (RoundOf(i) != 1) Complain("a key is lost");
    }
    CloseAll();
    return wrong_ ? kWrong : kRan;
  }
};

TEST(WithoutMemory, AContextEndsAndKeepsWhatWasAcknowledged) {
  for (const bool close_database : {true, false}) {
    const quire::test::TempDirectory directory;
    const std::string repository = directory / "repository";
    EXPECT_EQ(quire::test::InProcess([&] { return Ending(repository).Run(close_database); }), kRan)
        << close_database;
    EXPECT_EQ(quire::test::InProcess([&] { return Ending(repository).Verify(); }), kRan)
        << close_database;
  }
}

using Allocations = quire::test::StarvedTest<Record>;

TEST_F(Allocations, OneFailsAndNothingAcknowledgedIsLost) {
  quire::test::FailInTurn(
      [this](int64_t n) { return RunAndVerify<Workload>(directory_ + "/db", n); });
}

}  // namespace
