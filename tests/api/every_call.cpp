#include "tests/api/every_call.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace {
bool in_forked_child = false;
}  // namespace

// LeakSanitizer asks for it when a process ends. The threads of the parent are not in a forked
// child, and it takes for lost what only they know. It is found from the sanitizer's own library.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off();
int __lsan_is_turned_off() {
  return in_forked_child ? 1 : 0;
}

namespace quire::test {

std::string HeaderText(const std::string& name) {
  std::ifstream file(std::string(QUIRE_SOURCE_DIR) + "/include/quire/" + name);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int InChild(const std::function<int()>& body) {
  constexpr unsigned kHangSeconds = 20;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    in_forked_child = true;
    ::alarm(kHangSeconds);
    std::exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status) << ": it hung, or crashed";
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace quire::test
