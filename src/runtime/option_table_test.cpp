#include "quire/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <utility>

namespace quire::option_table_test {
namespace {

using testing::HasSubstr;

// Sets an environment variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(OptionTable, HasARowForEveryOptionWithAUniqueName) {
  std::set<std::string> names;
  for (const OptionRow& row : OptionTable::Rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_EQ(row.environment.rfind("QUIRE_", 0), 0u) << row.name;
  }
  EXPECT_EQ(names.size(), 51u);
}

// Every default can be got and set, and leaves the options as they are.
template <typename Options>
void ExpectDefaults(const std::set<OptionGroup>& groups) {
  Options options;
  for (const OptionRow& row : OptionTable::Rows()) {
    if (!groups.contains(row.group)) continue;
    const Result<std::string> value = OptionTable::Get(row.name, options);
    ASSERT_TRUE(value.ok()) << row.name;
    EXPECT_EQ(*value, row.default_value) << row.name;
    const Status set = OptionTable::SetFromText(row.name + "=" + *value, &options);
    EXPECT_TRUE(set.ok()) << set.ToString();
  }
  EXPECT_TRUE(OptionTable::Check(options).ok());
}

TEST(OptionTable, DefaultsAreThoseOfTheStructs) {
  ExpectDefaults<ContextOptions>({OptionGroup::kContext});
  ExpectDefaults<DatabaseOptions>({OptionGroup::kStorage, OptionGroup::kDatabase});
  ExpectDefaults<DatasetOptions>({OptionGroup::kDataset});
  ExpectDefaults<StreamOptions>({OptionGroup::kStream});
}

TEST(OptionTable, ReadsNumbersBytesSwitchesAndNames) {
  DatabaseOptions options;
  ASSERT_TRUE(OptionTable::SetFromText("memtable_bytes=16MiB", &options).ok());
  EXPECT_EQ(options.storage.memtable_bytes, 16u << 20);
  ASSERT_TRUE(OptionTable::Set("flushing_queue_length", "5", &options).ok());
  EXPECT_EQ(options.storage.flushing_queue_length, 5);
  ASSERT_TRUE(OptionTable::Set("group_size", "1", &options).ok());
  EXPECT_EQ(options.group_size, 1);
  ASSERT_TRUE(OptionTable::Set("wal", "sync", &options).ok());
  EXPECT_EQ(options.storage.wal, WalMode::kSync);
  ASSERT_TRUE(OptionTable::Set("protection", "update_only", &options).ok());
  EXPECT_EQ(options.protection, Protection::kUpdateOnly);
  ASSERT_TRUE(OptionTable::Set("partitioner_name", "by first letter", &options).ok());
  EXPECT_EQ(options.partitioner_name, "by first letter");
  EXPECT_EQ(*OptionTable::Get("wal", options), "sync");
}

TEST(OptionTable, HasAStreamsOptionsWithTheirRanges) {
  StreamOptions options;
  ASSERT_TRUE(OptionTable::SetFromText("stream_log_bytes=16TiB", &options).ok());
  EXPECT_EQ(options.log_bytes, uint64_t{16} << 40);
  ASSERT_TRUE(OptionTable::Set("stream_keep_versions", "7", &options).ok());
  EXPECT_EQ(options.keep_versions, 7u);
  ASSERT_TRUE(OptionTable::Set("stream_deltas", "watch", &options).ok());
  EXPECT_EQ(options.deltas, StreamDeltas::kWatch);
  ASSERT_TRUE(OptionTable::Set("stream_compression", "lz4", &options).ok());
  EXPECT_EQ(options.compression, Compression::kLz4);
  for (const char* text :
       {"stream_log_bytes=1023KiB", "stream_log_bytes=17TiB", "stream_keep_versions=0",
        "stream_collect_percent=9", "stream_compression=zstd", "stream_deltas=on",
        "stream_full_every=1025"}) {
    EXPECT_EQ(OptionTable::SetFromText(text, &options).code(), Code::kInvalidArgument) << text;
  }
  options.collect_percent = 101;
  EXPECT_THAT(OptionTable::Check(options).message(),
              HasSubstr("stream_collect_percent is \"101\""));
  options = StreamOptions();
  options.compression = Compression::kZstd;
  EXPECT_EQ(OptionTable::Check(options).code(), Code::kInvalidArgument);
}

TEST(OptionTable, EnvironmentGivesAStreamsOptions) {
  const Variable deltas("QUIRE_STREAM_DELTAS", "auto");
  const Variable keep("QUIRE_STREAM_KEEP_MS", "2000");
  StreamOptions options;
  ASSERT_TRUE(OptionTable::ApplyEnvironment(&options).ok());
  EXPECT_EQ(options.deltas, StreamDeltas::kAuto);
  EXPECT_EQ(options.keep_ms, 2000u);
  EXPECT_THAT(OptionTable::Explain({}, {}),
              HasSubstr("stream_deltas = auto  (environment QUIRE_STREAM_DELTAS"));
}

TEST(OptionTable, NamesTheNearestOptionForAnUnknownOne) {
  DatabaseOptions options;
  const Status status = OptionTable::Set("memtable_byte", "1", &options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("memtable_bytes"));
}

TEST(OptionTable, SaysWhereAnOptionBelongs) {
  DatabaseOptions options;
  const Status status = OptionTable::Set("timeout_ms", "1000", &options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("an option of a context"));
}

TEST(OptionTable, RefusesValuesThatAreNotOfTheirTypeOrOutOfRange) {
  DatabaseOptions options;
  for (const char* text :
       {"memtable_bytes=", "memtable_bytes=64k", "memtable_bytes=-1", "memtable_bytes=1",
        "memtable_bytes=99999999999999999999", "memtable_bytes=17179869184TiB", "wal=maybe",
        "group_size=-1", "redistribute=2", "bloom_bits_per_key=33", "bloom_bits_per_key=10MiB",
        "memtable_bytes"}) {
    const Status status = OptionTable::SetFromText(text, &options);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
  }
  EXPECT_EQ(options.storage.memtable_bytes, DatabaseOptions().storage.memtable_bytes);
}

TEST(OptionTable, CheckNamesTheFieldThatIsOutOfRange) {
  DatabaseOptions options;
  options.storage.flushing_queue_length = -3;
  Status status = OptionTable::Check(options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("flushing_queue_length is \"-3\""));
  options = DatabaseOptions();
  options.consistency = static_cast<Consistency>(7);
  status = OptionTable::Check(options);
  EXPECT_THAT(status.message(), HasSubstr("consistency"));
  options = DatabaseOptions();
  options.partitioner_name = "two\nlines";
  EXPECT_FALSE(OptionTable::Check(options).ok());
}

TEST(OptionTable, EnvironmentGivesWhatTheProgramLeftAtItsDefault) {
  const Variable memtable("QUIRE_MEMTABLE_BYTES", "1MiB");
  const Variable cache("QUIRE_CACHE_BYTES", "2MiB");
  DatabaseOptions options;
  options.storage.cache_bytes = 5;
  ASSERT_TRUE(OptionTable::ApplyEnvironment(&options).ok());
  EXPECT_EQ(options.storage.memtable_bytes, 1u << 20);
  EXPECT_EQ(options.storage.cache_bytes, 5u);
  EXPECT_THAT(OptionTable::Explain({}, {}),
              HasSubstr("memtable_bytes = 1MiB  (environment QUIRE_MEMTABLE_BYTES"));
}

TEST(OptionTable, ABadEnvironmentVariableIsNamed) {
  const Variable variable("QUIRE_WAL", "perhaps");
  DatabaseOptions options;
  const Status status = OptionTable::ApplyEnvironment(&options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("QUIRE_WAL"));
  EXPECT_THAT(status.message(), HasSubstr("off|on|sync"));
}

TEST(OptionTable, AMisspeltEnvironmentVariableIsNamedWithTheNearest) {
  const std::pair<const char*, const char*> misspelt[] = {
      {"QUIRE_MEMTABLE_BYTE", "QUIRE_MEMTABLE_BYTES"},
      {"QUIRE_MEMTABLE_SIZE", "QUIRE_MEMTABLE_BYTES"},
      {"QUIRE_STREAM_LOGBYTES", "QUIRE_STREAM_LOG_BYTES"},
      {"QUIRE_LOGS", "QUIRE_LOG"},
      {"QUIRE_TIMEOUT", "QUIRE_TIMEOUT_MS"},
      {"QUIRE_MEM", "QUIRE_MEMORY_BYTES"},
      {"QUIRE_WAL_MODE", "QUIRE_WAL"},
      {"QUIRE_STREAMD_TOKEN_DIRECTORY", "QUIRE_STREAMD_TOKEN"},
      {"QUIRE_LOG_LEVEL", "QUIRE_LOG"},
      {"QUIRE_COMPRESSION_ALGORITHM", "QUIRE_COMPRESSION"},
      {"QUIRE_STREAMD_TOKN", "QUIRE_STREAMD_TOKEN"},
      {"QUIRE_LOG_BYTES", "QUIRE_STREAM_LOG_BYTES"},
      {"QUIRE_TOKEN", "QUIRE_STREAMD_TOKEN"},
      {"QUIRE_STREAM_PLACES", "QUIRE_STREAM_PLACE"}};
  for (const auto& [name, nearest] : misspelt) {
    const Variable variable(name, "1MiB");
    ContextOptions context;
    StreamOptions stream;
    for (const Status& status :
         {OptionTable::ApplyEnvironment(&context), OptionTable::ApplyEnvironment(&stream)}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
      EXPECT_THAT(status.message(), HasSubstr(std::string(name) + ":"));
      EXPECT_THAT(status.message(), HasSubstr(std::string("nearest is ") + nearest + ";"));
    }
  }
}

TEST(OptionTable, EnvironmentVariablesOfOthersAreLeftAlone) {
  const std::string overlong = "QUIRE_MEMTABLE_BYTES" + std::string(100, 'S');
  for (const char* name :
       {"QUIRE_TEST_SCALE", "QUIRE_NODES_STORAGE", "QUIRE_MPI_FLAVOR", "QUIRE_DEMO_DATA",
        "QUIRE_STREAMD_TOKEN", "QUIRE_LOG", "QUIRE_", "QUIRE_ST", "QUIREMENT", overlong.c_str()}) {
    const Variable variable(name, "1MiB");
    DatabaseOptions options;
    EXPECT_TRUE(OptionTable::ApplyEnvironment(&options).ok()) << name;
  }
  const Variable empty("QUIRE_MEMTABLE_BYTE", "");
  DatabaseOptions options;
  EXPECT_TRUE(OptionTable::ApplyEnvironment(&options).ok());
}

TEST(OptionTable, AWrongUnitIsAnsweredWithTheUnits) {
  DatabaseOptions options;
  const Status status = OptionTable::Set("memtable_bytes", "16MB", &options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("\"16MB\""));
  EXPECT_THAT(status.message(), HasSubstr("KiB, MiB, GiB, TiB"));
}

}  // namespace
}  // namespace quire::option_table_test
