#include "base/threads/sequence_lock.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace quire::base::sequence_lock_test {
namespace {

TEST(SequenceLock, AReaderDetectsAChangeUnderWayAndAChangeMadeMeanwhile) {
  SequenceLock<uint32_t> lock{};
  const std::optional<uint32_t> before = lock.BeginRead();
  ASSERT_TRUE(before.has_value());
  EXPECT_TRUE(lock.EndRead(*before));
  lock.BeginWrite();
  EXPECT_FALSE(lock.BeginRead().has_value());
  EXPECT_FALSE(lock.EndRead(*before));
  lock.EndWrite();
  EXPECT_TRUE(lock.BeginRead().has_value());
  EXPECT_FALSE(lock.Unchanged(*before));
}

TEST(SequenceLock, StaysOddOnceItIsClosed) {
  SequenceLock<uint64_t> lock{};
  lock.Close();
  EXPECT_FALSE(lock.BeginRead().has_value());
}

TEST(SequenceLock, ShowsNoReaderHalfAChange) {
  SequenceLock<uint64_t> lock{};
  std::array<std::atomic<uint64_t>, 4> words{};
  std::atomic<bool> end{false};
  std::thread writer([&] {
    for (uint64_t i = 1; i <= 200'000; ++i) {
      lock.BeginWrite();
      for (std::atomic<uint64_t>& word : words) word.store(i, std::memory_order_release);
      lock.EndWrite();
    }
    end = true;
  });
  uint64_t seen = 0;
  while (!end || seen == 0) {
    const std::optional<uint64_t> number = lock.BeginRead();
    if (!number.has_value()) continue;
    std::array<uint64_t, 4> copy;
    for (size_t i = 0; i < copy.size(); ++i) copy[i] = words[i].load(std::memory_order_acquire);
    if (!lock.EndRead(*number)) continue;
    ++seen;
    for (const uint64_t word : copy) ASSERT_EQ(word, copy[0]);
  }
  writer.join();
}

}  // namespace
}  // namespace quire::base::sequence_lock_test
