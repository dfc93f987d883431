#include "stream/changes/tracker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/core/random.h"
#include "base/core/sanitizer.h"
#include "io/watch/page_watch.h"
#include "quire/log.h"
#include "stream/changes/tracker_testing.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::tracker_test {
namespace {

const uint64_t kPage = io::PageBytes();

const char* NameOf(StreamDeltas deltas) {
  constexpr const char* kNames[] = {"off", "auto", "hash", "protect", "watch"};
  return kNames[static_cast<size_t>(deltas)];
}

bool IsWatchable(StreamDeltas deltas) {
  if (deltas == StreamDeltas::kWatch) return io::FirstStoreNs(io::WatchKind::kKernel).ok();
  return deltas != StreamDeltas::kProtect || io::FirstStoreNs(io::WatchKind::kProtect).ok();
}

class TrackerTest : public ::testing::TestWithParam<StreamDeltas> {
 protected:
  void SetUp() override {
    if (!IsWatchable(GetParam())) GTEST_SKIP() << "not on this machine: " << NameOf(GetParam());
  }
  // In kAuto the tracker may report more than what changed.
  bool IsExact() const { return GetParam() != StreamDeltas::kAuto; }
};

INSTANTIATE_TEST_SUITE_P(Mechanisms, TrackerTest,
                         ::testing::Values(StreamDeltas::kAuto, StreamDeltas::kHash,
                                           StreamDeltas::kProtect, StreamDeltas::kWatch),
                         [](const auto& deltas) { return NameOf(deltas.param); });

TEST_P(TrackerTest, ReportsAllBlocksFirstAndThenThoseThatChanged) {
  TrackedObject object(20 * kPage + 300, GetParam());
  EXPECT_TRUE(object.DetectChanges().all);
  EXPECT_TRUE(object.DetectChanges().all);
  object.Step();
  if (!IsExact()) return;
  EXPECT_EQ(object.mechanism(), NameOf(GetParam()));
  EXPECT_EQ(object.Step(), 0u);
  Change(object.data());
  Change(object.data() + kBlockBytes - 1);
  Change(object.data() + 7 * kPage + 2 * kBlockBytes);
  Change(object.data() + object.bytes() - 1);
  const Changes changes = object.DetectChanges();
  ASSERT_FALSE(changes.all);
  ASSERT_EQ(changes.runs.size(), 3u);
  EXPECT_EQ(changes.blocks, 3u);
  EXPECT_EQ(changes.runs[0].first, 0u);
  EXPECT_EQ(changes.runs[1].first, (7 * kPage) / kBlockBytes + 2);
  EXPECT_EQ(changes.runs[2].first, (object.bytes() - 1) / kBlockBytes);
  EXPECT_EQ(object.Copy(changes), 2 * kBlockBytes + (object.bytes() - 1) % kBlockBytes + 1);
}

TEST_P(TrackerTest, ForgetsNothingUntilItIsTaken) {
  TrackedObject object(20 * kPage, GetParam());
  object.Step();
  object.Step();
  Change(object.data() + kPage);
  object.DetectChanges();
  Change(object.data() + 3 * kPage);
  Change(object.data() + 19 * kPage);
  object.DetectChanges();
  object.Step();
  // Changes after CommitChanges belong to the next version.
  Change(object.data() + 4 * kPage);
  object.Step();
}

TEST_P(TrackerTest, ObjectsOfAnySizeAreTracked) {
  for (const uint64_t bytes :
       {uint64_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1, kPage - 1, kPage, kPage + 1,
        2 * kPage, 65 * kBlockBytes, 7 * kPage + 77}) {
    TrackedObject object(bytes, GetParam());
    base::Random random(bytes);
    object.Step();
    for (int step = 0; step < 20; ++step) {
      Change(object.data() + (step % 2 == 0 ? bytes - 1 : random.Below(bytes)));
      const uint64_t changed = object.ChangedBlocks();
      const uint64_t told = object.DetectChanges().blocks;
      if (IsExact() && bytes > kBlockBytes) {
        EXPECT_EQ(told, changed) << bytes << " bytes";
      }
      object.Step();
    }
  }
}

TEST_P(TrackerTest, MemoryThatDoesNotBeginAtAPageIsHashed) {
  const io::PageMemory memory = std::move(*io::AllocatePages(10 * kPage));
  TrackedObject object(memory.data() + 8, 9 * kPage, GetParam());
  object.Step();
  for (int step = 0; step < 5; ++step) {
    Change(object.data() + static_cast<uint64_t>(step) * kPage + kPage - 8);
    object.Step();
  }
  if (!IsExact()) return;
  EXPECT_EQ(object.mechanism(), "hash");
}

// System calls write to pages of the object. With kProtect a store must have opened each page
// before, or they would fail.
TEST_P(TrackerTest, SeesWhatSystemCallsWrite) {
  const test::TempDirectory directory;
  const int file = ::open((directory / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const std::string text(2 * kPage + 5, 'z');
  ASSERT_EQ(::pwrite(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  TrackedObject object(40 * kPage, GetParam());
  for (int step = 0; step < 4; ++step) object.Step(object.bytes());
  if (GetParam() == StreamDeltas::kProtect) {
    for (uint64_t page = 0; page < 40; ++page) Change(object.data() + page * kPage);
  }
  ASSERT_EQ(::write(ends[1], "0123456789", 10), 10);
  EXPECT_EQ(::read(ends[0], object.data() + 3 * kPage - 5, 10), 10);
  EXPECT_EQ(::pread(file, object.data() + 20 * kPage + 100, text.size(), 0),
            static_cast<ssize_t>(text.size()));
  object.Step();
  for (const int fd : {file, ends[0], ends[1]}) ::close(fd);
}

TEST_P(TrackerTest, FollowsRandomStepsExactly) {
  // Fewer, because ThreadSanitizer checks every byte of each comparison.
  constexpr int kSteps = QUIRE_THREAD_SANITIZER ? 1000 : 10000;
  constexpr uint64_t kSeed = 11;
  base::Random random(kSeed);
  TrackedObject object(24 * kPage + 1000, GetParam(), true);
  bool stored = true;
  for (int step = 0; step < kSteps; ++step) {
    const uint64_t phase = static_cast<uint64_t>(step) / 500 % 4;  // how much changes
    uint64_t writes = random.Below(phase == 3 ? 200 : 1 + 3 * phase);
    while (writes-- > 0) {
      const uint64_t at = random.Below(object.bytes());
      const uint64_t size = 1 + random.Below(std::min<uint64_t>(object.bytes() - at, 3000));
      const std::string bytes(size, static_cast<char>(random.Below(3)));
      std::memcpy(object.data() + at, bytes.data(), size);
    }
    if (random.OneIn(20)) object.tracker().MarkDirty(random.Below(object.bytes()), 500);
    const uint64_t changed = object.ChangedBlocks();
    const Changes changes = object.DetectChanges();
    // Changes that were reported and not stored are reported again, even if they were undone.
    if (IsExact() && !changes.all && stored) {
      ASSERT_EQ(changes.blocks, changed) << "seed " << kSeed << ", step " << step;
    }
    stored = !random.OneIn(10);
    if (!stored) continue;
    object.Copy(changes);
    ASSERT_TRUE(object.IsCopied()) << "seed " << kSeed << ", step " << step;
    if (random.OneIn(10)) {
      ASSERT_TRUE(object.tracker().Audit().ok());
    }
    object.tracker().CommitChanges(!changes.all, changes.all ? object.bytes() / 2 : 0);
  }
}

TEST_P(TrackerTest, ReportsTheBlocksThatThreadsWroteAtOnce) {
  TrackedObject object(64 * kPage, GetParam());
  for (int step = 0; step < 10; ++step) {
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&object, thread, step] {
        base::Random random(thread + 100 * static_cast<uint64_t>(step));
        for (int i = 0; i < 200; ++i) {
          Change(object.data() + 2 * random.Below(object.bytes() / 2) + thread);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    object.Step();
  }
}

TEST_P(TrackerTest, ManyObjectsComeAndGo) {
  std::vector<std::unique_ptr<TrackedObject>> objects;
  base::Random random(5);
  for (int round = 0; round < 1500; ++round) {
    if (objects.size() < 200) {
      objects.push_back(std::make_unique<TrackedObject>(1 + random.Below(6 * kPage), GetParam()));
    }
    auto& object = objects[random.Below(objects.size())];
    Change(object->data() + random.Below(object->bytes()));
    if (random.OneIn(5)) {
      // After its tracker has gone, memory can be written to as any other.
      object->LetGo();
      Change(object->data());
      object = std::move(objects.back());
      objects.pop_back();
    } else {
      object->Step();
    }
  }
}

TEST_P(TrackerTest, AChildOfForkHarmsNothing) {
  TrackedObject object(30 * kPage, GetParam());
  for (int step = 0; step < 3; ++step) object.Step(100 * object.bytes());
  Change(object.data() + 5 * kPage);
  const pid_t child = ::fork();
  if (child == 0) {
    Change(object.data() + 6 * kPage);
    object.Step();
    Change(object.data() + 7 * kPage);
    object.Step();
    object.LetGo();
    ::_exit(::testing::Test::HasFailure() ? 1 : 42);
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_EQ(WEXITSTATUS(ended), 42);
  Change(object.data() + 8 * kPage);
  object.Step();
  Change(object.data() + 9 * kPage);
  object.Step();
  EXPECT_EQ(object.Step(), 0u);
}

TEST(Tracker, AMechanismThatFailsItsTestGivesWayAndSaysSo) {
  for (const auto& [deltas, kind] : {std::pair(StreamDeltas::kWatch, io::WatchKind::kKernel),
                                     std::pair(StreamDeltas::kProtect, io::WatchKind::kProtect)}) {
    std::vector<std::string> lines;
    SetLogSink([&lines](LogLevel, const std::string& line) { lines.push_back(line); });
    io::FailSelfTestForTests(kind, true);
    TrackedObject object(8 * kPage, deltas);
    io::FailSelfTestForTests(kind, false);
    SetLogSink({});
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("hashed"), std::string::npos) << lines[0];
    EXPECT_EQ(object.mechanism(), "hash");
    object.Step();
    Change(object.data() + kPage);
    EXPECT_EQ(object.Step(), kBlockBytes);
  }
}

TEST(Tracker, AMechanismThatFailsLaterGivesWayAndSaysSo) {
  std::vector<std::string> lines;
  SetLogSink([&lines](LogLevel, const std::string& line) { lines.push_back(line); });
  TrackedObject object(40000 * kPage, StreamDeltas::kProtect);
  object.Step();
  EXPECT_EQ(object.mechanism(), "protect");
  // Each page would become a mapping of its own, beyond the system's limit.
  for (uint64_t page = 0; page < 40000; page += 2) Change(object.data() + page * kPage);
  EXPECT_EQ(object.Step(), object.bytes());
  EXPECT_EQ(object.mechanism(), "hash");
  Change(object.data() + kPage);
  EXPECT_EQ(object.Step(), kBlockBytes);
  SetLogSink({});
  EXPECT_EQ(lines.size(), 1u);
}

}  // namespace
}  // namespace quire::stream::tracker_test
