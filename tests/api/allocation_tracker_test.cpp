// The n-th allocation fails while a tracker looks for changes, for n = 0, 1, ...: afterwards it
// reports every change, at once and from then on.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "failing_allocations.h"
#include "stream/changes/tracker_testing.h"

namespace quire::stream {
namespace {

constexpr uint64_t kPages = 600;

// Pages that do not touch: each is a run of its own.
void ChangeScattered(TrackedObject& object, uint64_t offset) {
  for (uint64_t page = 0; page < kPages; page += 2) {
    Change(object.data() + page * io::PageBytes() + offset);
  }
}

// Whether the n-th allocation failed.
bool LooksWithout(int64_t n, StreamDeltas deltas, bool audited) {
  TrackedObject object(kPages * io::PageBytes(), deltas, audited);
  for (int step = 0; step < 4; ++step) {
    Change(object.data() + 100);
    object.Step();
  }
  const std::string before(object.data(), object.bytes());
  ChangeScattered(object, 300);
  test::FailAllocation(n);
  const Result<Changes> starved = object.tracker().DetectChanges();
  const bool failed = test::AllocationFailed();
  EXPECT_TRUE(starved.ok() || starved.status().code() == Code::kOutOfMemory);
  ChangeScattered(object, 700);
  object.Step();
  // Those changes are taken back, page by page, and made again.
  for (uint64_t page = 0; page < kPages; ++page) {
    const uint64_t at = page * io::PageBytes();
    before.copy(object.data() + at, io::PageBytes(), at);
    if (page % 100 == 99) object.Step();
  }
  ChangeScattered(object, 900);
  object.Step();
  return failed;
}

TEST(Tracker, LosesNothingWhereThereIsNoMemoryToLookForIt) {
  for (const StreamDeltas deltas :
       {StreamDeltas::kAuto, StreamDeltas::kHash, StreamDeltas::kWatch, StreamDeltas::kProtect}) {
    for (const bool audited : {false, true}) {
      int64_t n = 0;
      while (LooksWithout(n, deltas, audited) && !testing::Test::HasFailure()) ++n;
      ASSERT_FALSE(testing::Test::HasFailure())
          << "mechanism " << static_cast<int>(deltas) << ", allocation " << n;
      EXPECT_GT(n, 0) << "nothing was allocated";
    }
  }
}

// Destructors let go of it; and its pages may be tracked again.
TEST(Tracker, LetsGoWithoutMemory) {
  for (const StreamDeltas deltas :
       {StreamDeltas::kAuto, StreamDeltas::kHash, StreamDeltas::kWatch, StreamDeltas::kProtect}) {
    TrackedObject object(kPages * io::PageBytes(), deltas);
    for (int step = 0; step < 4; ++step) {  // a watch begins with the second look
      Change(object.data() + 100);
      object.Step();
    }
    test::FailAllAllocations();
    object.LetGo();
    test::AllowAllocations();
    ChangeScattered(object, 300);
    TrackedObject again(object.data(), object.bytes(), deltas);
    ChangeScattered(again, 500);
    again.Step();
  }
}

}  // namespace
}  // namespace quire::stream
