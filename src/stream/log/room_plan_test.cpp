#include "stream/log/room_plan.h"

#include <gtest/gtest.h>

namespace quire::stream::room_plan_test {
namespace {

constexpr uint64_t kCapacity = 1 << 20;

// Whether the version of a commit is needed, is needed until the new one comes, or is not.
enum class Is { kNeeded, kReplaced, kGone };
struct Commit {
  uint64_t bytes;
  Is is = Is::kNeeded;
};

// A log that begins at the file's beginning.
RoomQuestion Log(const std::vector<Commit>& commits, uint64_t put) {
  RoomQuestion question;
  question.capacity = kCapacity;
  for (const Commit& commit : commits) {
    LogPiece piece;
    piece.bytes = commit.bytes;
    const NeededEntry needed = {commit.bytes - kRecordBytes, commit.is == Is::kNeeded};
    if (commit.is != Is::kGone) piece.needed.push_back(needed);
    question.pieces.push_back(std::move(piece));
    question.tail += commit.bytes;
  }
  question.put.push_back({put - kRecordBytes});
  return question;
}

TEST(RoomPlan, NothingIsMovedWhereThereIsRoom) {
  EXPECT_EQ(MovesFor(Log({}, kCapacity)), 0u);
  EXPECT_EQ(MovesFor(Log({{100'032}}, 64'000)), 0u);
  EXPECT_EQ(MovesFor(Log({{900'032, Is::kGone}}, 900'032)), 0u);
}

TEST(RoomPlan, NeededVersionsAreMovedBeforeTheirRoomIsTaken) {
  // Small versions behind a large one that is needed: one more fits, but then there is no room to
  // move the large one.
  const uint64_t large = 300'032;
  const uint64_t rest = kCapacity - 2 * large - 64;
  const auto log = Log({{large}, {rest - 256, Is::kGone}, {128, Is::kReplaced}}, 128);
  EXPECT_EQ(MovesFor(log), 0u);
  const auto fuller = Log({{large}, {rest - 128, Is::kGone}, {128, Is::kReplaced}}, 128);
  EXPECT_EQ(MovesFor(fuller), 1u);
}

TEST(RoomPlan, AnotherOrderMakesRoomWhereThisOneDoesNot) {
  // The first is needed and cannot be moved after the new commit; the second becomes unneeded.
  constexpr uint64_t kKiB = 1024;
  RoomQuestion question = Log({{200 * kKiB}, {300 * kKiB, Is::kReplaced}}, 340 * kKiB);
  question.head += 700 * kKiB;
  question.tail += 700 * kKiB;
  EXPECT_EQ(MovesFor(question), 1u);
}

TEST(RoomPlan, ACommitThatLeavesNoRoomToMoveIsRefused) {
  const uint64_t large = 400'000;  // fits twice beside the rest, and no more
  EXPECT_EQ(MovesFor(Log({{large}, {64'000}}, large)), std::nullopt);
  EXPECT_EQ(MovesFor(Log({{large, Is::kReplaced}}, large)), 0u);
}

TEST(RoomPlan, ALargeVersionThatFreesDeltasKeepsItsRoom) {
  RoomQuestion question = Log({{300'032}, {64'000}}, 64'000);
  EXPECT_EQ(MovesFor(question), 0u);
  question.reserve = 700'032;
  EXPECT_EQ(MovesFor(question), std::nullopt);
}

// Each attempt copies the log, so that trying all of them takes minutes if many versions are kept.
// The last is large, so that the head moves over all others before no room is found.
TEST(RoomPlan, AFullLogIsReportedWithoutTryingItsOrders) {
  constexpr uint64_t kSmall = 1024;
  constexpr uint64_t kLarge = 64 * kSmall;
  std::vector<Commit> kept((kCapacity - 2 * kLarge) / kSmall - 1, Commit{kSmall});
  kept.push_back({kLarge});
  uint64_t tried = 0;
  EXPECT_EQ(MovesFor(Log(kept, kSmall), &tried), 0u);
  EXPECT_EQ(tried, 1u);
  kept.push_back({kSmall});
  EXPECT_EQ(MovesFor(Log(kept, kSmall), &tried), std::nullopt);
  EXPECT_EQ(tried, 0u);
}

TEST(RoomPlan, AnOrderInWhichTheFirstCannotMoveIsNotTried) {
  const uint64_t large = 300'032;
  const uint64_t rest = kCapacity - 2 * large - 64;
  uint64_t tried = 0;
  EXPECT_EQ(MovesFor(Log({{large}, {rest, Is::kGone}}, 128), &tried), 1u);
  EXPECT_EQ(tried, 1u);
}

// Returns the sizes of the entries that are moved before the file's end.
std::vector<uint64_t> BeforeEnd(std::vector<NeededEntry> entries, uint64_t rest) {
  const size_t count =
      FillFileEnd(entries, rest, [](const NeededEntry& entry) { return entry.bytes; });
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < count; ++i) sizes.push_back(entries[i].bytes);
  return sizes;
}

TEST(RoomPlan, MovedVersionsFillTheEndOfTheFile) {
  using Sizes = std::vector<uint64_t>;
  const std::vector<NeededEntry> entries = {{640}, {1280}, {704}};
  EXPECT_EQ(CommitOf(entries), 2688u);
  EXPECT_EQ(BeforeEnd(entries, 2688), (Sizes{640, 1280, 704}));
  EXPECT_EQ(BeforeEnd(entries, 2624), (Sizes{640, 1280}));
  EXPECT_EQ(BeforeEnd(entries, 1920), (Sizes{640, 704}));  // the second does not fit
  EXPECT_EQ(BeforeEnd(entries, 768), (Sizes{640}));
  EXPECT_EQ(BeforeEnd(entries, 640), (Sizes{}));
}

// Found by a random model: if the large version alone leaves the end of the file unused, there is
// no room to move the third commit.
TEST(RoomPlan, SmallVersionsGoBeforeTheEndOfTheFile) {
  RoomQuestion question;
  question.capacity = 1 << 20;
  question.head = 110'208;
  question.tail = 1'003'264;
  question.pieces = {{110'208, {{4224}, {100'160}, {256}, {4352}, {1152}}},
                     {10'240, {{10'176}}},
                     {119'232, {{4224}, {100'160}, {256}, {4352}, {10'176}}},
                     {422'080, {{10'176}}},
                     {220'992, {{87'872}, {256}}},
                     {8896, {{6080}}},
                     {1408, {{192}, {1152}}}};
  EXPECT_TRUE(MovesFor(question).has_value());
}

}  // namespace
}  // namespace quire::stream::room_plan_test
