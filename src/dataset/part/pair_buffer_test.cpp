#include "dataset/part/pair_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/core/random.h"
#include "io/sim/sim_file_system.h"
#include "table/block_cache.h"
#include "table/entry_iterator.h"
#include "table/table.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::pair_buffer_test {
namespace {

std::string KeyOf(uint64_t i) {
  std::string key = std::to_string(i);
  std::reverse(key.begin(), key.end());  // not in order
  return key;
}

// The pairs of the table that the buffer becomes.
std::string TableOf(PairBuffer* buffer, io::FileSystem& fs, uint64_t* count) {
  auto file = fs.Open("/table", io::FileOpenMode::kReadWriteCreate);
  EXPECT_OK(file.status());
  const auto builder = table::TableBuilder::CreateIn(std::move(*file), 1, 1, StorageOptions());
  EXPECT_OK(buffer->AddTo(builder.get()));
  const auto info = builder->Finish();
  EXPECT_OK(info.status());
  *count = info->entry_count;
  file = fs.Open("/table", io::FileOpenMode::kRead);
  EXPECT_OK(file.status());
  auto table = table::Table::OpenIn(std::move(*file), 1, StorageOptions(),
                                    table::NewBlockCache(1 << 20));
  EXPECT_OK(table.status());
  const auto entries = (*table)->NewIterator(false);
  std::string text;
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    text += std::string(entries->key()) + "=" + std::string(entries->value()) + ";";
  }
  EXPECT_OK(fs.Unlink("/table"));
  return text;
}

// Full to the last byte, at sizes that are multiples of nothing, and again after it was emptied.
TEST(PairBuffer, HoldsWhatFitsAndNothingLess) {
  const auto fs = io::NewSimFileSystem();
  for (const uint64_t capacity : {1000u, 1001u, 1007u, 1015u, 4096u}) {
    PairBuffer buffer(capacity);
    for (int round = 0; round < 2; ++round) {
      uint64_t count = 0;
      while (buffer.Fits(KeyOf(count).size(), 7)) buffer.Add(KeyOf(count++), "value77", 3);
      EXPECT_LE(buffer.used(), capacity);
      const uint64_t left = capacity - buffer.used();
      EXPECT_LT(left, PairBuffer::kExtraBytes + KeyOf(count).size() + 7);
      if (left > PairBuffer::kExtraBytes) {  // one that fits exactly
        const std::string key(left - PairBuffer::kExtraBytes, 'k');
        EXPECT_TRUE(buffer.Fits(key.size(), 0));
        EXPECT_FALSE(buffer.Fits(key.size(), 1));
        buffer.Add(key, "", 3);
        EXPECT_EQ(buffer.used(), capacity);
        ++count;
      }
      EXPECT_EQ(buffer.count(), count);
      uint64_t found = 0;
      TableOf(&buffer, *fs, &found);
      EXPECT_EQ(found, count);
      buffer.Clear();
      EXPECT_TRUE(buffer.empty());
    }
  }
}

TEST(PairBuffer, TakesOnePairThatIsLargerThanItself) {
  const auto fs = io::NewSimFileSystem();
  PairBuffer buffer(1000);
  const std::string large(100'003, 'v');
  for (int round = 0; round < 2; ++round) {
    uint64_t found = 0;
    EXPECT_TRUE(buffer.Fits(1, large.size()));
    buffer.Add("a", large, 0);
    EXPECT_FALSE(buffer.Fits(1, 0));
    EXPECT_EQ(TableOf(&buffer, *fs, &found), "a=" + large + ";");
    buffer.Clear();
    buffer.Add("b", "1", 0);
    buffer.Add("a", "2", 0);
    buffer.Add("b", "3", 0);
    EXPECT_EQ(TableOf(&buffer, *fs, &found), "a=2;b=3;");
    EXPECT_EQ(found, 2u);
    buffer.Clear();
  }
}

}  // namespace
}  // namespace quire::dataset::pair_buffer_test
