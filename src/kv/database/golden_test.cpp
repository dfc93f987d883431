// The golden files of the descriptor DATABASE, and of what ranks say to each other about a database
// (docs/format/database.md, message-kv.md).
#include <gtest/gtest.h>

#include <string>

#include "kv/protocol/descriptor.h"
#include "kv/protocol/wire.h"
#include "tests/support/golden.h"

namespace quire::kv::golden_test {
namespace {

TEST(KvGolden, ADescriptorIsWrittenAndReadAsEver) {
  DatabaseDescriptor written;
  written.state = DescriptorState::kCreating;
  written.generations = {{3, 1024, "by particle", ""}, {1, 16, "hash", "/lustre/run 7/db/12"}};
  written.options = {"memtable_bytes=67108864", "log=on"};
  const std::string text = test::Golden(QUIRE_GOLDEN "/v1_database", EncodeDescriptor(written));
  const Result<DatabaseDescriptor> read = DecodeDescriptor(text, "DATABASE");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->state, DescriptorState::kCreating);
  ASSERT_EQ(read->generations.size(), 2u);
  EXPECT_EQ(read->generations[0].number, 3u);
  EXPECT_EQ(read->generations[0].rank_count, 1024);
  EXPECT_EQ(read->generations[0].partitioner, "by particle");
  EXPECT_EQ(read->generations[1].location, "/lustre/run 7/db/12");
  EXPECT_EQ(read->options, written.options);
}

TEST(KvGolden, ListsAreWrittenAndReadAsEver) {
  std::string keys;
  AddKey(&keys, "a");
  AddKey(&keys, std::string(200, 'b'));
  const auto read_keys = DecodeKeys(test::Golden(QUIRE_GOLDEN "/v1_keys", keys));
  ASSERT_TRUE(read_keys.ok());
  EXPECT_EQ(read_keys->size(), 2u);

  std::string values;
  AddResult(&values, Status(), "value");
  AddResult(&values, Status(Code::kNotFound), "");
  const auto read_values = DecodeResults(test::Golden(QUIRE_GOLDEN "/v1_values", values));
  ASSERT_TRUE(read_values.ok());
  ASSERT_EQ(read_values->size(), 2u);
  EXPECT_EQ((*read_values)[1].status.code(), Code::kNotFound);

  const NamedTables tables = {0x1122334455667788, 42};
  NamedTables read_tables;
  ASSERT_TRUE(DecodeTablesAnswer(
      test::Golden(QUIRE_GOLDEN "/v1_tables", EncodeTablesAnswer(tables)), &read_tables));
  EXPECT_EQ(read_tables, tables);

  const std::string failures = EncodeApplyFailures({300, Status(Code::kNoSpace, "full")});
  const auto read_failures = DecodeApplyFailures(test::Golden(QUIRE_GOLDEN "/v1_damage", failures));
  ASSERT_TRUE(read_failures.ok());
  EXPECT_EQ(read_failures->lost_count, 300u);
  EXPECT_EQ(read_failures->first.message(), "full");
}

}  // namespace
}  // namespace quire::kv::golden_test
