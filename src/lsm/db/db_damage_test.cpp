// Bytes flipped, files cut, blocks swapped within and across files, files gone: detected, or
// without effect. Never a wrong value, never a deleted key, never a crash.
#include <vector>

#include "log/segment.h"
#include "lsm/db/db_testing.h"
#include "lsm/memtable/memtable_pool.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::lsm::db_damage_test {
namespace {

using Files = std::map<std::string, std::string>;

// Returns the files of a directory with their contents.
Files Save(io::FileSystem& fs, const std::string& directory) {
  Files files;
  const Result<std::vector<io::FileInfo>> list = fs.List(directory);
  EXPECT_TRUE(list.ok());
  for (const io::FileInfo& info : *list) {
    files[info.name] = *io::ReadFile(fs, directory + "/" + info.name, UINT64_MAX);
  }
  return files;
}

void Load(io::FileSystem& fs, const std::string& directory, const Files& files) {
  ASSERT_TRUE(fs.MakeDirectory(directory).ok());
  for (const auto& [name, bytes] : files) {
    const auto file = fs.Open(directory + "/" + name, io::FileOpenMode::kCreate);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->WriteAt(0, bytes).ok());
  }
}

class Damage : public testing::Test {
 protected:
  // Tables of two runs, value segments, and a log with records, tombstones and a batch.
  Damage() : options_(SmallOptions()) {
    options_.compaction_trigger = 10;
    options_.dead_percent_max = 1000;
    TestDb test(options_);
    EXPECT_TRUE(test.Open().ok());
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 30; ++i) {
        const std::string key = "key" + std::to_string(i * (round + 1) % 40);
        std::string value = "round" + std::to_string(round) + "." + std::to_string(i);
        if (i % 10 == 0) value.resize(500, 'v');
        EXPECT_TRUE(test->Put(key, value).ok());
        model_[key] = value;
      }
      EXPECT_TRUE(test->Delete("key" + std::to_string(round)).ok());
      model_.erase("key" + std::to_string(round));
      EXPECT_TRUE(test->DeleteRange("key3", "key31").ok());
      model_.erase(model_.lower_bound("key3"), model_.lower_bound("key31"));
      engine::WriteBatch batch;
      batch.Put("batch1", std::to_string(round));
      batch.Put("batch2", std::to_string(round));
      EXPECT_TRUE(test->Write(batch).ok());
      model_["batch1"] = model_["batch2"] = std::to_string(round);
      if (round < 2) {
        EXPECT_TRUE(test->Flush().ok());
      }
    }
    EXPECT_EQ(test->Statistics().run_count, 2u);
    test.Close();
    files_ = Save(test.fs(), "/db");
    for (int i = 0; i < 50; ++i) keys_.push_back("key" + std::to_string(i));
    keys_.insert(keys_.end(), {"batch1", "batch2", "absent"});
  }

  // Opens a copy with `files` in it. Sets `told` if any call reported damage.
  void Check(const Files& files, bool* told) {
    TestDb test(options_);
    Load(test.fs(), "/db", files);
    const Status opened = test.Open();
    *told = !opened.ok();
    if (*told) {
      CheckCode(opened);
      return;
    }
    for (const std::string& key : keys_) {
      std::string value;
      const Status status = test->Get(key, &value);
      const auto expected = model_.find(key);
      if (status.ok()) {
        ASSERT_TRUE(expected != model_.end()) << key << " is back";
        ASSERT_EQ(value, expected->second) << key;
      } else if (status.code() == Code::kNotFound) {
        ASSERT_TRUE(expected == model_.end()) << key << " is lost";
      } else {
        CheckCode(status);
        *told = true;
      }
    }
    ASSERT_NO_FATAL_FAILURE(CheckIterator(test.db(), told));
    if (!test->Verify().ok()) *told = true;
  }

  void CheckIterator(Db& db, bool* told) {
    const std::unique_ptr<engine::Iterator> iterator = db.NewIterator({});
    Model::const_iterator expected = model_.begin();
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++expected) {
      ASSERT_TRUE(expected != model_.end());
      ASSERT_EQ(std::string(iterator->key()), expected->first);
      const std::string value(iterator->value());
      if (iterator->status().ok()) {
        ASSERT_EQ(value, expected->second);
      }
    }
    if (iterator->status().ok()) {
      ASSERT_TRUE(expected == model_.end()) << "the iterator ends early";
    } else {
      *told = true;
    }
  }

  static void CheckCode(const Status& status) {
    EXPECT_TRUE(status.code() == Code::kCorruption || status.code() == Code::kUnsupported)
        << status.ToString();
    EXPECT_NE(status.message().find("/db/"), std::string::npos) << status.ToString();
  }

  // Offsets to be damaged: everything near the beginning and the end, samples between.
  static std::vector<size_t> Places(const std::string& name, const std::string& bytes) {
    std::vector<size_t> places;
    size_t used = bytes.size();
    while (used > 0 && bytes[used - 1] == '\0') --used;
    const size_t stride = std::max<size_t>(1, used / static_cast<size_t>(test::ScaledCount(500)));
    for (size_t i = name.size() % stride; i < used; i += stride) places.push_back(i);
    for (size_t i = used; i < bytes.size(); i += 4099) places.push_back(i);
    return places;
  }

  StorageOptions options_;
  Model model_;
  Files files_;
  std::vector<std::string> keys_;
};

TEST_F(Damage, NoDamageIsReportedInWholeFiles) {
  bool told = true;
  ASSERT_NO_FATAL_FAILURE(Check(files_, &told));
  EXPECT_FALSE(told);
  EXPECT_GE(files_.size(), 6u);
}

TEST_F(Damage, AFlippedBitIsReportedOrHarmless) {
  size_t flips = 0;
  size_t detected = 0;
  for (const auto& [name, bytes] : files_) {
    if (name == "LOCK") continue;
    for (const size_t place : Places(name, bytes)) {
      Files damaged = files_;
      damaged[name][place] = static_cast<char>(bytes[place] ^ (1 << (place % 8)));
      bool told = false;
      ASSERT_NO_FATAL_FAILURE(Check(damaged, &told)) << name << " byte " << place;
      ++flips;
      detected += told;
      if (name == "MANIFEST" || (name[0] == 't' && place < bytes.size())) {
        EXPECT_TRUE(told) << name << " byte " << place;
      }
    }
  }
  std::printf("%zu flips, %zu told\n", flips, detected);
  EXPECT_GT(flips, test::ScaledLeast(1000));
}

TEST_F(Damage, ACutFileIsReported) {
  size_t cuts = 0;
  for (const auto& [name, bytes] : files_) {
    if (name == "LOCK") continue;
    const size_t stride =
        std::max<size_t>(1, bytes.size() / static_cast<size_t>(test::ScaledCount(60)));
    for (size_t size = 0; size < bytes.size(); size += stride) {
      Files damaged = files_;
      damaged[name].resize(size);
      bool told = false;
      ASSERT_NO_FATAL_FAILURE(Check(damaged, &told)) << name << " cut to " << size;
      // The pool holds a log segment that was not begun; the last value ends with up to 7 unused
      // bytes.
      if (name[0] != 'l' && (name[0] != 'v' || bytes.size() - size >= 8)) {
        EXPECT_TRUE(told) << name << " cut to " << size;
      }
      ++cuts;
    }
  }
  EXPECT_GT(cuts, test::ScaledLeast(100));
}

TEST_F(Damage, AMissingFileIsReported) {
  for (const auto& [name, bytes] : files_) {
    if (name == "LOCK") continue;
    Files damaged = files_;
    damaged.erase(name);
    bool told = false;
    ASSERT_NO_FATAL_FAILURE(Check(damaged, &told)) << name;
    if (name[0] != 'l') {
      EXPECT_TRUE(told) << name;
    }
  }
}

TEST_F(Damage, SwappedBlocksAreReported) {
  constexpr size_t kBlock = 512;
  base::Random random(11);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files_) {
    if (bytes.size() >= kBlock) names.push_back(name);
  }
  for (int64_t i = 0; i < test::ScaledCount(300); ++i) {
    Files damaged = files_;
    std::string& a = damaged[names[random.Below(names.size())]];
    std::string& b = damaged[names[random.Below(names.size())]];
    const size_t from = random.Below(std::min<size_t>(a.size(), 8192) / kBlock) * kBlock;
    const size_t to = random.Below(std::min<size_t>(b.size(), 8192) / kBlock) * kBlock;
    const std::string block = a.substr(from, kBlock);
    a.replace(from, kBlock, b.substr(to, kBlock));
    b.replace(to, kBlock, block);
    bool told = false;
    ASSERT_NO_FATAL_FAILURE(Check(damaged, &told)) << "swap " << i;
  }
}

TEST_F(Damage, SwappedTablesAreReported) {
  Files damaged = files_;
  ASSERT_TRUE(damaged.contains("t-1.sst") && damaged.contains("t-2.sst"));
  std::swap(damaged["t-1.sst"], damaged["t-2.sst"]);
  bool told = false;
  ASSERT_NO_FATAL_FAILURE(Check(damaged, &told));
  EXPECT_TRUE(told);
}

TEST(ValueDamage, IsNotLaunderedByTheCollectionOfItsSegment) {
  TestDb test(SmallOptions());
  ASSERT_TRUE(test.Open().ok());
  const auto value = [](int i) { return std::string(1000, static_cast<char>('a' + i)); };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(test->Put("keep" + std::to_string(i), value(i)).ok());
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(test->Put("drop" + std::to_string(i), value(20)).ok());
  ASSERT_TRUE(test->Flush().ok());
  ASSERT_TRUE(test->DeleteRange("drop", "drop~").ok());
  const auto damage = [&](std::string* bytes) {
    const size_t place = bytes->find(value(3));
    ASSERT_NE(place, std::string::npos);
    (*bytes)[place] = '?';
  };
  ASSERT_TRUE(test.fs().Damage("/db/val-1.seg", damage).ok());
  ASSERT_TRUE(test->Compact().ok());
  for (int open = 0; open < 2; ++open) {
    for (int i = 0; i < 10; ++i) {
      std::string found;
      const Status status = test->Get("keep" + std::to_string(i), &found);
      EXPECT_EQ(status.code(), i == 3 ? Code::kCorruption : Code::kOk) << i;
      if (status.ok()) {
        EXPECT_EQ(found, value(i));
      }
    }
    ASSERT_TRUE(test.Reopen().ok());
  }
}

// A database with one table of one pair; a copy of the table.
void MakeOneTable(TestDb& test, const std::string& value, std::string* table) {
  ASSERT_TRUE(test.Open().ok());
  ASSERT_TRUE(test->Put("key", value).ok());
  ASSERT_TRUE(test->Flush().ok());
  test.Close();
  *table = *io::ReadFile(test.fs(), "/db/t-1.sst", UINT64_MAX);
}

// Replaces a file, as a user does who restores a copy.
void Restore(io::FileSystem& fs, const std::string& path, const std::string& bytes) {
  ASSERT_TRUE(fs.Unlink(path).ok());
  const auto file = fs.Open(path, io::FileOpenMode::kCreate);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->WriteAt(0, bytes).ok());
}

// The log segments in use, by the places of their records in the order of writes.
std::map<uint64_t, std::string> LogSegments(io::FileSystem& fs) {
  std::map<uint64_t, std::string> paths;
  for (const auto& [name, bytes] : Save(fs, "/db")) {
    if (name.rfind("log-", 0) != 0) continue;
    const auto header = log::ReadSegmentHeader(fs, "/db/" + name);
    if (header.ok() && header->previous_end_lsn != 0) paths[header->base_lsn] = "/db/" + name;
  }
  return paths;
}

TEST(TableOfAnotherDatabase, IsReportedThoughItHasTheSameNumberAndSize) {
  TestDb mine(SmallOptions());
  TestDb other(SmallOptions());
  std::string table, others_table;
  ASSERT_NO_FATAL_FAILURE(MakeOneTable(mine, "mine", &table));
  ASSERT_NO_FATAL_FAILURE(MakeOneTable(other, "none", &others_table));
  ASSERT_EQ(table.size(), others_table.size());
  ASSERT_NO_FATAL_FAILURE(Restore(mine.fs(), "/db/t-1.sst", others_table));
  ASSERT_OK(mine.Open());
  std::string value;
  const Status read = mine->Get("mine", &value);
  EXPECT_EQ(read.code(), Code::kCorruption) << read.ToString();
  EXPECT_NE(read.message().find("t-1.sst"), std::string::npos) << read.ToString();
}

TEST(LogDamage, AMissingSegmentThatIsNotListedYetIsReported) {
  StorageOptions options = SmallOptions();
  options.flushing_queue_length = 4;
  options.value_separation_bytes_min = 1 << 20;
  TestDb test(options);
  ASSERT_TRUE(test.Open().ok());
  // Three MemTables, and no job that would flush one and so have the others listed.
  for (int i = 0; i < 150; ++i) {
    ASSERT_TRUE(test->Put("key" + std::to_string(i), std::string(1000, 'v')).ok());
  }
  test.Close();
  const std::map<uint64_t, std::string> segments = LogSegments(test.fs());
  ASSERT_GE(segments.size(), 3u);
  const std::string second = std::next(segments.begin())->second;
  const Manifest manifest = *ReadManifest(test.fs(), "/db");
  for (const StoredLog& log : manifest.log_segments) {
    ASSERT_NE("/db/" + LogSegmentName(static_cast<int>(log.pool_slot)), second);
  }
  ASSERT_TRUE(test.fs().Unlink(second).ok());
  const Status opened = test.Open();
  EXPECT_EQ(opened.code(), Code::kCorruption) << opened.ToString();
  EXPECT_NE(opened.message().find("missing"), std::string::npos) << opened.ToString();
}

TEST(LogDamage, AnEarlierUseOfAListedSegmentIsReported) {
  TestDb test(SmallOptions());
  ASSERT_TRUE(test.Open().ok());
  ASSERT_TRUE(test->Put("first", "1").ok());
  const std::string path = LogSegments(test.fs()).begin()->second;
  const std::string earlier = *io::ReadFile(test.fs(), path, UINT64_MAX);
  const auto listed = [&] {
    const Manifest manifest = *ReadManifest(test.fs(), "/db");
    const auto header = log::ReadSegmentHeader(test.fs(), path);
    return header.ok() && manifest.log_segments.size() == 1 &&
           manifest.log_segments[0].generation == header->generation;
  };
  int flushes = 0;
  do {  // until the file is in use again
    ASSERT_LT(++flushes, 20);
    ASSERT_TRUE(test->Put("more", std::to_string(flushes)).ok());
    ASSERT_TRUE(test->Flush().ok());
  } while (!listed());
  ASSERT_TRUE(test->Put("last", "1").ok());
  test.Close();
  Restore(test.fs(), path, earlier);
  const Status opened = test.Open();
  EXPECT_EQ(opened.code(), Code::kCorruption) << opened.ToString();
}

// As long as the log is not recovered, every open makes the manifest's demands on it.
TEST(LogDamage, ASecondOpenRefusesWhatTheFirstRefused) {
  const auto wipe = [](std::string* bytes) { bytes->replace(0, 4096, 4096, '?'); };
  for (const io::CrashKind crash :
       {io::CrashKind::kProcess, io::CrashKind::kMoved, io::CrashKind::kPower}) {
    TestDb test(SmallOptions());
    ASSERT_TRUE(test.Open().ok());
    ASSERT_TRUE(test->Put("key", "value").ok());
    ASSERT_TRUE(test->SyncLog().ok());
    const std::string path = LogSegments(test.fs()).begin()->second;
    test.fs().Restart(crash, 1);
    test.Close();
    const std::string whole = *io::ReadFile(test.fs(), path, UINT64_MAX);
    ASSERT_TRUE(test.fs().Damage(path, wipe).ok());
    for (int i = 0; i < 3; ++i) EXPECT_CODE(test.Open(), Code::kCorruption);
    ASSERT_TRUE(test.fs().Damage(path, [&](std::string* bytes) { *bytes = whole; }).ok());
    ASSERT_TRUE(test.Open().ok());
    EXPECT_EQ(GetText(test.db(), "key"), "value");
  }
}

// A hole, as a writer leaves that died in the middle of a record while others went on behind it.
void MakeHole(std::string* segment, const std::string& value) {
  constexpr size_t kCompleteMarkAt = 1536;  // docs/format/segment.md: not noted where several write
  segment->replace(kCompleteMarkAt, 8, 8, '\0');
  const size_t place = segment->find(value);
  ASSERT_NE(place, std::string::npos);
  (*segment)[place] = '?';
}

TEST(LogDamage, ALogWithAHoleIsFoundTheSameAfterASyncAndAPowerLoss) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TestDb test(SmallOptions());
    ASSERT_TRUE(test.Open().ok());
    Model model;
    for (int i = 0; i < 10; ++i) {
      const std::string number = std::to_string(i);
      ASSERT_TRUE(test->Put("key" + number, "value" + number).ok());
      if (i != 5) model["key" + number] = "value" + number;
    }
    const std::string path = LogSegments(test.fs()).begin()->second;
    test.fs().Restart(io::CrashKind::kProcess, seed);
    test.Close();
    const auto hole = [](std::string* bytes) { MakeHole(bytes, "value5"); };
    ASSERT_TRUE(test.fs().Damage(path, hole).ok());
    ASSERT_TRUE(test.Open().ok());
    ASSERT_EQ(AllOf(*test->NewIterator({})), model);
    ASSERT_TRUE(test->SyncLog().ok());
    test.fs().Restart(io::CrashKind::kPower, seed);
    test.Close();
    const Status opened = test.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    ASSERT_EQ(AllOf(*test->NewIterator({})), model) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire::lsm::db_damage_test
