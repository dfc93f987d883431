// The n-th allocation fails while one rank's database is written, flushed, captured and merged, for
// n = 0, 1, ...: no capture lacks what was acknowledged before it, and neither does the database,
// at once and when it is opened again.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/core/out_of_memory.h"
#include "base/threads/epoch.h"
#include "base/threads/executor.h"
#include "failing_allocations.h"
#include "lsm/db/db_testing.h"
#include "lsm/offline/reader.h"
#include "table/block_cache.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm {
namespace {

namespace files = std::filesystem;

constexpr size_t kKeys = 120;
constexpr int kRounds = 4;  // of writes, each of all keys
constexpr size_t kMostCaptures = 2 * kRounds;

// Every third value lies in a value segment; one round fills more than a MemTable.
std::string ValueOf(int round, size_t i) {
  return std::string(i % 3 == 0 ? 3000 : 200, static_cast<char>('a' + round));
}

StorageOptions Options() {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 64 << 10;
  options.value_segment_bytes = 64 << 10;
  options.compaction_trigger = 2;
  return options;
}

// The newest round whose write of a key was acknowledged, and the newest that was tried.
struct Written {
  int acknowledged = -1;
  int tried = -1;
  bool Allows(int round) const { return round >= acknowledged && round <= tried; }
};
using AllWritten = std::array<Written, kKeys>;

// The round of a key's value; -1: it is none that was put.
int RoundOf(Slice value, size_t i) {
  int round = kRounds - 1;
  while (round >= 0 && value != ValueOf(round, i)) --round;
  return round;
}

class StarvedDb {
 public:
  StarvedDb() {
    environment_.fs = &io::PosixFileSystem();
    environment_.executor = executor_.get();
    for (size_t i = 0; i < kKeys; ++i) {
      keys_.push_back("a key that is no short string " + std::to_string(100 + i));
      for (int round = 0; round < kRounds; ++round) {
        values_[static_cast<size_t>(round)].push_back(ValueOf(round, i));
      }
    }
  }

  // Whether the n-th allocation failed.
  bool RunsWithout(int64_t n) {
    WriteRound(0);
    test::FailAllocation(n);
    Starve();
    const bool failed = test::AllocationFailed();
    for (size_t i = 0; i < captured_; ++i) ExpectCaptured(i);
    ExpectAll("the database");
    const Status end = db_->background_status();
    captures_ = {};
    Close();
    Open();
    ExpectAll("the database, opened again after " + end.ToString());
    Close();
    return failed;
  }

 private:
  struct Captured {
    std::shared_ptr<const engine::Capture> capture;
    AllWritten written;
  };

  void Open() {
    Result<std::unique_ptr<Db>> db =
        Db::Open(environment_, place_, Options(), engine::OpenFlags::kOpenOrCreate);
    ASSERT_OK(db.status());
    db_ = std::move(*db);
  }
  void Close() {
    db_.reset();
    while (executor_->RunOne()) {
    }
  }

  // Allocates nothing itself.
  void WriteRound(int round) {
    if (db_ == nullptr) Open();
    for (size_t i = 0; i < kKeys; ++i) {
      written_[i].tried = round;
      const Status status = Call([&] {
        return db_->Put(keys_[i], values_[static_cast<size_t>(round)][i]);
      });
      if (status.ok()) written_[i].acknowledged = round;
    }
  }

  void Starve() {
    for (int round = 1; round < kRounds; ++round) {
      WriteRound(round);
      CaptureNow();
      ReadSome(round);
      (void)Call([this] { return db_->Compact(); });
      CaptureNow();
      ReadSome(round);
    }
  }

  void ReadSome(int round) {
    for (size_t i = static_cast<size_t>(round); i < kKeys; i += 5) {
      (void)Call([&] {
        return db_->Get(keys_[i], nullptr, [this](size_t) { return read_.data(); });
      });
    }
  }

  void CaptureNow() {
    Captured& captured = captures_[captured_];
    captured.written = written_;
    const Status status = Call([&]() -> Status {
      QUIRE_ASSIGN_OR_RETURN(captured.capture, db_->NewCapture());
      return Status();
    });
    if (status.ok()) ++captured_;
  }

  // Makes a call and checks its code: OK, or lack of memory, or the codes after a lack of memory
  // that left no way back.
  template <typename Body>
  static Status Call(const Body& call) {
    Status status = base::OrOutOfMemory(call);
    const bool expected = status.ok() || status.code() == Code::kOutOfMemory ||
                          status.code() == Code::kReadOnly || status.code() == Code::kIo;
    EXPECT_TRUE(expected) << status.ToString();
    return status;
  }

  void ExpectCaptured(size_t which) {
    const Captured& captured = captures_[which];
    const std::string copy = directory_.path() + "/copy";
    files::create_directory(copy);
    files::permissions(copy, files::perms::owner_all);  // whatever the umask is
    for (const engine::Capture::File& file : captured.capture->files()) {
      files::copy_file(place_ + "/" + file.name, copy + "/" + file.name);
    }
    ASSERT_OK(io::ReplaceFile(io::PosixFileSystem(), copy + "/" + ManifestName(),
                              captured.capture->manifest()));
    const auto reader = Reader::Open(io::PosixFileSystem(), copy, {Options(), nullptr});
    ASSERT_OK(reader.status());
    ASSERT_OK((*reader)->Verify({}));
    Model all = AllOf(*(*reader)->NewIterator({}));
    for (size_t i = 0; i < kKeys; ++i) {
      ExpectRound(captured.written[i], all[keys_[i]], i, "capture " + std::to_string(which));
    }
    files::remove_all(copy);
  }

  void ExpectAll(const std::string& where) {
    for (size_t i = 0; i < kKeys; ++i) ExpectRound(written_[i], GetText(*db_, keys_[i]), i, where);
  }

  static void ExpectRound(const Written& written, Slice value, size_t i, const std::string& where) {
    const int round = RoundOf(value, i);
    EXPECT_TRUE(written.Allows(round))
        << "key " << i << " of " << where << " has round " << round << ", not "
        << written.acknowledged << ": " << value.substr(0, 200);
  }

  const test::TempDirectory directory_{test::PlaceInMemory()};
  const std::string place_ = directory_.path() + "/db";
  std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  engine::EngineEnvironment environment_;
  std::unique_ptr<Db> db_;
  std::vector<std::string> keys_;
  std::array<std::vector<std::string>, kRounds> values_;
  std::string read_ = std::string(3000, '\0');
  AllWritten written_;
  std::array<Captured, kMostCaptures> captures_;
  size_t captured_ = 0;
};

TEST(StarvedDb, LosesNothingAndCapturesNothingLess) {
  int64_t n = 0;
  int64_t before = 0;
  for (; StarvedDb().RunsWithout(n); ++n) {
    ASSERT_FALSE(testing::Test::HasFailure()) << "repeat it with allocation " << n;
    base::EpochSynchronize();
    if (n == 0) before = test::AllocatedBytes();
    // The process allocates a few bytes once for all runs, maybe late.
    ASSERT_LT(test::AllocatedBytes() - before, 512) << "lost when allocation " << n << " failed";
  }
  EXPECT_GT(n, 1000) << "so few allocations";
}

// A write that is stored does not fail as if nothing was done, be it that it has filled its
// MemTable, which is then changed, or that it waits for the sync of the log: its writer would write
// it once more.
void ExpectNothingDoneWithoutMemory(const StorageOptions& options) {
  constexpr int kWrites = 60;  // of values that fill two MemTables by what they refer to
  int64_t n = 0;
  for (bool failed = true; failed && n < 400; ++n) {
    const test::TempDirectory directory(test::PlaceInMemory());
    const std::unique_ptr<base::Executor> executor = base::NewManualExecutor();
    engine::EngineEnvironment environment;
    environment.fs = &io::PosixFileSystem();
    environment.executor = executor.get();
    auto db =
        Db::Open(environment, directory.path() + "/db", options, engine::OpenFlags::kOpenOrCreate);
    ASSERT_OK(db.status());
    std::vector<std::string> keys;
    for (int i = 0; i < kWrites; ++i) {
      keys.push_back("a key that is no short string " + std::to_string(i));
    }
    const std::string value(20'000, 'v');
    std::vector<Status> statuses(kWrites);
    test::FailAllocation(n);
    for (size_t i = 0; i < keys.size(); ++i) {
      statuses[i] = base::OrOutOfMemory([&] { return (*db)->Put(keys[i], value); });
    }
    failed = test::AllocationFailed();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].code() != Code::kOutOfMemory) continue;
      EXPECT_EQ(GetText(**db, keys[i]).substr(0, 100), "<absent>")
          << keys[i] << ", allocation " << n << ": " << statuses[i].ToString();
    }
    db->reset();
    while (executor->RunOne()) {
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "repeat it with allocation " << n;
  }
  EXPECT_GT(n, 50) << "so few allocations";
}

TEST(StarvedRotation, FailsNoWriteThatIsStored) { ExpectNothingDoneWithoutMemory(Options()); }

TEST(StarvedSync, FailsNoWriteThatIsStored) {
  StorageOptions options = Options();
  options.wal = WalMode::kSync;
  ExpectNothingDoneWithoutMemory(options);
}

// An iterator over the MemTable that finds no memory leaves nothing behind that gives a key twice
// to the flush, which would take the MemTable for damaged.
TEST(StarvedView, GivesNoKeyTwiceAfterwards) {
  const test::TempDirectory directory(test::PlaceInMemory());
  const std::unique_ptr<base::Executor> executor = base::NewManualExecutor();
  engine::EngineEnvironment environment;
  environment.fs = &io::PosixFileSystem();
  environment.executor = executor.get();
  StorageOptions options = Options();
  options.memtable_bytes = 4 << 20;
  auto db =
      Db::Open(environment, directory.path() + "/db", options, engine::OpenFlags::kOpenOrCreate);
  ASSERT_OK(db.status());
  ASSERT_OK((*db)->Put("a key of an older table", "value"));
  ASSERT_OK((*db)->Flush());  // the flush of a first table would drop what comes twice
  const auto put_ten = [&] {
    for (int i = 0; i < 10; ++i) {
      ASSERT_OK((*db)->Put("a key that is no short string " + std::to_string(i), "value"));
    }
  };
  const auto iterate = [&] {
    return base::OrOutOfMemory([&] {
      const std::unique_ptr<engine::Iterator> iterator = (*db)->NewIterator({});
      return iterator->status();
    });
  };
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    put_ten();
    ASSERT_OK(iterate());  // which leaves a run to merge the next one with
    ASSERT_OK((*db)->Put("a key that came between " + std::to_string(n), "value"));
    test::FailAllocation(n);
    const Status status = iterate();
    failed = test::AllocationFailed();
    ASSERT_TRUE(status.ok() || status.code() == Code::kOutOfMemory) << status.ToString();
    ASSERT_OK((*db)->Flush());
  }
  EXPECT_GT(n, 10) << "so few allocations";
  db->reset();
  while (executor->RunOne()) {
  }
}

// Blocks that leave the cache while there is no memory to say so go later: none stays for ever.
TEST(StarvedCache, LosesNoMemory) {
  constexpr size_t kBlocks = 600;
  constexpr size_t kBlockBytes = 8 << 10;
  int64_t n = 0;
  int64_t before = 0;
  std::vector<table::CacheSlot> slots(kBlocks);
  for (bool failed = true; failed; ++n) {
    {
      table::BlockCache cache(64 * kBlockBytes);
      test::FailAllocation(n);
      for (table::CacheSlot& slot : slots) {
        table::CachedBlock* const block = cache.New(kBlockBytes);
        if (block == nullptr) continue;
        const base::EpochGuard guard;
        cache.Keep(&slot, block);
      }
      failed = test::AllocationFailed();
      cache.Drop(slots);
    }
    base::EpochSynchronize();
    if (n == 0) before = test::AllocatedBytes();
    ASSERT_LT(test::AllocatedBytes() - before, 512) << "allocation " << n;
  }
  EXPECT_GT(n, 10) << "so few allocations";
}

// The first guard of a thread takes memory. If there is none, the thread holds no guard: later
// guards work, and the thread may wait for all guards.
TEST(StarvedGuard, LeavesItsThreadWithoutOne) {
  bool threw = false;
  bool holds_none = false;
  std::thread([&] {
    test::FailAllAllocations();
    try {
      const base::EpochGuard guard;
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    test::AllowAllocations();
    holds_none = base::EpochMaySynchronize();
  }).join();
  EXPECT_TRUE(threw);
  EXPECT_TRUE(holds_none);
}

// A look that finds no memory takes nothing from a get that goes on meanwhile.
TEST(StarvedReader, KeepsWhatAGetReads) {
  const test::TempDirectory directory(test::PlaceInMemory());
  const std::string place = directory.path() + "/db";
  const std::unique_ptr<base::Executor> executor = base::NewManualExecutor();
  engine::EngineEnvironment environment;
  environment.fs = &io::PosixFileSystem();
  environment.executor = executor.get();
  {
    auto db = Db::Open(environment, place, Options(), engine::OpenFlags::kOpenOrCreate);
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Put("key", "value"));
    ASSERT_OK((*db)->Flush());
  }
  const auto reader = Reader::Open(io::PosixFileSystem(), place, {Options(), nullptr});
  ASSERT_OK(reader.status());
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    const std::weak_ptr<const Manifest> seen = (*reader)->State().manifest;
    std::string value;
    bool kept = false;
    ASSERT_OK((*reader)->Get(
        "key",
        [&](size_t size) {
          value.resize(size);
          test::FailAllocation(n);
          (void)base::OrOutOfMemory([&] { return (*reader)->Newer().status(); });
          failed = test::AllocationFailed();
          kept = !seen.expired();
          return value.data();
        },
        nullptr));
    ASSERT_TRUE(kept) << "allocation " << n;
    EXPECT_EQ(value, "value");
  }
  EXPECT_GT(n, 10) << "so few allocations";
}

}  // namespace
}  // namespace quire::lsm
