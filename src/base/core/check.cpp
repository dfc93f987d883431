#include "base/core/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/core/log_sink.h"

namespace quire::base {
namespace {

std::atomic<int> check_rank{-1};

}  // namespace

void SetCheckRank(int rank) { check_rank.store(rank, std::memory_order_relaxed); }

void CheckFailed(const char* file, int line, const char* condition) {
  std::string text = "broken invariant";
  const int rank = check_rank.load(std::memory_order_relaxed);
  if (rank >= 0) text += " on rank " + std::to_string(rank);
  text += std::string(" at ") + file + ":" + std::to_string(line) + ": " + condition;
  if (LogEnabled()) {
    Log(LogLevel::kError, text);
  } else {
    std::fprintf(stderr, "quire: %s\n", text.c_str());
  }
  std::abort();
}

}  // namespace quire::base
