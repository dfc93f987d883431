// What opening a closed database costs: its manifest, whatever its tables hold.
#include <map>
#include <string>

#include "lsm/db_test_support.h"
#include "lsm/reader.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm {
namespace {

StorageOptions LargeTables() {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 4 << 20;
  options.table_bytes_max = 64 << 20;
  return options;
}

// A closed database with `keys` pairs in one table.
void Fill(TestDb& test, int keys) {
  ASSERT_OK(test.Open());
  for (int i = 0; i < keys; ++i) ASSERT_OK(test->Put("key " + std::to_string(i), "value"));
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Compact());
  ASSERT_EQ(test->Statistics().table_count, 1u);
  test.Close();
}

TEST(DbOpening, MakesTheSameCallsWhateverTheTableHolds) {
  std::map<int, std::map<std::string, int>> calls;  // by number of keys, by path
  for (const int keys : {1'000, 40'000}) {
    TestDb test(LargeTables());
    Fill(test, keys);
    const auto watched = io::NewFaultFileSystem(test.fs());
    watched->BeforeCalls(io::kFaultAll, [&](const std::string& path) { ++calls[keys][path]; });
    test.environment().fs = watched.get();
    ASSERT_OK(test.Open());
    watched->BeforeCalls(io::kFaultAll, {});
    EXPECT_EQ(GetText(test.db(), "key " + std::to_string(keys - 1)), "value");
    test.Close();
  }
  EXPECT_EQ(calls[1'000], calls[40'000]);
}

// A reader copies what of the log is in no table: of a closed database nothing, of a killed one the
// segment that was in use, though nothing is in it either.
TEST(DbOpening, AReaderOfAClosedDatabaseCopiesNoLog) {
  std::map<bool, int> calls;
  for (const bool closed : {true, false}) {
    TestDb test(SmallOptions());
    ASSERT_OK(test.Open());
    ASSERT_OK(test->Put("a", "1"));
    ASSERT_OK(test->Flush());
    if (!closed) test.fs().CrashAfter(0);
    test.Close();
    if (!closed) {
      test.fs().Restart(io::CrashKind::kProcess, 1);
      test.fs().CrashAfter(UINT64_MAX);
    }
    const auto watched = io::NewFaultFileSystem(test.fs());
    watched->BeforeCalls(io::kFaultRead, [&](const std::string& path) {
      if (path.find("log-") != std::string::npos) ++calls[closed];
    });
    const auto reader = Reader::Open(*watched, "/db", {SmallOptions(), nullptr});
    ASSERT_OK(reader.status());
    EXPECT_EQ((*reader)->State().log_records, 0u);
  }
  EXPECT_EQ(calls[true] + 3, calls[false]) << "its size, its header, and all of it";
}

}  // namespace
}  // namespace quire::lsm
