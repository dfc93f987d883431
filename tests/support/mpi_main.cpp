// The main() of GoogleTest programs that run on several ranks. Every rank runs every test in the
// same order; rank 0 prints, other ranks print their failures only; the program fails on all ranks
// when a test failed on any. QUIRE_TEST_THREAD_LEVEL (single, funneled, serialized, multiple;
// default multiple) is the thread level that is asked of MPI. QUIRE_TEST_NODES splits the ranks
// into so many groups, each of which takes itself for a node of its own: between them all goes
// through MPI.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/mpi_program.h"

namespace {

int WantedThreadLevel() {
  const char* text = std::getenv("QUIRE_TEST_THREAD_LEVEL");
  if (text == nullptr || std::strcmp(text, "multiple") == 0) return MPI_THREAD_MULTIPLE;
  if (std::strcmp(text, "serialized") == 0) return MPI_THREAD_SERIALIZED;
  if (std::strcmp(text, "funneled") == 0) return MPI_THREAD_FUNNELED;
  return MPI_THREAD_SINGLE;
}

// Before anything asks which node this is.
void JoinNode(int rank, int size) {
  const char* text = std::getenv("QUIRE_TEST_NODES");
  if (text == nullptr || *text == '\0') return;
  const long node = long{rank} * std::strtol(text, nullptr, 10) / size;
  ::setenv("QUIRE_NODE_ID", ("test node " + std::to_string(node)).c_str(), 1);
}

// Says on which rank something failed; what passed is said by rank 0 alone.
class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

  // GoogleTest holds its lock while it reports a result, so the name must be known by then.
  void OnTestStart(const testing::TestInfo& test) override {
    name_ = std::string(test.test_suite_name()) + "." + test.name();
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s: %s:%d: %s\n", rank_, name_.c_str(),
                 result.file_name() == nullptr ? "" : result.file_name(), result.line_number(),
                 result.message());
  }

 private:
  int rank_;
  std::string name_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto [rank, size] = quire::test::StartMpi(&argc, &argv, WantedThreadLevel());
  JoinNode(rank, size);
  testing::InitGoogleTest(&argc, argv);
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
  int failed = RUN_ALL_TESTS() != 0 ? 1 : 0;
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) failed = 1;
  return quire::test::FinishMpi(failed);
}
