// The promises of one rank's database, one at a time.
#include <vector>

#include "lsm/db/db_testing.h"
#include "lsm/version/manifest.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::db_test {
namespace {

// A database that is open, with background work only where a test asks for it.
class DbTest : public testing::Test {
 protected:
  explicit DbTest(const StorageOptions& options = SmallOptions()) : test_(options) {
    EXPECT_TRUE(test_.Open().ok());
  }
  void Put(const std::string& key, const std::string& value) {
    const Status status = test_->Put(key, value);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  std::string Get(const std::string& key) { return GetText(test_.db(), key); }
  Model All() { return AllOf(*test_->NewIterator({})); }
  bool Exists(const std::string& name) { return *test_.fs().Exists("/db/" + name); }

  TestDb test_;
};

TEST_F(DbTest, KeepsEveryByteOfKeysAndValues) {
  const std::string nul("a\0b", 3);
  Put(nul, std::string("\0\xff\n", 3));
  Put("a", "");
  Put(std::string(65536 - 8192, 'k'), "long key");
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Get(nul), std::string("\0\xff\n", 3));
    EXPECT_EQ(Get("a"), "");
    EXPECT_EQ(Get(std::string("a\0", 2)), "<absent>");
    EXPECT_EQ(Get(std::string(65536 - 8192, 'k')), "long key");
    ASSERT_TRUE(test_->Flush().ok());
  }
  EXPECT_EQ(All().size(), 3u);
}

TEST_F(DbTest, RefusesWhatIsOutOfRangeAndChangesNothing) {
  EXPECT_EQ(test_->Put("", "v").code(), Code::kInvalidArgument);
  EXPECT_EQ(test_->Put(std::string(65537, 'k'), "v").code(), Code::kInvalidArgument);
  EXPECT_EQ(test_->Put(std::string(65536, 'k'), "v").code(), Code::kInvalidArgument)
      << "does not fit a MemTable of 64 KiB";
  EXPECT_EQ(test_->Delete("").code(), Code::kInvalidArgument);
  EXPECT_EQ(test_->DeleteRange("b", "a").code(), Code::kInvalidArgument);
  EXPECT_TRUE(test_->DeleteRange("a", "a").ok());
  std::string value;
  EXPECT_EQ(test_->Get("", &value).code(), Code::kInvalidArgument);
  const engine::UpdateFn update = [](Slice, const Slice*, std::string*) { return true; };
  EXPECT_EQ(test_->Update("", update).code(), Code::kInvalidArgument);
  engine::WriteProgress garbage;
  EXPECT_EQ(test_->Apply("garbage", {}, &garbage).code(), Code::kCorruption);
  EXPECT_EQ(garbage.applied, 0u);
  engine::WriteBatch with_update;
  with_update.Put("a", "1");
  with_update.Update("a", 1, "x");
  EXPECT_EQ(test_->Write(with_update).code(), Code::kInvalidArgument);
  engine::WriteProgress progress;
  EXPECT_EQ(test_->Apply(with_update.bytes(), {}, &progress).code(), Code::kInvalidArgument);
  EXPECT_EQ(progress.applied, 1u) << "the put came before";
  EXPECT_EQ(All().size(), 1u);
}

TEST_F(DbTest, RefusesABatchThatFitsNoMemTable) {
  engine::WriteBatch batch;
  for (int i = 0; i < 1000; ++i) batch.Put("key" + std::to_string(i), std::string(100, 'v'));
  const Status status = test_->Write(batch);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
  EXPECT_TRUE(All().empty());
  engine::WriteProgress progress;
  EXPECT_TRUE(test_->Apply(batch.bytes(), {}, &progress).ok());
  EXPECT_EQ(progress.applied, 1000u);
  EXPECT_EQ(All().size(), 1000u);
}

TEST_F(DbTest, TakesValuesLargerThanAMemTable) {
  const std::string large(300'000, 'x');
  Put("large", large);
  engine::WriteBatch batch;
  batch.Put("b1", large + "1");
  batch.Put("b2", "small");
  ASSERT_TRUE(test_->Write(batch).ok());
  EXPECT_EQ(Get("large"), large);
  ASSERT_TRUE(test_->Flush().ok());
  ASSERT_TRUE(test_.Reopen().ok());
  EXPECT_EQ(Get("large"), large);
  EXPECT_EQ(Get("b1"), large + "1");
  EXPECT_EQ(All()["b2"], "small");
}

TEST_F(DbTest, AValueThatFitsNoMemTableIsSeparatedWhateverTheThreshold) {
  test_.Close();
  test_.options().value_separation_bytes_min = 1 << 30;
  ASSERT_TRUE(test_.Open().ok());
  Put("a", std::string(50'000, 'a'));
  Put("b", std::string(100'000, 'b'));
  EXPECT_EQ(Get("a").size(), 50'000u);
  EXPECT_EQ(Get("b").size(), 100'000u);
  EXPECT_GT(test_->Statistics().value_segment_bytes, 0u);
}

TEST_F(DbTest, AnUpdateFunctionRunsOnceIfNoOtherCallWritesTheKey) {
  constexpr int kUpdates = 2000;
  int runs = 0;
  for (int i = 0; i < kUpdates; ++i) {
    const std::string key = "k" + std::to_string(i % 50);
    ASSERT_OK(test_->Update(key, [&](Slice, const Slice* present, std::string* updated) {
      ++runs;
      *updated = present == nullptr ? "0" : std::to_string(std::stoi(std::string(*present)) + 1);
      updated->resize(200, ' ');
      return true;
    }));
  }
  EXPECT_EQ(runs, kUpdates);
  EXPECT_GT(test_->Statistics().flush_count, 0u) << "some update found its MemTable full";
  for (int key = 0; key < 50; ++key) {
    EXPECT_EQ(std::stoi(GetText(test_.db(), "k" + std::to_string(key))), kUpdates / 50 - 1);
  }
}

TEST_F(DbTest, UpdateSeesThePresentValueWhereverItIs) {
  const auto append = [this](const std::string& key, const std::string& more) {
    const Status status =
        test_->Update(key, [&](Slice, const Slice* present, std::string* updated) {
          *updated = (present == nullptr ? "" : std::string(*present)) + more;
          return true;
        });
    ASSERT_TRUE(status.ok()) << status.ToString();
  };
  append("k", "1");
  append("k", "2");
  ASSERT_TRUE(test_->Flush().ok());
  append("k", std::string(1000, '3'));
  append("k", "4");
  EXPECT_EQ(Get("k"), "12" + std::string(1000, '3') + "4");
  ASSERT_TRUE(test_->Delete("k").ok());
  append("k", "5");
  EXPECT_EQ(Get("k"), "5");
  ASSERT_TRUE(test_->Update("k", [](Slice, const Slice*, std::string* updated) {
    *updated = "unwanted";
    return false;
  }).ok());
  EXPECT_EQ(Get("k"), "5");
}

TEST_F(DbTest, MemoryAloneSaysWhetherItDecides) {
  Put("old", "1");
  ASSERT_TRUE(test_->Flush().ok());
  Put("new", "2");
  ASSERT_TRUE(test_->Delete("old").ok());
  std::string value;
  const BufferAllocator allocate = Into(&value);
  bool decided = false;
  EXPECT_TRUE(test_->GetFromMemory("new", allocate, &decided, nullptr).ok());
  EXPECT_TRUE(decided);
  EXPECT_EQ(value, "2");
  EXPECT_EQ(test_->GetFromMemory("old", allocate, &decided, nullptr).code(), Code::kNotFound);
  EXPECT_TRUE(decided) << "a tombstone decides";
  EXPECT_EQ(test_->GetFromMemory("other", allocate, &decided, nullptr).code(), Code::kNotFound);
  EXPECT_FALSE(decided);
}

TEST_F(DbTest, TombstonesHideWhatIsOlderAndGoWithIt) {
  for (int i = 0; i < 50; ++i) Put("k" + std::to_string(100 + i), "v");
  ASSERT_TRUE(test_->Flush().ok());
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(test_->Delete("k" + std::to_string(100 + i)).ok());
  ASSERT_TRUE(test_->DeleteRange("k125", "k150").ok());
  ASSERT_TRUE(test_->Flush().ok());
  EXPECT_TRUE(All().empty());
  EXPECT_EQ(Get("k100"), "<absent>");
  EXPECT_EQ(Get("k149"), "<absent>");
  ASSERT_TRUE(test_->Compact().ok());
  EXPECT_TRUE(All().empty());
  EXPECT_EQ(test_->Statistics().table_count, 0u) << "neither entries nor tombstones are left";
}

TEST(MergeOfYoungRuns, KeepsTombstonesForTheOlderOnes) {
  StorageOptions options = SmallOptions();
  options.dead_percent_max = 1000;
  TestDb test(options);
  ASSERT_TRUE(test.Open().ok());
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(test->Put("key" + std::to_string(i), std::string(200, 'v')).ok());
  }
  ASSERT_TRUE(test->Flush().ok());
  ASSERT_TRUE(test->Delete("key7").ok());
  ASSERT_TRUE(test->DeleteRange("key8", "key9").ok());
  for (int i = 0; i < options.compaction_trigger; ++i) {
    ASSERT_TRUE(test->Put("young" + std::to_string(i), "1").ok());
    ASSERT_TRUE(test->Flush().ok());
  }
  ASSERT_TRUE(test->WaitIdle().ok());
  ASSERT_EQ(test->Statistics().compaction_count, 1u);
  ASSERT_EQ(test->Statistics().run_count, 2u);
  EXPECT_EQ(GetText(test.db(), "key7"), "<absent>");
  EXPECT_EQ(GetText(test.db(), "key8"), "<absent>");
  EXPECT_EQ(GetText(test.db(), "key80"), "<absent>");
  EXPECT_EQ(GetText(test.db(), "key9"), std::string(200, 'v'));
}

TEST_F(DbTest, ARangeTombstoneIsCutWhereTablesAre) {
  Model model;
  for (int round = 0; round < 2; ++round) {
    for (int i = 1000; i < 3000; ++i) {
      const std::string key = "k" + std::to_string(i);
      Put(key, std::string(150, static_cast<char>('a' + round)));
      model[key] = std::string(150, static_cast<char>('a' + round));
      test_.executor().RunOne();
    }
    const std::unique_ptr<engine::Snapshot> snapshot = test_->NewSnapshot();
    const Model before = model;
    ASSERT_TRUE(test_->DeleteRange("k1500", "k2500").ok());
    model.erase(model.lower_bound("k1500"), model.lower_bound("k2500"));
    ASSERT_TRUE(test_->Compact().ok());
    EXPECT_GT(test_->Statistics().table_count, 3u);
    EXPECT_EQ(test_->Statistics().run_count, 1u);
    EXPECT_EQ(All(), model);
    for (int i = 1490; i < 2510; ++i) {
      const std::string key = "k" + std::to_string(i);
      ASSERT_EQ(Get(key), model.contains(key) ? model[key] : "<absent>") << key;
      ASSERT_EQ(GetText(test_.db(), key, snapshot.get()), before.at(key)) << key;
    }
  }
}

TEST_F(DbTest, ASnapshotSeesItsMomentThroughFlushesAndMerges) {
  Put("a", "1");
  Put("b", "1");
  const std::unique_ptr<engine::Snapshot> first = test_->NewSnapshot();
  Put("a", "2");
  ASSERT_TRUE(test_->Delete("b").ok());
  ASSERT_TRUE(test_->Flush().ok());
  std::unique_ptr<engine::Snapshot> second = test_->NewSnapshot();
  Put("a", "3");
  Put("c", "3");
  ASSERT_TRUE(test_->DeleteRange("a", "z").ok());
  Put("d", "4");
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(GetText(test_.db(), "a", first.get()), "1");
    EXPECT_EQ(GetText(test_.db(), "b", first.get()), "1");
    EXPECT_EQ(GetText(test_.db(), "a", second.get()), "2");
    EXPECT_EQ(GetText(test_.db(), "b", second.get()), "<absent>");
    EXPECT_EQ(GetText(test_.db(), "c", second.get()), "<absent>");
    EXPECT_EQ(All(), (Model{{"d", "4"}}));
    ASSERT_TRUE((round == 0 ? test_->Flush() : test_->Compact()).ok());
  }
  second.reset();
  ASSERT_TRUE(test_->Compact().ok());
  EXPECT_EQ(GetText(test_.db(), "a", first.get()), "1");
}

TEST_F(DbTest, AnIteratorStandsStillWhateverIsWrittenAndMerged) {
  Model model;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "k" + std::to_string(i);
    Put(key, std::string(i % 9 == 0 ? 400 : 40, 'a'));
    model[key] = std::string(i % 9 == 0 ? 400 : 40, 'a');
  }
  const std::unique_ptr<engine::Iterator> iterator = test_->NewIterator({});
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 300; ++i) Put("k" + std::to_string(i), std::string(300, 'b'));
    ASSERT_TRUE(test_->Compact().ok());
    EXPECT_EQ(AllOf(*iterator), model);
  }
}

TEST_F(DbTest, ReadersThatPinMemTablesDoNotStopWriters) {
  std::vector<std::unique_ptr<engine::Iterator>> iterators;
  for (int i = 0; i < 2000; ++i) {
    Put("k" + std::to_string(i), std::string(200, 'v'));
    if (i % 700 == 0) iterators.push_back(test_->NewIterator({}));
  }
  EXPECT_EQ(All().size(), 2000u);
}

TEST_F(DbTest, ReplaysTheLogOfAnEarlierOpener) {
  for (int i = 0; i < 100; ++i) Put("k" + std::to_string(i), "v" + std::to_string(i));
  ASSERT_TRUE(test_->Delete("k5").ok());
  ASSERT_TRUE(test_.Reopen().ok());
  EXPECT_EQ(test_->Statistics().recovered_records, 101u);
  EXPECT_EQ(test_->Statistics().recovered_holes, 0u);
  EXPECT_EQ(Get("k99"), "v99");
  EXPECT_EQ(Get("k5"), "<absent>");
  ASSERT_TRUE(test_->Flush().ok());
  ASSERT_TRUE(test_.Reopen().ok());
  EXPECT_EQ(test_->Statistics().recovered_records, 0u);
  EXPECT_EQ(All().size(), 99u);
}

TEST_F(DbTest, OptionsMayChangeFromOneOpenerToTheNext) {
  base::Random random(3);
  Model model;
  const WalMode logs[] = {WalMode::kOn, WalMode::kOff, WalMode::kSync};
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 400; ++i) {
      const std::string key = "k" + std::to_string(random.Below(300));
      const std::string value = std::to_string(round) + std::string(random.Below(400), 'v');
      Put(key, value);
      model[key] = value;
    }
    test_.Close();
    test_.options().memtable_bytes = (64 + 64 * random.Below(3)) << 10;
    test_.options().flushing_queue_length = static_cast<int>(1 + random.Below(4));
    test_.options().value_separation_bytes_min = 100 + random.Below(400);
    test_.options().block_bytes = 512u << random.Below(6);
    test_.options().compression = static_cast<Compression>(random.Below(3));
    test_.options().bloom_bits_per_key = static_cast<int>(random.Below(12));
    test_.options().wal = logs[random.Below(3)];
    const Status opened = test_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    ASSERT_EQ(All(), model) << "round " << round;
    if (test_.options().wal == WalMode::kOff) {
      EXPECT_FALSE(Exists("log-0.seg"));
    }
  }
}

TEST_F(DbTest, WithoutALogAClosedDatabaseIsComplete) {
  test_.Close();
  test_.options().wal = WalMode::kOff;
  ASSERT_TRUE(test_.Open().ok());
  Put("a", "1");
  ASSERT_TRUE(test_->SyncLog().ok());
  Put("b", "2");
  test_.fs().CrashAfter(0);
  test_.Close();
  test_.fs().Restart(io::CrashKind::kPower, 1);
  test_.fs().CrashAfter(UINT64_MAX);
  ASSERT_TRUE(test_.Open().ok());
  EXPECT_EQ(All(), (Model{{"a", "1"}})) << "SyncLog made what came before it durable";
  Put("c", "3");
  ASSERT_TRUE(test_.Reopen().ok());
  EXPECT_EQ(Get("c"), "3");
}

TEST_F(DbTest, ASecondOpenNamesTheHolder) {
  engine::EngineEnvironment other = test_.environment();
  other.holder = "node7 pid 12 job 99";
  const Status busy =
      Db::Open(other, "/db", test_.options(), engine::OpenFlags::kOpenOrCreate).status();
  EXPECT_EQ(busy.code(), Code::kBusy);
  EXPECT_NE(busy.message().find("pid"), std::string::npos) << busy.message();
  EXPECT_EQ(DestroyDb(test_.fs(), "/db").code(), Code::kBusy);
  test_.Close();
  const Result<std::unique_ptr<Db>> opened =
      Db::Open(other, "/db", test_.options(), engine::OpenFlags::kMustExist);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Status told = test_.Open();
  EXPECT_EQ(told.code(), Code::kBusy);
  EXPECT_NE(told.message().find("process 12 on host node7 (job 99)"), std::string::npos)
      << told.message();
}

TEST_F(DbTest, FlagsSayWhetherItMustBeThere) {
  EXPECT_EQ(Db::Open(test_.environment(), "/none", test_.options(), engine::OpenFlags::kMustExist)
                .status()
                .code(),
            Code::kNotFound);
  EXPECT_FALSE(*test_.fs().Exists("/none"));
  test_.Close();
  EXPECT_EQ(test_.Open(engine::OpenFlags::kMustNotExist).code(), Code::kInvalidArgument);
  EXPECT_TRUE(test_.Open(engine::OpenFlags::kMustExist).ok());
}

TEST_F(DbTest, RefusesOptionsOutOfRange) {
  test_.Close();
  const auto refused = [this](void (*change)(StorageOptions*)) {
    StorageOptions options = SmallOptions();
    change(&options);
    const Status status =
        Db::Open(test_.environment(), "/db", options, engine::OpenFlags::kOpenOrCreate).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
  };
  refused([](StorageOptions* options) { options->memtable_bytes = 1000; });
  refused([](StorageOptions* options) { options->memtable_bytes = (16ull << 30) + 1; });
  refused([](StorageOptions* options) { options->flushing_queue_length = 0; });
  refused([](StorageOptions* options) { options->table_bytes_max = 1; });
  refused([](StorageOptions* options) { options->compaction_trigger = 1; });
  refused([](StorageOptions* options) { options->dead_percent_max = 0; });
}

TEST_F(DbTest, AMemTableMayHaveAnySizeInItsRange) {
  for (const uint64_t bytes : {uint64_t{65537}, uint64_t{75} * 1024, uint64_t{1000003}}) {
    SCOPED_TRACE(bytes);
    StorageOptions options = SmallOptions();
    options.memtable_bytes = bytes;
    TestDb test(options);
    ASSERT_TRUE(test.Open().ok());
    Model model;
    for (int i = 0; i < 6000; ++i) {
      const std::string key = "k" + std::to_string(i);
      ASSERT_TRUE(test->Put(key, std::string(200, 'v')).ok());
      model[key] = std::string(200, 'v');
    }
    ASSERT_TRUE(test->Flush().ok());
    EXPECT_GT(test->Statistics().flush_count, 1u);
    ASSERT_TRUE(test.Reopen().ok());
    EXPECT_EQ(AllOf(*test->NewIterator({})), model);
  }
}

TEST_F(DbTest, DestroyRemovesEveryFileAndTheDirectory) {
  for (int i = 0; i < 500; ++i) Put("k" + std::to_string(i), std::string(300, 'v'));
  test_.Close();
  ASSERT_TRUE(DestroyDb(test_.fs(), "/db").ok());
  EXPECT_FALSE(*test_.fs().Exists("/db"));
  EXPECT_TRUE(DestroyDb(test_.fs(), "/db").ok()) << "nothing to be done";
}

// A process that comes in between finds no database that lacks files, and none to open.
TEST_F(DbTest, ARemovalInPiecesTakesTheManifestFirstAndKeepsTheLock) {
  for (int i = 0; i < 500; ++i) Put("k" + std::to_string(i), std::string(300, 'v'));
  ASSERT_OK(test_->Flush());
  test_.Close();
  for (int i = 100; i < 140; ++i) ASSERT_OK(io::WriteFile(test_.fs(), "/db/" + TableName(i), "x"));
  DbRemoval removal(test_.fs(), "/db");
  int pieces = 0;
  for (Result<bool> gone = false; gone.ok() && !*gone && pieces < 100; ++pieces) {
    gone = removal.Advance();
    ASSERT_OK(gone.status());
    EXPECT_EQ(*test_.fs().Exists("/db"), !*gone);
    if (*gone) continue;
    EXPECT_FALSE(*test_.fs().Exists("/db/" + ManifestName()));
    EXPECT_CODE(DestroyDb(test_.fs(), "/db"), Code::kBusy);
  }
  EXPECT_GT(pieces, 4);
  EXPECT_FALSE(*test_.fs().Exists("/db"));
}

TEST_F(DbTest, DestroyLeavesFilesOfOthersUnderAnotherName) {
  io::FileSystem& fs = test_.fs();
  test_.Close();
  ASSERT_TRUE(io::WriteFile(fs, "/db/.nfs000000000070a4b7", "x").ok());
  ASSERT_TRUE(fs.MakeDirectory("/db/notes").ok());
  ASSERT_TRUE(DestroyDb(fs, "/db").ok());
  EXPECT_FALSE(*fs.Exists("/db"));
  const Result<std::vector<io::FileInfo>> names = fs.List("/");
  ASSERT_TRUE(names.ok());
  ASSERT_EQ(names->size(), 1u);
  const std::string left = "/" + names->front().name;
  EXPECT_TRUE(left.starts_with("/db.left-")) << left;
  EXPECT_EQ(io::ReadFile(fs, left + "/.nfs000000000070a4b7", 10).value(), "x");
  EXPECT_TRUE(*fs.Exists(left + "/notes"));
  EXPECT_EQ(fs.List(left)->size(), 2u);
  ASSERT_TRUE(test_.Open(engine::OpenFlags::kMustNotExist).ok());
}

TEST_F(DbTest, RemovesWhatACrashLeftBehind) {
  Put("a", "1");
  ASSERT_TRUE(test_->Flush().ok());
  test_.Close();
  for (const char* name : {"t-77.sst", "MANIFEST.tmp"}) {
    ASSERT_TRUE(test_.fs().Open(std::string("/db/") + name, io::FileOpenMode::kCreate).ok());
  }
  ASSERT_TRUE(test_.fs().Open("/db/notes.txt", io::FileOpenMode::kCreate).ok());
  ASSERT_TRUE(test_.Open().ok());
  EXPECT_FALSE(Exists("t-77.sst"));
  EXPECT_FALSE(Exists("MANIFEST.tmp"));
  EXPECT_TRUE(Exists("notes.txt")) << "not ours";
  EXPECT_TRUE(Exists("t-1.sst"));
}

TEST_F(DbTest, AnOrphanOfAnEarlierJobCanDoNoHarm) {
  Put("a", "1");
  // Another process took the database over: its epoch is in the manifest.
  Manifest taken = *ReadManifest(test_.fs(), "/db");
  taken.epoch += 1;
  taken.edition += 1;
  ASSERT_TRUE(PublishManifest(test_.fs(), "/db", taken, taken.epoch - 1).ok());
  const Status refused = test_->Flush();
  EXPECT_EQ(refused.code(), Code::kReadOnly);
  EXPECT_NE(refused.message().find("taken over"), std::string::npos) << refused.message();
  EXPECT_EQ(test_->background_status().code(), Code::kBusy);
  EXPECT_EQ(test_->Put("b", "2").code(), Code::kReadOnly);
  EXPECT_EQ(ReadManifest(test_.fs(), "/db")->epoch, taken.epoch);
  EXPECT_FALSE(Exists("t-1.sst")) << "a file in the other's directory";
}

TEST_F(DbTest, ATableThatItDidNotMakeIsNeitherTakenNorRemoved) {
  Put("a", "1");
  ASSERT_TRUE(io::ReplaceFile(test_.fs(), "/db/t-1.sst", "the other's").ok());
  EXPECT_TRUE(test_->Flush().ok());
  EXPECT_TRUE(Exists("t-2.sst"));
  test_.Close();
  EXPECT_EQ(*io::ReadFile(test_.fs(), "/db/t-1.sst", 100), "the other's");
}

TEST_F(DbTest, EveryOpenerHasAnEpochOfItsOwn) {
  Manifest orphan = *ReadManifest(test_.fs(), "/db");
  ASSERT_TRUE(test_.Reopen().ok());
  const Manifest present = *ReadManifest(test_.fs(), "/db");
  EXPECT_GT(present.epoch, orphan.epoch);
  // An orphan of the first opener, though it had counted as far.
  orphan.edition = present.edition + 1;
  EXPECT_EQ(PublishManifest(test_.fs(), "/db", orphan, orphan.epoch).code(), Code::kBusy);
}

TEST_F(DbTest, IteratorsStopNoWriterHoweverManyThereAre) {
  test_.Close();
  test_.environment().pinned_wait_ms_max = 100;
  ASSERT_TRUE(test_.Open().ok());
  Model model;
  std::vector<std::pair<std::unique_ptr<engine::Iterator>, Model>> iterators;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "k" + std::to_string(i % 3000);
    Put(key, model[key] = std::string(100, 'v') + std::to_string(i));
    if (i % 200 == 0) iterators.emplace_back(test_->NewIterator({}), model);
  }
  EXPECT_EQ(All(), model);
  // Each walks over the pairs as they were when it was made.
  for (auto& [iterator, seen] : iterators) {
    Model walked;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      walked[std::string(iterator->key())] = std::string(iterator->value());
    }
    ASSERT_TRUE(iterator->status().ok()) << iterator->status().ToString();
    ASSERT_EQ(walked, seen);
  }
  iterators.clear();
  Put("later", model["later"] = "1");
  EXPECT_EQ(All(), model);
  ASSERT_TRUE(test_.Reopen().ok());
  EXPECT_EQ(All(), model);
}

TEST_F(DbTest, ThePutThatFindsTheFlushingQueueFullWaits) {
  test_.Close();
  test_.options().flushing_queue_length = 1;
  ASSERT_TRUE(test_.Open().ok());
  // There is no background thread: the puts that wait do the background work.
  const uint64_t memory_bytes = test_->Statistics().memory_bytes;
  uint64_t most_bytes = 0;
  for (int i = 0; i < 5000; ++i) {
    Put("k" + std::to_string(i), std::string(100, 'v'));
    most_bytes = std::max(most_bytes, test_->Statistics().memory_bytes);
  }
  EXPECT_GT(test_->Statistics().stall_ns, 0u);
  EXPECT_GT(test_->Statistics().flush_count, 3u);
  EXPECT_LE(most_bytes, 4 * memory_bytes)
      << "the active MemTable, one in the queue, one being made";
  EXPECT_EQ(All().size(), 5000u);
}

// A page fault for each page of a new one would be most of what a small flush costs.
TEST_F(DbTest, FlushesOfLittleGoOnInTheMemoryThatIsThere) {
  for (int i = 0; i < 6; ++i) {
    Put("key", std::to_string(i));
    ASSERT_TRUE(test_->Flush().ok());
    ASSERT_TRUE(test_->WaitIdle().ok());
  }
  EXPECT_TRUE(Exists("log-1.seg"));
  EXPECT_FALSE(Exists("log-2.seg"));
}

TEST_F(DbTest, TablesAreNumberedFromOneOnwards) {
  for (uint64_t ssid = 1; ssid <= 2; ++ssid) {
    Put("a", std::to_string(ssid));
    ASSERT_TRUE(test_->Flush().ok());
    EXPECT_EQ(test_->Statistics().newest_ssid, ssid);
    EXPECT_TRUE(Exists("t-" + std::to_string(ssid) + ".sst"));
  }
  ASSERT_TRUE(test_.Reopen().ok());
  Put("a", "3");
  ASSERT_TRUE(test_->Flush().ok());
  EXPECT_GT(test_->Statistics().newest_ssid, 2u) << "no number is used again";
}

TEST_F(DbTest, StatisticsAddUp) {
  for (int i = 0; i < 1000; ++i) Put("k" + std::to_string(1000 + i), std::string(95, 'v'));
  Put("large", std::string(5000, 'v'));
  ASSERT_TRUE(test_->Flush().ok());
  DbStatistics statistics = test_->Statistics();
  EXPECT_EQ(statistics.user_bytes, 1000 * 100 + 5005u);
  EXPECT_GE(statistics.log_bytes, 1000 * 124u);
  EXPECT_GE(statistics.value_log_bytes, 5000u);
  EXPECT_EQ(statistics.value_log_call_bytes, 0u);
  EXPECT_GE(statistics.flush_count, 2u);
  EXPECT_GE(statistics.flush_bytes, 100'000u);
  EXPECT_GT(statistics.table_bytes, 0u);
  EXPECT_GT(statistics.memory_bytes, 0u);
  EXPECT_GE(statistics.newest_ssid, 2u);
  Put("very large", std::string(100'000, 'v'));
  EXPECT_EQ(test_->Statistics().value_log_call_bytes, log::RecordSize(10, 100'000));
  ASSERT_TRUE(test_->Compact().ok());
  EXPECT_EQ(Get("k1500"), std::string(95, 'v'));
  EXPECT_EQ(Get("missing"), "<absent>");
  statistics = test_->Statistics();
  EXPECT_EQ(statistics.run_count, 1u);
  EXPECT_GE(statistics.compaction_count, 1u);
  EXPECT_GT(statistics.compaction_read_bytes, 0u);
  EXPECT_GT(statistics.compaction_write_bytes, 0u);
  EXPECT_EQ(statistics.table_hits, 1u);
  EXPECT_EQ(statistics.filter_skips + statistics.filter_false, 1u);
}

TEST_F(DbTest, CompactionBoundsRunsAndDeadVersions) {
  uint64_t live_bytes = 0;
  for (int i = 0; i < 20'000; ++i) {
    Put("k" + std::to_string(i % 500), std::string(200, 'v'));
    test_.executor().RunOne();
  }
  live_bytes = 500 * 205;
  ASSERT_TRUE(test_->Flush().ok());
  ASSERT_TRUE(test_->WaitIdle().ok());
  const DbStatistics statistics = test_->Statistics();
  EXPECT_GT(statistics.flush_count, 50u);
  EXPECT_LE(statistics.run_count, 4u);
  EXPECT_LE(statistics.table_bytes, 3 * live_bytes);
  uint64_t files_bytes = 0;
  for (const io::FileInfo& file : *test_.fs().List("/db")) {
    if (file.name[0] == 't') files_bytes += file.size;
  }
  EXPECT_EQ(files_bytes, statistics.table_bytes) << "merged tables are removed";
}

TEST_F(DbTest, DeadValuesAreCollected) {
  for (int i = 0; i < 4000; ++i) {
    Put("k" + std::to_string(i * 7 % 100), std::string(1000, static_cast<char>('a' + i % 26)));
    test_.executor().RunOne();
  }
  ASSERT_TRUE(test_->Compact().ok());
  const uint64_t live_bytes = 100 * 1032;
  EXPECT_LE(test_->Statistics().value_segment_bytes, 3 * live_bytes + (128 << 10));
  for (int i = 3900; i < 4000; ++i) {
    EXPECT_EQ(Get("k" + std::to_string(i * 7 % 100)),
              std::string(1000, static_cast<char>('a' + i % 26)));
  }
  ASSERT_TRUE(test_->DeleteRange("k", "l").ok());
  ASSERT_TRUE(test_->Compact().ok());
  EXPECT_LE(test_->Statistics().value_segment_bytes, 64u << 10) << "only an open segment is left";
}

TEST_F(DbTest, ManyValuesFillAMemTableAsRecordsDo) {
  for (int i = 0; i < 40; ++i) Put("k", std::string(60'000, 'v'));
  ASSERT_TRUE(test_->WaitIdle().ok());
  EXPECT_GE(test_->Statistics().flush_count, 4u) << "40 records of 80 bytes, but 2.4 MB of values";
}

class LongRangeTest : public DbTest {
 protected:
  static StorageOptions Options() {
    StorageOptions options = SmallOptions();
    options.memtable_bytes = 1 << 20;
    return options;
  }
  LongRangeTest() : DbTest(Options()) {}
};

// No table would take it, and so no flush would ever succeed again.
TEST_F(LongRangeTest, ARangeWhoseEndIsLongerThanAKeyIsRefused) {
  const std::string longest(65536, 'z');
  const std::string too_long = longest + 'z';
  Put("k", "v");
  EXPECT_EQ(test_->DeleteRange("a", too_long).code(), Code::kInvalidArgument);
  engine::WriteBatch batch;
  batch.Put("a", "1");
  batch.DeleteRange("b", too_long);
  const Status status = test_->Write(batch);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("65537"), std::string::npos) << status.ToString();
  EXPECT_EQ(All().size(), 1u) << "nothing of the batch is applied";
  engine::WriteProgress progress;
  EXPECT_EQ(test_->Apply(batch.bytes(), {}, &progress).code(), Code::kInvalidArgument);
  EXPECT_EQ(progress.applied, 1u) << "the put came before";
  ASSERT_TRUE(test_->Flush().ok());
  batch.Clear();
  batch.DeleteRange("a", longest);
  ASSERT_TRUE(test_->Write(batch).ok());
  ASSERT_TRUE(test_->Flush().ok());
  EXPECT_TRUE(All().empty());
}

class EveryNthTest : public DbTest {
 protected:
  static StorageOptions Options() {
    StorageOptions options = SmallOptions();
    options.compaction = CompactionPolicy::kEveryNth;
    options.compaction_trigger = 4;
    return options;
  }
  EveryNthTest() : DbTest(Options()) {}
};

TEST_F(EveryNthTest, MergesAllWheneverAnSsidIsDivisible) {
  for (uint64_t ssid = 1; ssid <= 4; ++ssid) {
    EXPECT_EQ(test_->Statistics().run_count, ssid - 1);
    Put("k" + std::to_string(ssid), "v");
    ASSERT_TRUE(test_->Flush().ok());
    EXPECT_EQ(test_->Statistics().newest_ssid, ssid);
  }
  ASSERT_TRUE(test_->WaitIdle().ok());
  EXPECT_EQ(test_->Statistics().run_count, 1u);
  EXPECT_EQ(test_->Statistics().newest_ssid, 5u);
  Put("k5", "v");
  ASSERT_TRUE(test_->Flush().ok());
  ASSERT_TRUE(test_->WaitIdle().ok());
  EXPECT_EQ(test_->Statistics().run_count, 2u);
  EXPECT_EQ(All().size(), 5u);
}

}  // namespace
}  // namespace quire::lsm::db_test
