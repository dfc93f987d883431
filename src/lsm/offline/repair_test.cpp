// A damaged database is inspected, repaired, opened again; what was lost was named.
#include "lsm/offline/repair.h"

#include <sys/stat.h>

#include <filesystem>
#include <tuple>

#include "base/text/coding.h"
#include "lsm/db/db_testing.h"
#include "lsm/offline/inspect.h"
#include "lsm/offline/reader.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm::repair_test {
namespace {

// A real file system: what is lost moves to another directory.
class RepairTest : public testing::Test {
 protected:
  explicit RepairTest(const std::string& place = testing::TempDir())
      : directory_(place), fs_(io::PosixFileSystem()), database_(directory_ / "db") {
    options_.compaction_trigger = 100;
    options_.dead_percent_max = 1000;
  }

  Status Open() {
    engine::EngineEnvironment environment;
    environment.fs = &fs_;
    environment.executor = executor_.get();
    auto opened = Db::Open(environment, database_, options_, engine::OpenFlags::kOpenOrCreate);
    if (opened.ok()) db_ = std::move(*opened);
    return opened.status();
  }
  void Close() {
    db_.reset();
    while (executor_->RunOne()) {
    }
  }
  // Tables t-1 (old, a large value), t-2 (new), and a log that is in no table.
  void Fill() {
    ASSERT_OK(Open());
    ASSERT_OK(db_->Put("old", "1"));
    ASSERT_OK(db_->Put("both", "1"));
    ASSERT_OK(db_->Put("large", std::string(1000, 'v')));
    ASSERT_OK(db_->Flush());
    ASSERT_OK(db_->Put("new", "2"));
    ASSERT_OK(db_->Put("both", "2"));
    ASSERT_OK(db_->Delete("gone"));
    ASSERT_OK(db_->Flush());
    ASSERT_OK(db_->Put("logged1", "3"));
    ASSERT_OK(db_->DeleteRange("old", "old5"));
    ASSERT_OK(db_->Put("logged2", "3"));
    Close();
  }
  std::string FileOf(const std::string& name) { return database_ + "/" + name; }
  void Flip(const std::string& name, uint64_t offset) {
    const auto file = fs_.Open(FileOf(name), io::FileOpenMode::kReadWrite);
    ASSERT_OK(file.status());
    char byte = 0;
    ASSERT_OK((*file)->ReadAt(offset, 1, &byte));
    byte = static_cast<char>(byte ^ 1);
    ASSERT_OK((*file)->WriteAt(offset, Slice(&byte, 1)));
  }
  Result<RepairReport> Run(bool dry_run) {
    RepairOptions options;
    options.storage = options_;
    options.dry_run = dry_run;
    options.lost_directory = directory_ / "lost";
    options.lost_prefix = "rank-0.";
    options.holder = "the test";
    return Repair(fs_, database_, options);
  }
  // Joins the lines of its report.
  static std::string TextOf(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }
  // Repairs, after a dry run that changed nothing and said the same; all is in order afterwards.
  RepairReport Repaired() {
    const bool lost_before = std::filesystem::exists(directory_ / "lost");
    EXPECT_FALSE(Open().ok() && db_->Verify().ok());
    Close();
    const auto planned = Run(true);
    EXPECT_TRUE(planned.ok()) << planned.status().ToString();
    EXPECT_EQ(std::filesystem::exists(directory_ / "lost"), lost_before);
    const auto done = Run(false);
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    if (!planned.ok() || !done.ok()) return {};
    EXPECT_TRUE(done->needed);
    EXPECT_EQ(TextOf(planned->steps), TextOf(done->steps));
    EXPECT_EQ(TextOf(planned->losses), TextOf(done->losses));
    EXPECT_FALSE(Run(true)->needed);
    const Status opened = Open();
    EXPECT_TRUE(opened.ok()) << opened.ToString();
    EXPECT_TRUE(db_ != nullptr && db_->Verify().ok());
    return *done;
  }
  Model All() { return AllOf(*db_->NewIterator({})); }

  const test::TempDirectory directory_;
  io::FileSystem& fs_;
  const std::string database_;
  StorageOptions options_ = SmallOptions();
  std::unique_ptr<base::Executor> executor_ = base::NewManualExecutor();
  std::unique_ptr<Db> db_;
  const std::string large_ = std::string(1000, 'v');
  const Model whole_ = {
      {"both", "2"}, {"large", large_}, {"logged1", "3"}, {"logged2", "3"}, {"new", "2"}};
};

TEST_F(RepairTest, LeavesASoundDatabaseAlone) {
  Fill();
  const auto found = Inspect(fs_, database_, {options_, false, true, {}});
  ASSERT_OK(found.status());
  EXPECT_TRUE(found->findings.empty());
  EXPECT_EQ(found->tables.size(), 2u);
  EXPECT_EQ(found->values, 1u);
  EXPECT_EQ(found->log_records, 3u);
  const auto report = Run(false);
  ASSERT_OK(report.status());
  EXPECT_FALSE(report->needed);
  ASSERT_OK(Open());
  EXPECT_EQ(All(), whole_);
}

TEST_F(RepairTest, WithoutAManifestAllTablesAndTheLogAreFound) {
  for (const bool missing : {true, false}) {
    SCOPED_TRACE(missing ? "missing" : "damaged");
    std::filesystem::remove_all(database_);
    std::filesystem::remove_all(directory_ / "lost");
    Fill();
    if (missing) {
      ASSERT_OK(fs_.Unlink(FileOf("MANIFEST")));
    } else {
      Flip("MANIFEST", 60);
    }
    const RepairReport report = Repaired();
    EXPECT_EQ(All(), whole_);
    for (const auto& [key, value] : whole_) EXPECT_EQ(GetText(*db_, key), value);
    EXPECT_NE(TextOf(report.losses).find("deleted keys may be back"), std::string::npos);
    EXPECT_EQ(std::filesystem::exists(directory_ / "lost/rank-0.MANIFEST"), !missing);
    ASSERT_OK(db_->Put("more", "4"));
    Close();
  }
}

TEST_F(RepairTest, ADamagedTableIsSetAsideAndNamed) {
  Fill();
  Flip("t-2.sst", std::filesystem::file_size(FileOf("t-2.sst")) - 5);
  const RepairReport report = Repaired();
  Model rest = whole_;
  rest["both"] = "1";
  rest.erase("new");
  EXPECT_EQ(All(), rest);
  EXPECT_NE(TextOf(report.losses).find("t-2.sst had 3 entries from both to new"), std::string::npos)
      << TextOf(report.losses);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "lost/rank-0.t-2.sst"));
  Close();
}

// The same whatever the log is, and however blocks are compressed.
class RepairInEachMode
    : public RepairTest,
      public testing::WithParamInterface<std::tuple<WalMode, Compression>> {
 protected:
  RepairInEachMode() { std::tie(options_.wal, options_.compression) = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(
    Modes, RepairInEachMode,
    testing::Combine(testing::Values(WalMode::kOff, WalMode::kOn, WalMode::kSync),
                     testing::Values(Compression::kNone, Compression::kLz4, Compression::kZstd)));

TEST_P(RepairInEachMode, WithoutAManifestNothingIsLost) {
  Fill();
  ASSERT_OK(fs_.Unlink(FileOf("MANIFEST")));
  Repaired();
  EXPECT_EQ(All(), whole_);
  for (const auto& [key, value] : whole_) EXPECT_EQ(GetText(*db_, key), value);
  // What is written from now on is newer.
  ASSERT_OK(db_->Put("both", "3"));
  ASSERT_OK(db_->Delete("new"));
  Close();
  ASSERT_OK(Open());
  EXPECT_EQ(GetText(*db_, "both"), "3");
  EXPECT_EQ(GetText(*db_, "new"), "<absent>");
  Close();
}

TEST_P(RepairInEachMode, OnlyWhatADamagedTableAndAMissingValueSegmentHadIsLost) {
  Fill();
  Flip("t-2.sst", 40);
  ASSERT_OK(fs_.Unlink(FileOf("val-1.seg")));
  Repaired();
  Model rest = whole_;
  rest["both"] = "1";
  rest.erase("large");
  rest.erase("new");
  EXPECT_EQ(All(), rest);
  Close();
}

TEST_F(RepairTest, ASecondOneLeavesWhatTheFirstSetAside) {
  Fill();
  Flip("MANIFEST", 60);
  Repaired();
  Close();
  Flip("MANIFEST", 60);
  Repaired();
  Close();
  EXPECT_TRUE(std::filesystem::exists(directory_ / "lost/rank-0.MANIFEST"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "lost/rank-0.MANIFEST.2"));
}

// A table of many blocks, which deletes what an older one has.
class RepairOfBlocks : public RepairTest {
 protected:
  static std::string KeyOf(int i) { return "k" + std::to_string(1000 + i).substr(1); }
  void Fill() {
    ASSERT_OK(Open());
    ASSERT_OK(db_->Put("k500", "older"));
    ASSERT_OK(db_->Flush());
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(db_->Put(KeyOf(i), std::string(100, 'v')));
    ASSERT_OK(db_->DeleteRange("k500", "k600"));
    ASSERT_OK(db_->Flush());
    Close();
  }
  uint64_t TableBytes() { return std::filesystem::file_size(FileOf("t-2.sst")); }
  // A field of the footer; docs/format/table.md.
  static constexpr uint64_t kDataBytes = 32;
  static constexpr uint64_t kIndexBytes = 40;
  uint64_t InFooter(uint64_t field) {
    const auto file = fs_.Open(FileOf("t-2.sst"), io::FileOpenMode::kRead);
    char bytes[8] = {};
    EXPECT_OK((*file)->ReadAt(TableBytes() - 80 + field, sizeof bytes, bytes));
    return base::LoadLe<uint64_t>(bytes);
  }
  // Everything but some keys that stand together, which gets do not find.
  void ExpectAHole(const RepairReport& report) {
    if (db_ == nullptr) ASSERT_OK(Open());
    ASSERT_OK(db_->Verify());
    const Model all = AllOf(*db_->NewIterator({}));
    EXPECT_FALSE(all.contains("k500"));
    EXPECT_GT(all.size(), static_cast<size_t>(kKeys) * 3 / 4) << TextOf(report.losses);
    EXPECT_LT(all.size(), static_cast<size_t>(kKeys));
    int changes = 0;
    for (int i = 1; i < kKeys; ++i) {
      changes += all.contains(KeyOf(i)) != all.contains(KeyOf(i - 1)) ? 1 : 0;
    }
    EXPECT_LE(changes, 2);
    EXPECT_NE(TextOf(report.losses)
                  .find(std::to_string(static_cast<size_t>(kKeys) - all.size()) + " of its 200"),
              std::string::npos)
        << TextOf(report.losses);
    EXPECT_TRUE(std::filesystem::exists(directory_ / "lost/rank-0.t-2.sst"));
    Close();
    EXPECT_FALSE(Run(false)->needed);
  }
  static constexpr int kKeys = 200;
};

TEST_F(RepairOfBlocks, OnlyWhatADamagedBlockHeldIsLost) {
  for (const double where : {0.0, 0.4, 0.8}) {
    SCOPED_TRACE(where);
    std::filesystem::remove_all(database_);
    std::filesystem::remove_all(directory_ / "lost");
    Fill();
    Flip("t-2.sst", 30 + static_cast<uint64_t>(where * static_cast<double>(TableBytes())));
    ASSERT_OK(Open());  // no block is read yet
    Close();
    const RepairReport planned = *Run(true);
    const RepairReport report = *Run(false);
    EXPECT_TRUE(report.needed);
    EXPECT_EQ(TextOf(planned.losses), TextOf(report.losses));
    EXPECT_EQ(TextOf(planned.steps), TextOf(report.steps));
    EXPECT_NE(TextOf(report.losses).find(where == 0 ? "had keys from k000" : "had keys above k"),
              std::string::npos)
        << TextOf(report.losses);
    ExpectAHole(report);
  }
}

TEST_F(RepairOfBlocks, AlsoWithoutAManifest) {
  Fill();
  Flip("t-2.sst", TableBytes() / 2);
  ASSERT_OK(fs_.Unlink(FileOf("MANIFEST")));
  ExpectAHole(Repaired());
}

TEST_F(RepairOfBlocks, ADamagedFilterCostsNoEntry) {
  Fill();
  Flip("t-2.sst", InFooter(kDataBytes) + InFooter(kIndexBytes) + 3);
  const RepairReport report = *Run(false);
  EXPECT_TRUE(report.needed);
  EXPECT_TRUE(report.losses.empty()) << TextOf(report.losses);
  ASSERT_OK(Open());
  ASSERT_OK(db_->Verify());
  EXPECT_EQ(AllOf(*db_->NewIterator({})).size(), static_cast<size_t>(kKeys));
  Close();
}

TEST_F(RepairOfBlocks, WithoutItsIndexATableIsLost) {
  Fill();
  Flip("t-2.sst", InFooter(kDataBytes) + 3);
  const RepairReport report = *Run(false);
  EXPECT_NE(TextOf(report.losses).find("t-2.sst had 200 entries from k000 to k600"),
            std::string::npos)
      << TextOf(report.losses);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "lost/rank-0.t-2.sst"));
  ASSERT_OK(Open());
  EXPECT_EQ(AllOf(*db_->NewIterator({})), (Model{{"k500", "older"}}));
  Close();
}

TEST_F(RepairTest, AMissingTableIsNamed) {
  Fill();
  ASSERT_OK(fs_.Unlink(FileOf("t-1.sst")));
  const RepairReport report = Repaired();
  Model rest = whole_;
  rest.erase("large");
  EXPECT_EQ(All(), rest);
  EXPECT_NE(TextOf(report.losses).find("t-1.sst is missing"), std::string::npos);
  Close();
}

TEST_F(RepairTest, AllOtherRecordsOfADamagedLogAreSaved) {
  Fill();
  const uint64_t slot = ReadManifest(fs_, database_)->log_segments.back().pool_slot;
  const std::string name = LogSegmentName(static_cast<int>(slot));
  Flip(name, 4096 + 26);  // in the key of the first record
  const RepairReport report = Repaired();
  Model rest = whole_;
  rest.erase("logged1");
  EXPECT_EQ(All(), rest);
  EXPECT_NE(TextOf(report.losses).find(name), std::string::npos) << TextOf(report.losses);
  EXPECT_TRUE(std::filesystem::exists(directory_ / ("lost/rank-0." + name)));
  Close();
}

TEST_F(RepairTest, ValuesWhoseSegmentIsGoneAreLeftOut) {
  Fill();
  ASSERT_OK(fs_.Unlink(FileOf("val-1.seg")));
  const RepairReport report = Repaired();
  Model rest = whole_;
  rest.erase("large");
  EXPECT_EQ(All(), rest);
  EXPECT_NE(TextOf(report.losses).find("1 value (key large)"), std::string::npos)
      << TextOf(report.losses);
  Close();
}

TEST_F(RepairTest, ADamagedValueIsNamedAndLeft) {
  Fill();
  Flip("val-1.seg", 4096 + 500);
  const auto found = Inspect(fs_, database_, {options_, false, true, {}});
  ASSERT_OK(found.status());
  ASSERT_EQ(found->findings.size(), 1u);
  EXPECT_EQ(found->findings[0].kind, FileKind::kValueSegment);
  EXPECT_EQ(found->findings[0].count, 1u);
  const auto report = Run(false);
  ASSERT_OK(report.status());
  EXPECT_FALSE(report->needed);
  EXPECT_NE(TextOf(report->losses).find("1 values are damaged"), std::string::npos);
}

TEST_F(RepairTest, AValueSegmentOfWhichOnlyTheHeaderIsDamagedIsNamed) {
  Fill();
  for (const uint64_t copy : {0, 2048}) Flip("val-1.seg", copy + 20);
  const auto report = Run(false);
  ASSERT_OK(report.status());
  EXPECT_FALSE(report->needed);
  const std::string losses = TextOf(report->losses);
  EXPECT_EQ(losses.find("0 values"), std::string::npos) << losses;
  EXPECT_NE(losses.find("val-1.seg"), std::string::npos) << losses;
  EXPECT_NE(losses.find("no checkpoint"), std::string::npos) << losses;
  ASSERT_OK(Open());
  EXPECT_EQ(GetText(*db_, "large"), large_);
  Close();
}

// A value in a value segment, and no table that refers to it.
class RepairOfLoggedValues : public RepairTest {
 protected:
  void Fill() {
    ASSERT_OK(Open());
    ASSERT_OK(db_->Put("before", "1"));
    ASSERT_OK(db_->Put("large", large_));
    ASSERT_OK(db_->Put("behind", "2"));
    Close();
  }
  const Model rest_ = {{"before", "1"}, {"behind", "2"}};
};

TEST_F(RepairOfLoggedValues, AMissingValueSegmentIsNamedAndTheOtherRecordsAreSaved) {
  Fill();
  ASSERT_OK(fs_.Unlink(FileOf("val-1.seg")));
  const Status opened = Open();
  EXPECT_CODE(opened, Code::kCorruption);
  EXPECT_NE(opened.message().find("val-1.seg is missing"), std::string::npos) << opened.ToString();
  const RepairReport report = Repaired();
  EXPECT_EQ(All(), rest_);
  EXPECT_NE(TextOf(report.losses).find("1 value (key large)"), std::string::npos)
      << TextOf(report.losses);
  Close();
}

TEST_F(RepairOfLoggedValues, ADamagedOneIsFound) {
  Fill();
  Flip("val-1.seg", 4096 + 500);
  const auto found = Inspect(fs_, database_, {options_, false, true, {}});
  ASSERT_OK(found.status());
  ASSERT_EQ(found->findings.size(), 1u);
  EXPECT_EQ(found->findings[0].kind, FileKind::kValueSegment);
  EXPECT_EQ(found->findings[0].count, 1u);
  const auto report = Run(false);
  ASSERT_OK(report.status());
  EXPECT_FALSE(report->needed);
  EXPECT_NE(TextOf(report->losses).find("1 values are damaged"), std::string::npos);
}

TEST_F(RepairTest, FilesThatAKilledFlushLeftAreNoObstacle) {
  Fill();
  const Manifest manifest = *ReadManifest(fs_, database_);
  const std::string left = FileOf(TableName(manifest.next_ssid));
  ASSERT_OK(fs_.Open(left, io::FileOpenMode::kCreate).status());
  Flip(LogSegmentName(static_cast<int>(manifest.log_segments.back().pool_slot)), 4096 + 26);
  ASSERT_OK(Run(false).status());
  ASSERT_OK(Open());
  Model rest = whole_;
  rest.erase("logged1");
  EXPECT_EQ(All(), rest);
  Close();
}

// A log segment whose records are in tables keeps them until it is used again.
TEST_F(RepairTest, WithoutAManifestTheLogHasWhatADamagedBlockHeld) {
  options_.flushing_queue_length = 4;
  Model written;
  ASSERT_OK(Open());
  for (int i = 0; i < 800; ++i) {  // two MemTables, and then two tables
    const std::string key = "k" + std::to_string(1000 + i);
    written[key] = std::string(100, static_cast<char>('a' + i % 26));
    ASSERT_OK(db_->Put(key, written[key]));
  }
  ASSERT_OK(db_->Flush());
  ASSERT_OK(db_->Put("k1150", written["k1150"] = "newer"));
  Close();
  Flip("t-1.sst", std::filesystem::file_size(FileOf("t-1.sst")) / 2);
  ASSERT_OK(fs_.Unlink(FileOf("MANIFEST")));
  ASSERT_OK(Run(false).status());
  ASSERT_OK(Open());
  EXPECT_EQ(All(), written);
  EXPECT_EQ(GetText(*db_, "k1150"), "newer");
  Close();
}

// As of a MemTable of more than 4 GiB: nearly all of it is a hole, which costs no time in memory.
class RepairOfALargeLog : public RepairTest {
 protected:
  RepairOfALargeLog() : RepairTest(test::PlaceInMemory()) {}
};

TEST_F(RepairOfALargeLog, IsSetAsideToo) {
  constexpr uint64_t kBytes = (4ull << 30) + 4096;
  Fill();
  const uint64_t slot = ReadManifest(fs_, database_)->log_segments.back().pool_slot;
  const std::string name = LogSegmentName(static_cast<int>(slot));
  Flip(name, 4096 + 26);  // in the key of the first record
  std::filesystem::resize_file(FileOf(name), kBytes);
  const auto report = Run(false);
  ASSERT_OK(report.status());
  const std::string lost = directory_ / ("lost/rank-0." + name);
  EXPECT_EQ(std::filesystem::file_size(lost), kBytes);
  struct stat about = {};
  ASSERT_EQ(::stat(lost.c_str(), &about), 0);
  EXPECT_LT(about.st_blocks * 512, 16 << 20);
  ASSERT_OK(Open());
  Model rest = whole_;
  rest.erase("logged1");
  EXPECT_EQ(All(), rest);
  Close();
}

TEST_F(RepairTest, ALogWhoseLastRecordIsDamagedIsSetAside) {
  ASSERT_OK(Open());
  ASSERT_OK(db_->Put("first", "1"));
  ASSERT_OK(db_->Put("last", "2"));
  Close();
  const uint64_t slot = ReadManifest(fs_, database_)->log_segments.back().pool_slot;
  const std::string name = LogSegmentName(static_cast<int>(slot));
  Flip(name, 4096 + log::RecordSize(5, 1) + 26);
  const RepairReport report = Repaired();
  EXPECT_EQ(All(), (Model{{"first", "1"}}));
  EXPECT_NE(TextOf(report.losses).find("at 1 places are damaged"), std::string::npos)
      << TextOf(report.losses);
  EXPECT_TRUE(std::filesystem::exists(directory_ / ("lost/rank-0." + name)));
  Close();
}

// The table has the newer version, the log segment that it was made of has lost it.
TEST_F(RepairTest, WithoutAManifestADamagedLogHidesNothingThatTablesHave) {
  ASSERT_OK(Open());
  ASSERT_OK(db_->Put("both", "older"));
  ASSERT_OK(db_->Put("both", "newer"));
  ASSERT_OK(db_->Flush());
  ASSERT_OK(db_->Put("other", "1"));
  Close();
  const Manifest manifest = *ReadManifest(fs_, database_);
  const auto files = *ReadDirectory(fs_, database_);
  for (const uint64_t slot : files.logs) {
    const std::string name = LogSegmentName(static_cast<int>(slot));
    if (slot == manifest.log_segments.back().pool_slot) continue;
    Flip(name, 4096 + log::RecordSize(4, 5) + 26);
  }
  ASSERT_OK(fs_.Unlink(FileOf("MANIFEST")));
  const auto report = Run(false);
  ASSERT_OK(report.status());
  EXPECT_NE(TextOf(report->losses).find("at 1 places are damaged"), std::string::npos)
      << TextOf(report->losses) << TextOf(report->steps);
  ASSERT_OK(Open());
  EXPECT_EQ(All(), (Model{{"both", "newer"}, {"other", "1"}}));
  EXPECT_EQ(GetText(*db_, "both"), "newer");  // gets go by the order of the runs
  Close();
}

// As a kill within a flush leaves it that makes several tables.
TEST_F(RepairTest, WithoutAManifestTheLogHasWhatAKilledFlushDidNotWrite) {
  options_.memtable_bytes = 1 << 20;
  options_.value_separation_bytes_min = 1 << 20;
  options_.compression = Compression::kNone;
  Model written;
  ASSERT_OK(Open());
  ASSERT_OK(db_->Put("k250", "older"));
  ASSERT_OK(db_->Flush());
  for (int i = 0; i < 300; ++i) {
    const std::string key = "k" + std::to_string(100 + i);
    written[key] = std::string(1000, static_cast<char>('a' + i % 26));
    ASSERT_OK(db_->Put(key, written[key]));
  }
  ASSERT_OK(db_->DeleteRange("k245", "k255"));
  written.erase(written.lower_bound("k245"), written.lower_bound("k255"));
  ASSERT_OK(db_->Put("k252", written["k252"] = "behind it"));
  ASSERT_OK(db_->Flush());
  ASSERT_OK(db_->Put("other", written["other"] = "1"));
  Close();
  ASSERT_GT(ReadManifest(fs_, database_)->runs.front().size(), 2u);
  ASSERT_OK(fs_.Unlink(FileOf("MANIFEST")));
  ASSERT_OK(fs_.Unlink(FileOf("t-3.sst")));
  ASSERT_OK(fs_.Unlink(FileOf("t-4.sst")));
  ASSERT_OK(Run(false).status());
  ASSERT_OK(Open());
  EXPECT_EQ(All(), written);
  for (const auto& [key, value] : written) EXPECT_EQ(GetText(*db_, key), value);
  EXPECT_EQ(GetText(*db_, "k250"), "<absent>");
  Close();
}

TEST_F(RepairTest, EverythingDamagedAtOnce) {
  Fill();
  Flip("MANIFEST", 60);
  Flip("t-2.sst", std::filesystem::file_size(FileOf("t-2.sst")) - 5);
  ASSERT_OK(fs_.Unlink(FileOf("val-1.seg")));
  Repaired();
  // The pairs of the damaged table are still in a log segment that was not used again.
  Model rest = whole_;
  rest.erase("large");
  EXPECT_EQ(All(), rest);
  Close();
}

TEST_F(RepairTest, RefusesADatabaseThatIsOpen) {
  Fill();
  ASSERT_OK(Open());
  EXPECT_CODE(Run(true).status(), Code::kBusy);
  EXPECT_CODE(Run(false).status(), Code::kBusy);
  Close();
  std::filesystem::remove_all(database_);
  EXPECT_CODE(Run(true).status(), Code::kNotFound);
}

}  // namespace
}  // namespace quire::lsm::repair_test
