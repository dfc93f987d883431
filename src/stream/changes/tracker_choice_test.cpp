// The choices of kAuto, the findings of an audit, and the effect of MarkDirty on a tracker and on a
// writer; and how readers use the hashes of whole objects.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "io/watch/page_watch.h"
#include "stream/changes/tracker_testing.h"
#include "stream/log/delta.h"
#include "stream/log/log_heap.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::tracker_choice_test {
namespace {

const uint64_t kPage = io::PageBytes();

TEST(Tracker, AnAuditFindsUnnotedChangesAndMarkDirtyReportsThem) {
  for (const auto& [deltas, kind] : {std::pair(StreamDeltas::kWatch, io::WatchKind::kKernel),
                                     std::pair(StreamDeltas::kProtect, io::WatchKind::kProtect)}) {
    if (!io::FirstStoreNs(kind).ok()) continue;
    const TwiceMapped memory(16 * kPage);
    TrackedObject object(memory.here(), 16 * kPage, deltas);
    object.Step();
    Change(memory.here() + 3 * kPage);
    object.Step();
    ASSERT_NE(object.mechanism(), "hash");
    Change(memory.there() + 9 * kPage + 600);
    Changes changes = object.DetectChanges();
    EXPECT_EQ(changes.blocks, 0u) << object.mechanism();
    const Status audit = object.tracker().Audit();
    EXPECT_EQ(audit.code(), Code::kCorruption);
    const std::string offset = std::to_string(9 * kPage + 512);
    EXPECT_NE(audit.message().find(offset), std::string::npos) << audit.message();
    object.tracker().MarkDirty(9 * kPage + 600, 1);
    changes = object.DetectChanges();
    EXPECT_EQ(changes.blocks, 1u);
    EXPECT_TRUE(object.tracker().Audit().ok());
    object.Step();
  }
}

TEST(Tracker, AnAuditedObjectIsAuditedWhateverIsChosen) {
  if (!io::FirstStoreNs(io::WatchKind::kKernel).ok()) GTEST_SKIP() << "no watched pages here";
  const TwiceMapped memory(1024 * kPage);
  TrackedObject object(memory.here(), 1024 * kPage, StreamDeltas::kAuto, true);
  for (int step = 0; step < 6; ++step) {
    Change(memory.here());
    object.Step(100 * object.bytes());
    ASSERT_TRUE(object.tracker().Audit().ok());
  }
  ASSERT_EQ(object.mechanism(), "watch");
  Change(memory.there() + 700 * kPage);
  EXPECT_EQ(object.DetectChanges().blocks, 0u);
  EXPECT_EQ(object.tracker().Audit().code(), Code::kCorruption);
}

TEST(Tracker, MarksBeyondTheEndAreLeftOut) {
  for (const StreamDeltas deltas :
       {StreamDeltas::kAuto, StreamDeltas::kHash, StreamDeltas::kProtect, StreamDeltas::kWatch}) {
    TrackedObject object(5 * kPage + 3, deltas);
    object.Step();
    object.tracker().MarkDirty(object.bytes() - 1, UINT64_MAX);
    object.tracker().MarkDirty(object.bytes(), 1);
    object.tracker().MarkDirty(UINT64_MAX, UINT64_MAX);
    object.tracker().MarkDirty(0, 0);
    object.Step();
  }
}

TEST(Tracker, NothingIsTrackedIfEverythingChanges) {
  TrackedObject object(1024 * kPage, StreamDeltas::kAuto);
  for (int step = 0; step < 100; ++step) {
    for (uint64_t at = 0; at < object.bytes(); at += kBlockBytes) Change(object.data() + at);
    EXPECT_EQ(object.Step(object.bytes()), object.bytes());
    ASSERT_EQ(object.mechanism(), "whole") << "step " << step;
  }
}

TEST(Tracker, LittleIsCopiedIfLittleChanges) {
  constexpr uint64_t kPatchBytes = 64 << 10;
  TrackedObject object(256 * kPatchBytes, StreamDeltas::kAuto);
  base::Random random(1);
  uint64_t changed = 0;
  uint64_t copied = 0;
  for (int step = 0; step < 60; ++step) {
    for (int patch = 0; patch < 5; ++patch) {
      const uint64_t first = random.Below(256) * kPatchBytes;
      for (uint64_t at = 0; at < kPatchBytes; at += kBlockBytes) Change(object.data() + first + at);
    }
    if (step >= 5) changed += object.ChangedBlocks() * kBlockBytes;
    const uint64_t step_copied = object.Step(object.bytes());
    if (step >= 5) copied += step_copied;
  }
  EXPECT_NE(object.mechanism(), "whole");
  EXPECT_LE(copied, changed + changed / 10);
}

TEST(Tracker, AnObjectThatRestsAndChangesByTurnsIsFollowedExactly) {
  if (!io::FirstStoreNs(io::WatchKind::kKernel).ok()) GTEST_SKIP() << "no watched pages here";
  constexpr uint64_t kPatchBytes = 64 << 10;
  constexpr uint64_t kPatches = 16;
  constexpr int kTurnSteps = 80;  // more than the steps between two probes
  TrackedObject object(kPatches * kPatchBytes, StreamDeltas::kAuto);
  base::Random random(3);
  std::string turns;
  uint64_t least_copied = object.bytes();  // since the time when all changed
  for (int step = 0; step < 12 * kTurnSteps; ++step) {
    // In turns nothing changes, little, more than half of the pages, or everything.
    const uint64_t patches[] = {0, 1, kPatches * 3 / 5, kPatches};
    const uint64_t first = random.Below(kPatches);
    for (uint64_t patch = first; patch < first + patches[step / kTurnSteps % 4]; ++patch) {
      char* const data = object.data() + patch % kPatches * kPatchBytes;
      for (uint64_t at = 0; at < kPatchBytes; at += kBlockBytes) Change(data + at);
    }
    least_copied = std::min(least_copied, object.Step(object.bytes() / 10));
    // The machine decides which of the two that track is cheaper for a step or two.
    const std::string mechanism = object.mechanism();
    if (mechanism != "hash" && !turns.ends_with(mechanism)) turns += " " + mechanism;
    if (step % (4 * kTurnSteps) == 4 * kTurnSteps - 1) {
      EXPECT_LE(least_copied, kPatchBytes) << "in the steps before " << step;
      least_copied = object.bytes();
    }
  }
  EXPECT_NE(turns.find("watch whole watch whole watch"), std::string::npos) << turns;
}

// Hashes from before a time without tracking are not used after it.
TEST(Tracker, AChangeBetweenUnstoredVersionsIsReportedWhenItIsTakenBack) {
  for (const uint64_t first_changed : {0, 1000}) {
    TrackedObject object(256 * kPage, StreamDeltas::kAuto, true);
    for (int step = 0; step < 200 && object.mechanism() == "whole"; ++step) {
      Change(object.data() + 8 * kPage);
      object.Step(object.bytes() / 10);
    }
    ASSERT_NE(object.mechanism(), "whole");
    for (int step = 0; step < 20 && object.mechanism() != "whole"; ++step) {
      for (uint64_t at = 0; at < object.bytes(); at += kBlockBytes) Change(object.data() + at);
      object.DetectChanges();
    }
    ASSERT_EQ(object.mechanism(), "whole");
    const std::string before(object.data(), kPage);
    for (int step = 0; step < 200 && object.mechanism() == "whole"; ++step) {
      Change(object.data() + first_changed);
      object.DetectChanges();
    }
    ASSERT_NE(object.mechanism(), "whole");
    object.Step();
    before.copy(object.data(), kPage);
    object.Step();
  }
}

TEST(Tracker, ScatteredBlocksAreCopiedWithoutTheirPages) {
  TrackedObject object(4096 * kPage, StreamDeltas::kAuto);
  uint64_t copied = 0;
  constexpr uint64_t kChanged = 40;
  for (int step = 0; step < 60; ++step) {
    for (uint64_t i = 0; i < kChanged; ++i) Change(object.data() + i * 100 * kPage);
    copied = object.Step(object.bytes());
  }
  EXPECT_EQ(copied, kChanged * kBlockBytes);
}

constexpr uint64_t kPages = 16;

// A writer to whose object a device writes, too.
class StreamAudit : public ::testing::TestWithParam<StreamDeltas> {
 protected:
  void SetUp() override {
    const io::WatchKind kind =
        GetParam() == StreamDeltas::kWatch ? io::WatchKind::kKernel : io::WatchKind::kProtect;
    if (!io::FirstStoreNs(kind).ok()) GTEST_SKIP() << "pages are not watched here";
    StreamOptions options = SmallLog(4 << 20);
    options.keep_versions = 100;
    options.deltas = GetParam();
    options.audit_every = 3;
    Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(options);
    ASSERT_OK(writer.status());
    writer_ = *std::move(writer);
    ASSERT_OK(writer_->Attach("key", memory_.here(), bytes_, {}));
    ASSERT_OK(writer_->Create("other", 5000).status());
    for (int i = 0; i < 2; ++i) ASSERT_OK(writer_->Snapshot().status());
    ASSERT_NE(*writer_->Tracking("key"), "hash");
  }

  void ExpectNewest(uint64_t version) {
    const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
    ASSERT_OK(reader.status());
    const Result<std::vector<StreamVersion>> versions = (*reader)->Versions("key");
    ASSERT_OK(versions.status());
    EXPECT_EQ(versions->size(), version);
    EXPECT_EQ(versions->front().version, version);
    std::string bytes;
    ASSERT_OK((*reader)->Get("key", 0, &bytes));
    EXPECT_EQ(bytes == std::string(memory_.here(), bytes_), true);
  }

  const uint64_t bytes_ = kPages * kPage;
  TwiceMapped memory_{bytes_};
  StreamMachine machine_;
  std::unique_ptr<StreamWriter> writer_;
};

TEST_P(StreamAudit, ASnapshotStoresNothingIfAWriteWasNotNoted) {
  const StreamStatistics before = writer_->Statistics();
  Change(memory_.here() + kPage);
  Change(memory_.there() + 9 * kPage + 600);
  for (int i = 0; i < 2; ++i) {
    const Status told = writer_->Snapshot().status();
    EXPECT_CODE(told, Code::kCorruption);
    EXPECT_NE(told.message().find("key"), std::string::npos) << told.message();
    EXPECT_NE(told.message().find(std::to_string(9 * kPage + 512)), std::string::npos)
        << told.message();
    EXPECT_CODE(writer_->Put("key").status(), Code::kCorruption);
  }
  EXPECT_EQ(writer_->LastSnapshot(), 2u);
  const StreamStatistics after = writer_->Statistics();
  EXPECT_EQ(after.commits, before.commits);
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  ASSERT_OK(writer_->MarkDirty("key", 9 * kPage + 600, 1));
  const Result<uint64_t> snapshot = writer_->Snapshot();
  ASSERT_OK(snapshot.status());
  EXPECT_EQ(*snapshot, 3u);
  EXPECT_EQ(writer_->Statistics().audits, before.audits + 2);
  EXPECT_GT(writer_->Statistics().deltas, before.deltas);
  ExpectNewest(3);
}

TEST_P(StreamAudit, FindsLateWhatWasNotNotedBeforeASnapshotWithoutOne) {
  ASSERT_OK(writer_->Snapshot().status());
  Change(memory_.there() + 5 * kPage);
  for (int i = 0; i < 2; ++i) ASSERT_OK(writer_->Snapshot().status());
  EXPECT_CODE(writer_->Put("key").status(), Code::kCorruption);
  ASSERT_OK(writer_->Put("other").status());  // now another snapshot would be audited
  ASSERT_OK(writer_->MarkDirty("key", 5 * kPage, 1));
  ASSERT_OK(writer_->Put("key").status());
  ExpectNewest(6);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, StreamAudit,
                         ::testing::Values(StreamDeltas::kWatch, StreamDeltas::kProtect),
                         [](const auto& mechanism) {
                           return mechanism.param == StreamDeltas::kWatch ? "Watch" : "Protect";
                         });

// A log in which each version verifies by itself, and contains the hash of the whole object.
class StreamContent : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(machine_.fs().MakeDirectory("/place"));
    ASSERT_OK(machine_.fs().MakeDirectory("/place/store"));
    Head head;
    head.sequence = head.synced = 1;
    head.boot_id = machine_.fs().BootId();
    ASSERT_OK(
        LogHeap::Create(machine_.fs(), machine_.log_path(), {99, 64 << 10, 0, "store"}, head));
  }

  void Append(uint64_t version, const std::vector<Slice>& pieces, bool delta, uint64_t hash) {
    Result<std::unique_ptr<LogHeap>> heap =
        LogHeap::Open(machine_.fs(), machine_.log_path(), io::MapMode::kReadWrite);
    ASSERT_OK(heap.status());
    ASSERT_OK((*heap)
                  ->Walk(true, [](Position, const Record&,
                                  const std::vector<VersionEntry>&) { return Status(); })
                  .status());
    VersionEntry entry;
    entry.key = "key";
    entry.version = entry.snapshot = version;
    entry.bytes = kBytes;
    entry.delta = delta;
    entry.has_content_hash = true;
    entry.content_hash = hash;
    ASSERT_OK((*heap)->Begin(4096));
    entry.data = (*heap)->cursor();
    entry.checksum = DataSeed();
    for (const Slice piece : pieces) {
      entry.checksum = (*heap)->Append(piece, entry.checksum);
      entry.stored += delta ? AlignUp(piece.size(), kRecordBytes) : piece.size();
    }
    (*heap)->AppendEntry(entry);
    (*heap)->Commit(RecordKind::kCommit, version, 1);
  }

  Status Read(uint64_t version, std::string* bytes) {
    const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
    EXPECT_OK(reader.status());
    return (*reader)->Get("key", version, bytes);
  }

  static constexpr uint64_t kBytes = 1000;
  StreamMachine machine_;
};

TEST_F(StreamContent, AVersionWithTheWrongHashIsNotRead) {
  const std::string first = BytesOf("key", 1, kBytes);
  std::string second = first;
  second.replace(256, 256, BytesOf("key", 2, 256));
  const std::string table = EncodeRuns({{1, 1}});
  const std::vector<Slice> delta = {table, Slice(second).substr(256, 256)};
  Append(1, {first}, false, DataHash(first));
  Append(2, delta, true, DataHash(second));
  Append(3, delta, true, DataHash(first));
  std::string bytes;
  ASSERT_OK(Read(1, &bytes));
  ASSERT_OK(Read(2, &bytes));
  EXPECT_EQ(bytes == second, true);
  EXPECT_CODE(Read(3, &bytes), Code::kCorruption);
  const Result<std::unique_ptr<StreamReader>> reader = machine_.Read();
  ASSERT_OK(reader.status());
  EXPECT_OK((*reader)->View("key", 2).status());
  EXPECT_CODE((*reader)->View("key", 3).status(), Code::kCorruption);
  // Restore refuses such an object, too.
  const Result<std::unique_ptr<StreamWriter>> writer = machine_.Write(SmallLog(64 << 10));
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Create("key", kBytes).status());
  EXPECT_CODE((*writer)->Restore(3), Code::kCorruption);
}

TEST_F(StreamContent, AWholeVersionWithTheWrongHashIsNotRead) {
  const std::string first = BytesOf("key", 1, kBytes);
  Append(1, {first}, false, DataHash(first) + 1);
  std::string bytes;
  EXPECT_CODE(Read(1, &bytes), Code::kCorruption);
}

}  // namespace
}  // namespace quire::stream::tracker_choice_test
