/// What the tests of failing allocations share: a program over the C interface that knows what may
/// come of its calls while memory is short, and what survives the process it runs in.
///
/// Layer      tests
/// Threads    one
#ifndef QUIRE_TESTS_API_STARVED_PROGRAM_H_
#define QUIRE_TESTS_API_STARVED_PROGRAM_H_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "child_process.h"
#include "quire/quire.h"
#include "tests/support/temp_directory.h"

namespace quire::test {

/// Keys 0 to key_count - 1 have a value in each of the rounds 1 and 2. Its calls allocate nothing
/// themselves, so that the library's allocations fail.
class StarvedProgram {
 public:
  StarvedProgram(std::string repository, int key_count);

 protected:
  /// Whether the call was done. Complains of a code that may not come of a call while memory is
  /// short, after a background failure, or without a database.
  bool Check(int code);
  void Complain(const std::string& what);
  /// From now on another program, or what this one left in the background, may have the database.
  void AllowBusy(bool allowed) { busy_allowed_ = allowed; }

  bool OpenContext();
  bool OpenDatabase();
  void CloseDatabase();
  void CloseAll();

  bool Put(int i, int round);
  /// Gets it and throws it away.
  void Read(int i);
  /// Whose value key i has, with memory again; 0: it is absent; -1: neither's.
  int RoundOf(int i);

  quire_context* context_ = nullptr;
  quire_db* db_ = nullptr;
  bool wrong_ = false;   ///< it complained
  bool failed_ = false;  ///< some call did

 private:
  const std::string repository_;
  std::vector<std::string> keys_;
  std::vector<std::string> values_[3];  // by round
  bool busy_allowed_ = false;
};

/// A directory, in memory where there is such a place, and a Record that survives the processes
/// that are given it.
template <typename Record>
class StarvedTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const shared =
        ::mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    record_ = static_cast<Record*>(shared);
  }
  void TearDown() override {
    ::munmap(record_, sizeof(Record));
  }

  /// Workload's part with the n-th allocation failing, and then, with memory again, what it left at
  /// `place`, which is removed.
  template <typename Workload>
  Outcome RunAndVerify(const std::string& place, int64_t n) {
    *record_ = Record{};
    const Outcome outcome = InProcess([&] { return Workload(place, record_).Run(n); });
    const Outcome after = InProcess([&] { return Workload(place, record_).Verify(); });
    std::filesystem::remove_all(place);
    return after == kRan ? outcome : kWrong;
  }

  TempDirectory place_{PlaceInMemory()};
  const std::string directory_ = place_.path();
  Record* record_ = nullptr;
};

}  // namespace quire::test

#endif  // QUIRE_TESTS_API_STARVED_PROGRAM_H_
