// A rank that is stopped for longer than the others wait, anywhere in a collective call of a
// dataset's writer: all ranks return the same code, or those that fail say that it is unknown how
// the epoch ended, and write no more. A writer that is opened then finds it complete or absent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "dataset/calls/dataset_jobs_testing.h"
#include "tests/support/status_asserts.h"
#include "tests/support/test_scale.h"

namespace quire::dataset::slow_ranks_test {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kPairs = 60;
constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kTimeoutMs = 1000;

using Writer = std::unique_ptr<DatasetWriter>;
using All = std::array<Status, kRanks>;

struct Slow {
  int rank;
  uint64_t calls;  // of the transport, until it is stopped
  uint64_t ms;
};

bool Same(const All& all) {
  return std::all_of(all.begin(), all.end(),
                     [&](const Status& one) { return one.code() == all[0].code(); });
}

class SlowDatasetRank : public testing::Test {
 protected:
  runtime::SimRanksOptions Ranks() {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = kRanks;
    ranks.seed = ++seed_;
    ranks.timeout_ms = kTimeoutMs;
    ranks.file_system = [this](int) { return disk_.get(); };
    return ranks;
  }
  static Result<Writer> Open(const std::shared_ptr<runtime::ContextState>& context) {
    return OpenWriter(context, SmallDataset(DatasetFormat::kRibbon));
  }
  // Epoch 2, one after a dataset with epoch 1. `in_open`: the rank is stopped in the opening, else
  // in the end of the epoch.
  void WriteBeside(const Slow& slow, bool in_open) {
    heard_.fill({});
    later_.fill({});
    comm::SimNetwork* network = nullptr;
    runtime::SimRanksOptions ranks = Ranks();
    ranks.mishaps = [&](comm::SimNetwork& made) { network = &made; };
    RunSimRanks(ranks, [&](const std::shared_ptr<runtime::ContextState>& context) {
      const auto at = static_cast<size_t>(context->rank());
      const auto stop = [&] {
        if (context->rank() == slow.rank) network->StopAfter(slow.rank, slow.calls, slow.ms * kMs);
      };
      if (in_open) stop();
      Result<Writer> writer = Open(context);
      heard_[at] = writer.status();
      if (in_open || !writer.ok()) return;
      EXPECT_OK((*writer)->BeginEpoch(2));
      EXPECT_OK(PutAll(**writer, PairsOf(2, context->rank(), kRanks, kPairs)));
      stop();
      heard_[at] = (*writer)->EndEpoch();
      later_[at] = (*writer)->BeginEpoch(3);
    });
  }
  void WriteFirst() {
    disk_ = io::NewSimFileSystem();
    RunSimRanks(Ranks(), [](const std::shared_ptr<runtime::ContextState>& context) {
      const Result<Writer> writer = Open(context);
      ASSERT_OK(writer.status());
      ASSERT_OK(WriteEpoch(**writer, 1, context->rank(), kRanks, kPairs));
      ASSERT_OK((*writer)->Finish());
    });
  }
  void ExpectHeard() {
    if (Same(heard_)) ++agreed_[heard_[0].code()];
    for (size_t i = 0; i < kRanks; ++i) {
      const bool goes_on = Same(heard_) && later_[i].ok();
      if (heard_[i].ok() || goes_on) continue;
      EXPECT_THAT(heard_[i].message(), HasSubstr("is not known before the dataset is opened"));
      EXPECT_FALSE(later_[i].ok());
    }
  }
  // The epoch is complete if it was reported complete on any rank, else complete or absent.
  void ExpectCompleteOrAbsent() {
    const bool ended = std::any_of(heard_.begin(), heard_.end(),
                                   [](const Status& one) { return one.ok(); });
    RunSimRanks(Ranks(), [&](const std::shared_ptr<runtime::ContextState>& context) {
      const Result<Writer> writer = Open(context);
      ASSERT_OK(writer.status());
      const std::optional<uint64_t> last = (*writer)->LastEpoch();
      EXPECT_TRUE(last == 2u || (last == 1u && !ended)) << last.value_or(0);
      EXPECT_OK(WriteEpoch(**writer, 3, context->rank(), kRanks, kPairs));
      EXPECT_OK((*writer)->Finish());
    });
  }
  // Stops each rank in turn, anywhere in the call or soon after it.
  void TryAll(uint64_t calls_max, const std::function<void(const Slow& slow)>& work) {
    base::Random random(test::FirstSeed());
    const int64_t tries = std::max<int64_t>(15, test::ScaledCount(60));
    for (const uint64_t ms : {kTimeoutMs + 100, kTimeoutMs * 5 / 2, kTimeoutMs * 5}) {
      for (int rank = 0; rank < kRanks; ++rank) {
        for (int64_t i = 0; i < tries && !HasFailure(); ++i) {
          const Slow slow{rank, 1 + random.Below(calls_max), ms};
          SCOPED_TRACE("rank " + std::to_string(rank) + " stopped for " + std::to_string(ms) +
                       " ms after " + std::to_string(slow.calls) + " calls");
          WriteFirst();
          work(slow);
        }
      }
    }
    EXPECT_GT(agreed_[Code::kOk], 0);
    EXPECT_GT(agreed_[Code::kTimedOut], 0);
  }

  std::unique_ptr<io::SimFileSystem> disk_;
  uint64_t seed_ = test::FirstSeed();
  All heard_;
  All later_;  // the results of a call after it
  std::map<Code, int> agreed_;
};

TEST_F(SlowDatasetRank, AnEpochEndsTheSameOnAllRanksOrIsUnknownWhereItFailed) {
  TryAll(200, [this](const Slow& slow) {
    WriteBeside(slow, false);
    ExpectHeard();
    ExpectCompleteOrAbsent();
  });
}

TEST_F(SlowDatasetRank, AnOpenTakesNothingAndAnotherOneFollows) {
  TryAll(100, [this](const Slow& slow) {
    WriteBeside(slow, true);
    if (Same(heard_)) ++agreed_[heard_[0].code()];
    heard_.fill(Status(Code::kTimedOut));  // no epoch was written
    ExpectCompleteOrAbsent();
  });
}

}  // namespace
}  // namespace quire::dataset::slow_ranks_test
