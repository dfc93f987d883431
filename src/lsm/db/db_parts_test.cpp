// The parts of the database that are pure: what to merge, what to keep, how to merge, when a value
// segment is dead.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/core/random.h"
#include "io/sim/sim_file_system.h"
#include "lsm/db/db_testing.h"
#include "lsm/db/key_locks.h"
#include "lsm/version/compaction_picker.h"
#include "lsm/version/run_iterator.h"
#include "lsm/version/run_writer.h"
#include "lsm/version/segment_tracker.h"
#include "lsm/version/version_filter.h"
#include "table/merging_iterator.h"

namespace quire::lsm::db_parts_test {
namespace {

std::vector<RunShape> Shapes(const std::vector<uint64_t>& sizes) {
  std::vector<RunShape> runs;
  for (const uint64_t size : sizes) runs.push_back({size, 0, false});
  return runs;
}

StorageOptions Tiered(int trigger, int dead_percent) {
  StorageOptions options;
  options.compaction_trigger = trigger;
  options.dead_percent_max = dead_percent;
  return options;
}

void ExpectChoice(const CompactionChoice& choice, size_t first, size_t count) {
  EXPECT_EQ(choice.count, count);
  if (count != 0) {
    EXPECT_EQ(choice.first, first);
  }
}

TEST(CompactionPicker, LeavesFewRunsAlone) {
  ExpectChoice(PickCompaction({}, Tiered(4, 100)), 0, 0);
  ExpectChoice(PickCompaction(Shapes({5}), Tiered(4, 100)), 0, 0);
  ExpectChoice(PickCompaction(Shapes({10, 10, 100}), Tiered(4, 100)), 0, 0);
}

TEST(CompactionPicker, MergesRunsOfLikeSize) {
  ExpectChoice(PickCompaction(Shapes({10, 10, 10, 10, 1000}), Tiered(4, 100)), 0, 4);
  ExpectChoice(PickCompaction(Shapes({1, 10, 10, 10, 10, 1000}), Tiered(4, 100)), 1, 4);
  ExpectChoice(PickCompaction(Shapes({10, 10, 10, 10, 40, 1000}), Tiered(4, 100)), 0, 5);
}

TEST(CompactionPicker, MergesAllWhenNewerRunsOutweighTheOldest) {
  ExpectChoice(PickCompaction(Shapes({1000, 1000}), Tiered(4, 100)), 0, 2);
  ExpectChoice(PickCompaction(Shapes({300, 300, 1000}), Tiered(4, 50)), 0, 3);
  ExpectChoice(PickCompaction(Shapes({300, 300, 1000}), Tiered(4, 100)), 0, 0);
}

TEST(CompactionPicker, LeavesRunsBehindABusyOneAlone) {
  std::vector<RunShape> runs = Shapes({10, 10, 10, 10, 10, 10, 10, 10});
  runs[4].busy = true;
  ExpectChoice(PickCompaction(runs, Tiered(4, 1000)), 0, 4);
  runs[2].busy = true;
  ExpectChoice(PickCompaction(runs, Tiered(4, 1000)), 0, 0);
}

TEST(CompactionPicker, LeavesMergesOfTooManyBytesAlone) {
  const std::vector<RunShape> runs = Shapes({10, 10, 10, 10, 40, 100});
  ExpectChoice(PickCompaction(runs, Tiered(4, 50)), 0, 6);
  ExpectChoice(PickCompaction(runs, Tiered(4, 50), 180), 0, 5);
  ExpectChoice(PickCompaction(runs, Tiered(4, 50), 80), 0, 4);
  ExpectChoice(PickCompaction(runs, Tiered(4, 50), 40), 0, 0);
  StorageOptions every_nth = Tiered(4, 100);
  every_nth.compaction = CompactionPolicy::kEveryNth;
  const std::vector<RunShape> numbered = {{1, 8, false}, {9, 4, false}};
  ExpectChoice(PickCompaction(numbered, every_nth, 11), 0, 2);
  ExpectChoice(PickCompaction(numbered, every_nth, 10), 0, 0);
}

TEST(CompactionPicker, EveryNthLooksAtSsidsOfFlushes) {
  StorageOptions options = Tiered(4, 100);
  options.compaction = CompactionPolicy::kEveryNth;
  std::vector<RunShape> runs = {{1, 7, false}, {1, 6, false}, {9, 4, false}};
  ExpectChoice(PickCompaction(runs, options), 0, 0);  // 4 is the oldest, the result of a merge
  runs.insert(runs.begin(), {1, 8, false});
  ExpectChoice(PickCompaction(runs, options), 0, 4);
  runs[1].busy = true;
  ExpectChoice(PickCompaction(runs, options), 0, 0);
}

struct PickerOutcome {
  size_t most_runs = 0;    // between merges
  uint64_t rewritten = 0;  // bytes of merges
};

// So many flushes of 1000 bytes, each followed by what is due.
PickerOutcome FlushAndMerge(const StorageOptions& options, uint64_t flushes) {
  PickerOutcome outcome;
  std::vector<RunShape> runs;
  for (uint64_t i = 0; i < flushes; ++i) {
    runs.insert(runs.begin(), {1000, i, false});
    CompactionChoice choice;
    while ((choice = PickCompaction(runs, options)).count > 0) {
      uint64_t bytes = 0;
      for (size_t j = 0; j < choice.count; ++j) bytes += runs[choice.first + j].bytes;
      const auto first = runs.begin() + static_cast<std::ptrdiff_t>(choice.first);
      runs.erase(first, first + static_cast<std::ptrdiff_t>(choice.count) - 1);
      runs[choice.first].bytes = bytes;
      outcome.rewritten += bytes;
    }
    outcome.most_runs = std::max(outcome.most_runs, runs.size());
  }
  return outcome;
}

// However much is written, there are few runs and it is rewritten few times.
TEST(CompactionPicker, BoundsRunsAndRewriting) {
  for (const StorageOptions& options :
       {Tiered(2, 100), Tiered(4, 100), Tiered(8, 100), Tiered(8, 25), StorageOptions()}) {
    const PickerOutcome outcome = FlushAndMerge(options, 1000);
    EXPECT_LE(outcome.most_runs, static_cast<size_t>(options.compaction_trigger + 10));
    EXPECT_LE(outcome.rewritten, 8u * 1000 * 1000);
    EXPECT_LE(outcome.most_runs, RunCountMax(options));
  }
}

// docs/decisions/0008-compaction.md: what the default was chosen for.
TEST(CompactionPicker, ByDefaultKeepsADatabaseOfTenFlushesInThreeRunsAtMost) {
  const PickerOutcome outcome = FlushAndMerge(StorageOptions(), 10);
  EXPECT_LE(outcome.most_runs, 3u);
  EXPECT_LE(outcome.rewritten, 10u * 2300);
}

struct Entry {
  std::string key;
  uint64_t lsn;
  log::RecordType type;
  bool operator<(const Entry& other) const {
    return key != other.key ? key < other.key : lsn > other.lsn;
  }
};

// Returns what a reader at `snapshot` finds for `key`: the LSN of a value; 0 if there is none.
uint64_t Seen(const std::vector<Entry>& entries,
              const std::vector<table::RangeTombstone>& tombstones, const std::string& key,
              uint64_t snapshot) {
  uint64_t hidden = 0;
  for (const table::RangeTombstone& tombstone : tombstones) {
    if (tombstone.lsn <= snapshot && tombstone.begin <= key && key < tombstone.end) {
      hidden = std::max(hidden, tombstone.lsn);
    }
  }
  for (const Entry& entry : entries) {
    if (entry.key != key || entry.lsn > snapshot) continue;
    return entry.type == log::RecordType::kDelete || entry.lsn < hidden ? 0 : entry.lsn;
  }
  return 0;
}

TEST(VersionFilter, ChangesNothingThatAReaderSees) {
  base::Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Entry> entries;
    std::vector<table::RangeTombstone> tombstones;
    for (uint64_t lsn = 1; lsn <= 20; ++lsn) {
      const std::string key(1, static_cast<char>('a' + random.Below(4)));
      if (random.OneIn(6)) {
        tombstones.push_back({key, key + "z", lsn});
      } else {
        entries.push_back({key, lsn, random.OneIn(3) ? log::RecordType::kDelete
                                                     : log::RecordType::kPut});
      }
    }
    std::sort(entries.begin(), entries.end());
    std::vector<uint64_t> snapshots;
    while (random.OneIn(2)) snapshots.push_back(random.Below(22));
    const bool bottom = random.OneIn(2);
    VersionFilter filter(snapshots, tombstones, bottom);
    std::vector<Entry> kept;
    for (const Entry& entry : entries) {
      if (filter.Keep(entry.key, entry.type, entry.lsn)) kept.push_back(entry);
    }
    const std::vector<table::RangeTombstone> kept_tombstones = filter.KeptTombstones();
    std::vector<uint64_t> readers = snapshots;
    readers.push_back(UINT64_MAX);
    for (const uint64_t reader : readers) {
      for (const char key : {'a', 'b', 'c', 'd'}) {
        ASSERT_EQ(Seen(kept, kept_tombstones, std::string(1, key), reader),
                  Seen(entries, tombstones, std::string(1, key), reader))
            << "round " << round << " key " << key << " reader " << reader;
      }
    }
    if (snapshots.empty()) {
      ASSERT_LE(kept.size(), 4u) << "one version of each key";
      if (bottom) {
        ASSERT_TRUE(kept_tombstones.empty());
        for (const Entry& entry : kept) ASSERT_NE(entry.type, log::RecordType::kDelete);
      }
    }
  }
}

// Tables written by a RunWriter, opened.
class RunTest : public testing::Test {
 protected:
  RunTest() {
    EXPECT_TRUE(fs_->MakeDirectory("/r").ok());
    options_.table_bytes_max = 2000;
    options_.block_bytes = 512;
  }

  std::shared_ptr<const lsm::Run> Write(const std::vector<Entry>& entries,
                                   std::vector<table::RangeTombstone> tombstones) {
    RunWriter writer(*fs_, "/r", options_, AlwaysHeld, [this] { return next_ssid_++; },
                     SegmentTracker::Protection::NotNeeded());
    writer.SetTombstones(std::move(tombstones));
    const std::string* last = nullptr;
    for (const Entry& entry : entries) {
      const Slice value = entry.type == log::RecordType::kDelete ? Slice() : Slice(entry.key);
      EXPECT_TRUE(writer.Add(entry.key, entry.type, value, entry.lsn,
                             last == nullptr || *last != entry.key).ok());
      last = &entry.key;
    }
    const Result<std::vector<table::TableInfo>> tables = writer.Finish();
    EXPECT_TRUE(tables.ok());
    std::vector<std::shared_ptr<TableHandle>> handles;
    for (const table::TableInfo& info : *tables) {
      const std::string path = "/r/" + TableName(info.ssid);
      handles.push_back(std::make_shared<TableHandle>(
          *table::Table::Open(*fs_, path, info.ssid, options_, cache_), path, obsolete_files_));
    }
    return handles.empty() ? nullptr : std::make_shared<const lsm::Run>(std::move(handles));
  }

  std::unique_ptr<io::SimFileSystem> fs_ = io::NewSimFileSystem();
  StorageOptions options_;
  std::shared_ptr<table::BlockCache> cache_ = table::NewBlockCache(1 << 20);
  std::shared_ptr<ObsoleteFiles> obsolete_files_ = std::make_shared<ObsoleteFiles>();
  uint64_t next_ssid_ = 1;
};

std::vector<Entry> RandomEntries(base::Random& random, uint64_t first_lsn, size_t count) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < count; ++i) {
    entries.push_back({"key" + std::to_string(random.Below(count)), first_lsn + i,
                       random.OneIn(5) ? log::RecordType::kDelete : log::RecordType::kPut});
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

TEST_F(RunTest, MergesRunsForwardAndBackward) {
  base::Random random(8);
  for (int round = 0; round < 20; ++round) {
    std::vector<Entry> all;
    std::vector<std::shared_ptr<const lsm::Run>> runs;
    std::vector<std::unique_ptr<table::EntryIterator>> sources;
    for (uint64_t i = 0; i < 1 + random.Below(5); ++i) {
      const std::vector<Entry> entries = RandomEntries(random, 1000 * i + 1, 1 + random.Below(300));
      all.insert(all.end(), entries.begin(), entries.end());
      runs.push_back(Write(entries, {}));
      sources.push_back(NewRunIterator(*runs.back(), round % 2 == 0));
    }
    std::sort(all.begin(), all.end());
    table::MergingIterator merge(std::move(sources), round % 3 == 0 ? 3 : 0);
    size_t at = 0;
    for (merge.SeekToFirst(); merge.Valid(); merge.Next(), ++at) {
      ASSERT_EQ(std::string(merge.key()), all[at].key);
      ASSERT_EQ(merge.lsn(), all[at].lsn);
      ASSERT_EQ(merge.type(), all[at].type);
    }
    ASSERT_EQ(at, all.size());
    for (merge.SeekToLast(); merge.Valid(); merge.Prev()) ASSERT_EQ(merge.lsn(), all[--at].lsn);
    ASSERT_EQ(at, 0u);
    const std::string key = "key" + std::to_string(random.Below(300));
    const auto place = std::lower_bound(all.begin(), all.end(), Entry{key, UINT64_MAX, {}});
    merge.Seek(key);
    ASSERT_EQ(merge.Valid(), place != all.end());
    if (place != all.end()) {
      ASSERT_EQ(merge.lsn(), place->lsn);
    }
    merge.SeekBefore(key);
    ASSERT_EQ(merge.Valid(), place != all.begin());
    if (place != all.begin()) {
      ASSERT_EQ(merge.lsn(), std::prev(place)->lsn);
    }
    ASSERT_TRUE(merge.status().ok());
  }
}

TEST_F(RunTest, CutsTombstonesAtTheBordersOfTables) {
  std::vector<Entry> entries;
  for (int i = 100; i < 500; ++i) {
    entries.push_back({"k" + std::to_string(i), static_cast<uint64_t>(i), log::RecordType::kPut});
  }
  const std::vector<table::RangeTombstone> tombstones = {
      {"a", "b", 900}, {"k150", "k350", 901}, {"k340", "z", 902}};
  const std::shared_ptr<const lsm::Run> run = Write(entries, tombstones);
  ASSERT_GT(run->tables().size(), 2u);
  EXPECT_TRUE(run->has_range_tombstones());
  for (size_t i = 1; i < run->tables().size(); ++i) {
    ASSERT_LE(run->tables()[i - 1]->info().largest_key, run->tables()[i]->info().smallest_key);
  }
  const auto covering = [&](const std::string& key) {
    return run->Find(key)->CoveringTombstone(key, UINT64_MAX);
  };
  EXPECT_EQ(covering("a5"), 900u);
  EXPECT_EQ(covering("b"), 0u);
  EXPECT_EQ(covering("zz"), 0u);
  for (int i = 100; i < 500; ++i) {
    const uint64_t expected = i >= 340 ? 902 : i >= 150 ? 901 : 0;
    ASSERT_EQ(covering("k" + std::to_string(i)), expected) << i;
    ASSERT_EQ(covering("k" + std::to_string(i) + "x"), expected) << i;
  }
}

TEST_F(RunTest, WritesTombstonesWithoutEntriesAndNothingAtAll) {
  const std::shared_ptr<const lsm::Run> run = Write({}, {{"a", "c", 5}});
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->Find("b")->CoveringTombstone("b", 9), 5u);
  EXPECT_EQ(Write({}, {}), nullptr);
}

TEST_F(RunTest, RemovesWhatWasNotFinished) {
  {
    RunWriter writer(*fs_, "/r", options_, AlwaysHeld, [this] { return next_ssid_++; },
                     SegmentTracker::Protection::NotNeeded());
    for (int i = 100; i < 400; ++i) {
      const auto lsn = static_cast<uint64_t>(i);
      ASSERT_TRUE(writer.Add("k" + std::to_string(i), log::RecordType::kPut, "v", lsn, true).ok());
    }
    EXPECT_GT(fs_->List("/r")->size(), 1u);
  }
  EXPECT_TRUE(fs_->List("/r")->empty());
}

class SegmentTrackerTest : public testing::Test {
 protected:
  static ValueSegmentInfo Segment(uint64_t id, bool sealed) { return {id, 1000, 900, sealed}; }
  std::vector<std::shared_ptr<std::atomic<bool>>> Observe(
      const std::vector<ValueSegmentInfo>& segments, const MemoryState& memory) {
    return tracker_.Observe(tracker_.Graced(), segments, memory);
  }
  // Until a segment that is sealed now is settled.
  void Settle(const std::vector<ValueSegmentInfo>& segments) {
    for (const auto& flag : Observe(segments, {100, 50, false})) flag->store(true);
    Observe(segments, {200, 150, false});
    Observe(segments, {300, 250, false});
  }

  std::shared_ptr<ObsoleteFiles> obsolete_files_ = std::make_shared<ObsoleteFiles>();
  SegmentTracker tracker_{obsolete_files_};
};

TEST_F(SegmentTrackerTest, JudgesASegmentOnlyWhenEverythingThatMayReferToItIsInTables) {
  const std::vector<ValueSegmentInfo> sealed = {Segment(1, true), Segment(2, false)};
  const auto flags = Observe(sealed, {100, 50, false});
  ASSERT_EQ(flags.size(), 1u) << "segment 1 was sealed";
  Observe(sealed, {200, 250, false});
  EXPECT_TRUE(tracker_.Unused({}).empty()) << "a write into it may be under way";
  flags[0]->store(true);
  Observe(sealed, {300, 250, false});
  EXPECT_TRUE(tracker_.Unused({}).empty()) << "the MemTable from 300 on may refer to it";
  Observe(sealed, {400, 300, false});
  EXPECT_TRUE(tracker_.Unused({}).empty());
  Observe(sealed, {400, 301, false});
  EXPECT_EQ(tracker_.Unused({}), std::set<uint64_t>{1});
  EXPECT_TRUE(tracker_.Unused({{1, 5}}).empty());
  EXPECT_EQ(tracker_.MostlyDead({{1, 499}}), std::set<uint64_t>{1});
  EXPECT_TRUE(tracker_.MostlyDead({{1, 500}}).empty());
}

TEST_F(SegmentTrackerTest, AWriteThatEndsWhileTheMemTablesAreLookedAtIsWaitedFor) {
  const std::vector<ValueSegmentInfo> sealed = {Segment(1, true)};
  const auto flags = Observe(sealed, {100, 50, true});
  ASSERT_EQ(flags.size(), 1u);
  const std::set<uint64_t> graced = tracker_.Graced();
  // The MemTables are empty; then the write puts its record there, and its grace period ends.
  const MemoryState memory = {100, 50, true};
  flags[0]->store(true);
  tracker_.Observe(graced, sealed, memory);
  EXPECT_TRUE(tracker_.Unused({}).empty());
  Observe(sealed, {100, 50, false});
  EXPECT_TRUE(tracker_.Unused({}).empty()) << "the MemTable from 100 on refers to it";
  Observe(sealed, {200, 101, false});
  EXPECT_EQ(tracker_.Unused({}), std::set<uint64_t>{1});
}

// Its end is the end of the scope that asked for it, and of nothing else.
static_assert(!std::is_default_constructible_v<SegmentTracker::Protection>);
static_assert(!std::is_copy_constructible_v<SegmentTracker::Protection>);
static_assert(!std::is_move_assignable_v<SegmentTracker::Protection>);

TEST_F(SegmentTrackerTest, AProtectionCoversTheSegmentsFromItsFirstOn) {
  SegmentTracker::Protection protection = tracker_.Protect(5);
  EXPECT_FALSE(protection.Covers(4));
  EXPECT_TRUE(protection.Covers(5));
  EXPECT_TRUE(protection.Covers(6));
  const SegmentTracker::Protection moved = std::move(protection);
  EXPECT_FALSE(protection.Covers(5)) << "moved from";
  EXPECT_TRUE(moved.Covers(5));
  EXPECT_FALSE(SegmentTracker::Protection::NotNeeded().Covers(5));
}

TEST_F(SegmentTrackerTest, LeavesSegmentsOfRunningMergesAlone) {
  Settle({Segment(1, true), Segment(2, true)});
  {
    const SegmentTracker::Protection younger = tracker_.Protect(2);
    EXPECT_EQ(tracker_.Unused({}), std::set<uint64_t>{1});
    SegmentTracker::Protection older = tracker_.Protect(1);
    const SegmentTracker::Protection moved = std::move(older);
    EXPECT_TRUE(tracker_.Unused({}).empty());
  }
  EXPECT_EQ(tracker_.Unused({}).size(), 2u);
  tracker_.Exclude(2);
  EXPECT_EQ(tracker_.Unused({}), std::set<uint64_t>{1}) << "2 is damaged";
}

TEST_F(SegmentTrackerTest, AFileGoesWhenTheLastReaderDoes) {
  Settle({Segment(1, true), Segment(2, false)});
  std::vector<std::shared_ptr<SegmentHandle>> readers = tracker_.HandlesWithout({});
  EXPECT_EQ(readers.size(), 2u);
  EXPECT_EQ(tracker_.HandlesBetween(1, 3), readers) << "one handle of each";
  tracker_.GiveUp({1});
  ASSERT_EQ(tracker_.Stored().size(), 1u);
  EXPECT_EQ(tracker_.Stored()[0].id, 2u);
  EXPECT_TRUE(obsolete_files_->TakeSegments().empty());
  EXPECT_EQ(tracker_.HandlesBetween(1, 2).size(), 1u) << "while somebody reads it, so may others";
  readers.clear();
  EXPECT_EQ(obsolete_files_->TakeSegments(), std::vector<uint64_t>{1});
  EXPECT_TRUE(tracker_.HandlesBetween(1, 2).empty());
  EXPECT_EQ(tracker_.HandlesBetween(5, 7).size(), 2u) << "young ones, not seen yet";
}

TEST(KeyLocks, ExcludeEachOther) {
  KeyLocks locks;
  EXPECT_FALSE(locks.enabled());
  locks.Enable();
  EXPECT_TRUE(locks.enabled());
  uint64_t counts[2] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&locks, &counts, i] {
      KeyLocks::Set both;
      both.set(3).set(900);
      for (int j = 0; j < 20'000; ++j) {
        if (j % 10 == 0) {
          const KeyLockSet hold(locks, both);
          ++counts[0];
          ++counts[1];
        } else {
          const KeyLock hold(locks, i % 2 == 0 ? 3 : 900);
          ++counts[i % 2];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts[0] + counts[1], 4 * (2000 * 2 + 18'000u));
}

}  // namespace
}  // namespace quire::lsm::db_parts_test
