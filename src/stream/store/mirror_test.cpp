#include "stream/store/mirror.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "stream/log/delta.h"
#include "stream/store/local_reader.h"
#include "stream/store/part.h"
#include "stream/store/stream_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::stream::mirror_test {
namespace {

constexpr uint64_t kSize = 3000;

class MirrorTest : public ::testing::Test {
 protected:
  void SetUp() override { OpenMirror(); }
  void OpenMirror() {
    mirror_.reset();
    auto mirror = Mirror::Open(machine_.fs(), "/place", "store", 0, SmallLog(32 << 10));
    ASSERT_OK(mirror.status());
    mirror_ = std::move(*mirror);
  }
  // Fetches as the daemon does, from a store that was made at `time_ns`.
  Status Fetch(uint64_t version, const std::string& bytes, uint64_t time_ns) {
    StreamVersion told;
    told.version = version;
    told.snapshot = version;
    told.bytes = bytes.size();
    told.unix_time_ns = time_ns;
    QUIRE_ASSIGN_OR_RETURN(const Reservation room, mirror_->Reserve("T", told));
    std::copy(bytes.begin(), bytes.end(), room.bytes);
    return mirror_->Commit(DataHash(bytes));
  }
  std::string Got(uint64_t version) {
    auto reader = machine_.Read();
    std::string bytes;
    const Status status = reader.ok() ? (*reader)->Get("T", version, &bytes) : reader.status();
    return status.ok() ? bytes : status.ToString();
  }

  StreamMachine machine_;
  std::unique_ptr<Mirror> mirror_;
};

TEST_F(MirrorTest, HasTheVersionsThatWereFetchedUnderTheirNumbers) {
  for (const uint64_t version : {7, 3, 5}) {
    ASSERT_OK(Fetch(version, BytesOf("T", version, kSize), version));
  }
  for (const uint64_t version : {3, 5, 7}) {
    EXPECT_TRUE(Got(version) == BytesOf("T", version, kSize)) << version;
  }
  auto reader = machine_.Read();
  EXPECT_EQ((*reader)->Get("T", 4, [](size_t) { return nullptr; }).code(), Code::kNotFound);
}

TEST_F(MirrorTest, ReplacesAVersionOfAnotherStoreAlsoWhileItIsViewed) {
  const std::string old_bytes = BytesOf("old", 5, kSize);
  ASSERT_OK(Fetch(5, old_bytes, 1000));
  auto reader = machine_.Read();
  ASSERT_OK(reader.status());
  auto view = (*reader)->View("T", 5);
  ASSERT_OK(view.status());
  for (uint64_t time_ns = 2000; time_ns < 2003; ++time_ns) {
    const std::string bytes = BytesOf("new", time_ns, kSize);
    ASSERT_OK(Fetch(5, bytes, time_ns));
    EXPECT_TRUE(Got(5) == bytes) << time_ns;
  }
  EXPECT_EQ((*reader)->Versions("T")->size(), 1u);
  EXPECT_TRUE((*view)->bytes() == old_bytes);
  EXPECT_OK((*view)->Verify());
  // A mirror that is opened again finds the newer one in its log, too.
  OpenMirror();
  EXPECT_TRUE(Got(5) == BytesOf("new", 2002, kSize));
}

// The source is intact, so the versions of the mirror are fetched again.
TEST_F(MirrorTest, IsRecreatedIfItIsDamaged) {
  ASSERT_OK(Fetch(1, BytesOf("T", 1, kSize), 1));
  ASSERT_OK(Fetch(2, BytesOf("T", 2, kSize), 2));
  auto reader = machine_.Read();
  ASSERT_OK(reader.status());
  auto view = (*reader)->View("T", 2);
  ASSERT_OK(view.status());
  mirror_.reset();
  ASSERT_OK(machine_.fs().Damage(
      machine_.log_path(), [](std::string* log) { (*log)[kLogHeaderBytes + 20] ^= 1; }));
  ASSERT_NO_FATAL_FAILURE(OpenMirror());
  EXPECT_TRUE((*view)->bytes() == BytesOf("T", 2, kSize)) << "a view goes on";
  ASSERT_OK(Fetch(1, BytesOf("T", 1, kSize), 1));
  EXPECT_TRUE(Got(1) == BytesOf("T", 1, kSize));
}

TEST_F(MirrorTest, ReusesTheRoomOfVersionsWithoutViewsForLong) {
  for (uint64_t i = 1; i <= 200; ++i) {
    const uint64_t version = 1 + i % 7;
    const std::string bytes = BytesOf("T", i, kSize);
    ASSERT_OK(Fetch(version, bytes, i));
    ASSERT_TRUE(Got(version) == bytes) << i;
  }
}

// Does what a mirror does, with an index of 16 objects and room in the log for about 100.
TEST_F(MirrorTest, ForgetsTheObjectsThatWereFetchedLongestAgo) {
  constexpr int kObjects = 1000;
  StreamOptions options = SmallLog(32 << 10);
  options.keep_versions = 0;
  auto part = Part::Open(machine_.fs(), {"/place", "many", 0}, options, true);
  ASSERT_OK(part.status());
  base::Random random(3);
  std::map<std::string, std::string> fetched;
  std::vector<std::string> order;
  for (uint64_t i = 1; i <= kObjects; ++i) {
    const bool again = !order.empty() && random.OneIn(3);
    const std::string key = again ? order[order.size() - 1 - random.Below(std::min<size_t>(
                                                                  order.size(), 30))]
                                  : std::to_string(i) + std::string(random.Below(1000), 'k');
    const std::string bytes = BytesOf(key, i, 1 + random.Below(300));
    VersionEntry entry;
    entry.key = key;
    entry.version = entry.snapshot = entry.unix_time_ns = i;
    entry.bytes = bytes.size();
    const auto room = (*part)->Reserve(entry);
    ASSERT_OK(room.status());
    std::copy(bytes.begin(), bytes.end(), room->bytes);
    ASSERT_OK((*part)->CommitReserved(DataHash(bytes)));
    fetched[key] = bytes;
    std::erase(order, key);
    order.push_back(key);
    auto reader = OpenLocalReader(machine_.fs(), "/place", "many", 0);
    ASSERT_OK(reader.status());
    for (size_t back = 0; back < std::min<size_t>(order.size(), 20); ++back) {
      const std::string& known = order[order.size() - 1 - back];
      std::string got;
      const Status status = (*reader)->Get(known, 0, &got);
      ASSERT_TRUE(status.ok() ? got == fetched[known] : status.code() == Code::kNotFound)
          << status.ToString();
      ASSERT_TRUE(status.ok() || back >= 8 || known.size() > 300) << back << " at " << i;
    }
  }
  part->reset();
  part = Part::Open(machine_.fs(), {"/place", "many", 0}, options, true);
  ASSERT_OK(part.status());
  auto reader = OpenLocalReader(machine_.fs(), "/place", "many", 0);
  std::string got;
  ASSERT_OK((*reader)->Get(order.back(), 0, &got));
  EXPECT_TRUE(got == fetched[order.back()]);
}

TEST_F(MirrorTest, AnObjectThatIsViewedIsNotForgotten) {
  StreamOptions options = SmallLog(32 << 10);
  options.keep_versions = 0;
  auto part = Part::Open(machine_.fs(), {"/place", "many", 0}, options, true);
  ASSERT_OK(part.status());
  std::unique_ptr<StreamReader> reader;
  std::unique_ptr<StreamView> view;
  Code code = Code::kOk;
  const auto fetch = [&](uint64_t i) {
    VersionEntry entry;
    entry.key = std::to_string(i);
    entry.version = entry.snapshot = i;
    entry.bytes = 1;
    const auto room = (*part)->Reserve(entry);
    code = room.status().code();
    if (!room.ok()) return;
    room->bytes[0] = static_cast<char>('a' + i % 26);
    ASSERT_OK((*part)->CommitReserved(DataHash(Slice(room->bytes, 1))));
  };
  fetch(1);
  reader = *OpenLocalReader(machine_.fs(), "/place", "many", 0);
  view = *reader->View("1", 0);
  for (uint64_t i = 2; i <= 40 && code == Code::kOk; ++i) fetch(i);
  EXPECT_EQ(code, Code::kNoSpace) << "all that came later lies behind what is viewed";
  EXPECT_EQ(view->bytes(), "b");
  view.reset();
  fetch(41);
  EXPECT_EQ(code, Code::kOk);
  std::string got;
  EXPECT_OK(reader->Get("41", 0, &got));
}

TEST(HashOf, IsWhatTheWriterStoredAndNotWhatLiesThereNow) {
  StreamMachine machine;
  StreamOptions options = SmallLog(64 << 10);
  options.keep_versions = 3;
  options.full_every = 3;
  options.deltas = StreamDeltas::kHash;
  auto writer = machine.Write(options);
  ASSERT_OK(writer.status());
  char* const memory = *(*writer)->Create("T", kSize);
  for (uint64_t version = 1; version <= 3; ++version) {
    Compute(memory, "T", version, kSize);
    ASSERT_OK((*writer)->Put("T").status());
  }
  ASSERT_OK((*writer)->Finish());
  auto reader = machine.Read();
  ASSERT_OK(reader.status());
  int whole = 0;
  for (uint64_t version = 1; version <= 3; ++version) {
    auto view = (*reader)->View("T", version);
    ASSERT_OK(view.status());
    whole += (*view)->in_place() ? 1 : 0;
    EXPECT_EQ(HashOf(**view), DataHash(BytesOf("T", version, kSize))) << version;
  }
  EXPECT_TRUE(whole > 0 && whole < 3) << "whole ones and deltas: " << whole;
  ASSERT_OK(machine.fs().Damage(machine.log_path(), [](std::string* bytes) {
    const size_t at = bytes->find(BytesOf("T", 1, kSize));
    ASSERT_NE(at, std::string::npos);
    (*bytes)[at + 100] ^= 1;
  }));
  auto after = machine.Read();
  ASSERT_OK(after.status());
  auto damaged = (*after)->View("T", 1);
  ASSERT_OK(damaged.status());
  EXPECT_EQ(HashOf(**damaged), DataHash(BytesOf("T", 1, kSize)));
  EXPECT_NE(HashOf(**damaged), DataHash((*damaged)->bytes()));
}

}  // namespace
}  // namespace quire::stream::mirror_test
