// The cost of opening a closed database: its manifest, whatever its tables contain.
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/ipc/shared_memory.h"
#include "lsm/db/db_testing.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/shared_region.h"
#include "lsm/offline/reader.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm::db_opening_test {
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

// Each sync waits for the device. A new database syncs the manifest, its name and that of its
// directory, the name of the log segment, its header, and the manifest that lists it, with its
// name. The log segment of one that is opened again had its name when the manifest got its own.
TEST(DbOpening, WaitsForTheDeviceSevenTimesIfTheDatabaseIsNewAndElseFive) {
  TestDb test(SmallOptions());
  const auto watched = io::NewFaultFileSystem(test.fs());
  test.environment().fs = watched.get();
  for (const int expected : {7, 5, 5}) {
    int syncs = 0;
    watched->BeforeCalls(io::kFaultSync, [&](const std::string&) { ++syncs; });
    ASSERT_OK(test.Open());
    EXPECT_EQ(syncs, expected);
    while (test.executor().RunOne()) {
    }
    EXPECT_LE(syncs, expected + 1) << "with the segment that is made ahead";
    ASSERT_OK(test->Flush());
    test.Close();
  }
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
  EXPECT_EQ(calls[true] + 6, calls[false])
      << "its size, its header, and all of it, the header page first; size and header of the one "
         "that was made ahead";
}

uint64_t Allocated(const std::string& directory, const std::string& suffix) {
  uint64_t bytes = 0;
  const auto files = io::PosixFileSystem().List(directory);
  EXPECT_OK(files.status());
  for (const io::FileInfo& file : *files) {
    if (file.name.ends_with(suffix)) bytes += file.allocated;
  }
  return bytes;
}

// With segments of the usual size, on a real file system.
TEST(DbSpace, AClosedDatabaseTakesItsTablesAndAMebibyteAtMost) {
  const test::TempDirectory home;
  const std::string directory = home / "db";
  const std::unique_ptr<base::Executor> executor = base::NewThreadPool(2, "test").value();
  engine::EngineEnvironment environment;
  environment.fs = &io::PosixFileSystem();
  environment.executor = executor.get();
  for (int round = 0; round < 3; ++round) {
    auto db = Db::Open(environment, directory, StorageOptions(), engine::OpenFlags::kOpenOrCreate);
    ASSERT_OK(db.status());
    for (int i = 0; i < round; ++i) EXPECT_EQ(GetText(**db, std::to_string(i)), "value");
    ASSERT_OK((*db)->Put(std::to_string(round), "value"));
    EXPECT_LE(Allocated(directory, ".seg"), uint64_t{1} << 20) << "while it is open, too";
    for (int i = 0; i < 3000; ++i) {
      ASSERT_OK((*db)->Put("of some megabytes " + std::to_string(i), std::string(1000, 'v')));
    }
    EXPECT_GE(Allocated(directory, ".seg"), uint64_t{3} << 20) << "it is in the log";
    ASSERT_OK((*db)->Flush());
    ASSERT_OK((*db)->WaitIdle());
    db->reset();
    EXPECT_LE(Allocated(directory, ""), Allocated(directory, ".sst") + (1 << 20));
    ::testing::Test::RecordProperty("bytes", std::to_string(Allocated(directory, "")));
  }
}

// Values of 1 MiB lie apart: the log holds a reference to each, and takes little more than these.
TEST(DbSpace, TheLogOfLargeValuesTakesLittleWhileTheDatabaseIsOpen) {
  const test::TempDirectory home;
  const std::string directory = home / "db";
  const std::unique_ptr<base::Executor> executor = base::NewThreadPool(2, "test").value();
  engine::EngineEnvironment environment;
  environment.fs = &io::PosixFileSystem();
  environment.executor = executor.get();
  StorageOptions options;
  options.memtable_bytes = 4 << 20;  // full when it refers to 32 MiB
  auto db = Db::Open(environment, directory, options, engine::OpenFlags::kOpenOrCreate);
  ASSERT_OK(db.status());
  constexpr uint64_t kValues = 100;
  for (uint64_t i = 0; i < kValues; ++i) {
    ASSERT_OK((*db)->Put(std::to_string(i), std::string(1 << 20, 'v')));
  }
  uint64_t log_bytes = 0;
  for (int slot = 0; slot < PoolSlots(options); ++slot) {
    log_bytes += Allocated(directory, LogSegmentName(slot));
  }
  EXPECT_GT(log_bytes, 0u);
  EXPECT_LE(log_bytes, (kValues << 20) / 50) << "0.02 bytes for each of the user";
}

// Returns the bytes of the node's shared memory that the database takes.
uint64_t SharedBytes(TestDb& test) {
  struct stat info;
  EXPECT_EQ(::stat(("/dev/shm/" + test->region_name()).c_str(), &info), 0);
  return static_cast<uint64_t>(info.st_blocks) * 512;
}
constexpr uint64_t kSharedSlack = 3 << 20;  // the board, and what a huge page may add

// The index of each MemTable takes its shared memory when it is first used.
TEST(DbSpace, AnOpenDatabaseTakesTheSharedMemoryOfTheMemTablesThatItUses) {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 32 << 20;
  TestDb test(options);
  test.environment().share_memory = true;
  ASSERT_OK(test.Open());
  EXPECT_LE(SharedBytes(test), IndexBytes(options.memtable_bytes) + kSharedSlack);
  ASSERT_OK(test->Put("a", "1"));
  ASSERT_OK(test->Flush());
  EXPECT_LE(SharedBytes(test), 2 * IndexBytes(options.memtable_bytes) + kSharedSlack);
}

// If the node's shared memory is taken meanwhile, MemTables lie in memory of their own.
TEST(DbSpace, WithoutSharedMemoryLeftADatabaseGoesOn) {
  TestDb test(SmallOptions());
  test.environment().share_memory = true;
  ASSERT_OK(test.Open());
  io::SharedMemory::LimitForTests(4096);
  Model model;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "key" + std::to_string(i);
    const Status put = test->Put(key, "value");
    if (!put.ok()) ADD_FAILURE() << put.ToString();
    model[key] = "value";
  }
  EXPECT_EQ(AllOf(*test->NewIterator({})), model);
  io::SharedMemory::LimitForTests(UINT64_MAX);
  ASSERT_OK(test.Reopen());
  EXPECT_EQ(AllOf(*test->NewIterator({})), model);
}

TEST(DbSpace, ALogWithRecordsStaysWhenTheDatabaseIsClosed) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  ASSERT_OK(test->Put("flushed", "1"));
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Put("logged", "2"));
  ASSERT_OK(test.Reopen());
  EXPECT_EQ(GetText(test.db(), "logged"), "2");
  EXPECT_EQ(GetText(test.db(), "flushed"), "1");
}

// Its lock lost, as by a file system without locks: the next one's log is none of its own.
TEST(DbSpace, AnOrphanThatClosesTakesNothingOfTheNextOpenersLog) {
  TestDb orphan(SmallOptions());
  ASSERT_OK(orphan.Open());
  ASSERT_OK(orphan->Put("a", "1"));
  ASSERT_OK(orphan->Flush());
  ASSERT_TRUE(orphan.fs().Damage("/db/MANIFEST", [&](std::string* bytes) {
                      Result<Manifest> manifest = DecodeManifest(*bytes, "MANIFEST");
                      ASSERT_OK(manifest.status());
                      ++manifest->epoch;
                      *bytes = EncodeManifest(*manifest);
                    }).ok());
  orphan.Close();
  const auto exists = orphan.fs().Exists("/db/log-0.seg");
  EXPECT_TRUE(exists.ok() && *exists);
}

// Only the part of a segment that is about to be written is made present: such pages are written
// out.
TEST(DbSpace, OnlyWhatIsStoredToIsMadePresent) {
  class Counting : public io::MappedFile {
   public:
    explicit Counting(std::vector<char>* bytes) {
      data_ = bytes->data();
      size_ = bytes->size();
    }
    Status Sync(uint64_t, uint64_t) override { return Status(); }
    void Prefault(uint64_t offset, uint64_t size) override {
      EXPECT_EQ(offset, present);
      present = offset + size;
      EXPECT_LE(present, room());
    }
    const std::string& path() const override { return path_; }
    uint64_t present = 0;
    int growths = 0;

   private:
    Status SetAside(uint64_t begin, uint64_t end) override {
      EXPECT_EQ(begin, room());
      EXPECT_LE(end, size_);
      ++growths;
      return Status();
    }
    const std::string path_;
  };
  constexpr uint64_t kBytes = 16 << 20;
  std::vector<char> records(kBytes);
  const std::unique_ptr<char, void (*)(void*)> index(
      static_cast<char*>(std::aligned_alloc(4096, IndexBytes(kBytes))), std::free);
  Counting file(&records);
  file.LimitRoom(log::kFirstRoomBytes);
  MemTable table(index.get(), records.data(), kBytes, 1, 0, &file);
  const std::string value(1000, 'v');
  for (uint64_t i = 0; table.Add({log::RecordType::kPut, std::to_string(i), value}, nullptr); ++i) {
    const uint64_t used = log::kSegmentHeaderBytes + table.data_bytes();
    ASSERT_GE(file.present, used);
    ASSERT_LE(file.present, used + std::max<uint64_t>(used / 4, 128 << 10));
    ASSERT_GE(file.room(), used);
    ASSERT_LE(file.room(), std::max<uint64_t>(2 * used, log::kFirstRoomBytes)) << "set aside";
  }
  EXPECT_EQ(file.present, kBytes);
  EXPECT_EQ(file.room(), kBytes);
  EXPECT_EQ(file.growths, 6) << "it doubles from 256 KiB to 16 MiB";
}

}  // namespace
}  // namespace quire::lsm::db_opening_test
