// Reads of large values: meanwhile no other operation waits for the reader, wherever the value is.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/core/sanitizer.h"
#include "lsm/db/db_testing.h"
#include "lsm/offline/reader.h"
#include "lsm/peer/peer_reader.h"
#include "table/table.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::large_values_test {
namespace {

// One that is no more than a record's share of the MemTable can be asked to stay beside its key.
struct BesideItsKey {
  SearchMode search = SearchMode::kTagged;
  uint64_t cache_bytes = 0;
};
class ALargeValueBesideItsKey : public testing::TestWithParam<BesideItsKey> {
 protected:
  ALargeValueBesideItsKey() {
    test_.environment().share_memory = true;
    EXPECT_OK(test_.Open());
  }
  static StorageOptions Options() {
    StorageOptions options = SmallOptions();
    options.memtable_bytes = 8 << 20;
    options.value_separation_bytes_min = 1 << 30;
    options.search = GetParam().search;
    options.cache_bytes = GetParam().cache_bytes;
    return options;
  }
  // Uses the memory of the value for something else: its MemTable, the cached block of its table.
  void UseMemoryAgain() {
    for (int round = 0; round < 6; ++round) {
      for (const char* const key : {"large", "other"}) {
        ASSERT_OK(test_->Put(key, std::string(1 << 20, 'o')));
      }
      ASSERT_OK(test_->Flush());
      for (const char* const key : {"large", "other"}) {
        ASSERT_EQ(GetText(test_.db(), key), std::string(1 << 20, 'o'));
      }
      ASSERT_OK(test_->Compact());
    }
  }
  BufferAllocator PlaceFor(std::string* got) {
    return [this, got](size_t size) {
      EXPECT_TRUE(NoGuardIsHeld());
      UseMemoryAgain();
      got->assign(size, '-');
      return got->data();
    };
  }
  void PutAndFlush(bool flush) {
    ASSERT_OK(test_->Put("large", value_));
    if (flush) ASSERT_OK(test_->Flush());
    ASSERT_EQ(test_->Statistics().value_log_bytes, 0u);
  }

  const std::string value_ = std::string(1 << 20, 'l');
  TestDb test_{Options(), /*threads=*/1};
};

INSTANTIATE_TEST_SUITE_P(Caches, ALargeValueBesideItsKey,
                         testing::Values(BesideItsKey{SearchMode::kTagged, 256 << 10},
                                         BesideItsKey{SearchMode::kTagged, 4 << 20},
                                         BesideItsKey{SearchMode::kSequential, 4 << 20}));

TEST_P(ALargeValueBesideItsKey, HoldsUpNoThreadWhileItIsRead) {
  for (const bool flushed : {false, true}) {
    for (const bool cached : {false, true}) {
      SCOPED_TRACE(std::string(flushed ? "table" : "MemTable") + (cached ? ", cached" : ""));
      PutAndFlush(flushed);
      if (cached) {
        EXPECT_EQ(GetText(test_.db(), "large"), value_);
      }
      std::string got;
      ASSERT_OK(test_->Get("large", nullptr, PlaceFor(&got)));
      EXPECT_TRUE(got == value_);
    }
  }
}

TEST_P(ALargeValueBesideItsKey, HoldsUpNoThreadWhileItIsReadFromMemory) {
  PutAndFlush(false);
  std::string got;
  bool decided = false;
  ASSERT_OK(test_->GetFromMemory("large", PlaceFor(&got), &decided, nullptr));
  EXPECT_TRUE(decided);
  EXPECT_TRUE(got == value_);
}

TEST_P(ALargeValueBesideItsKey, IsUpdated) {
  for (const bool flushed : {false, true}) {
    PutAndFlush(flushed);
    engine::WriteProgress progress;
    ASSERT_OK(test_->Update(
        "large",
        [](Slice, const Slice* present, std::string* updated) {
          EXPECT_TRUE(NoGuardIsHeld());
          updated->assign(*present).append("x");
          return true;
        },
        &progress));
    EXPECT_TRUE(GetText(test_.db(), "large") == value_ + "x");
  }
}

TEST_P(ALargeValueBesideItsKey, HoldsUpNoThreadWhileAReaderReadsIt) {
  for (const bool flushed : {false, true}) {
    SCOPED_TRACE(flushed ? "table" : "log");
    PutAndFlush(flushed);
    if (!flushed) {
      test_.fs().Restart(io::CrashKind::kProcess, 1);
      test_.Close();
    }
    const auto reader = Reader::Open(test_.fs(), "/db", {Options(), nullptr});
    ASSERT_OK(reader.status());
    if (!flushed) ASSERT_OK(test_.Open());
    std::string got;
    ASSERT_OK((*reader)->Get("large", PlaceFor(&got), nullptr));
    EXPECT_TRUE(got == value_);
  }
}

// A neighbour reads the value through shared memory and files; the value may also be separated from
// its key.
TEST_P(ALargeValueBesideItsKey, HoldsUpNoThreadWhileANeighbourReadsIt) {
  if (QUIRE_THREAD_SANITIZER) GTEST_SKIP() << "two mappings are one memory";
  const auto reader =
      OpenPeerReader(test_.fs(), {"/db", test_->region_name(), test_->region_bytes()},
                     {Options(), table::NewBlockCache(GetParam().cache_bytes)});
  ASSERT_OK(reader.status());
  for (const size_t size : {size_t{1} << 20, size_t{3} << 20}) {
    for (const bool flushed : {false, true}) {
      SCOPED_TRACE(std::to_string(size) + (flushed ? " in a table" : " in a MemTable"));
      const std::string value(size, 'n');
      ASSERT_OK(test_->Put("large", value));
      if (flushed) ASSERT_OK(test_->Flush());
      ASSERT_EQ(test_->Statistics().value_log_bytes == 0, size == 1 << 20);
      // What is read of a MemTable counts only if it is as it was.
      const bool counts = flushed || size != 1 << 20;
      std::string got;
      int calls = 0;
      ASSERT_OK((*reader)->Get("large", [&](size_t bytes) {
        EXPECT_TRUE(NoGuardIsHeld());
        if (++calls == 1 && !counts) {
          UseMemoryAgain();
          EXPECT_OK(test_->Put("large", value + "newer"));
        }
        if (flushed) UseMemoryAgain();
        got.assign(bytes, '-');
        return got.data();
      }));
      EXPECT_TRUE(got == value + (counts ? "" : "newer")) << got.size();
      EXPECT_EQ(calls, counts ? 1 : 2);
    }
  }
}

}  // namespace
}  // namespace quire::lsm::large_values_test
