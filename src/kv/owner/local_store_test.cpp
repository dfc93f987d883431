// A rank's store over an engine without faces: what needs one is refused, the rest goes on.
#include "kv/owner/local_store.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/memory_engine_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::kv::local_store_test {
namespace {

constexpr uint64_t kCacheBytes = 1 << 20;

class PlainStore : public testing::Test {
 protected:
  PlainStore()
      : store_(*engine::MemoryEngine().Open({}, "/part", {}, engine::OpenFlags::kOpenOrCreate),
               kCacheBytes, 0, &counters_) {}

  std::string Get(Slice key) {
    std::string value;
    const Status status = store_.Get(key, Into(&value));
    return status.ok() ? value : status.ToString();
  }

  DatabaseCounters counters_;
  LocalStore store_;
};

TEST_F(PlainStore, WritesReadsAndUpdatesWithoutALocalCache) {
  ASSERT_OK(store_.Put("key", "1"));
  EXPECT_EQ(Get("key"), "1");
  ASSERT_OK(store_.updates().Register(
      7, [](Slice, const Slice* present, Slice argument, std::string* updated, std::string*) {
        *updated = std::string(*present) + std::string(argument);
        return Status();
      }));
  ASSERT_OK(store_.Update("key", 7, "+"));
  EXPECT_EQ(Get("key"), "1+");
  EXPECT_EQ(store_.cache().capacity_bytes(), 0u);
}

TEST_F(PlainStore, AnswersAMemberOfItsGroupByTheValue) {
  ASSERT_OK(store_.Put("key", "1"));
  ASSERT_OK(store_.engine().Flush());
  std::string value;
  std::optional<NamedTables> tables;
  ASSERT_OK(store_.GetInGroup("key", Into(&value), &tables));
  EXPECT_EQ(value, "1");
  EXPECT_CODE(store_.GetInGroup("absent", Into(&value), &tables), Code::kNotFound);
  EXPECT_FALSE(tables.has_value());
}

TEST_F(PlainStore, RefusesCheckpointsAndPairsOfOtherGenerations) {
  EXPECT_CODE(store_.NewCapture().status(), Code::kUnsupported);
  engine::WriteBatch batch;
  batch.Put("key", "1");
  engine::WriteProgress progress;
  EXPECT_CODE(store_.Fill(batch.bytes(), &progress), Code::kUnsupported);
  EXPECT_EQ(Get("key"), "not found");
}

}  // namespace
}  // namespace quire::kv::local_store_test
