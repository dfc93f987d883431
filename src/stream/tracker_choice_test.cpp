// What kAuto chooses, what an audit finds, and what MarkDirty tells.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/random.h"
#include "io/page_watch.h"
#include "stream/tracker_testing.h"

namespace quire::stream {
namespace {

const uint64_t kPage = io::PageBytes();

TEST(Tracker, AnAuditFindsWhatNobodyNotedAndMarkDirtyTellsIt) {
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
    Changes changes = object.Find();
    EXPECT_EQ(changes.blocks, 0u) << object.mechanism();
    const Status audit = object.tracker().Audit();
    EXPECT_EQ(audit.code(), Code::kCorruption);
    const std::string offset = std::to_string(9 * kPage + 512);
    EXPECT_NE(audit.message().find(offset), std::string::npos) << audit.message();
    object.tracker().MarkDirty(9 * kPage + 600, 1);
    changes = object.Find();
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
  EXPECT_EQ(object.Find().blocks, 0u);
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

TEST(Tracker, WhereEverythingChangesNothingIsTracked) {
  TrackedObject object(1024 * kPage, StreamDeltas::kAuto);
  for (int step = 0; step < 100; ++step) {
    for (uint64_t at = 0; at < object.bytes(); at += kBlockBytes) Change(object.data() + at);
    EXPECT_EQ(object.Step(object.bytes()), object.bytes());
    ASSERT_EQ(object.mechanism(), "whole") << "step " << step;
  }
}

TEST(Tracker, WhereLittleChangesLittleIsTold) {
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

TEST(Tracker, ScatteredBlocksAreToldWithoutTheirPages) {
  TrackedObject object(4096 * kPage, StreamDeltas::kAuto);
  uint64_t copied = 0;
  constexpr uint64_t kChanged = 40;
  for (int step = 0; step < 60; ++step) {
    for (uint64_t i = 0; i < kChanged; ++i) Change(object.data() + i * 100 * kPage);
    copied = object.Step(object.bytes());
  }
  EXPECT_EQ(copied, kChanged * kBlockBytes);
}

}  // namespace
}  // namespace quire::stream
