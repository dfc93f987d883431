// What is saved of tables with damaged blocks: all that the sound blocks hold, each entry once.
#include "lsm/offline/salvage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "lsm/version/run_writer.h"
#include "table/table_reader.h"
#include "table/table_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::salvage_test {
namespace {

using table::TestEntry;

constexpr char kPath[] = "/t-1.sst";

// Keys of one version, one key with versions in many blocks, and keys of one version again.
std::vector<TestEntry> Entries() {
  std::vector<TestEntry> entries;
  const auto add = [&](const std::string& key, uint64_t lsn) {
    entries.push_back({key, lsn, log::RecordType::kPut, std::string(200, 'v')});
  };
  for (uint64_t i = 0; i < 20; ++i) add("a" + std::to_string(100 + i), 1000 + i);
  for (uint64_t i = 0; i < 100; ++i) add("many", 500 - i);
  for (uint64_t i = 0; i < 20; ++i) add("z" + std::to_string(100 + i), 2000 + i);
  return entries;
}

class SalvageTest : public testing::Test {
 protected:
  SalvageTest() {
    options_.block_bytes = 512;
    info_ = table::WriteTable(*fs_, kPath, 1, options_, Entries());
    const auto opened = table::Table::Open(*fs_, kPath, 1, options_, table::NewBlockCache(0));
    EXPECT_OK(opened.status());
    Status status;
    const auto* const reader = static_cast<const table::TableReader*>(opened->get());
    const auto pin = table::BlockPin::Adopt(reader->ReadIndex(&status));
    EXPECT_OK(status);
    const table::TableIndex& index = table::TableReader::IndexIn(*pin.get());
    for (uint64_t block = 0; block < index.block_count(); ++block) {
      begins_.push_back(index.offset(block));
      last_keys_.emplace_back(index.separator(block));
    }
  }

  // The first block that ends with a key like this.
  size_t BlockOf(const std::string& beginning) const {
    size_t block = 0;
    while (last_keys_[block].rfind(beginning, 0) != 0) ++block;
    return block;
  }
  void Damage(const std::vector<size_t>& blocks) {
    for (const size_t block : blocks) {
      ASSERT_OK(fs_->Damage(kPath, [&](std::string* bytes) {
        char& byte = (*bytes)[begins_[block] + 20];
        byte = static_cast<char>(byte ^ 1);
      }));
    }
  }
  // Returns the report, and writes each entry that is kept to a new table.
  SalvagedTable Salvage(std::vector<TestEntry>* kept) {
    const auto planned = SalvageTable(*fs_, kPath, info_, options_, {}, nullptr);
    EXPECT_OK(planned.status());
    uint64_t ssid = 2;
    RunWriter writer(*fs_, "", options_, AlwaysHeld, [&ssid] { return ssid++; },
                     SegmentTracker::Protection::NotNeeded());
    auto salvaged = SalvageTable(*fs_, kPath, info_, options_, {}, &writer);
    EXPECT_OK(salvaged.status());
    const auto tables = writer.Finish();
    EXPECT_OK(tables.status());
    if (!planned.ok() || !salvaged.ok() || !tables.ok()) return {};
    EXPECT_EQ(planned->kept, salvaged->kept);
    EXPECT_EQ(tables->size(), 1u);
    const auto opened =
        table::Table::Open(*fs_, "/t-2.sst", 2, options_, table::NewBlockCache(0));
    EXPECT_OK(opened.status());
    *kept = table::ReadAll((*opened)->NewIterator(false).get());
    EXPECT_EQ(kept->size(), salvaged->kept);
    return std::move(*salvaged);
  }

  const std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  StorageOptions options_;
  table::TableInfo info_;
  std::vector<uint64_t> begins_;
  std::vector<std::string> last_keys_;
};

TEST_F(SalvageTest, BlocksThatAreDamagedByTurnsWithinAKeyCostNoOtherKey) {
  const size_t many = BlockOf("many") + 1;
  ASSERT_EQ(last_keys_[many + 4], "many");
  const size_t behind = BlockOf("z") + 2;
  ASSERT_LT(behind + 1, begins_.size());
  Damage({many, many + 2, many + 4, behind});
  std::vector<TestEntry> kept;
  const SalvagedTable salvaged = Salvage(&kept);
  std::set<std::string> keys;
  for (const TestEntry& entry : kept) keys.insert(entry.key);
  std::set<std::string> expected;
  for (const TestEntry& entry : Entries()) {
    const bool lost = entry.key > last_keys_[behind - 1] && entry.key <= last_keys_[behind];
    if (!lost) expected.insert(entry.key);
  }
  EXPECT_EQ(keys, expected);
  ASSERT_EQ(salvaged.ranges.size(), 2u);
  EXPECT_EQ(salvaged.ranges[0].up_to, "many");
  EXPECT_EQ(salvaged.ranges[1].up_to, last_keys_[behind]);
}

// The first block of the key is whole: what is lost begins with the key, not behind it.
TEST_F(SalvageTest, OlderVersionsOfAKeyThatAreLostAreNamed) {
  const size_t many = BlockOf("many") + 1;
  Damage({many});
  std::vector<TestEntry> kept;
  const SalvagedTable salvaged = Salvage(&kept);
  const std::vector<std::string> losses = LossesOf(kPath, info_, salvaged);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NE(losses[0].find("had keys from many up to many"), std::string::npos) << losses[0];
}

}  // namespace
}  // namespace quire::lsm::salvage_test
