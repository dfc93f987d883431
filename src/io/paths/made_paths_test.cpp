#include "io/paths/made_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "io/sim/sim_file_system.h"
#include "tests/support/file_tree.h"
#include "tests/support/status_asserts.h"

namespace quire::io::made_paths_test {
namespace {

using test::FileTree;
using testing::ElementsAre;
using testing::IsEmpty;

class MadePathsTest : public testing::Test {
 protected:
  MadePathsTest() { EXPECT_OK(fs_->MakeDirectory("/there")); }

  const std::unique_ptr<SimFileSystem> fs_ = NewSimFileSystem();
};

TEST_F(MadePathsTest, GoUnlessTheyAreKept) {
  for (const bool keep : {false, true}) {
    {
      std::unique_ptr<FileLock> lock;
      MadePaths made;
      ASSERT_OK(made.MakeDirectory(*fs_, "/there/a"));
      ASSERT_OK(made.MakeDirectory(*fs_, "/there/a/b"));
      auto locked = made.Lock(*fs_, "/there/a/b/LOCK", "this test");
      ASSERT_OK(locked.status());
      lock = std::move(*locked);
      if (keep) made.Keep();
    }
    EXPECT_EQ(FileTree(*fs_, "/there").size(), keep ? 3u : 0u);
  }
}

TEST_F(MadePathsTest, StayIfTheyWereThere) {
  {
    MadePaths made;
    ASSERT_OK(made.MakeDirectory(*fs_, "/there"));
    ASSERT_OK(WriteFile(*fs_, "/there/file", "x"));
    ASSERT_OK(made.AddFileIfAbsent(*fs_, "/there/file"));
  }
  EXPECT_THAT(FileTree(*fs_, "/there"), ElementsAre("/there/file"));
}

TEST_F(MadePathsTest, ADirectoryThatAnotherProgramUsesStays) {
  {
    MadePaths made;
    ASSERT_OK(made.MakeDirectory(*fs_, "/there/a"));
    ASSERT_OK(WriteFile(*fs_, "/there/a/file", "x"));
  }
  EXPECT_THAT(FileTree(*fs_, "/there"), ElementsAre("/there/a", "/there/a/file"));
}

TEST_F(MadePathsTest, ALockOfAnotherProgramStays) {
  const auto theirs = fs_->Lock("/there/LOCK", "another program");
  ASSERT_OK(theirs.status());
  {
    MadePaths made;
    EXPECT_CODE(made.Lock(*fs_, "/there/LOCK", "this test").status(), Code::kBusy);
  }
  EXPECT_THAT(FileTree(*fs_, "/there"), ElementsAre("/there/LOCK"));
}

TEST_F(MadePathsTest, GoWithTheObjectThatTheyWereMovedTo) {
  MadePaths made;
  {
    MadePaths first;
    ASSERT_OK(first.MakeDirectory(*fs_, "/there/a"));
    made = std::move(first);
  }
  EXPECT_THAT(FileTree(*fs_, "/there"), ElementsAre("/there/a"));
  made = MadePaths();
  EXPECT_THAT(FileTree(*fs_, "/there"), IsEmpty());
}

}  // namespace
}  // namespace quire::io::made_paths_test
