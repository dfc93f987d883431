// How a log gets room back when it is short: with many small versions, deltas, kept versions in the
// way, and readers that come and go; and which versions a policy releases, and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "base/threads/sync_point.h"
#include "io/files/machine.h"
#include "stream/index/gate.h"
#include "stream/log/delta.h"
#include "stream/log/log_format.h"
#include "stream/store/mirror.h"
#include "stream/store/part.h"
#include "stream/store/stream_testing.h"
#include "stream/store/tending.h"
#include "stream/store/writer.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::stream::stream_room_test {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class StreamRoom : public ::testing::Test {
 protected:
  void Open(const StreamOptions& options) {
    writer_.reset();
    Result<std::unique_ptr<StreamWriter>> opened = machine_.Write(options);
    ASSERT_OK(opened.status());
    writer_ = *std::move(opened);
  }
  std::unique_ptr<StreamReader> Reader() {
    Result<std::unique_ptr<StreamReader>> opened = machine_.Read();
    EXPECT_OK(opened.status());
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  StreamMachine machine_;
  std::unique_ptr<StreamWriter> writer_;
};

TEST_F(StreamRoom, ManySmallVersionsAreCollectedBeforeTheIndexIsFull) {
  Open(SmallLog(16 * kMiB));
  ASSERT_TRUE(writer_->Create("small", 8).ok());
  for (int i = 0; i < 20'000; ++i) ASSERT_OK(writer_->Put("small").status());
}

TEST_F(StreamRoom, AVersionKeptAtTheHeadDoesNotFillTheIndex) {
  Open(SmallLog(16 * kMiB));
  ASSERT_TRUE(writer_->Create("mesh", 1000).ok());
  ASSERT_TRUE(writer_->Create("small", 8).ok());
  ASSERT_OK(writer_->Put("mesh").status());
  for (int i = 0; i < 20'000; ++i) ASSERT_OK(writer_->Put("small").status());
}

// After a later object has lost its first version, it is unknown whether a snapshot is whole. A
// kept snapshot is known to be whole.
TEST_F(StreamRoom, ASnapshotThatIsKeptCanBeKeptAgain) {
  Open(SmallLog(kMiB));
  ASSERT_OK(writer_->Create("first", 8).status());
  ASSERT_OK(writer_->Put("first").status());
  ASSERT_OK(writer_->Put("first").status());
  ASSERT_OK(writer_->Create("later", 8).status());
  ASSERT_OK(writer_->Put("later").status());
  ASSERT_OK(writer_->Keep(2));
  // The kept snapshot is moved, then the later object's first version goes.
  ASSERT_OK(writer_->Create("large", 300'000).status());
  for (int i = 0; i < 8; ++i) ASSERT_OK(writer_->Snapshot().status());
  const std::unique_ptr<StreamReader> reader = Reader();
  std::string bytes;
  EXPECT_CODE(reader->Get("later", 1, &bytes), Code::kNotFound);
  EXPECT_OK(writer_->Keep(2));
  EXPECT_CODE(writer_->Keep(3), Code::kNotFound);
}

// A program that opens the log after the refusal finds no kept snapshot that leaves no room to go
// on.
TEST_F(StreamRoom, AKeepThatIsRefusedStoresNothingBeforeIt) {
  constexpr uint64_t kLarge = 22'000;  // two of three fit
  Open(SmallLog(64 << 10));
  ASSERT_OK(writer_->Create("key", kLarge).status());
  ASSERT_OK(writer_->Put("key").status());
  ASSERT_OK(writer_->Put("key").status());
  uint64_t heads = 0;
  {
    const AtPlace dies("stream.head.stored", [&] {
      ++heads;
      machine_.fs().Restart(io::CrashKind::kProcess, 0);
    });
    EXPECT_CODE(writer_->Keep(1), Code::kNoSpace);
  }
  EXPECT_EQ(heads, 0u);
  Open(SmallLog(64 << 10));
  ASSERT_OK(writer_->Create("key", kLarge).status());
  for (int i = 0; i < 5; ++i) ASSERT_OK(writer_->Put("key").status());
}

TEST_F(StreamRoom, DeltasLeaveRoomForTheNextWholeVersion) {
  StreamOptions options = SmallLog(3 * kMiB + 64 * 1024);
  options.deltas = StreamDeltas::kHash;
  options.full_every = 1000;
  Open(options);
  char* const memory = *writer_->Create("field", kMiB);
  const auto reader = Reader();
  for (uint64_t i = 1; i <= 300; ++i) {
    for (uint64_t at = 0; at < kMiB; at += 4096) memory[at] = static_cast<char>(i + at / 4096);
    ASSERT_OK(writer_->Put("field").status());
    std::string bytes;
    ASSERT_OK(reader->Get("field", 0, &bytes));
    ASSERT_EQ(bytes == std::string(memory, kMiB), true) << i;
  }
  EXPECT_GT(writer_->Statistics().deltas, 100u);
}

// Objects that are put one by one, as deltas, leave room for a snapshot of all objects, whole.
TEST_F(StreamRoom, DeltasOfSeveralObjectsLeaveRoomForASnapshotOfAll) {
  StreamOptions options = SmallLog(kMiB);
  options.deltas = StreamDeltas::kHash;
  options.full_every = 16;
  Open(options);
  constexpr uint64_t kBytes = 174'000;  // three times both, which suffices for whole versions
  char* const a = *writer_->Create("a", kBytes);
  char* const b = *writer_->Create("b", kBytes);
  for (char value = 1; value < 40; ++value) {
    for (int i = 0; i < 2; ++i) {
      std::fill_n(a, kBytes * 9 / 10, static_cast<char>(value + i));
      ASSERT_OK(writer_->Put("a").status());
    }
    std::fill_n(b, kBytes * 9 / 10, value);
    ASSERT_OK(writer_->Put("b").status());
    const Status stored = writer_->Snapshot().status();
    ASSERT_TRUE(stored.ok()) << stored.ToString() << ", round " << static_cast<int>(value);
  }
}

TEST_F(StreamRoom, ASnapshotThatIsYetToComeIsNotFound) {
  Open(SmallLog(kMiB));
  ASSERT_TRUE(writer_->Create("key", 8).ok());
  ASSERT_OK(writer_->Put("key").status());
  std::string bytes;
  EXPECT_CODE(Reader()->GetAt("key", 2, &bytes), Code::kNotFound);
  EXPECT_CODE(writer_->Restore(2), Code::kNotFound);
}

TEST_F(StreamRoom, ALogOfManyLongKeysIsReadAfterItsWriterDied) {
  StreamOptions options = SmallLog(4 * kMiB);
  options.objects_max = 8000;
  Open(options);
  std::vector<std::string> keys;
  for (int i = 0; i < 5000; ++i) {
    keys.push_back(std::to_string(i) + std::string(95, 'k'));
    ASSERT_OK(writer_->Create(keys.back(), 8).status());
  }
  ASSERT_OK(writer_->Snapshot().status());
  machine_.fs().Restart(io::CrashKind::kProcess, 1);
  const auto reader = Reader();
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->Objects()->size(), keys.size());
}

// The size that the documentation of stream_log_bytes gives: (k + 2) s for k versions of s bytes in
// all; here k is 2.
TEST_F(StreamRoom, ThePlannedLogSufficesForObjectsOfManyExtents) {
  constexpr int kObjects = 200;
  StreamOptions options;
  options.log_bytes = 4 * (kRecordBytes + kObjects * (64 + EntryBytes(40, 8)));
  for (int pages = 0; pages < 20; ++pages, options.log_bytes += 4096) {
    machine_.fs().Restart(io::CrashKind::kProcess, 1);
    const Result<std::unique_ptr<StreamWriter>> writer =
        OpenWriter(machine_.fs(), "/place", "store" + std::to_string(pages), 0, options);
    ASSERT_OK(writer.status());
    StreamShape shape;
    shape.extents = {2, 1, 2, 1, 2, 1, 2, 4};
    for (int i = 100; i < 100 + kObjects; ++i) {
      ASSERT_OK((*writer)->Create(std::string(37, 'k') + std::to_string(i), 64, shape).status());
    }
    for (uint64_t snapshot = 1; snapshot <= 30; ++snapshot) {
      const Status stored = (*writer)->Snapshot().status();
      ASSERT_TRUE(stored.ok()) << stored.ToString() << " at snapshot " << snapshot;
      if (snapshot == 3) ASSERT_OK((*writer)->Keep(3));
    }
  }
}

// Objects that are stored each at its own rate, alone and together, in a log of the size that the
// documentation of stream_log_bytes gives for keeping the newest versions.
class PlannedLog {
 public:
  PlannedLog(io::FileSystem& fs, uint64_t seed)
      : fs_(fs), store_("store" + std::to_string(seed)), random_(seed) {
    options_.objects_max = 16;
    options_.keep_versions = 1 + static_cast<uint32_t>(random_.Below(4));
    if (random_.OneIn(2)) options_.deltas = StreamDeltas::kHash;
    options_.full_every = 1 + static_cast<uint32_t>(random_.Below(20));
    sizes_.resize(1 + random_.Below(6));
    uint64_t all = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      sizes_[i] = 1 + random_.Below(random_.OneIn(3) ? 40'000 : 2'000);
      rates_.push_back(1 + random_.Below(20));
      const auto name = static_cast<char>('a' + i);
      keys_.push_back(std::string(1 + (random_.OneIn(2) ? random_.Below(200) : 0), name));
      all += sizes_[i] + keys_[i].size() + 384;
    }
    const uint64_t rested_upon = options_.deltas == StreamDeltas::kOff ? 0 : options_.full_every;
    const uint64_t versions = options_.keep_versions + rested_upon + 2;
    options_.log_bytes = std::max(versions * all, kPageBytes);
    Open();
  }

  // Replaces the writer by another one that goes on.
  void Open() {
    writer_.reset();
    auto writer = OpenWriter(fs_, "/place", store_, 0, options_);
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    memory_.clear();
    for (size_t i = 0; i < sizes_.size(); ++i) {
      StreamShape shape;
      if (i % 2 == 0) shape.extents = {sizes_[i], 1, 1, 1, 1, 1, 1, 1};
      const Result<char*> memory = writer_->Create(keys_[i], sizes_[i], shape);
      ASSERT_OK(memory.status());
      memory_.push_back(*memory);
    }
  }

  Status StoreSome() {
    std::vector<Slice> keys;
    for (size_t i = 0; i < rates_.size(); ++i) {
      if (writer_->LastSnapshot() != 0 && !random_.OneIn(rates_[i])) continue;
      keys.emplace_back(keys_[i]);
      // Changes its first bytes: few, most or all.
      const uint64_t changed = random_.Below(sizes_[i] + 1);
      std::fill_n(memory_[i], changed, static_cast<char>(random_.Next()));
    }
    if (random_.OneIn(10)) return writer_->Snapshot().status();
    if (keys.empty()) return Status();
    if (random_.OneIn(2)) return writer_->Snapshot(keys).status();
    for (const Slice key : keys) QUIRE_RETURN_IF_ERROR(writer_->Put(key).status());
    return Status();
  }
  void KeepOne() {
    const uint64_t snapshot = writer_->LastSnapshot() - random_.Below(3);
    const Status status = writer_->Keep(snapshot);
    if (status.ok()) kept_.insert(snapshot);
    if (status.code() != Code::kNoSpace && status.code() != Code::kNotFound) EXPECT_OK(status);
  }
  void ReleaseAll() {
    for (const uint64_t snapshot : kept_) EXPECT_OK(writer_->Release(snapshot));
    kept_.clear();
  }
  bool keeps() const { return !kept_.empty(); }
  base::Random& random() { return random_; }

 private:
  io::FileSystem& fs_;
  const std::string store_;
  StreamOptions options_;
  std::vector<uint64_t> sizes_;
  std::vector<std::string> keys_;
  std::vector<char*> memory_;
  base::Random random_;
  std::vector<uint64_t> rates_;
  std::unique_ptr<StreamWriter> writer_;
  std::set<uint64_t> kept_;
};

TEST_F(StreamRoom, ThePlannedLogSufficesWhicheverObjectsAreStored) {
  const auto logs = static_cast<uint64_t>(test::ScaledCount(120));
  const uint64_t end = test::FirstSeed() + logs;
  for (uint64_t seed = test::FirstSeed(); seed < end; ++seed) {
    machine_.fs().Restart(io::CrashKind::kProcess, 1);
    PlannedLog log(machine_.fs(), seed);
    for (int step = 0; step < 200; ++step) {
      const Status stored = log.StoreSome();
      ASSERT_TRUE(stored.ok()) << "seed " << seed << " step " << step << ": " << stored.ToString();
      if (log.random().OneIn(40)) log.Open();
    }
  }
}

// Then the log is too small, and a put reports it. As soon as nothing is kept, all can be stored
// again.
TEST_F(StreamRoom, ALogThatKeepsMoreThanWasPlannedForIsNeverStuck) {
  const auto logs = static_cast<uint64_t>(test::ScaledCount(120));
  int refused = 0;
  const uint64_t end = test::FirstSeed() + logs;
  for (uint64_t seed = test::FirstSeed(); seed < end; ++seed) {
    machine_.fs().Restart(io::CrashKind::kProcess, 1);
    PlannedLog log(machine_.fs(), seed);
    for (int step = 0; step < 200; ++step) {
      Status stored = log.StoreSome();
      if (!stored.ok() && log.keeps()) {
        EXPECT_CODE(stored, Code::kNoSpace);
        ++refused;
        log.ReleaseAll();
        stored = log.StoreSome();
      }
      ASSERT_TRUE(stored.ok()) << "seed " << seed << " step " << step << ": " << stored.ToString();
      if (log.random().OneIn(5)) log.KeepOne();
      if (log.random().OneIn(30)) log.ReleaseAll();
      if (log.random().OneIn(40)) log.Open();
    }
  }
  EXPECT_GT(refused, 0);
}

// Holds a view from the moment when the writer checks whether it may move kept versions, until it
// is about to refuse the commit.
class PassingView final : public base::SyncPointListener {
 public:
  PassingView(StreamReader& reader, std::string key) : reader_(reader), key_(std::move(key)) {}
  void Reach(const char* name) override {
    const std::string_view place(name);
    if (place == "stream.relocate.before_pins" && !came_) {
      came_ = true;
      view_ = *reader_.View(key_, 0);
    }
    if (place == "stream.room.before_pins") view_.reset();
  }
  bool came() const { return came_; }

 private:
  StreamReader& reader_;
  const std::string key_;
  std::unique_ptr<StreamView> view_;
  bool came_ = false;
};

// "kept" stays at the head until the log is full.
void FillAroundWhatIsKept(StreamWriter& writer) {
  ASSERT_OK(writer.Create("kept", 100'000).status());
  ASSERT_OK(writer.Create("other", 200'000).status());
  ASSERT_OK(writer.Put("kept").status());
  for (int i = 0; i < 3; ++i) ASSERT_OK(writer.Put("other").status());
}

TEST_F(StreamRoom, APutWaitsForAReaderThatComesAndGoesWhileItMovesWhatIsKept) {
  StreamOptions options = SmallLog(kMiB);
  options.wait_ms = 600'000;
  Open(options);
  FillAroundWhatIsKept(*writer_);
  const auto reader = Reader();
  PassingView view(*reader, "kept");
  const base::ScopedSyncPoints installed(&view);
  for (int i = 0; i < 10; ++i) ASSERT_OK(writer_->Put("other").status());
  EXPECT_TRUE(view.came());
}

// A reader is in the way, but the put does not fail because of it.
TEST_F(StreamRoom, ASnapshotThatCanNeverFitDoesNotWait) {
  StreamOptions options = SmallLog(kMiB);
  options.wait_ms = 600'000;
  options.collect_percent = 10;
  Open(options);
  ASSERT_OK(writer_->Create("small", 100'000).status());
  ASSERT_OK(writer_->Put("small").status());
  const auto reader = Reader();
  const auto view = reader->View("small", 0);
  ASSERT_OK(view.status());
  ASSERT_OK(writer_->Put("small").status());
  ASSERT_OK(writer_->Put("small").status());
  ASSERT_GT(writer_->Statistics().pinned_waits, 0u);
  ASSERT_OK(writer_->Create("large", kMiB - 50'000).status());
  EXPECT_CODE(writer_->Snapshot().status(), Code::kNoSpace);
}

TEST_F(StreamRoom, EachOfManyReadersHoldsItsOwn) {
  StreamOptions options = SmallLog(kMiB);
  options.keep_versions = 2;
  Open(options);
  char* const memory = *writer_->Create("key", 1000);
  std::vector<std::unique_ptr<StreamReader>> readers;
  std::vector<std::unique_ptr<StreamView>> views;
  for (uint64_t version = 1; version <= 40; ++version) {
    Compute(memory, "key", version, 1000);
    ASSERT_OK(writer_->Put("key").status());
    readers.push_back(Reader());
    Result<std::unique_ptr<StreamView>> view = readers.back()->View("key", version);
    ASSERT_OK(view.status());
    views.push_back(*std::move(view));
  }
  while (writer_->Put("key").ok()) {
  }
  for (uint64_t version = 1; version <= 40; ++version) {
    EXPECT_EQ(views[version - 1]->bytes() == BytesOf("key", version, 1000), true) << version;
  }
  views.clear();
  EXPECT_OK(writer_->Put("key").status());
}

class MirrorRoom : public StreamRoom {
 protected:
  std::unique_ptr<Mirror> OpenMirror(uint64_t log_bytes) {
    Result<std::unique_ptr<Mirror>> mirror =
        Mirror::Open(machine_.fs(), "/place", "store", 0, SmallLog(log_bytes));
    EXPECT_OK(mirror.status());
    return mirror.ok() ? *std::move(mirror) : nullptr;
  }
  static StreamVersion VersionOfBytes(uint64_t number, uint64_t bytes) {
    StreamVersion version;
    version.version = number;
    version.snapshot = number;
    version.bytes = bytes;
    return version;
  }
};

TEST_F(MirrorRoom, ImpossibleSizesAreRefused) {
  const auto mirror = OpenMirror(kMiB);
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 62, 2 * kMiB}) {
    EXPECT_FALSE(mirror->Reserve("key", VersionOfBytes(1, bytes)).ok()) << bytes;
  }
}

TEST_F(MirrorRoom, LargeVersionsFitOneAfterAnother) {
  const auto mirror = OpenMirror(kMiB);
  for (uint64_t number = 1; number <= 20; ++number) {
    const uint64_t bytes = number % 2 == 0 ? 600'000 : 500'000;
    const Result<Reservation> room = mirror->Reserve("key", VersionOfBytes(number, bytes));
    ASSERT_OK(room.status());
    std::fill_n(room->bytes, bytes, static_cast<char>(number));
    ASSERT_OK(mirror->Commit(DataHash(Slice(room->bytes, bytes))));
  }
}

constexpr uint64_t kMinuteMs = 60'000;
constexpr uint64_t kBytes = 16 << 10;

using Numbers = std::vector<uint64_t>;

// Versions with times of the test's choice, so that no test waits until something is old.
class StreamAge : public ::testing::Test {
 protected:
  void Open(uint64_t keep_ms) {
    part_.reset();
    StreamOptions options = SmallLog(kMiB);
    options.keep_ms = keep_ms;
    Result<std::unique_ptr<Part>> part =
        Part::Open(machine_.fs(), {"/place", "store", 0}, options, true);
    ASSERT_OK(part.status());
    part_ = *std::move(part);
  }

  void Store(const std::string& key, const std::vector<uint64_t>& ages_minutes) {
    const uint64_t now_ns = io::UnixTimeNs();
    for (const uint64_t age : ages_minutes) {
      VersionEntry entry;
      entry.key = key;
      entry.version = entry.snapshot = part_->snapshot() + 1;
      entry.unix_time_ns = now_ns - age * kMinuteMs * 1'000'000;
      const std::string bytes = BytesOf(key, entry.version, kBytes);
      entry.bytes = bytes.size();
      const Result<Reservation> room = part_->Reserve(entry);
      ASSERT_OK(room.status());
      bytes.copy(room->bytes, bytes.size());
      ASSERT_OK(part_->CommitReserved(DataHash(bytes)));
    }
  }

  Numbers Versions(const std::string& key) {
    const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
    EXPECT_OK(reader.status());
    if (!reader.ok()) return {};
    const Result<std::vector<StreamVersion>> versions = (*reader)->Versions(key);
    EXPECT_OK(versions.status());
    if (!versions.ok()) return {};
    Numbers numbers;
    for (const StreamVersion& version : *versions) {
      std::string bytes;
      EXPECT_OK((*reader)->Get(key, version.version, &bytes));
      EXPECT_EQ(bytes == BytesOf(key, version.version, kBytes), true) << version.version;
      numbers.push_back(version.version);
    }
    return numbers;
  }

  StreamMachine machine_;
  std::unique_ptr<Part> part_;
};

TEST_F(StreamAge, AVersionsAgeDecidesWhetherItGoes) {
  Open(60 * kMinuteMs);
  Store("key", {180, 120, 40, 30, 5, 0});
  ASSERT_OK(part_->Collect());
  EXPECT_EQ(Versions("key"), (Numbers{6, 5, 4, 3}));
}

// Two hours ago the clock was two days ahead.
TEST_F(StreamAge, AClockThatWasSetBackKeepsNothingFromTheFuture) {
  constexpr uint64_t kAhead = UINT64_MAX - 2 * 24 * 60 + 1;  // minus two days
  Open(60 * kMinuteMs);
  Store("key", {kAhead, kAhead + 10, 120});
  ASSERT_OK(part_->Collect());
  EXPECT_EQ(Versions("key"), Numbers{3});
  Store("other", {kAhead, kAhead + 10, 40});
  ASSERT_OK(part_->Collect());
  EXPECT_EQ(Versions("other"), (Numbers{6, 5, 4}));
}

TEST_F(StreamAge, IsThatOfTheVersionAlsoAfterItsWriterEnded) {
  Open(60 * kMinuteMs);
  Store("key", {180, 120, 40, 30, 5, 0});
  part_.reset();
  EXPECT_EQ(Versions("key"), (Numbers{6, 5, 4, 3, 2, 1}));
  // A program that tends the log takes the policy from its head.
  ASSERT_OK(CollectEnded(machine_.fs(), "/place", "store", 0));
  EXPECT_EQ(Versions("key"), (Numbers{6, 5, 4, 3}));
  Open(10 * kMinuteMs);
  ASSERT_OK(part_->Collect());
  EXPECT_EQ(Versions("key"), (Numbers{6, 5}));
  Open(0);
  ASSERT_OK(part_->Collect());
  EXPECT_EQ(Versions("key"), Numbers{6});
}

TEST_F(StreamAge, AYoungVersionAtTheHeadOfAFullLogIsMoved) {
  Open(60 * kMinuteMs);
  Store("mesh", {50, 0});
  for (int round = 0; round < 20; ++round) Store("key", {180, 170, 160, 150, 140, 130, 120, 110});
  EXPECT_GT(part_->relocated_bytes(), 0u);
  EXPECT_EQ(Versions("mesh"), (Numbers{2, 1}));
}

TEST_F(StreamAge, AVersionsAgeCountsFromItsPut) {
  StreamOptions options = SmallLog(kMiB);
  options.keep_ms = 60 * kMinuteMs;
  options.collect_percent = 10;
  const Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(options);
  ASSERT_OK(writer.status());
  const Result<char*> memory = (*writer)->Create("key", kBytes);
  ASSERT_OK(memory.status());
  Numbers put;
  while (put.size() < 100) {
    Compute(*memory, "key", put.size() + 1, kBytes);
    const Result<uint64_t> version = (*writer)->Put("key");
    if (!version.ok()) {
      EXPECT_CODE(version.status(), Code::kNoSpace);
      break;
    }
    put.insert(put.begin(), *version);
  }
  EXPECT_GT(put.size(), 30u);
  EXPECT_LT(put.size(), kMiB / kBytes);
  EXPECT_EQ(Versions("key"), put);
}

class StreamThreshold : public ::testing::Test {
 protected:
  // Puts until something was collected. Returns how full the log had become.
  uint64_t LiveWhenCollected(uint32_t percent) {
    StreamMachine machine;
    StreamOptions options = SmallLog(kMiB);
    options.collect_percent = percent;
    const Result<std::unique_ptr<StreamWriter>> writer = machine.Write(options);
    EXPECT_OK(writer.status());
    EXPECT_OK((*writer)->Create("key", kBytes).status());
    uint64_t live = 0;
    for (uint64_t puts = 0; puts < 2 * kMiB / kBytes; ++puts) {
      live = std::max(live, (*writer)->Statistics().live_bytes);
      EXPECT_OK((*writer)->Put("key").status());
      if ((*writer)->Statistics().collected != 0) break;
    }
    return live;
  }
};

TEST_F(StreamThreshold, BelowItNothingIsCollectedAndAboveItIsAtOnce) {
  constexpr uint64_t kPutBytes = kBytes + 256;  // with record and entry
  for (const uint32_t percent : {10, 25, 50, 75}) {
    const uint64_t threshold = kMiB * percent / 100;
    const uint64_t live = LiveWhenCollected(percent);
    EXPECT_LE(live, threshold) << percent;
    EXPECT_GT(live + kPutBytes, threshold - 100) << percent;
  }
}

TEST_F(StreamThreshold, AThresholdOfTheWholeLogCollectsOnlyForAPutWithoutRoom) {
  EXPECT_GT(LiveWhenCollected(100), kMiB * 90 / 100);
}

// The first version of "a" is young when the moves are planned, and too old when it is to be moved.
// The first version of "x" was replaced long ago.
TEST(RoomOfAPart, IsPlannedAgainIfVersionsAgeOutMeanwhile) {
  constexpr uint64_t kKeepMs = 2000;
  StreamMachine machine;
  StreamOptions options = SmallLog(128 << 10);
  options.keep_ms = kKeepMs;
  const auto part = Part::Open(machine.fs(), {"/place", "store", 0}, options, true);
  ASSERT_OK(part.status());
  const auto put = [&](const char* key, uint64_t version, uint64_t bytes, uint64_t time_ns) {
    VersionEntry entry;
    entry.key = key;
    entry.version = version;
    entry.snapshot = (*part)->snapshot() + 1;
    entry.bytes = bytes;
    entry.unix_time_ns = time_ns;
    QUIRE_ASSIGN_OR_RETURN(const Reservation room, (*part)->Reserve(entry));
    std::fill_n(room.bytes, bytes, 'a');
    return (*part)->CommitReserved(DataHash(std::string(bytes, 'a')));
  };
  ASSERT_OK(put("a", 1, 4000, io::UnixTimeNs()));
  ASSERT_OK(put("a", 2, 4000, io::UnixTimeNs()));
  ASSERT_OK(put("x", 1, 50'000, 1));
  ASSERT_OK(put("x", 2, 20'000, 2));
  bool moved = false;
  const AtPlace ages("stream.relocate.before_pins", [&] {
    moved = true;
    io::RealClock().SleepNs((kKeepMs + 100) * 1'000'000);
  });
  EXPECT_OK(put("x", 3, 50'000, 3));
  EXPECT_TRUE(moved);
}

}  // namespace
}  // namespace quire::stream::stream_room_test
