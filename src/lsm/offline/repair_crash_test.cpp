// Repair is cut short at every step, by a kill and by a loss of power, and every call under it
// fails once: done again it gives the same, and what it set aside is there.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/sim/sim_file_system.h"
#include "lsm/db/db_testing.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/offline/repair.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::repair_crash_test {
namespace {

constexpr char kDatabase[] = "/db";
constexpr char kLost[] = "/lost";

// One way in which a database is damaged.
struct Damaged {
  const char* name;
  bool manifest_goes;
  bool block;   // of the newer table
  bool footer;  // of the older table
  bool log;     // the record of "logged1"
};
constexpr Damaged kAll[] = {
    {"a record of the log", false, false, false, true},
    {"a block of a table", false, true, false, false},
    {"a table's footer", false, false, true, false},
    {"all but the manifest", false, true, true, true},
    {"the manifest", true, false, false, false},
    {"the manifest and a record of the log", true, false, false, true},
    {"everything", true, true, true, true},
};

class RepairCase {
 public:
  explicit RepairCase(const Damaged& damaged) : test_(Options()) {
    Fill();
    if (testing::Test::HasFatalFailure()) return;
    if (damaged.block) Flip("t-2.sst", 700, false);
    if (damaged.footer) Flip("t-1.sst", 5, true);
    const Manifest manifest = *ReadManifest(fs(), kDatabase);
    const std::string log =
        LogSegmentName(static_cast<int>(manifest.log_segments.back().pool_slot));
    if (damaged.log) Flip(log, 4096 + 26, false);
    if (damaged.manifest_goes) EXPECT_OK(fs().Unlink(PathOf("MANIFEST")));
    EXPECT_OK(fs().SyncDirectory(kDatabase));
  }

  io::SimFileSystem& fs() { return test_.fs(); }
  Result<RepairReport> Run(io::FileSystem& fs) {
    RepairOptions options;
    options.storage = Options();
    options.dry_run = false;
    options.lost_directory = kLost;
    options.lost_prefix = "rank-0.";
    options.holder = "the test";
    return Repair(fs, kDatabase, options);
  }
  Status Open() { return test_.Open(); }
  void Close() { test_.Close(); }
  // Opened after a repair.
  Model All() {
    const Status opened = test_.Open();
    EXPECT_OK(opened);
    if (!opened.ok()) return {};
    EXPECT_OK(test_->Verify());
    Model all = AllOf(*test_->NewIterator({}));
    test_.Close();
    return all;
  }
  // Whether every file with damage lies in the lost directory as it was.
  void ExpectAllInLost() {
    std::vector<std::string> lost;
    const auto files = fs().List(kLost);
    if (files.ok()) {
      for (const io::FileInfo& file : *files) {
        lost.push_back(*io::ReadFile(fs(), std::string(kLost) + "/" + file.name, UINT64_MAX));
      }
    }
    for (const auto& [name, bytes] : bytes_) {
      EXPECT_NE(std::find(lost.begin(), lost.end(), bytes), lost.end())
          << name << " is not in the lost directory";
    }
  }

 private:
  static StorageOptions Options() {
    StorageOptions options = SmallOptions();
    options.compaction_trigger = 100;
    options.dead_percent_max = 1000;
    return options;
  }
  static std::string PathOf(const std::string& name) { return std::string(kDatabase) + "/" + name; }
  void Fill() {
    ASSERT_OK(test_.Open());
    ASSERT_OK(test_->Put("both", "1"));
    ASSERT_OK(test_->Put("large", std::string(1000, 'v')));
    ASSERT_OK(test_->SyncLog());  // what a flushed segment still has, a loss of power leaves
    ASSERT_OK(test_->Flush());
    for (int i = 0; i < 40; ++i) {
      ASSERT_OK(test_->Put("new" + std::to_string(100 + i), std::string(100, 'n')));
    }
    ASSERT_OK(test_->Put("both", "2"));
    ASSERT_OK(test_->DeleteRange("p", "q"));
    ASSERT_OK(test_->SyncLog());
    ASSERT_OK(test_->Flush());
    ASSERT_OK(test_->Put("logged1", "3"));
    ASSERT_OK(test_->Put("logged2", "3"));
    ASSERT_OK(test_->Put("logged3", std::string(1000, 'w')));
    ASSERT_OK(test_->SyncLog());
    test_.Close();
  }
  void Flip(const std::string& name, size_t offset, bool from_the_end) {
    ASSERT_OK(fs().Damage(PathOf(name), [&](std::string* bytes) {
      const size_t at = from_the_end ? bytes->size() - offset : offset;
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1);
    }));
    bytes_[name] = *io::ReadFile(fs(), PathOf(name), UINT64_MAX);
  }

  TestDb test_;
  std::map<std::string, std::string> bytes_;  // of files with damage
};

TEST(RepairCrash, CutShortAnywhereItCanBeRepeated) {
  for (const Damaged& damaged : kAll) {
    Model expected;
    uint64_t steps = 0;
    {
      RepairCase whole(damaged);
      const uint64_t before = whole.fs().steps();
      const auto report = whole.Run(whole.fs());
      ASSERT_OK(report.status());
      ASSERT_TRUE(report->needed);
      steps = whole.fs().steps() - before;
      expected = whole.All();
      whole.ExpectAllInLost();
    }
    for (const io::CrashKind kind : {io::CrashKind::kProcess, io::CrashKind::kPower}) {
      for (uint64_t step = 0; step <= steps; ++step) {
        // The next opener may come before the second repair.
        for (const bool opened_between : {false, true}) {
          SCOPED_TRACE(std::string(damaged.name) + ", crash after step " + std::to_string(step) +
                       (kind == io::CrashKind::kPower ? ", power" : ", kill") +
                       (opened_between ? ", opened in between" : ""));
          RepairCase cut(damaged);
          cut.fs().CrashAfter(step);
          static_cast<void>(cut.Run(cut.fs()));
          cut.fs().Restart(kind, step);
          cut.fs().CrashAfter(UINT64_MAX);
          if (opened_between) static_cast<void>(cut.Open());
          cut.Close();
          ASSERT_OK(cut.Run(cut.fs()).status());
          ASSERT_EQ(cut.All(), expected);
          cut.ExpectAllInLost();
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(RepairCrash, ACallThatFailsCostsNothing) {
  for (const Damaged& damaged : kAll) {
    Model expected;
    {
      RepairCase whole(damaged);
      ASSERT_OK(whole.Run(whole.fs()).status());
      expected = whole.All();
    }
    for (const Code code : {Code::kIo, Code::kNoSpace, Code::kOutOfMemory}) {
      for (uint64_t n = 1;; ++n) {
        SCOPED_TRACE(std::string(damaged.name) + ", call " + std::to_string(n) + " fails with " +
                     Status(code).ToString());
        RepairCase failing(damaged);
        const auto faults = io::NewFaultFileSystem(failing.fs());
        faults->FailAt(io::kFaultAll, n, 1, code);
        const Status first = failing.Run(*faults).status();
        const bool failed = faults->failures() != 0;
        if (!failed) ASSERT_OK(first);
        ASSERT_OK(failing.Run(failing.fs()).status());
        ASSERT_EQ(failing.All(), expected);
        failing.ExpectAllInLost();
        if (testing::Test::HasFailure()) return;
        if (!failed) break;
      }
    }
  }
}

// The killed program had not synced the values (odd seeds), or its sync had failed (even ones).
TEST(RepairCrash, TheValuesOfASavedLogSurviveALossOfPower) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    TestDb test(SmallOptions());
    const auto faulty = io::NewFaultFileSystem(test.fs());
    test.environment().fs = faulty.get();
    ASSERT_TRUE(test.Open().ok());
    Model model;
    for (int i = 0; i < 40; ++i) {
      const std::string key = "key" + std::to_string(100 + i);
      model[key] = std::string(900, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(test->Put(key, model[key]).ok());
    }
    faulty->FailAt(io::kFaultSync, 1, 1, Code::kIo);
    if (seed % 2 == 0) {
      EXPECT_EQ(test->SyncLog().code(), Code::kIo);
    }
    test.fs().Restart(io::CrashKind::kProcess, 1);
    test.Close();
    faulty->FailAt(io::kFaultSync, 1, 0, Code::kIo);
    ASSERT_TRUE(test.fs().Damage("/db/log-0.seg", [](std::string* bytes) {
                  (*bytes)[log::kSegmentHeaderBytes + 26] ^= 1;  // in the first key
                }).ok());
    EXPECT_EQ(test.Open().code(), Code::kCorruption);
    RepairOptions repair;
    repair.storage = test.options();
    repair.dry_run = false;
    repair.lost_directory = "/lost";
    ASSERT_TRUE(Repair(test.fs(), "/db", repair).ok());
    test.fs().Restart(io::CrashKind::kPower, seed);
    ASSERT_TRUE(test.Open().ok());
    model.erase("key100");
    EXPECT_EQ(AllOf(*test->NewIterator({})), model);
    EXPECT_TRUE(test->Verify().ok());
    test.Close();
  }
}

}  // namespace
}  // namespace quire::lsm::repair_crash_test
