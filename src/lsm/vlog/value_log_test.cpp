// The value log, and the region's board.
#include "lsm/vlog/value_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/core/scope_exit.h"
#include "base/threads/executor.h"
#include "io/sim/sim_file_system.h"
#include "log/segment.h"
#include "lsm/memtable/memtable.h"
#include "lsm/memtable/shared_region.h"
#include "lsm/vlog/value_files.h"
#include "tests/support/held_thread.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::lsm::value_log_test {
namespace {

constexpr char kDirectory[] = "/db";
constexpr uint64_t kSegmentBytes = 256 * 1024;

std::string ValueOf(uint64_t number, size_t size) {
  base::Random random(number);
  std::string value(size, '\0');
  for (char& byte : value) byte = static_cast<char>(random.Next());
  return value;
}

// Returns the value that `reader` (a ValueLog or a ValueReader) has for a reference; its status as
// text if it fails.
template <typename Reader>
std::string Read(const Reader& reader, const log::ValueRef& ref, Code* code = nullptr) {
  std::string value;
  const Status status = reader.Read(ref, Into(&value));
  if (code != nullptr) *code = status.code();
  return status.ok() ? value : status.ToString();
}

class ValueLogTest : public ::testing::Test {
 protected:
  ValueLogTest() { Fresh(); }
  void Fresh() {
    log_.reset();
    fs_ = io::NewSimFileSystem();
    EXPECT_TRUE(fs_->MakeDirectory(kDirectory).ok());
    EXPECT_TRUE(fs_->SyncDirectory("/").ok());
    options_.value_segment_bytes = kSegmentBytes;
    executor_ = base::NewManualExecutor();
    Open({});
  }
  void Open(const ValueLogStart& start) {
    auto log = ValueLog::Open(*fs_, kDirectory, options_, *executor_, start);
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    log_ = std::move(log).value();
  }
  log::ValueRef Append(Slice key, Slice value) {
    log::ValueRef ref{};
    const Status status = log_->Append(key, value, &ref);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return ref;
  }
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& info : *fs_->List(kDirectory)) names.push_back(info.name);
    return names;
  }
  std::string Path(uint64_t id) { return std::string(kDirectory) + "/" + ValueSegmentName(id); }

  std::unique_ptr<io::SimFileSystem> fs_;
  StorageOptions options_;
  std::unique_ptr<base::Executor> executor_;
  std::unique_ptr<ValueLog> log_;
};

TEST_F(ValueLogTest, MakesNoFileBeforeTheFirstAppend) {
  EXPECT_TRUE(Files().empty());
  EXPECT_TRUE(log_->Sync().ok());
  EXPECT_TRUE(log_->Seal().ok());
  EXPECT_TRUE(log_->Segments().empty());
  EXPECT_EQ(log_->next_id(), 1u);
}

TEST_F(ValueLogTest, GivesBackValuesOfEverySize) {
  std::vector<std::pair<log::ValueRef, std::string>> all;
  uint64_t number = 0;
  for (const size_t size : {0u, 1u, 1000u, 4096u, 65'535u, 65'536u, 200'000u, 300'000u, 1u << 20}) {
    const std::string value = ValueOf(++number, size);
    all.push_back({Append("key" + std::to_string(number), value), value});
  }
  const auto reader = ValueReader::Create(*fs_, kDirectory);
  for (const bool sealed : {false, true}) {
    for (const auto& [ref, value] : all) {
      EXPECT_EQ(Read(*log_, ref), value) << value.size();
      EXPECT_EQ(Read(*reader, ref), value) << value.size();
      EXPECT_TRUE(log_->Check(ref).ok());
    }
    EXPECT_TRUE(sealed || log_->Seal().ok());
  }
}

TEST_F(ValueLogTest, RecordsInASegmentAreTheDocumentedOnes) {
  const std::string small = "small value";
  const std::string large = ValueOf(1, 100'000);
  const log::ValueRef refs[] = {Append("a", small), Append("bb", large)};
  log_.reset();
  const std::string bytes = *io::ReadFile(*fs_, Path(1), kSegmentBytes);
  const auto header = log::ReadSegmentHeader(*fs_, Path(1));
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(header->kind, log::SegmentKind::kValue);
  EXPECT_EQ(refs[0].offset, log::kSegmentHeaderBytes);
  EXPECT_EQ(refs[1].offset, log::kSegmentHeaderBytes + log::RecordSize(1, small.size()));
  EXPECT_EQ(bytes.size(), refs[1].offset + log::RecordSize(2, large.size()));
  for (const log::ValueRef& ref : refs) {
    const char* record = bytes.data() + ref.offset;
    EXPECT_EQ(log::KeyOf(record).size(), ref.key_size);
    EXPECT_EQ(log::HeaderAt(record)->type, log::RecordType::kPut);
    EXPECT_EQ(log::ValueChecksum(log::ValueOf(record), 1, ref.offset), ref.checksum);
    EXPECT_EQ(log::HeaderAt(record)->checksum,
              log::ValueRecordChecksum(record, ref.checksum, header->generation, ref.offset));
  }
}

TEST_F(ValueLogTest, TheNextSegmentIsMadeInTheBackgroundAndNeverMoreThanOne) {
  const std::string value(10'000, 'v');
  while (executor_->RunOne()) {
  }
  size_t appended = 0;
  while (log_->Segments().size() < 2) {
    Append("k", value);
    ++appended;
    while (executor_->RunOne()) {
    }
    EXPECT_LE(Files().size(), log_->Segments().size() + 1);
  }
  EXPECT_EQ(appended, (kSegmentBytes - 4096) / log::RecordSize(1, 10'000) + 1);
  Append("k", value);
  log_.reset();
  EXPECT_EQ(Files().size(), 2u) << "what was made in vain is gone";
}

TEST_F(ValueLogTest, SegmentsReportTheirBytesAndWhetherTheyAreSealed) {
  const std::string value(100'000, 'v');
  for (int i = 0; i < 3; ++i) Append("k", value);  // two fit
  const auto infos = log_->Segments();
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].id, 1u);
  EXPECT_TRUE(infos[0].sealed);
  EXPECT_EQ(infos[0].record_bytes, 2 * log::RecordSize(1, value.size()));
  EXPECT_EQ(infos[0].file_bytes, 4096 + infos[0].record_bytes) << "cut off behind its records";
  EXPECT_FALSE(infos[1].sealed);
  EXPECT_EQ(infos[1].file_bytes, kSegmentBytes);
  ASSERT_TRUE(log_->Seal().ok());
  EXPECT_TRUE(log_->Segments()[1].sealed);
  EXPECT_EQ(log_->Segments()[1].record_bytes, log::RecordSize(1, value.size()));
  const log::ValueRef after = Append("k", "v");
  EXPECT_EQ(after.segment_id, log_->next_id() - 1);
  EXPECT_EQ(log_->Segments().size(), 3u);
}

TEST_F(ValueLogTest, AValueThatFitsNoSegmentGetsOneOfItsOwn) {
  const log::ValueRef before = Append("k", "small");
  const std::string big = ValueOf(1, kSegmentBytes);
  const log::ValueRef ref = Append("big", big);
  const log::ValueRef after = Append("k", "small too");
  EXPECT_NE(ref.segment_id, before.segment_id);
  EXPECT_EQ(after.segment_id, before.segment_id);
  EXPECT_EQ(Read(*log_, ref), big);
  const auto header = log::ReadSegmentHeader(*fs_, Path(ref.segment_id));
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(header->kind, log::SegmentKind::kValue);
  EXPECT_EQ(header->id, ref.segment_id);
}

TEST_F(ValueLogTest, ARemovedSegmentIsNotFoundAndItsFileIsGone) {
  const log::ValueRef ref = Append("k", "value");
  ASSERT_TRUE(log_->Seal().ok());
  EXPECT_EQ(Read(*log_, ref), "value");  // its file is open now
  ASSERT_TRUE(log_->Remove(ref.segment_id).ok());
  ASSERT_TRUE(log_->Remove(ref.segment_id).ok()) << "again";
  Code code = Code::kOk;
  Read(*log_, ref, &code);
  EXPECT_EQ(code, Code::kNotFound);
  EXPECT_TRUE(Files().empty());
  EXPECT_TRUE(log_->Segments().empty());
}

TEST_F(ValueLogTest, ManySegmentsAreReadThroughFewDescriptors) {
  std::vector<log::ValueRef> refs;
  for (uint64_t i = 0; i < 300; ++i) {
    refs.push_back(Append("k", ValueOf(i, 100)));
    ASSERT_TRUE(log_->Seal().ok());
  }
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < refs.size(); ++i) ASSERT_EQ(Read(*log_, refs[i]), ValueOf(i, 100));
  }
}

TEST_F(ValueLogTest, EveryFlippedBitOfAValueAndEveryCutIsCorruption) {
  const std::string value = ValueOf(1, 200);
  const log::ValueRef ref = Append("key", value);
  const uint64_t begin = ValueOffset(ref);
  log_.reset();
  for (uint64_t at = begin; at < begin + value.size(); ++at) {
    ASSERT_TRUE(fs_->Damage(Path(1), [at](std::string* bytes) { (*bytes)[at] ^= 4; }).ok());
    const auto reader = ValueReader::Create(*fs_, kDirectory);
    Code code = Code::kOk;
    const std::string text = Read(*reader, ref, &code);
    EXPECT_EQ(code, Code::kCorruption);
    EXPECT_NE(text.find(Path(1)), std::string::npos);
    EXPECT_NE(text.find(std::to_string(ref.offset)), std::string::npos);
    ASSERT_TRUE(fs_->Damage(Path(1), [at](std::string* bytes) { (*bytes)[at] ^= 4; }).ok());
  }
  ASSERT_TRUE(
      fs_->Damage(Path(1), [&](std::string* b) { b->resize(begin + value.size() - 1); }).ok());
  Code code = Code::kOk;
  Read(*ValueReader::Create(*fs_, kDirectory), ref, &code);
  EXPECT_EQ(code, Code::kCorruption);
}

TEST_F(ValueLogTest, ImpossibleReferencesAreCorruptionBeforeAnythingIsAllocated) {
  const log::ValueRef good = Append("key", "value");
  const auto code_of = [this](log::ValueRef ref) {
    const Status status = log_->Read(ref, [](size_t) -> char* { std::abort(); });
    EXPECT_EQ(log_->Check(ref).code(), status.code());
    return status.code();
  };
  ASSERT_TRUE(log_->Seal().ok());
  log::ValueRef ref = good;
  ref.offset = UINT64_MAX - 7;
  EXPECT_EQ(code_of(ref), Code::kCorruption);
  ref = good;
  ref.offset += 4;
  EXPECT_EQ(code_of(ref), Code::kCorruption);
  ref = good;
  ref.key_size = 0;
  EXPECT_EQ(code_of(ref), Code::kCorruption);
  ref = good;
  ref.value_size = UINT32_MAX;
  EXPECT_EQ(code_of(ref), Code::kCorruption);
  ref = good;
  ref.segment_id = 99;
  EXPECT_EQ(code_of(ref), Code::kNotFound);
}

TEST_F(ValueLogTest, WithoutRoomNothingIsStoredAndWithRoomItWorksAgain) {
  const log::ValueRef first = Append("k", "first");
  fs_->SetFreeBytes(kSegmentBytes / 2);
  log::ValueRef ref{};
  Status status;
  size_t stored = 0;
  const std::string value(20'000, 'v');
  while ((status = log_->Append("k", value, &ref)).ok()) {
    ++stored;
    while (executor_->RunOne()) {
    }
  }
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_EQ(log_->Append("k", std::string(kSegmentBytes, 'v'), &ref).code(), Code::kNoSpace);
  EXPECT_EQ(log_->Append("k", value, &ref).code(), Code::kNoSpace);
  EXPECT_EQ(Read(*log_, first), "first");
  EXPECT_EQ(Files().size(), 1u);
  fs_->SetFreeBytes(UINT64_MAX);
  EXPECT_EQ(Read(*log_, Append("k", "second")), "second");
}

TEST_F(ValueLogTest, SegmentsOfAnEarlierOpenAreReadAndCounted) {
  const log::ValueRef ref = Append("k", "value");
  ASSERT_TRUE(log_->Sync().ok());
  log_.reset();
  ValueLogStart start;
  start.next_id = 2;
  start.sealed = {{1, 5000, 900, false}};
  Open(start);
  EXPECT_EQ(Read(*log_, ref), "value");
  ASSERT_EQ(log_->Segments().size(), 1u);
  EXPECT_TRUE(log_->Segments()[0].sealed);
  EXPECT_EQ(Append("k", "new").segment_id, 2u);
  start.sealed = {{2, 5000, 900, true}};
  EXPECT_EQ(ValueLog::Open(*fs_, kDirectory, options_, *executor_, start).status().code(),
            Code::kInvalidArgument);
}

TEST_F(ValueLogTest, SyncedValuesSurviveAPowerLoss) {
  size_t lost = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Fresh();
    base::Random random(seed);
    std::vector<std::pair<log::ValueRef, std::string>> all;
    size_t synced = 0;
    for (uint64_t i = 0; i < 40; ++i) {
      const size_t size = random.OneIn(10) ? 70'000 + random.Below(300'000) : random.Below(20'000);
      const std::string value = ValueOf(i, size);
      all.push_back({Append("key", value), value});
      if (random.OneIn(2)) executor_->RunOne();
      ASSERT_TRUE(!random.OneIn(30) || log_->Seal().ok());
      if (!random.OneIn(10)) continue;
      ASSERT_TRUE(log_->Sync().ok());
      synced = all.size();
    }
    fs_->Restart(io::CrashKind::kPower, seed);
    log_.reset();
    const auto reader = ValueReader::Create(*fs_, kDirectory);
    for (size_t i = 0; i < all.size(); ++i) {
      Code code = Code::kOk;
      const std::string value = Read(*reader, all[i].first, &code);
      if (code == Code::kOk) {
        ASSERT_EQ(value, all[i].second) << "never a wrong value";
      } else {
        ASSERT_GE(i, synced) << "seed " << seed;
        ++lost;
      }
    }
  }
  EXPECT_GT(lost, 0u) << "the simulation lost nothing";
}

// The sync of the directory may have begun before the segment's file was there.
TEST_F(ValueLogTest, ASegmentMadeWhileTheDirectoryIsSyncedIsSyncedByTheNextSync) {
  for (const char* place : {"io.sync.directory.before", "io.sync.directory.after"}) {
    Fresh();
    log::ValueRef later = Append("key", "value");
    test::HeldThread held({.place = place, .wait_ms_max = 10'000});
    std::jthread syncer([&] { EXPECT_OK(log_->Sync()); });
    ASSERT_TRUE(held.WaitUntilHeld());
    const std::string value = ValueOf(1, 20'000);
    while (later.segment_id < 2) later = Append("key", value);
    held.Release();
    syncer.join();
    ASSERT_OK(log_->Sync());
    fs_->Restart(io::CrashKind::kPower, 1);
    log_.reset();
    EXPECT_EQ(Read(*ValueReader::Create(*fs_, kDirectory), later), value) << place;
  }
}

TEST_F(ValueLogTest, EveryFailingCallIsReportedAndHarmsNothingElse) {
  for (uint64_t n = 1;; ++n) {
    Fresh();
    log_.reset();
    const auto faulty = io::NewFaultFileSystem(*fs_);
    Open({});
    auto opened = ValueLog::Open(*faulty, kDirectory, options_, *executor_, {});
    ASSERT_TRUE(opened.ok());
    log_ = std::move(opened).value();
    faulty->FailAt(io::kFaultAll, n, 1, Code::kIo);
    std::vector<std::pair<log::ValueRef, std::string>> stored;
    for (uint64_t i = 0; i < 12; ++i) {
      const std::string value = ValueOf(i, i % 4 == 3 ? 300'000 : i % 4 == 2 ? 80'000 : 10'000);
      log::ValueRef ref{};
      const Status status = log_->Append("key", value, &ref);
      if (status.ok()) stored.push_back({ref, value});
      executor_->RunOne();
      if (i % 5 == 4) (void)log_->Sync();
    }
    const bool done = faulty->failures() == 0;
    faulty->FailAt(io::kFaultAll, 1, 0, Code::kIo);
    EXPECT_GE(stored.size(), 11u);
    for (const auto& [ref, value] : stored) ASSERT_EQ(Read(*log_, ref), value) << "call " << n;
    log_.reset();
    if (done) break;
    ASSERT_LT(n, 1000u);
  }
}

TEST(ValueLogThreads, ManyThreadsAppendReadSealAndSyncAtOnce) {
  const test::TempDirectory directory;
  StorageOptions options;
  options.value_segment_bytes = 1 << 20;
  const auto executor = base::NewThreadPool(1, "values").value();
  auto log = *ValueLog::Open(io::PosixFileSystem(), directory.path(), options, *executor, {});
  std::atomic<int> writers{3};
  std::vector<std::jthread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const base::ScopeExit ended([&] { --writers; });  // also where an assertion fails
      base::Random random(t);
      std::vector<std::pair<log::ValueRef, uint64_t>> mine;
      std::vector<size_t> sizes;
      for (uint64_t i = 0; i < 150; ++i) {
        const size_t size = random.OneIn(10) ? 60'000 + random.Below(30'000) : random.Below(8000);
        log::ValueRef ref{};
        ASSERT_OK(log->Append("key", ValueOf(t * 1000 + i, size), &ref));
        mine.push_back({ref, t * 1000 + i});
        sizes.push_back(size);
        const size_t other = random.Below(mine.size());
        ASSERT_EQ(Read(*log, mine[other].first), ValueOf(mine[other].second, sizes[other]));
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; writers > 0; ++i) {
      ASSERT_OK(log->Sync());
      if (i % 4 == 0) ASSERT_OK(log->Seal());
    }
  });
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(log->Seal().ok());
  for (const auto& info : log->Segments()) EXPECT_TRUE(info.sealed);
  log.reset();
}

// The sealed segment has been cut at its last record, or it is gone.
TEST(ValueLogThreads, AWriterThatCameForMoreRoomOfASegmentThatWasSealedStoresInTheNext) {
  for (const bool removed : {false, true}) {
    const test::TempDirectory directory;
    StorageOptions options;
    options.value_segment_bytes = 1 << 20;
    const auto executor = base::NewManualExecutor();
    auto log = *ValueLog::Open(io::PosixFileSystem(), directory.path(), options, *executor, {});
    log::ValueRef first{};
    ASSERT_OK(log->Append("key", ValueOf(1, 1000), &first));
    const std::string value = ValueOf(2, log::kFirstRoomBytes);
    log::ValueRef second{};
    {
      test::Hold hold;
      hold.place = "lsm.values.grow";
      hold.wait_ms_max = 10'000;
      test::HeldThread held(hold);
      std::jthread writer([&] { EXPECT_OK(log->Append("key", value, &second)); });
      ASSERT_TRUE(held.WaitUntilHeld());
      ASSERT_OK(log->Seal());
      if (removed) ASSERT_OK(log->Remove(first.segment_id));
      held.Release();
    }
    EXPECT_NE(second.segment_id, first.segment_id);
    EXPECT_EQ(Read(*log, second), value);
    if (removed) continue;
    const std::string path = directory / ValueSegmentName(first.segment_id);
    EXPECT_EQ(std::filesystem::file_size(path), log->Segments().front().file_bytes);
  }
}

TEST(ValueLogThreads, ASealWaitsForTheWritesUnderWayIntoFullSegments) {
  const test::TempDirectory directory;
  StorageOptions options;
  options.value_segment_bytes = 1 << 20;
  const auto executor = base::NewManualExecutor();
  auto log = *ValueLog::Open(io::PosixFileSystem(), directory.path(), options, *executor, {});
  log::ValueRef slow{};
  test::Hold hold;
  hold.place = "lsm.values.store.before";
  hold.wait_ms_max = 10'000;
  test::HeldThread held(hold);
  std::jthread writer([&] { EXPECT_OK(log->Append("key", ValueOf(1, 1000), &slow)); });
  ASSERT_TRUE(held.WaitUntilHeld());
  log::ValueRef later{};
  for (int i = 0; later.segment_id < 2; ++i) {
    ASSERT_OK(log->Append("key", ValueOf(2, 100'000), &later));
  }
  std::atomic<bool> sealed{false};
  std::jthread sealer([&] {
    EXPECT_OK(log->Seal());
    sealed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(sealed);
  ASSERT_OK(log->Append("key", "others write on", &later));
  held.Release();
  sealer.join();
  for (const ValueSegmentInfo& segment : log->Segments()) {
    EXPECT_EQ(segment.sealed, segment.id < later.segment_id) << segment.id;
  }
  writer.join();
  EXPECT_EQ(Read(*log, slow), ValueOf(1, 1000));
}

// --- the region --------------------------------------------------------------------------------

StorageOptions SmallOptions(WalMode log = WalMode::kOn) {
  StorageOptions options;
  options.memtable_bytes = 1 << 16;
  options.wal = log;
  return options;
}

TEST(SharedRegion, IsAttachedByNameWithTheOwnersLayout) {
  for (const WalMode mode : {WalMode::kOn, WalMode::kOff}) {
    auto owner = *SharedRegion::Create(SmallOptions(mode), true);
    owner->index(1)[5] = 'i';
    if (mode == WalMode::kOff) owner->records(2)[7] = 'r';
    const auto peer = *SharedRegion::Attach(owner->name(), owner->bytes());
    EXPECT_EQ(peer->pool_slots(), PoolSlots(SmallOptions()));
    EXPECT_EQ(peer->segment_bytes(), uint64_t{1} << 16);
    EXPECT_EQ(peer->records_inside(), mode == WalMode::kOff);
    EXPECT_EQ(peer->index(1)[5], 'i');
    EXPECT_EQ(peer->records(0) != nullptr, mode == WalMode::kOff);
    EXPECT_TRUE(mode == WalMode::kOn || peer->records(2)[7] == 'r');
    owner->Unlink();
    EXPECT_FALSE(SharedRegion::Attach(owner->name(), owner->bytes()).ok());
    EXPECT_EQ(peer->index(1)[5], 'i') << "mappings stay";
  }
}

TEST(SharedRegion, MemoryThatIsNoRegionIsRefused) {
  const auto memory = *io::SharedMemory::Create(1 << 20);
  EXPECT_EQ(SharedRegion::Attach(memory->name(), 1 << 20).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(SharedRegion::Attach(memory->name(), 100).status().code(), Code::kInvalidArgument);
  const auto owner = *SharedRegion::Create(SmallOptions(), true);
  EXPECT_FALSE(SharedRegion::Attach(owner->name(), owner->bytes() + 4096).ok());
  EXPECT_EQ(SharedRegion::Attach(owner->name(), owner->bytes() - 4096).status().code(),
            Code::kInvalidArgument);
}

TEST(SharedRegion, PoolSlotsFollowTheQueueAndItsBound) {
  StorageOptions options;
  options.flushing_queue_length = 1;
  EXPECT_GE(PoolSlots(options), 3);
  options.flushing_queue_length = 64;
  EXPECT_GE(PoolSlots(options), 66);
  EXPECT_LE(PoolSlots(options), kPoolSlotsMax);
}

// The owner publishes states whose parts follow from one number; readers must see whole ones.
TEST(SharedRegion, TheBoardIsReadWhole) {
  const auto region = *SharedRegion::Create(SmallOptions(), false);
  const auto slots = static_cast<uint64_t>(region->pool_slots());
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    for (uint64_t n = 1; n <= 20'000; ++n) {
      BoardState state;
      state.edition = n;
      state.newest_ssid = 2 * n;
      state.live_count = static_cast<int>(n % slots);
      for (int i = 0; i < state.live_count; ++i) {
        state.live[i] = {static_cast<uint32_t>((n + static_cast<uint64_t>(i)) % slots), n * 3};
      }
      region->Publish(state);
    }
    stop = true;
  });
  uint64_t last = 0;
  uint64_t last_sequence = 0;
  while (last < 20'000) {
    BoardState state;
    uint64_t sequence = 0;
    if (!region->Read(&state, &sequence)) continue;
    const uint64_t n = state.edition;
    ASSERT_GE(n, last);
    ASSERT_EQ(n == last, sequence == last_sequence);
    ASSERT_EQ(state.newest_ssid, 2 * n);
    ASSERT_EQ(static_cast<uint64_t>(state.live_count), n % slots);
    for (int i = 0; i < state.live_count; ++i) {
      ASSERT_EQ(state.live[i].generation, n * 3);
      ASSERT_EQ(state.live[i].pool_slot, (n + static_cast<uint64_t>(i)) % slots);
    }
    last = n;
    last_sequence = sequence;
  }
  owner.join();
  EXPECT_TRUE(region->Unchanged(last_sequence));
  EXPECT_FALSE(region->marked_closed());
  region->MarkClosed();
  EXPECT_TRUE(region->marked_closed());
  EXPECT_FALSE(region->Unchanged(last_sequence));
}

}  // namespace
}  // namespace quire::lsm::value_log_test
