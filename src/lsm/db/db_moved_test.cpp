// A database whose directory is moved or removed while it is open, and another one that is made in
// its place: each has its own files, whatever their names.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lsm/db/db_testing.h"
#include "lsm/memtable/shared_region.h"
#include "lsm/version/manifest.h"
#include "lsm/vlog/value_files.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::db_moved_test {
namespace {

constexpr char kTheirs[] = "/db";
constexpr int kPairs = 100;

class DbMoved : public ::testing::Test {
 protected:
  DbMoved() {
    environment_.fs = fs_.get();
    environment_.executor = executor_.get();
    ours_ = Open();
  }

  std::unique_ptr<Db> Open(const std::string& directory = kTheirs) {
    auto opened = Db::Open(environment_, directory, options_, engine::OpenFlags::kOpenOrCreate);
    EXPECT_OK(opened.status());
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  // The directory of `ours_` goes elsewhere, and `theirs_` takes its name.
  void MoveAway() {
    EXPECT_OK(fs_->Rename(kTheirs, "/old"));
    theirs_ = Open();
  }
  void Fill(Db& db, const std::string& prefix, size_t value_bytes = 100) {
    for (int i = 0; i < kPairs; ++i) {
      EXPECT_OK(db.Put(prefix + std::to_string(i), std::string(value_bytes, prefix[0])));
    }
  }
  // `theirs_` is killed, and opened once more: all that it acknowledged is there.
  void ExpectWholeAfterCrash(const std::string& prefix, size_t value_bytes = 100) {
    ExpectWhole(prefix, value_bytes);
    fs_->Restart(io::CrashKind::kProcess, 1);
    ours_.reset();
    theirs_.reset();
    theirs_ = Open();
    ASSERT_NE(theirs_, nullptr);
    ExpectWhole(prefix, value_bytes);
  }
  void ExpectWhole(const std::string& prefix, size_t value_bytes) {
    for (int i = 0; i < kPairs; ++i) {
      const std::string key = prefix + std::to_string(i);
      EXPECT_EQ(GetText(*theirs_, key), std::string(value_bytes, prefix[0])) << key;
    }
  }
  void ExpectLost(Db& db) {
    EXPECT_CODE(db.Put("more", "1"), Code::kReadOnly);
    EXPECT_CODE(db.background_status(), Code::kBusy);
    EXPECT_NE(db.background_status().message().find("moved or removed"), std::string::npos)
        << db.background_status().message();
  }
  void ExpectGoesOn(Db& db) {
    for (int round = 0; round < 5; ++round) {
      EXPECT_OK(db.Put("round" + std::to_string(round), std::string(1000, 'r')));
      EXPECT_OK(db.Flush());
    }
    EXPECT_OK(db.WaitIdle());
  }

  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  engine::EngineEnvironment environment_;
  StorageOptions options_ = SmallOptions();
  std::unique_ptr<Db> ours_;
  std::unique_ptr<Db> theirs_;
};

TEST_F(DbMoved, ClosingFreesNothingOfTheOthersLog) {
  for (const int flushes : {0, 1, 3}) {
    SCOPED_TRACE(flushes);
    Fill(*ours_, "a");
    EXPECT_OK(ours_->Flush());
    MoveAway();
    for (int i = 0; i < flushes; ++i) {
      Fill(*theirs_, "c");
      EXPECT_OK(theirs_->Flush());
    }
    Fill(*theirs_, "b");
    ours_.reset();
    ASSERT_NO_FATAL_FAILURE(ExpectWholeAfterCrash("b"));
    ours_ = Open("/old");
    EXPECT_EQ(GetText(*ours_, "a7"), std::string(100, 'a'));
    ours_.reset();
    EXPECT_OK(fs_->RemoveTree("/old"));
    ours_ = std::move(theirs_);
  }
}

TEST_F(DbMoved, AFlushTakesNothingFromTheOther) {
  Fill(*ours_, "a");
  EXPECT_OK(ours_->Flush());
  MoveAway();
  const uint64_t store = ReadManifest(*fs_, kTheirs)->store_id;
  Fill(*ours_, "a");
  EXPECT_CODE(ours_->Flush(), Code::kReadOnly);
  ExpectLost(*ours_);
  EXPECT_EQ(ReadManifest(*fs_, kTheirs)->store_id, store);
  EXPECT_FALSE(*fs_->Exists("/db/t-2.sst"));
  Fill(*theirs_, "b");
  ExpectGoesOn(*theirs_);
  ours_.reset();
  ExpectWholeAfterCrash("b");
}

TEST_F(DbMoved, AMergeTakesNothingFromTheOther) {
  options_.compaction_trigger = 1000;
  ours_.reset();
  EXPECT_OK(fs_->RemoveTree(kTheirs));
  ours_ = Open();
  for (int i = 0; i < 3; ++i) {
    Fill(*ours_, "a");
    EXPECT_OK(ours_->Flush());
  }
  MoveAway();
  for (int i = 0; i < 3; ++i) {
    Fill(*theirs_, "b");
    EXPECT_OK(theirs_->Flush());
  }
  EXPECT_CODE(ours_->Compact(), Code::kReadOnly);
  ExpectLost(*ours_);
  ours_.reset();
  ExpectGoesOn(*theirs_);
  ExpectWholeAfterCrash("b");
}

TEST_F(DbMoved, UnreachableFilesAreNotRemovedFromTheOtherDatabase) {
  Fill(*ours_, "a", 1000);
  EXPECT_OK(ours_->Flush());
  std::unique_ptr<engine::Iterator> reads_old = ours_->NewIterator({});
  EXPECT_OK(ours_->DeleteRange("a", "b"));
  EXPECT_OK(ours_->Compact());
  MoveAway();
  Fill(*theirs_, "b", 1000);
  EXPECT_OK(theirs_->Flush());
  ASSERT_TRUE(*fs_->Exists("/db/t-1.sst"));
  ASSERT_TRUE(*fs_->Exists("/db/val-1.seg"));
  reads_old.reset();
  (void)ours_->WaitIdle();
  ours_.reset();
  EXPECT_TRUE(*fs_->Exists("/db/t-1.sst"));
  EXPECT_TRUE(*fs_->Exists("/db/val-1.seg"));
  ExpectWholeAfterCrash("b", 1000);
}

// Both make log segments of all numbers: iterators keep those in use that there are.
TEST_F(DbMoved, NoLogSegmentIsLaidOverTheOthers) {
  for (int kept = 1; kept <= 6; ++kept) {
    SCOPED_TRACE(kept);
    std::vector<std::unique_ptr<engine::Iterator>> pins;
    const auto rotate = [&](Db& db) {
      pins.push_back(db.NewIterator({}));
      const Status put = db.Put("c", "1");
      return put.ok() ? db.Flush() : put;
    };
    EXPECT_OK(rotate(*ours_));
    MoveAway();
    for (int i = 0; i < kept; ++i) EXPECT_OK(rotate(*theirs_));
    Fill(*theirs_, "b");
    Status status;
    for (int i = 0; i < 8 && status.ok(); ++i) status = rotate(*ours_);
    EXPECT_CODE(status, Code::kReadOnly);
    pins.clear();
    (void)ours_->WaitIdle();
    ours_.reset();
    ASSERT_NO_FATAL_FAILURE(ExpectWholeAfterCrash("b"));
    EXPECT_OK(fs_->RemoveTree("/old"));
    ours_ = std::move(theirs_);
  }
}

TEST_F(DbMoved, ALogSegmentOutsideOfThePoolIsRemovedFromItsOwnDatabaseAlone) {
  for (int kept = 1; kept <= 6; ++kept) {
    SCOPED_TRACE(kept);
    std::vector<std::unique_ptr<engine::Iterator>> pins_ours;
    std::vector<std::unique_ptr<engine::Iterator>> pins_theirs;
    const auto rotate = [](Db& db, std::vector<std::unique_ptr<engine::Iterator>>* pins) {
      pins->push_back(db.NewIterator({}));
      EXPECT_OK(db.Put("c", "1"));
      EXPECT_OK(db.Flush());
    };
    for (int i = 0; i < 8; ++i) rotate(*ours_, &pins_ours);
    MoveAway();
    for (int i = 0; i < kept; ++i) rotate(*theirs_, &pins_theirs);
    Fill(*theirs_, "b");
    pins_ours.clear();
    (void)ours_->WaitIdle();
    ours_.reset();
    pins_theirs.clear();
    ASSERT_NO_FATAL_FAILURE(ExpectWholeAfterCrash("b"));
    EXPECT_OK(fs_->RemoveTree("/old"));
    ours_ = std::move(theirs_);
  }
}

TEST_F(DbMoved, NoValueSegmentIsMadeInTheOthersDirectory) {
  MoveAway();
  Fill(*theirs_, "b", 1000);
  Status status;
  for (int i = 0; i < 3 * kPairs && status.ok(); ++i) {
    status = ours_->Put("a" + std::to_string(i), std::string(1000, 'a'));
  }
  EXPECT_CODE(status, Code::kReadOnly);
  ExpectLost(*ours_);
  ours_.reset();
  ExpectWholeAfterCrash("b", 1000);
}

TEST_F(DbMoved, ALargeValueIsNotWrittenIntoTheOthersDirectory) {
  MoveAway();
  EXPECT_CODE(ours_->Put("a", std::string(200'000, 'a')), Code::kReadOnly);
  EXPECT_FALSE(*fs_->Exists("/db/val-1.seg"));
  ours_.reset();
  Fill(*theirs_, "b");
  ExpectWholeAfterCrash("b");
}

// The directory was removed, and nothing was made in its place.
TEST_F(DbMoved, WithoutADirectoryTheNextFlushSaysSo) {
  Fill(*ours_, "a");
  EXPECT_OK(fs_->Rename(kTheirs, "/old"));
  EXPECT_CODE(ours_->Flush(), Code::kReadOnly);
  EXPECT_CODE(ours_->background_status(), Code::kNotFound);
  ours_.reset();
  EXPECT_FALSE(*fs_->Exists(kTheirs));
  ours_ = Open("/old");
  EXPECT_EQ(GetText(*ours_, "a7"), std::string(100, 'a'));
}

// Those of a writer that lost the directory between its look at it and its creation of the file.
TEST_F(DbMoved, StrayFilesStopNoWriter) {
  for (int i = 0; i < 20; ++i) {
    for (const std::string& name :
         {TableName(static_cast<uint64_t>(i)), LogSegmentName(i),
          ValueSegmentName(static_cast<uint64_t>(i))}) {
      const std::string path = std::string(kTheirs) + "/" + name;
      if (!*fs_->Exists(path)) EXPECT_OK(io::WriteFile(*fs_, path, "stray"));
    }
  }
  std::vector<std::unique_ptr<engine::Iterator>> pins;
  for (int i = 0; i < 6; ++i) {
    pins.push_back(ours_->NewIterator({}));
    EXPECT_OK(ours_->Put("large" + std::to_string(i), std::string(200'000, 'l')));
    Fill(*ours_, "b", 1000);
    EXPECT_OK(ours_->Flush());
  }
  pins.clear();
  EXPECT_OK(ours_->WaitIdle());
  theirs_ = std::move(ours_);
  ExpectWhole("b", 1000);
  EXPECT_EQ(GetText(*theirs_, "large3"), std::string(200'000, 'l'));
}

}  // namespace
}  // namespace quire::lsm::db_moved_test
