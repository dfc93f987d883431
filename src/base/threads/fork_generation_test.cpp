#include "base/threads/fork_generation.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace quire::base::fork_generation_test {
namespace {

TEST(ForkGeneration, DiffersInAForkedChildAndStaysInItsParent) {
  const uint32_t before = ForkGeneration();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(ForkGeneration() == before + 1 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ForkGeneration(), before);
}

}  // namespace
}  // namespace quire::base::fork_generation_test
