// A reader of a rank's directory: what it sees after a close, after a crash, of damage, and that it
// changes nothing.
#include "lsm/offline/reader.h"

#include <climits>
#include <functional>
#include <utility>
#include <vector>

#include "base/core/sanitizer.h"
#include "io/files/machine.h"
#include "io/paths/forwarding.h"
#include "lsm/db/db_testing.h"
#include "lsm/memtable/shared_region.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::reader_test {
namespace {

using table::KeyState;

std::shared_ptr<Reader> OpenReader(io::FileSystem& fs, const std::string& directory = "/db") {
  auto reader = Reader::Open(fs, directory, {SmallOptions(), nullptr});
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  return reader.ok() ? *reader : nullptr;
}

Status OpenStatus(io::FileSystem& fs) {
  return Reader::Open(fs, "/db", {SmallOptions(), nullptr}).status();
}

// Moves on to what is there now.
Status LookAgain(std::shared_ptr<Reader>* reader) {
  auto newer = (*reader)->Newer();
  if (newer.ok()) *reader = std::static_pointer_cast<Reader>(*newer);
  return newer.status();
}

// As GetText of the database.
std::string TextIn(const Reader& reader, Slice key, KeyState* state = nullptr) {
  std::string value;
  const Status status = reader.Get(key, Into(&value), state);
  if (status.ok()) return value;
  return status.code() == Code::kNotFound ? "<absent>" : "<" + status.ToString() + ">";
}

Model AllBackward(const Reader& reader) {
  Model all;
  const auto iterator = reader.NewIterator({});
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
    all[std::string(iterator->key())] = std::string(iterator->value());
  }
  EXPECT_TRUE(iterator->status().ok()) << iterator->status().ToString();
  return all;
}

void ExpectSees(const Reader& reader, const Model& model) {
  ASSERT_EQ(AllOf(*reader.NewIterator({})), model);
  ASSERT_EQ(AllBackward(reader), model);
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    const auto wanted = model.find(key);
    KeyState state = KeyState::kAbsent;
    const std::string got = TextIn(reader, key, &state);
    ASSERT_EQ(got, wanted == model.end() ? "<absent>" : wanted->second) << key;
    ASSERT_EQ(state == KeyState::kValue, wanted != model.end()) << key;
  }
}

// Random changes, large values among them, to the database and to the model.
void Change(Db& db, Model* model, base::Random& random, int count) {
  for (int i = 0; i < count; ++i) {
    const std::string key = "key" + std::to_string(random.Below(100));
    const uint64_t kind = random.Below(20);
    if (kind == 0) {
      const std::string end = key + "5";
      ASSERT_OK(db.DeleteRange(key, end));
      model->erase(model->lower_bound(key), model->lower_bound(end));
    } else if (kind < 4) {
      ASSERT_OK(db.Delete(key));
      model->erase(key);
    } else {
      std::string value = std::to_string(random.Next());
      if (kind < 8) value.resize(300 + random.Below(900), 'v');
      ASSERT_OK(db.Put(key, value));
      (*model)[key] = value;
    }
  }
}

std::string FileLike(io::FileSystem& fs, const std::string& prefix) {
  for (const io::FileInfo& file : *fs.List("/db")) {
    if (file.name.starts_with(prefix)) return "/db/" + file.name;
  }
  return "";
}

// Calls `before` ahead of each file that is opened: another process may act just then.
class WatchedFiles : public io::ForwardingFileSystem {
 public:
  WatchedFiles(io::FileSystem& base, std::function<void(const std::string& path)> before)
      : ForwardingFileSystem(base), before_(std::move(before)) {}
  Result<std::unique_ptr<io::File>> Open(const std::string& path, io::FileOpenMode mode) override {
    before_(path);
    return ForwardingFileSystem::Open(path, mode);
  }

 private:
  const std::function<void(const std::string&)> before_;
};

TEST(Reader, LooksAgainWhereTheWriterReplacesWhatItOpens) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  for (const char* value : {"1", "2"}) {
    ASSERT_OK(test->Put("a", value));
    ASSERT_OK(test->Flush());
  }
  int changes = 1;
  WatchedFiles watched(test.fs(), [&](const std::string& path) {
    if (path.find("/t-") == std::string::npos || changes == 0) return;
    --changes;
    ASSERT_OK(test->Put("a", "3"));
    ASSERT_OK(test->Flush());
    ASSERT_OK(test->Compact());
  });
  EXPECT_EQ(TextIn(*OpenReader(watched), "a"), "3");
  changes = INT_MAX;  // it never gets the chance
  EXPECT_CODE(OpenStatus(watched), Code::kBusy);
}

TEST(Reader, LooksAgainWhereAWriterComesWhileTheLogIsRead) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  ASSERT_OK(test->Put("a", "1"));
  test.Close();
  bool come = true;
  WatchedFiles watched(test.fs(), [&](const std::string& path) {
    if (path.find("/log-") == std::string::npos || !std::exchange(come, false)) return;
    ASSERT_OK(test.Open());
    ASSERT_OK(test->Put("a", "2"));
    ASSERT_OK(test->Put("b", "2"));
    ASSERT_OK(test->Flush());
    ASSERT_OK(test->Put("a", "3"));
    test.Close();
  });
  const std::shared_ptr<Reader> reader = OpenReader(watched);
  EXPECT_FALSE(come);
  EXPECT_EQ(AllOf(*reader->NewIterator({})), (Model{{"a", "3"}, {"b", "2"}}));
}

TEST(Reader, AgreesWithAModelAfterEveryFlushAndClose) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    base::Random random(seed);
    TestDb test(SmallOptions());
    Model model;
    ASSERT_OK(test.Open());
    std::shared_ptr<Reader> reader = OpenReader(test.fs());
    for (int round = 0; round < 12; ++round) {
      Change(test.db(), &model, random, 150);
      if (round % 3 == 2) {
        ASSERT_OK(test.Reopen());
      } else if (round % 3 == 1) {
        test.Close();
      } else {
        ASSERT_OK(test->Flush());
      }
      // After a reopen all that was in the log is in tables, or was seen before.
      if (round % 3 == 2) ASSERT_OK(test->Flush());
      ASSERT_OK(LookAgain(&reader));
      ExpectSees(*reader, model);
      ExpectSees(*OpenReader(test.fs()), model);
      ASSERT_OK(reader->Verify({}));
      if (round % 3 == 1) ASSERT_OK(test.Open());
    }
  }
}

TEST(Reader, ADeletedKeyDiffersFromAnAbsentOne) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  ASSERT_OK(test->Put("a", "1"));
  ASSERT_OK(test->Put("b", "1"));
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Delete("a"));
  ASSERT_OK(test->DeleteRange("b", "c"));
  for (const bool in_tables : {false, true}) {
    if (in_tables) {
      ASSERT_OK(test.Open());
      ASSERT_OK(test->Flush());
    }
    test.Close();
    const std::shared_ptr<Reader> reader = OpenReader(test.fs());
    KeyState state = KeyState::kValue;
    for (const char* deleted : {"a", "b", "bb"}) {
      EXPECT_EQ(TextIn(*reader, deleted, &state), "<absent>");
      EXPECT_EQ(state, KeyState::kDeleted) << deleted;
    }
    EXPECT_EQ(TextIn(*reader, "d", &state), "<absent>");
    EXPECT_EQ(state, KeyState::kAbsent);
  }
  const std::shared_ptr<Reader> reader = OpenReader(test.fs());
  EXPECT_EQ(TextIn(*reader, "", nullptr).substr(0, 17), "<invalid argument");
}

TEST(Reader, SeesWhatWasAcknowledgedBeforeAKill) {
  for (const io::CrashKind kind : {io::CrashKind::kProcess, io::CrashKind::kPower}) {
    StorageOptions options = SmallOptions();
    options.wal = WalMode::kSync;
    TestDb test(options);
    base::Random random(7);
    Model model;
    ASSERT_OK(test.Open());
    Change(test.db(), &model, random, 100);
    ASSERT_OK(test->Flush());
    Change(test.db(), &model, random, 100);
    test.fs().CrashAfter(0);
    test.Close();
    test.fs().Restart(kind, 3);
    std::shared_ptr<Reader> reader = OpenReader(test.fs());
    EXPECT_GT(reader->State().log_records, 0u);
    EXPECT_EQ(reader->State().writer, "");
    ExpectSees(*reader, model);
    ASSERT_OK(reader->Verify({}));
    // The next opener recovers the same, and the reader never goes back.
    ASSERT_OK(test.Open());
    EXPECT_EQ(AllOf(*test->NewIterator({})), model);
    ASSERT_OK(LookAgain(&reader));
    EXPECT_NE(reader->State().writer, "");
    ExpectSees(*reader, model);
    ASSERT_OK(test->Flush());
    ASSERT_OK(LookAgain(&reader));
    EXPECT_EQ(reader->State().log_records, 0u);
    ExpectSees(*reader, model);
  }
}

// A log of 16 MiB with `count` pairs, left by a job that ended so.
void Leave(TestDb& test, int count, io::CrashKind kind) {
  ASSERT_OK(test.Open());
  for (int i = 0; i < count; ++i) {
    ASSERT_OK(test->Put("key" + std::to_string(i), std::string(100, 'v')));
  }
  test.fs().CrashAfter(0);
  test.Close();
  test.fs().Restart(kind, 3);
}

StorageOptions OptionsOfALargeLog() {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 16 << 20;
  options.wal = WalMode::kSync;
  return options;
}

TEST(Reader, AReaderOfALogTakesMemoryForItsPairs) {
  if (QUIRE_ADDRESS_SANITIZER || QUIRE_THREAD_SANITIZER) {
    GTEST_SKIP() << "a sanitizer's own memory is not Quire's";
  }
  constexpr uint64_t kParts = 8;
  for (const io::CrashKind kind : {io::CrashKind::kProcess, io::CrashKind::kPower}) {
    for (const int count : {1, 500}) {
      TestDb test(OptionsOfALargeLog());
      Leave(test, count, kind);
      std::vector<std::shared_ptr<Reader>> readers;
      const uint64_t before = io::ProcessMemory().anonymous_bytes;
      for (uint64_t part = 0; part < kParts; ++part) {
        readers.push_back(OpenReader(test.fs()));
        EXPECT_EQ(AllOf(*readers.back()->NewIterator({})).size(), static_cast<size_t>(count));
        ASSERT_OK(readers.back()->Verify({}));
      }
      const uint64_t after = io::ProcessMemory().anonymous_bytes;
      const uint64_t pair_bytes = 300 * static_cast<uint64_t>(count);
      EXPECT_LE(after, before + kParts * (pair_bytes + (512 << 10)))
          << count << " pairs, " << (after - before) / kParts << " bytes for each part";
    }
  }
}

// Behind what may have been reserved lies nothing of this boot.
TEST(Reader, ALogOfThisBootIsReadNoFurtherThanItsRecordsMayReach) {
  class CountedFile : public io::ForwardingFile {
   public:
    CountedFile(std::unique_ptr<io::File> base, uint64_t* bytes)
        : ForwardingFile(std::move(base)), bytes_(bytes) {}
    Status ReadAt(uint64_t offset, size_t size, char* to) const override {
      *bytes_ += size;
      return ForwardingFile::ReadAt(offset, size, to);
    }

   private:
    uint64_t* const bytes_;
  };
  class CountedFiles : public io::ForwardingFileSystem {
   public:
    using ForwardingFileSystem::ForwardingFileSystem;
    Result<std::unique_ptr<io::File>> Open(const std::string& path,
                                           io::FileOpenMode mode) override {
      QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                             ForwardingFileSystem::Open(path, mode));
      return std::unique_ptr<io::File>(std::make_unique<CountedFile>(std::move(file), &bytes));
    }
    uint64_t bytes = 0;
  };
  TestDb test(OptionsOfALargeLog());
  Leave(test, 1000, io::CrashKind::kProcess);
  CountedFiles counted(test.fs());
  EXPECT_EQ(AllOf(*OpenReader(counted)->NewIterator({})).size(), 1000u);
  EXPECT_LE(counted.bytes, 1u << 20);
}

TEST(Reader, SeesOnlyWhatIsPublishedWhileAWriterLives) {
  TestDb test(SmallOptions());
  ASSERT_OK(test.Open());
  ASSERT_OK(test->Put("a", "1"));
  ASSERT_OK(test->Flush());
  ASSERT_OK(test->Put("a", "2"));
  std::shared_ptr<Reader> reader = OpenReader(test.fs());
  EXPECT_EQ(TextIn(*reader, "a"), "1");
  EXPECT_NE(reader->State().writer, "");
  test.Close();
  EXPECT_EQ(TextIn(*reader, "a"), "1");  // until it looks again
  ASSERT_OK(LookAgain(&reader));
  EXPECT_EQ(TextIn(*reader, "a"), "2");
  EXPECT_EQ(reader->State().writer, "");
}

TEST(Reader, WritesNothing) {
  TestDb test(SmallOptions());
  base::Random random(5);
  Model model;
  ASSERT_OK(test.Open());
  Change(test.db(), &model, random, 400);
  test.Close();
  ASSERT_OK(test.fs().Unlink("/db/LOCK"));  // a checkpoint has none
  const uint64_t steps = test.fs().steps();
  const auto read_only = io::NewFaultFileSystem(test.fs());
  read_only->FailAt(io::kFaultChange, 1, UINT64_MAX, Code::kReadOnly);
  std::shared_ptr<Reader> reader = OpenReader(*read_only);
  ExpectSees(*reader, model);
  ASSERT_OK(reader->Verify({}));
  ASSERT_OK(LookAgain(&reader));
  EXPECT_EQ(read_only->calls(), 0u);
  EXPECT_EQ(test.fs().steps(), steps);
}

TEST(Reader, KeepsWhatItStandsOnUntilItLooksAgain) {
  TestDb test(SmallOptions());
  base::Random random(9);
  Model model;
  ASSERT_OK(test.Open());
  Change(test.db(), &model, random, 300);
  ASSERT_OK(test->Flush());
  std::shared_ptr<Reader> reader = OpenReader(test.fs());
  const auto iterator = reader->NewIterator({});
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(test->Put("key" + std::to_string(i), "new"));
  }
  ASSERT_OK(test->Compact());
  ASSERT_OK(test->WaitIdle());
  // Small values are in tables that are still open; the others are gone, which is no damage.
  int stale = 0;
  for (const auto& [key, value] : model) {
    const std::string got = TextIn(*reader, key);
    if (got == value) continue;
    ++stale;
    ASSERT_EQ(got.substr(0, 13), "<busy: stale:") << got;
    iterator->Seek(key);
    ASSERT_TRUE(iterator->Valid());
    EXPECT_EQ(iterator->value(), "");
    EXPECT_EQ(iterator->status().code(), Code::kBusy);
  }
  EXPECT_GT(stale, 0);
  EXPECT_EQ(reader->Verify({}).code(), Code::kBusy);
  const std::shared_ptr<Reader> former = reader;
  ASSERT_OK(LookAgain(&reader));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(TextIn(*reader, "key" + std::to_string(i)), "new");
  EXPECT_EQ(AllOf(*reader->NewIterator({})).size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_NE(TextIn(*former, "key" + std::to_string(i)), "new");
}

TEST(Reader, NamesTheFileThatIsDamagedOrGone) {
  for (const char* prefix : {"t-", "val-", "log-", "MANIFEST"}) {
    for (const bool gone : {false, true}) {
      SCOPED_TRACE(std::string(prefix) + (gone ? " gone" : " cut off"));
      TestDb test(SmallOptions());
      ASSERT_OK(test.Open());
      ASSERT_OK(test->Put("large", std::string(2000, 'v')));
      ASSERT_OK(test->Flush());
      ASSERT_OK(test->Put("more", "1"));
      test.Close();
      std::string path = FileLike(test.fs(), prefix);
      if (prefix[0] == 'l') {  // one that the manifest names; others may be empty
        const uint64_t slot = ReadManifest(test.fs(), "/db")->log_segments.back().pool_slot;
        path = "/db/" + LogSegmentName(static_cast<int>(slot));
      }
      if (gone) {
        ASSERT_OK(test.fs().Unlink(path));
      } else {
        ASSERT_OK(test.fs().Damage(path, [](std::string* bytes) { bytes->resize(50); }));
      }
      Status status = OpenStatus(test.fs());
      if (status.ok()) status = OpenReader(test.fs())->Verify({});
      EXPECT_CODE(status, Code::kCorruption);
      EXPECT_NE(status.message().find(path), std::string::npos) << status.ToString();
    }
  }
}

TEST(Reader, FindsAFlippedByteInATableAndInAValue) {
  for (const char* prefix : {"t-", "val-"}) {
    TestDb test(SmallOptions());
    ASSERT_OK(test.Open());
    ASSERT_OK(test->Put("large", std::string(2000, 'v')));
    for (int i = 0; i < 100; ++i) ASSERT_OK(test->Put("key" + std::to_string(i), "small"));
    ASSERT_OK(test->Flush());
    test.Close();
    ASSERT_OK(OpenReader(test.fs())->Verify({}));
    const std::string path = FileLike(test.fs(), prefix);
    const size_t offset = prefix[0] == 'v' ? 4096 + 500 : 100;
    ASSERT_OK(test.fs().Damage(path, [&](std::string* bytes) { (*bytes)[offset] ^= 1; }));
    const Status status = OpenReader(test.fs())->Verify({});
    EXPECT_CODE(status, Code::kCorruption);
    EXPECT_NE(status.message().find(path), std::string::npos) << status.ToString();
  }
}

TEST(Reader, VerifyReportsItsProgress) {
  TestDb test(SmallOptions());
  base::Random random(11);
  Model model;
  ASSERT_OK(test.Open());
  Change(test.db(), &model, random, 300);
  ASSERT_OK(test->Flush());
  uint64_t last = 0;
  uint64_t in_all = 0;
  ASSERT_OK(OpenReader(test.fs())->Verify([&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    last = done;
    in_all = total;
  }));
  EXPECT_GT(last, 0u);
  EXPECT_EQ(last, in_all);
}

TEST(Reader, OpenReportsThatThereIsNoDatabase) {
  TestDb test(SmallOptions());
  EXPECT_CODE(OpenStatus(test.fs()), Code::kNotFound);
  ASSERT_OK(test.fs().MakeDirectory("/db"));
  EXPECT_CODE(OpenStatus(test.fs()), Code::kNotFound);
  ASSERT_OK(test.Open());
  const std::shared_ptr<Reader> reader = OpenReader(test.fs());
  test.Close();
  ASSERT_OK(DestroyDb(test.fs(), "/db"));
  EXPECT_CODE(reader->Newer().status(), Code::kNotFound);
}

TEST(Reader, ARecreatedDatabaseInTheSamePlaceIsAnother) {
  TestDb test(SmallOptions());
  std::shared_ptr<Reader> reader;
  for (const char letter : {'a', 'b'}) {
    ASSERT_OK(test.Open());
    const std::string value(1000, letter);
    ASSERT_OK(test->Put("large", value));
    ASSERT_OK(test->Put("small", std::string(1, letter)));
    ASSERT_OK(test->Flush());
    if (reader == nullptr) reader = OpenReader(test.fs());
    ASSERT_OK(LookAgain(&reader));
    EXPECT_EQ(TextIn(*reader, "large"), value);
    EXPECT_EQ(TextIn(*reader, "small"), value.substr(0, 1));
    test.Close();
    ASSERT_OK(DestroyDb(test.fs(), "/db"));
  }
}

}  // namespace
}  // namespace quire::lsm::reader_test
