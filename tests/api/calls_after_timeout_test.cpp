// Every public call of databases and datasets of two ranks, in C++ and in C, after a collective
// call that timed out on both: it has the same effect as without the timeout. Also each call while
// one rank is late: the ranks receive the same code, and the same call works when the rank has
// come. The rows are those that every_call_test.cpp compares with the headers.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/handles.h"
#include "io/files/file_system.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/database/timeouts_testing.h"
#include "tests/api/database_calls.h"
#include "tests/api/every_call.h"
#include "tests/support/temp_directory.h"

namespace quire::test {
namespace {

constexpr int kRanks = 2;

template <typename Objects>
struct Of;
template <>
struct Of<DatabaseObjects> {
  static std::unique_ptr<DatabaseObjects> Make(const std::string& home,
                                               std::unique_ptr<Context> context) {
    return std::make_unique<DatabaseObjects>(home, std::move(context));
  }
  static Context& ContextOf(DatabaseObjects& objects) { return *objects.context; }
};
template <>
struct Of<CDatabaseObjects> {
  static std::unique_ptr<CDatabaseObjects> Make(const std::string& home,
                                                std::unique_ptr<Context> context) {
    auto handle = std::make_unique<quire_context>();
    handle->object = std::move(context);
    return std::make_unique<CDatabaseObjects>(home, handle.release());
  }
  static Context& ContextOf(CDatabaseObjects& objects) { return *objects.context->object; }
};

// Two ranks over the files of the system, which readers and datasets use; by turns.
template <typename Objects, typename Answer>
class Ranks {
 public:
  using Row = CallRow<Objects, Answer>;

  static void ExpectTheSameAfterATimeout(const std::vector<Row>& rows) {
    for (const Row& row : ScaledRows(rows)) {
      Run(row, [&row](kv::SimCluster& cluster, int rank, Objects& objects, Code expected) {
        kv::LetACallTimeOut(cluster, rank, Of<Objects>::ContextOf(objects));
        const Answer answer = row.run(objects);
        EXPECT_EQ(CodeOf(answer), expected) << TextOf(answer);
      });
    }
  }

  // Those that need no other rank do their work; the others time out.
  static void ExpectTheSameWhereOneIsLate(const std::vector<Row>& rows) {
    for (const Row& row : ScaledRows(rows)) {
      std::array<Code, kRanks> heard = {};
      Run(row, [&](kv::SimCluster& cluster, int rank, Objects& objects, Code expected) {
        Context& context = Of<Objects>::ContextOf(objects);
        kv::StopRankOne(cluster, rank, context);
        const Answer answer = row.run(objects);
        const Code code = CodeOf(answer);
        EXPECT_TRUE(code == expected || code == Code::kTimedOut) << TextOf(answer);
        heard[static_cast<size_t>(rank)] = code;
        WaitForTheLate(context);
        Prepare(row, objects);
        const Answer again = row.run(objects);
        EXPECT_EQ(CodeOf(again), expected) << TextOf(again);
      });
      EXPECT_EQ(heard[0], heard[1]) << row.call;
    }
  }

 private:
  static void WaitForTheLate(Context& context) {
    Code code = Code::kTimedOut;
    for (int i = 0; i < 3 && code == Code::kTimedOut; ++i) code = context.Barrier().code();
    ASSERT_EQ(code, Code::kOk);
  }
  // `program(cluster, rank, objects, expected)` on both, where the call can be made once more.
  template <typename Program>
  static void Run(const Row& row, const Program& program) {
    SCOPED_TRACE(row.call);
    const TempDirectory directory(PlaceInMemory());
    kv::SimCluster::Options options;
    options.repository = directory / "repository";
    options.file_system = [](int) { return &io::PosixFileSystem(); };
    kv::SimCluster cluster(options);
    cluster.RunRaw([&](int rank, Result<std::unique_ptr<Context>> opened) {
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      const auto objects = Of<Objects>::Make(directory.path(), *std::move(opened));
      Context& context = Of<Objects>::ContextOf(*objects);
      ASSERT_EQ(context.Barrier().code(), Code::kOk);  // all have registered their updates
      Prepare(row, *objects);
      const Code expected = CodeOf(row.run(*objects));
      Prepare(row, *objects);
      program(cluster, rank, *objects, expected);
      ASSERT_EQ(context.Barrier().code(), Code::kOk);  // none leaves while another one asks it
    });
  }
};

using InCpp = Ranks<DatabaseObjects, Status>;
using InC = Ranks<CDatabaseObjects, int>;

TEST(CallsAfterATimeout, DoWhatTheyDoWithoutIt) {
  InCpp::ExpectTheSameAfterATimeout(AllRows());
}

TEST(CallsAfterATimeout, DoInCWhatTheyDoWithoutIt) {
  InC::ExpectTheSameAfterATimeout(CDatabaseRows());
  InC::ExpectTheSameAfterATimeout(CHeldRows());
}

TEST(CallsOfALateRank, AnswerTheSameOnAllRanks) {
  InCpp::ExpectTheSameWhereOneIsLate(AllRows());
}

TEST(CallsOfALateRank, AnswerTheSameOnAllRanksInC) {
  InC::ExpectTheSameWhereOneIsLate(CDatabaseRows());
  InC::ExpectTheSameWhereOneIsLate(CHeldRows());
}

}  // namespace
}  // namespace quire::test
