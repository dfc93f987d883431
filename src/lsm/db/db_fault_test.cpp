// Every call on the file system fails once, one after another, and for good; and the device is
// full.
#include <atomic>
#include <functional>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/threads/sync_point.h"
#include "log/segment.h"
#include "lsm/db/db_testing.h"
#include "tests/support/held_thread.h"
#include "tests/support/status_asserts.h"

namespace quire::lsm::db_fault_test {
namespace {

// The values that each key may have: the last acknowledged one, or that of a later write whose
// outcome is unknown. "" means absent.
class Possible {
 public:
  void Acknowledged(const std::string& key, const std::string& value) { values_[key] = {value}; }
  void Unknown(const std::string& key, const std::string& value) {
    if (values_[key].empty()) values_[key].insert("");
    values_[key].insert(value);
  }
  void Check(const Db& db) const {
    for (const auto& [key, values] : values_) {
      std::string found = GetText(db, key);
      if (found == "<absent>") found.clear();
      ASSERT_TRUE(values.contains(found)) << key << " holds " << found.substr(0, 100);
    }
  }
  // Reads while calls fail: an error, or a value that may be.
  void CheckLoosely(const Db& db, const std::string& key) const {
    std::string value;
    const Status status = db.Get(key, &value);
    const auto known = values_.find(key);
    if (known == values_.end()) {
      ASSERT_FALSE(status.ok()) << key;
    } else if (status.ok()) {
      ASSERT_TRUE(known->second.contains(value)) << key << " holds " << value.substr(0, 100);
    } else if (status.code() == Code::kNotFound) {
      ASSERT_TRUE(known->second.contains("")) << key << " is not found";
    }
  }

 private:
  std::map<std::string, std::set<std::string>> values_;
};

// A machine whose calls can be made to fail.
struct FaultyMachine {
  FaultyMachine() {
    environment.fs = faults.get();
    environment.executor = executor.get();
  }
  Result<std::unique_ptr<Db>> Open(const StorageOptions& options) const {
    return Db::Open(environment, "/db", options, engine::OpenFlags::kOpenOrCreate);
  }

  const std::unique_ptr<io::SimFileSystem> disk = io::NewSimFileSystem();
  const std::unique_ptr<io::FaultFileSystem> faults = io::NewFaultFileSystem(*disk);
  const std::unique_ptr<base::Executor> executor = base::NewManualExecutor();
  engine::EngineEnvironment environment;
};

// The pairs of a log that was not synced, on the way to another node.
TEST(Fault, ADeviceThatFailsWhileAnotherNodeOpensADatabaseTakesNothing) {
  StorageOptions options = SmallOptions();
  for (const Code code : {Code::kIo, Code::kOutOfMemory}) {
    for (uint64_t n = 1;; ++n) {
      FaultyMachine machine;
      Model written;
      {
        const auto db = machine.Open(options);
        ASSERT_OK(db.status());
        for (int i = 0; i < 4; ++i) {
          const std::string key = "key" + std::to_string(i);
          written[key] = std::string(i % 2 == 0 ? 10 : 700, static_cast<char>('a' + i));
          ASSERT_OK((*db)->Put(key, written[key]));
        }
      }
      machine.disk->Restart(io::CrashKind::kMoved, n);
      machine.faults->FailAt(io::kFaultAll, n, 1, code);
      static_cast<void>(machine.Open(options));
      const bool failed = machine.faults->failures() != 0;
      machine.faults->FailAt(0, 0, 0, Code::kIo);
      const auto db = machine.Open(options);
      ASSERT_OK(db.status());
      ASSERT_EQ(AllOf(*(*db)->NewIterator({})), written)
          << "call " << n << " failed with " << Status(code).ToString();
      if (!failed) break;
    }
  }
}

class FaultRun {
 public:
  explicit FaultRun(WalMode log) : options_(SmallOptions()) {
    options_.wal = log;
    options_.flushing_queue_length = 1;
    options_.compaction_trigger = 2;
  }

  io::FaultFileSystem& faults() { return *machine_.faults; }

  // Some writes, flushes, merges and reopenings, each of which may fail.
  void Live(Code code) {
    base::Random random(7);
    for (int i = 0; i < 150; ++i) {
      if (db_ == nullptr && !Open()) continue;
      ASSERT_NO_FATAL_FAILURE(Write("key" + std::to_string(random.Below(30)), i, code));
      ASSERT_NO_FATAL_FAILURE(
          possible_.CheckLoosely(*db_, "key" + std::to_string(random.Below(30))));
      if (i % 40 == 20) ExpectErrorOrOk(db_->Flush(), code);
      if (i == 90) ExpectErrorOrOk(db_->Compact(), code);
      if (i % 11 == 5) ExpectErrorOrOk(db_->SyncLog(), code);
      if (i % 50 == 49) Close();
      machine_.executor->RunOne();
    }
    Close();
  }

  // With all calls working again nothing is missing.
  void CheckAfterwards() {
    faults().FailAt(0, 0, 0, Code::kIo);
    const Result<std::unique_ptr<Db>> opened = machine_.Open(options_);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    ASSERT_NO_FATAL_FAILURE(possible_.Check(**opened));
    const Status verified = (*opened)->Verify();
    ASSERT_TRUE(verified.ok()) << verified.ToString();
    ASSERT_TRUE((*opened)->Flush().ok());
    ASSERT_NO_FATAL_FAILURE(possible_.Check(**opened));
  }

 private:
  bool Open() {
    Result<std::unique_ptr<Db>> opened = machine_.Open(options_);
    if (opened.ok()) db_ = std::move(*opened);
    return opened.ok();
  }
  void Close() {
    db_.reset();
    while (machine_.executor->RunOne()) {
    }
  }
  void Write(const std::string& key, int i, Code code) {
    std::string value = std::to_string(i) + ".";
    if (i % 5 != 0) value.resize(i % 7 == 0 ? 3000 : 700, static_cast<char>('a' + i % 26));
    if (i % 5 == 0) value.clear();
    const Status status = value.empty() ? db_->Delete(key) : db_->Put(key, value);
    ExpectErrorOrOk(status, code);
    if (status.ok()) {
      possible_.Acknowledged(key, value);
    } else if (status.code() != Code::kNoSpace) {  // which says that nothing was applied
      possible_.Unknown(key, value);
    }
  }
  static void ExpectErrorOrOk(const Status& status, Code code) {
    if (status.ok()) return;
    EXPECT_TRUE(status.code() == code || status.code() == Code::kReadOnly ||
                status.code() == Code::kIo)
        << status.ToString();
    EXPECT_FALSE(status.message().empty());
  }

  StorageOptions options_;
  const FaultyMachine machine_;
  std::unique_ptr<Db> db_;
  Possible possible_;
};

// For n = 1, 2, ... the n-th call fails, until a run is through before its call comes.
void Sweep(WalMode log, Code code, uint64_t count) {
  uint64_t n = 1;
  for (;; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    FaultRun run(log);
    run.faults().FailAt(io::kFaultAll, n, count, code);
    ASSERT_NO_FATAL_FAILURE(run.Live(code));
    const bool failed = run.faults().failures() > 0;
    ASSERT_NO_FATAL_FAILURE(run.CheckAfterwards());
    if (!failed) break;
  }
  std::printf("%llu calls failed in turn\n", static_cast<unsigned long long>(n - 1));
  EXPECT_GT(n, 100u);
}

TEST(Faults, OneCallFailsAndNothingIsLost) { Sweep(WalMode::kOn, Code::kIo, 1); }
TEST(Faults, AllCallsFailFromSomeOnAndNothingIsLost) {
  Sweep(WalMode::kOn, Code::kIo, UINT64_MAX);
}
TEST(Faults, OneCallFindsNoRoomAndNothingIsLost) { Sweep(WalMode::kOn, Code::kNoSpace, 1); }
TEST(Faults, OneCallFailsWithTheLogSynced) { Sweep(WalMode::kSync, Code::kIo, 1); }

// Runs `call`; an exception for want of memory is an answer like others.
template <typename Call>
Status Answer(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "thrown");
  }
}

// For n = 1, 2, ... the n-th sync or rename finds no memory: acknowledged writes are there, then
// and afterwards. If it is unknown which manifest counts, no other process is blamed for that.
TEST(Faults, OneCallFindsNoMemoryAndNothingIsLost) {
  for (uint64_t n = 1;; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    const FaultyMachine machine;
    Result<std::unique_ptr<Db>> db = machine.Open(SmallOptions());
    ASSERT_TRUE(db.ok());
    uint64_t calls = 0;
    machine.faults->BeforeCalls(io::kFaultSync | io::kFaultRename, [&](const std::string&) {
      if (++calls == n) throw std::bad_alloc();
    });
    Model model;
    for (int i = 0; i < 6; ++i) {
      const std::string key = "key" + std::to_string(i);
      const std::string value(i % 2 == 0 ? 1000 : 10, static_cast<char>('a' + i));
      std::vector<Status> answers = {Answer([&] { return (*db)->Put(key, value); })};
      if (answers[0].ok()) model[key] = value;
      answers.push_back(Answer([&] { return (*db)->Flush(); }));
      if (i % 3 == 2) answers.push_back(Answer([&] { return (*db)->Compact(); }));
      answers.push_back(Answer([&] { return (*db)->NewCapture().status(); }));
      for (const Status& answer : answers) {
        if (answer.ok()) continue;
        EXPECT_CODE(answer, Code::kOutOfMemory);
      }
      EXPECT_EQ(AllOf(*(*db)->NewIterator({})), model);
    }
    const bool failed = calls >= n;
    if (failed) EXPECT_OK((*db)->Put("last", model["last"] = "1"));
    db->reset();
    machine.faults->BeforeCalls(0, {});
    db = machine.Open(SmallOptions());
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    EXPECT_EQ(AllOf(*(*db)->NewIterator({})), model);
    EXPECT_TRUE((*db)->Verify().ok());
    ASSERT_FALSE(::testing::Test::HasFailure());
    if (!failed) {
      EXPECT_GT(n, 50u);
      break;
    }
  }
}

// Some writes, flushes and a merge: each is done, or says that something is short.
void LiveInAShortage(const FaultyMachine& machine, Db& db, Possible& possible) {
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(i % 30);
    const std::string value(i % 7 == 0 ? 3000 : 700, static_cast<char>('a' + i % 26));
    std::vector<Status> answers = {db.Put(key, value)};
    if (answers[0].ok()) possible.Acknowledged(key, value);
    if (i % 40 == 20) answers.push_back(db.Flush());
    if (i == 150) answers.push_back(db.Compact());
    for (const Status& answer : answers) {
      ASSERT_TRUE(answer.ok() || answer.code() == Code::kOutOfMemory) << answer.ToString();
    }
    machine.executor->RunOne();
  }
}

// For n = 1, 2, ... no file is opened or mapped from the n-th call on, as without descriptors,
// until the shortage has passed.
TEST(Faults, AShortageThatPassesLeavesADatabaseThatTakesWrites) {
  StorageOptions options = SmallOptions();
  options.flushing_queue_length = 1;
  options.compaction_trigger = 2;
  bool failed = true;
  uint64_t n = 1;
  for (; failed; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    const FaultyMachine machine;
    Result<std::unique_ptr<Db>> db = machine.Open(options);
    ASSERT_TRUE(db.ok());
    Possible possible;
    machine.faults->FailAt(io::kFaultOpen | io::kFaultMap, n, UINT64_MAX, Code::kOutOfMemory);
    ASSERT_NO_FATAL_FAILURE(LiveInAShortage(machine, **db, possible));
    failed = machine.faults->failures() > 0;
    machine.faults->FailAt(0, 0, 0, Code::kIo);
    ASSERT_OK((*db)->background_status());
    ASSERT_NO_FATAL_FAILURE(possible.Check(**db));
    for (int i = 0; i < 100; ++i) {
      const std::string key = "key" + std::to_string(i % 30);
      ASSERT_OK((*db)->Put(key, std::string(700, 'z')));
      possible.Acknowledged(key, std::string(700, 'z'));
    }
    ASSERT_OK((*db)->Flush());
    ASSERT_OK((*db)->Compact());
    db->reset();
    db = machine.Open(options);
    ASSERT_TRUE(db.ok()) << db.status().ToString();
    ASSERT_NO_FATAL_FAILURE(possible.Check(**db));
    ASSERT_OK((*db)->Verify());
  }
  EXPECT_GT(n, 20u);
}

// The directory of new value segments is opened to be synced.
TEST(Faults, AShortageUnderASyncOfTheLogRefusesNoLaterWrite) {
  StorageOptions options = SmallOptions();
  options.wal = WalMode::kSync;
  int unknown = 0;
  for (uint64_t n = 1; n <= 20; ++n) {
    const FaultyMachine machine;
    const Result<std::unique_ptr<Db>> db = machine.Open(options);
    ASSERT_TRUE(db.ok());
    machine.faults->FailAt(io::kFaultSync, n, 1, Code::kOutOfMemory);
    const Status status = (*db)->Put("a", std::string(3000, 'a'));
    if (status.message().find("sync directory") == std::string::npos) continue;
    if (status.code() == Code::kIo) ++unknown;
    EXPECT_OK((*db)->Put("b", std::string(3000, 'b')));
    EXPECT_OK((*db)->SyncLog());
  }
  EXPECT_GT(unknown, 0);
}

// The background makes the next MemTable ahead. If that fails it is left to the writer that needs
// one: neither the background nor writes that have room try again.
TEST(Faults, AMemTableThatCannotBeMadeAheadIsTriedOnceUntilAWriterNeedsIt) {
  for (const Code code : {Code::kNoSpace, Code::kOutOfMemory}) {
    const FaultyMachine machine;
    const Result<std::unique_ptr<Db>> db = machine.Open(SmallOptions());
    ASSERT_OK(db.status());
    machine.faults->FailAt(io::kFaultOpen | io::kFaultAllocate, 1, UINT64_MAX, code);
    Model model;
    int jobs = 0;
    for (const char* const key : {"a", "b", "c"}) {
      ASSERT_OK((*db)->Put(key, "1"));
      model[key] = "1";
      while (machine.executor->RunOne()) ASSERT_LT(++jobs, 10) << CodeName(code);
      EXPECT_EQ(machine.faults->failures(), 1u) << CodeName(code);
    }
    EXPECT_OK((*db)->background_status());
    const Status refused = (*db)->Flush();
    EXPECT_EQ(refused.code(), code) << refused.ToString();
    machine.faults->FailAt(0, 1, 0, Code::kOk);
    EXPECT_OK((*db)->Flush());
    EXPECT_EQ(AllOf(*(*db)->NewIterator({})), model);
  }
}

TEST(Faults, AFailureInTheBackgroundTurnsWritesOffAndReadsGoOn) {
  const FaultyMachine machine;
  Result<std::unique_ptr<Db>> db = machine.Open(SmallOptions());
  ASSERT_TRUE(db.ok());
  ASSERT_TRUE((*db)->Put("a", "1").ok());
  while (machine.executor->RunOne()) {
  }
  EXPECT_TRUE((*db)->background_status().ok());
  machine.faults->FailAt(io::kFaultSync, 1, UINT64_MAX, Code::kIo);
  const Status flushed = (*db)->Flush();
  EXPECT_EQ(flushed.code(), Code::kReadOnly);
  EXPECT_EQ((*db)->background_status().code(), Code::kIo);
  machine.faults->FailAt(0, 0, 0, Code::kIo);
  const Status refused = (*db)->Put("b", "2");
  EXPECT_EQ(refused.code(), Code::kReadOnly);
  EXPECT_NE(refused.message().find("flushing"), std::string::npos) << refused.message();
  EXPECT_EQ(GetText(**db, "a"), "1");
  EXPECT_EQ(GetText(**db, "b"), "<absent>");
  db->reset();
  db = machine.Open(SmallOptions());
  ASSERT_TRUE(db.ok());
  EXPECT_EQ(GetText(**db, "a"), "1");
  EXPECT_TRUE((*db)->Put("b", "2").ok());
}

TEST(Faults, AWaitForTheBackgroundReportsThatItFailed) {
  const FaultyMachine machine;
  const Result<std::unique_ptr<Db>> db = machine.Open(SmallOptions());
  ASSERT_OK(db.status());
  EXPECT_OK((*db)->WaitIdle());
  ASSERT_OK((*db)->Put("a", "1"));
  machine.faults->FailAt(io::kFaultSync, 1, 1, Code::kIo);
  EXPECT_CODE((*db)->SyncLog(), Code::kIo);
  EXPECT_CODE((*db)->WaitIdle(), Code::kReadOnly);
}

// Once, amid a capture, on a thread of its own.
class AmidACapture : public base::SyncPointListener {
 public:
  explicit AmidACapture(std::function<void()> body) : body_(std::move(body)) {}
  void Reach(const char* name) override {
    if (std::string(name) != "lsm.capture.flushed" || reached_.exchange(true)) return;
    std::thread(body_).join();
  }

 private:
  const std::function<void()> body_;
  std::atomic<bool> reached_{false};
};

// The readers here see another state than the manifest, perhaps: files that one of the two names
// may be gone, which is no damage.
TEST(Faults, NoCaptureIsTakenWhereItIsNotKnownWhichManifestCounts) {
  int in_doubt = 0;
  for (uint64_t n = 1;; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    const FaultyMachine machine;
    const Result<std::unique_ptr<Db>> db = machine.Open(SmallOptions());
    ASSERT_OK(db.status());
    ASSERT_OK((*db)->Put("a", "1"));
    Status flushed;
    AmidACapture amid([&] {
      ASSERT_OK((*db)->Put("b", "2"));
      machine.faults->FailAt(io::kFaultAll, n, 1, Code::kIo);
      flushed = (*db)->Flush();
      machine.faults->FailAt(0, 0, 0, Code::kIo);
    });
    const base::ScopedSyncPoints installed(&amid);
    const Status captured = (*db)->NewCapture().status();
    const std::string why = (*db)->background_status().message();
    if (why.find("whether the new manifest counts is not known") != std::string::npos) {
      EXPECT_CODE(captured, Code::kReadOnly);
      ++in_doubt;
    }
    if (flushed.ok()) break;
  }
  EXPECT_GT(in_doubt, 0);
}

// A place in a value segment to which no record refers does no harm.
TEST(Faults, AnErrorWhileALargeValueIsStoredFailsThatWriteAlone) {
  const FaultyMachine machine;
  const StorageOptions options = SmallOptions();
  const Result<std::unique_ptr<Db>> db = machine.Open(options);
  ASSERT_OK(db.status());
  const std::pair<uint32_t, size_t> failures[] = {
      {io::kFaultOpen, 1000}, {io::kFaultMap, 1000},
      {io::kFaultWrite, 2 * options.value_segment_bytes}};
  for (const auto& [operation, size] : failures) {
    const std::string key = "large, call " + std::to_string(operation);
    machine.faults->FailAt(operation, 1, 1, Code::kIo);
    EXPECT_CODE((*db)->Put(key, std::string(size, 'x')), Code::kIo);
    EXPECT_EQ(machine.faults->failures(), 1u);
    EXPECT_EQ(GetText(**db, key), "<absent>");
    EXPECT_OK((*db)->background_status());
    EXPECT_OK((*db)->Put("small", key));
    EXPECT_EQ(GetText(**db, "small"), key);
  }
  EXPECT_OK((*db)->Put("large", std::string(1000, 'x')));
}

TEST(Faults, AFailedSyncOfTheLogIsNotTriedAgain) {
  const FaultyMachine machine;
  StorageOptions options = SmallOptions();
  options.wal = WalMode::kSync;
  const Result<std::unique_ptr<Db>> db = machine.Open(options);
  ASSERT_TRUE(db.ok());
  ASSERT_TRUE((*db)->Put("a", "1").ok());
  machine.faults->FailAt(io::kFaultSync, 1, 1, Code::kIo);
  const Status unknown = (*db)->Put("b", "2");
  EXPECT_EQ(unknown.code(), Code::kIo);
  EXPECT_NE(unknown.message().find("is not known"), std::string::npos) << unknown.ToString();
  EXPECT_EQ(GetText(**db, "b"), "2") << "what readers see was not reported as failed";
  // The device would say yes now, of pages that it may have thrown away.
  EXPECT_EQ((*db)->Put("c", "3").code(), Code::kReadOnly);
  EXPECT_EQ((*db)->SyncLog().code(), Code::kReadOnly);
}

// One write syncs and fails while another one has stored its record and waits for the same sync.
TEST(Faults, AWriteThatWaitedForASyncThatFailedHasAnUnknownOutcome) {
  FaultyMachine machine;
  StorageOptions options = SmallOptions();
  options.wal = WalMode::kSync;
  const Result<std::unique_ptr<Db>> db = machine.Open(options);
  ASSERT_TRUE(db.ok());
  ASSERT_TRUE((*db)->Put("a", "1").ok());
  machine.faults->FailAt(io::kFaultSync, 1, 1, Code::kIo);
  Status first;
  Status second;
  {
    test::HeldThread holder({.place = "lsm.log.sync.before", .wait_ms_max = 60'000});
    std::thread syncs([&] { first = (*db)->Put("b", "2"); });
    ASSERT_TRUE(holder.WaitUntilHeld());
    std::thread waits([&] { second = (*db)->Put("c", "3"); });
    while (GetText(**db, "c") != "3") std::this_thread::yield();
    holder.Release();
    syncs.join();
    waits.join();
  }
  EXPECT_EQ(first.code(), Code::kIo) << first.ToString();
  EXPECT_EQ(second.code(), Code::kIo) << second.ToString();
  EXPECT_EQ((*db)->Put("d", "4").code(), Code::kReadOnly);
  EXPECT_EQ(GetText(**db, "d"), "<absent>");
}

// To a second sync the device would report success for pages that a power loss takes.
TEST(Faults, AFlushBesideAFailedSyncOfItsValuesFailsToo) {
  FaultyMachine machine;
  const Result<std::unique_ptr<Db>> db = machine.Open(SmallOptions());
  ASSERT_OK(db.status());
  ASSERT_OK((*db)->Put("large", std::string(900, 'x')));
  Status flushed;
  Status synced;
  {
    test::HeldThread holder({.place = "lsm.flush.begin", .wait_ms_max = 60'000});
    std::thread flushes([&] { flushed = (*db)->Flush(); });
    EXPECT_TRUE(holder.WaitUntilHeld());
    machine.faults->FailAt(io::kFaultSync, 1, 1, Code::kIo);
    synced = (*db)->SyncLog();
    holder.Release();
    flushes.join();
  }
  EXPECT_CODE(synced, Code::kIo);
  EXPECT_CODE(flushed, Code::kReadOnly);
}

// The write's value is among those that the flush fails to sync; it syncs them again before the
// database is read-only.
TEST(Faults, ASyncedWriteBesideAFlushThatCannotSyncItsValueIsNotAcknowledged) {
  FaultyMachine machine;
  StorageOptions options = SmallOptions();
  options.wal = WalMode::kSync;
  const Result<std::unique_ptr<Db>> db = machine.Open(options);
  ASSERT_OK(db.status());
  ASSERT_OK((*db)->Put("first", std::string(900, 'x')));
  engine::WriteBatch
      refused;  // its large value is stored before its size is known, and never synced
  refused.Put("large", std::string(900, 'z'));
  for (int i = 0; i < 2000; ++i) refused.Put("small" + std::to_string(i), "");
  EXPECT_CODE((*db)->Write(refused), Code::kInvalidArgument);
  const std::string value(900, 'y');
  Status flushed;
  Status put;
  {
    test::HeldThread holder({.place = "lsm.flush.end", .wait_ms_max = 60'000});
    std::thread puts;
    std::atomic<bool> fails = false;
    machine.faults->BeforeCalls(io::kFaultSync, [&](const std::string& path) {
      if (!path.ends_with("val-1.seg") || fails.exchange(true)) return;
      puts = std::thread([&] { put = (*db)->Put("second", value); });
      while (GetText(**db, "second") != value) std::this_thread::yield();
      machine.faults->FailAt(io::kFaultSync, 1, 1, Code::kIo);
    });
    std::thread flushes([&] { flushed = (*db)->Flush(); });
    EXPECT_TRUE(holder.WaitUntilHeld());
    if (puts.joinable()) puts.join();
    EXPECT_TRUE(fails);
    holder.Release();
    flushes.join();
  }
  machine.faults->BeforeCalls(0, {});
  EXPECT_CODE(put, Code::kIo);
  EXPECT_CODE(flushed, Code::kReadOnly);
}

// Were the merge to take the moved values for durable, it would remove the ones it moved.
TEST(Faults, AMergeBesideAFailedSyncOfWhatItMovedLosesNothing) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    FaultyMachine machine;
    Result<std::unique_ptr<Db>> db = machine.Open(SmallOptions());
    ASSERT_OK(db.status());
    Model model;
    for (int i = 0; i < 200; ++i) {
      model["key" + std::to_string(i)] = std::string(900, static_cast<char>('a' + i % 26));
    }
    for (const auto& [key, value] : model) ASSERT_OK((*db)->Put(key, value));
    ASSERT_OK((*db)->Flush());
    int number = 0;
    std::erase_if(model, [&](const auto& pair) {
      return number++ % 4 != 0 && (*db)->Delete(pair.first).ok();
    });
    ASSERT_OK((*db)->Flush());
    {
      test::HeldThread holder({.place = "lsm.merge.moved", .skip = 39, .wait_ms_max = 60'000});
      std::thread merges([&] { EXPECT_CODE((*db)->Compact(), Code::kReadOnly); });
      EXPECT_TRUE(holder.WaitUntilHeld());
      machine.faults->FailAt(io::kFaultSync, 1, 1, Code::kIo);
      EXPECT_CODE((*db)->SyncLog(), Code::kIo);
      holder.Release();
      merges.join();
    }
    machine.disk->Restart(io::CrashKind::kPower, seed);
    db->reset();
    while (machine.executor->RunOne()) {
    }
    db = machine.Open(SmallOptions());
    ASSERT_OK(db.status());
    EXPECT_EQ(AllOf(*(*db)->NewIterator({})), model);
  }
}

TEST(Faults, AFullDeviceRefusesWritesUntilThereIsRoomAgain) {
  TestDb test(SmallOptions());
  ASSERT_TRUE(test.Open().ok());
  test.fs().SetFreeBytes(300 << 10);
  Model model;
  Status status;
  for (int i = 0; status.ok() && i < 10'000; ++i) {
    const std::string key = "key" + std::to_string(i);
    const std::string value(i % 10 == 0 ? 3000 : 200, 'v');
    status = test->Put(key, value);
    if (status.ok()) model[key] = value;
    test.executor().RunOne();
  }
  ASSERT_EQ(status.code(), Code::kNoSpace) << status.ToString();
  EXPECT_GT(model.size(), 100u);
  EXPECT_EQ(AllOf(*test->NewIterator({})), model);
  EXPECT_EQ(test->Put("more", std::string(3000, 'm')).code(), Code::kNoSpace);
  EXPECT_EQ(GetText(test.db(), "more"), "<absent>");
  EXPECT_TRUE(test->background_status().ok());
  // Nothing is tried again and again in the background.
  int jobs = 0;
  while (test.executor().RunOne()) ASSERT_LT(++jobs, 100);

  test.fs().SetFreeBytes(UINT64_MAX);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "later" + std::to_string(i);
    status = test->Put(key, std::string(200, 'l'));
    ASSERT_TRUE(status.ok()) << status.ToString();
    model[key] = std::string(200, 'l');
  }
  ASSERT_TRUE(test->Flush().ok());
  EXPECT_EQ(AllOf(*test->NewIterator({})), model);
  ASSERT_TRUE(test.Reopen().ok());
  EXPECT_EQ(AllOf(*test->NewIterator({})), model);
}

// The room of a log segment grows with what is in it. One that cannot grow is full: the next takes
// its place, as long as full ones can be flushed, and then there is no space until there is room.
TEST(Faults, ALogThatCannotGrowIsFullAndLosesNothing) {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 4 << 20;
  options.flushing_queue_length = 1;
  const std::string value(200, 'v');
  for (const bool flushes : {true, false}) {
    const uint32_t short_of = io::kFaultAllocate | (flushes ? 0u : io::kFaultWrite);
    const FaultyMachine machine;
    Result<std::unique_ptr<Db>> db = machine.Open(options);
    ASSERT_OK(db.status());
    machine.executor->RunOne();  // one is made ahead
    machine.faults->FailAt(short_of, 1, UINT64_MAX, Code::kNoSpace);
    Model model;
    Status status;
    for (int i = 0; i < 20'000 && status.ok(); ++i) {
      const std::string key = "key" + std::to_string(i);
      status = (*db)->Put(key, value);
      if (status.ok()) model[key] = value;
    }
    EXPECT_EQ(status.code(), flushes ? Code::kOk : Code::kNoSpace) << status.ToString();
    EXPECT_GT(model.size() * value.size(), log::kFirstRoomBytes / 2);
    EXPECT_EQ(AllOf(*(*db)->NewIterator({})), model);
    machine.faults->FailAt(0, 1, 0, Code::kOk);
    for (int i = 0; i < 20'000; ++i) {
      const std::string key = "later" + std::to_string(i);
      ASSERT_OK((*db)->Put(key, value));
      model[key] = value;
    }
    EXPECT_EQ(AllOf(*(*db)->NewIterator({})), model);
    db->reset();
    db = machine.Open(options);
    ASSERT_OK(db.status());
    EXPECT_EQ(AllOf(*(*db)->NewIterator({})), model);
  }
}

// A log asks for twice its room; if the device has less, for the room that the write needs.
TEST(Faults, ALogGrowsByLessOnADeviceThatIsNearlyFull) {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 4 << 20;
  options.value_separation_bytes_min = 1 << 20;
  const std::string value(log::kFirstRoomBytes + 1000, 'v');
  for (const uint64_t refused : {1, 2, 3}) {
    const FaultyMachine machine;
    const Result<std::unique_ptr<Db>> db = machine.Open(options);
    ASSERT_OK(db.status());
    machine.faults->FailAt(io::kFaultAllocate, 1, refused, Code::kNoSpace);
    ASSERT_OK((*db)->Put("key", value));
    EXPECT_EQ(machine.faults->failures(), refused);
    EXPECT_TRUE(GetText(**db, "key") == value);
  }
}

// One write that needs more room than any log segment has must not go through them for ever.
TEST(Faults, AWriteForWhichNoLogSegmentCanGrowFindsNoSpace) {
  StorageOptions options = SmallOptions();
  options.memtable_bytes = 4 << 20;
  options.flushing_queue_length = 1;
  options.value_separation_bytes_min = 1 << 20;
  const FaultyMachine machine;
  Result<std::unique_ptr<Db>> db = machine.Open(options);
  ASSERT_OK(db.status());
  const std::string small(200, 's');
  ASSERT_OK((*db)->Put("small", small));
  machine.executor->RunOne();  // one is made ahead
  machine.faults->FailAt(io::kFaultAllocate, 1, UINT64_MAX, Code::kNoSpace);
  int manifests = 0;
  machine.faults->BeforeCalls(io::kFaultRename, [&](const std::string&) {
    if (++manifests == 50) machine.faults->FailAt(0, 1, 0, Code::kOk);  // it ends nevertheless
  });
  const std::string large(2 * log::kFirstRoomBytes, 'l');
  EXPECT_CODE((*db)->Put("large", large), Code::kNoSpace);
  EXPECT_LT(manifests, 10);
  EXPECT_TRUE(GetText(**db, "large") == "<absent>");
  EXPECT_OK((*db)->Put("small too", small));
  machine.faults->FailAt(0, 1, 0, Code::kOk);
  ASSERT_OK((*db)->Put("large", large));
  const Model all{{"large", large}, {"small", small}, {"small too", small}};
  EXPECT_TRUE(AllOf(*(*db)->NewIterator({})) == all);
}

}  // namespace
}  // namespace quire::lsm::db_fault_test
