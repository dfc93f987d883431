#include "api/compat/papyruskv_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "quire/option_table.h"

namespace quire::compat::papyruskv_settings_test {
namespace {

using testing::HasSubstr;

// Variables that are there for one test.
class Variables {
 public:
  Variables(std::initializer_list<std::pair<const char*, const char*>> list) : list_(list) {
    for (const auto& [name, value] : list_) ::setenv(name, value, 1);
  }
  ~Variables() {
    for (const auto& [name, value] : list_) ::unsetenv(name);
  }

 private:
  std::vector<std::pair<const char*, const char*>> list_;
};

DatabaseOptions OptionsWith(int flags, const papyruskv_option_t* option = nullptr) {
  const Result<Settings> settings = ReadSettings();
  EXPECT_TRUE(settings.ok()) << settings.status().ToString();
  if (!settings.ok()) return {};
  const Result<DatabaseOptions> options = OptionsOf(*settings, flags, option);
  EXPECT_TRUE(options.ok()) << options.status().ToString();
  if (!options.ok()) return {};
  EXPECT_TRUE(OptionTable::Check(*options).ok()) << OptionTable::Check(*options).ToString();
  return *options;
}

TEST(PapyruskvSettings, DefaultsAreThePapers) {
  const DatabaseOptions options = OptionsWith(PAPYRUSKV_CREATE);
  EXPECT_EQ(options.mode, OpenMode::kOpenOrCreate);
  EXPECT_EQ(options.consistency, Consistency::kRelaxed);
  EXPECT_EQ(options.protection, Protection::kReadWrite);
  EXPECT_EQ(options.storage.wal, WalMode::kOff);
  EXPECT_EQ(options.storage.memtable_bytes, 1ull << 30);
  EXPECT_EQ(options.memory_percent_max, 12);
  EXPECT_EQ(options.local_cache_bytes, 0u);
  EXPECT_EQ(options.remote_cache_bytes, 0u);
  EXPECT_EQ(options.storage.bloom_bits_per_key, 10);
  EXPECT_EQ(options.group_size, 0);
  EXPECT_EQ(options.storage.search, StorageOptions().search);
  EXPECT_EQ(options.migrate_batch_bytes, 64u << 10);
  EXPECT_FALSE(options.partitioner);
  EXPECT_TRUE(ReadSettings()->destroy_repository);
}

TEST(PapyruskvSettings, EachVariableSetsItsOption) {
  const Variables variables{{"PAPYRUSKV_GROUP_SIZE", "-1"},
                            {"PAPYRUSKV_CONSISTENCY", "1"},
                            {"PAPYRUSKV_SSTABLE", "1"},
                            {"PAPYRUSKV_CACHE_LOCAL", "1"},
                            {"PAPYRUSKV_CACHE_REMOTE", "2"},
                            {"PAPYRUSKV_CACHE_SIZE", "4096"},
                            {"PAPYRUSKV_BLOOM", "0"},
                            {"PAPYRUSKV_MEMTABLE_SIZE", "131072"},
                            {"PAPYRUSKV_REMOTE_BUFFER_SIZE", "4096"},
                            {"PAPYRUSKV_REMOTE_BUFFER_ENTRY_MAX", "512"},
                            {"PAPYRUSKV_FORCE_REDISTRIBUTE", "1"},
                            {"PAPYRUSKV_DESTROY_REPOSITORY", "0"},
                            {"QUIRE_WAL", "on"}};
  const DatabaseOptions options = OptionsWith(0);
  EXPECT_EQ(options.mode, OpenMode::kMustExist);
  EXPECT_EQ(options.group_size, 1);
  EXPECT_EQ(options.consistency, Consistency::kSequential);
  EXPECT_EQ(options.storage.search, SearchMode::kSequential);
  EXPECT_EQ(options.local_cache_bytes, 4096u);
  EXPECT_EQ(options.remote_cache_bytes, 4096u);
  EXPECT_EQ(options.storage.bloom_bits_per_key, 0);
  EXPECT_EQ(options.storage.memtable_bytes, 131072u);
  EXPECT_EQ(options.memory_percent_max, 25);
  EXPECT_EQ(MemoryPercent(*ReadSettings(), 4), 5);
  EXPECT_EQ(MemoryPercent(*ReadSettings(), 255), 1);
  EXPECT_EQ(options.migrate_batch_bytes, 4096u);
  EXPECT_EQ(options.storage.wal, WalMode::kOn);
  EXPECT_TRUE(ReadSettings()->redistribute);
  EXPECT_FALSE(ReadSettings()->destroy_repository);
}

TEST(PapyruskvSettings, AGroupHasSoManyRanks) {
  const Variables variables{{"PAPYRUSKV_GROUP_SIZE", "2"}};
  EXPECT_EQ(OptionsWith(0).group_size, 2);
}

TEST(PapyruskvSettings, ACacheThatIsOnHas128MiBWhereNoSizeIsSaid) {
  const Variables variables{{"PAPYRUSKV_CACHE_LOCAL", "1"}, {"PAPYRUSKV_CACHE_REMOTE", "0"}};
  EXPECT_EQ(OptionsWith(0).local_cache_bytes, 128u << 20);
  EXPECT_EQ(OptionsWith(0).remote_cache_bytes, 0u);
}

TEST(PapyruskvSettings, BinSearchCountsWhereBothNamesOfItAreSet) {
  const Variables variables{{"PAPYRUSKV_SSTABLE", "1"}, {"PAPYRUSKV_BIN_SEARCH", "2"}};
  EXPECT_EQ(OptionsWith(0).storage.search, SearchMode::kBinary);
}

TEST(PapyruskvSettings, SizesOutOfQuiresRangeAreBroughtIntoIt) {
  const Variables variables{{"PAPYRUSKV_MEMTABLE_SIZE", "1"},
                            {"PAPYRUSKV_REMOTE_BUFFER_SIZE", "999999999999"}};
  const DatabaseOptions options = OptionsWith(0);
  EXPECT_EQ(options.storage.memtable_bytes, 64u << 10);
  EXPECT_EQ(options.migrate_batch_bytes, 16u << 20);
}

TEST(PapyruskvSettings, AVariableThatIsNoSuchNumberIsNamed) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, const char*>>{{"PAPYRUSKV_CONSISTENCY", "3"},
                                                                  {"PAPYRUSKV_MEMTABLE_SIZE", "1g"},
                                                                  {"PAPYRUSKV_GROUP_SIZE", "0"},
                                                                  {"PAPYRUSKV_BIN_SEARCH", "0"},
                                                                  {"PAPYRUSKV_BLOOM", "yes"}}) {
    const Variables variables{{name, value}};
    const Status status = ReadSettings().status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

TEST(PapyruskvSettings, FlagsSayMoreThanTheEnvironment) {
  const Variables variables{{"PAPYRUSKV_CONSISTENCY", "1"}};
  EXPECT_EQ(OptionsWith(PAPYRUSKV_RELAXED | PAPYRUSKV_UDONLY).consistency, Consistency::kRelaxed);
  EXPECT_EQ(OptionsWith(PAPYRUSKV_UDONLY).protection, Protection::kUpdateOnly);
}

TEST(PapyruskvSettings, FlagsThatContradictEachOtherAreRefused) {
  for (const int flags :
       {PAPYRUSKV_RDWR | PAPYRUSKV_RDONLY, PAPYRUSKV_SEQUENTIAL | PAPYRUSKV_RELAXED, 1 << 7, -1}) {
    EXPECT_EQ(OptionsOf(Settings(), flags, nullptr).status().code(), Code::kInvalidArgument)
        << flags;
  }
  EXPECT_EQ(ProtectionOf(0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ConsistencyOf(3).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(LevelOf(0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(*LevelOf(PAPYRUSKV_MEMTABLE | PAPYRUSKV_SSTABLE), Level::kSsTable);
}

int LastByte(const char* key, size_t size, size_t rank_count) {
  return static_cast<int>(static_cast<unsigned char>(key[size - 1]) % rank_count);
}

TEST(PapyruskvSettings, AHashFunctionIsThePartitioner) {
  const papyruskv_option_t option = {0, 0, LastByte};
  EXPECT_EQ(OptionsWith(0, &option).partitioner(Slice("ab\x05"), 3), 2);
}

}  // namespace
}  // namespace quire::compat::papyruskv_settings_test
