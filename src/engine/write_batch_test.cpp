#include "engine/write_batch.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::engine::write_batch_test {
namespace {

TEST(WriteBatch, GivesBackItsOperationsFromAnyPlaceInMemory) {
  WriteBatch batch;
  batch.Put("key", "value");
  batch.Put("empty", "");
  batch.Delete("gone");
  batch.DeleteRange("a", "b");
  batch.Update("count", 7, "argument");
  EXPECT_EQ(batch.count(), 5u);
  for (size_t shift = 0; shift < 8; ++shift) {
    const std::string moved = std::string(shift, 'x') + batch.bytes();
    const auto ops = DecodeBatch(Slice(moved).substr(shift));
    ASSERT_TRUE(ops.ok()) << ops.status().ToString();
    ASSERT_EQ(ops->size(), 5u);
    EXPECT_EQ((*ops)[0].type, log::RecordType::kPut);
    EXPECT_EQ((*ops)[0].key, "key");
    EXPECT_EQ((*ops)[0].value, "value");
    EXPECT_EQ((*ops)[1].value, "");
    EXPECT_EQ((*ops)[2].type, log::RecordType::kDelete);
    EXPECT_EQ((*ops)[3].type, log::RecordType::kRangeDelete);
    EXPECT_EQ((*ops)[3].value, "b");
    EXPECT_EQ((*ops)[4].type, log::RecordType::kUpdate);
    EXPECT_EQ((*ops)[4].value, Slice("\7\0\0\0argument", 12));
  }
  batch.Clear();
  EXPECT_EQ(batch.count(), 0u);
  EXPECT_TRUE(DecodeBatch(batch.bytes())->empty());
}

TEST(WriteBatch, BytesThatAreNoBatchAreCorruption) {
  WriteBatch batch;
  batch.Put("key", "value");
  batch.Update("count", 7, "");
  const std::string good = batch.bytes();
  for (size_t size = 1; size < good.size(); ++size) {
    if (size == 32) continue;  // the first operation alone
    EXPECT_EQ(DecodeBatch(Slice(good).substr(0, size)).status().code(), Code::kCorruption) << size;
  }
  const auto code_with = [&good](size_t at, char byte) {
    std::string bytes = good;
    bytes[at] = byte;
    return DecodeBatch(bytes).status().code();
  };
  EXPECT_EQ(code_with(22, 0), Code::kCorruption) << "no such type";
  EXPECT_EQ(code_with(22, 4), Code::kCorruption) << "references are not for others to make";
  EXPECT_EQ(code_with(22, 5), Code::kCorruption) << "batches do not nest";
  EXPECT_EQ(code_with(22, 2), Code::kCorruption) << "a delete with a value";
  EXPECT_EQ(code_with(23, 1), Code::kCorruption) << "flags";
  EXPECT_EQ(code_with(15, 127), Code::kCorruption) << "a value larger than the batch";
  EXPECT_EQ(code_with(32 + 12, 3), Code::kCorruption) << "an update without its function";
}

}  // namespace
}  // namespace quire::engine::write_batch_test
