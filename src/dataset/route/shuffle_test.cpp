#include "dataset/route/shuffle.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "dataset/calls/dataset_testing.h"
#include "runtime/channel.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::shuffle_test {
namespace {

constexpr int kEntries = 500;
constexpr uint64_t kAttempt = 7;

// A rank's end of the shuffle, without a part: its buffers hold all that comes.
class End {
 public:
  End(const std::shared_ptr<runtime::ContextState>& context, uint32_t grid_ranks_min)
      : options_(SmallDataset(DatasetFormat::kRibbon)),
        route_(static_cast<uint32_t>(context->rank()), static_cast<uint32_t>(context->size()),
               grid_ranks_min),
        queue_(std::make_shared<SerialQueue>(nullptr, context->exchange.get())),
        builder_(options_, route_, queue_.get(), nullptr),
        shuffle_({context, 1, options_, kAttempt}, route_, &builder_) {}

  Status AddSome() {
    for (int i = 0; i < kEntries; ++i) {
      const std::string key = "key" + std::to_string(i);
      const uint64_t hash = base::HashKey(key);
      bool waited = false;
      QUIRE_RETURN_IF_ERROR(shuffle_.Add({hash, key, {}}, route_.PartitionOf(hash), &waited));
    }
    return Status();
  }
  Shuffle& shuffle() { return shuffle_; }
  uint64_t received() const { return builder_.received(); }

 private:
  const DatasetOptions options_;
  const Route route_;
  const std::shared_ptr<SerialQueue> queue_;
  PartitionBuilder builder_;
  Shuffle shuffle_;
};

// Straight, or over the grid; by turns, or by threads.
class Shuffles : public testing::TestWithParam<std::tuple<uint32_t, bool>> {
 protected:
  void Run(int rank_count,
           const std::function<void(const std::shared_ptr<runtime::ContextState>&)>& body) {
    runtime::SimRanksOptions ranks;
    ranks.rank_count = rank_count;
    ranks.by_turns = std::get<1>(GetParam());
    RunSimRanks(ranks, body);
  }
  uint32_t grid_ranks_min() const { return std::get<0>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Routes, Shuffles,
                         testing::Combine(testing::Values(1024u, 2u), testing::Bool()));

Status FlushAll(const std::shared_ptr<runtime::ContextState>& context, Shuffle* shuffle) {
  PatientBarrier barrier(context, context->TakeNumber(), "a test");
  return shuffle->Flush(&barrier, Status());
}

// Batches that other ranks have already sent for an attempt that this rank has given up count
// neither in that attempt nor in the next.
TEST_P(Shuffles, NothingOfAnAttemptIsTakenAfterItWasDropped) {
  for (const int size : {2, 4}) {
    Run(size, [&](const std::shared_ptr<runtime::ContextState>& context) {
      End end(context, grid_ranks_min());
      if (context->rank() == 1) end.shuffle().Drop();
      ASSERT_OK(context->exchange->Barrier());
      if (context->rank() != 1) ASSERT_OK(end.AddSome());
      ASSERT_OK(context->exchange->Agree(FlushAll(context, &end.shuffle())));
      EXPECT_EQ(end.received() > 0, context->rank() != 1);
      const uint64_t before = end.received();
      end.shuffle().Drop();
      ASSERT_OK(context->exchange->Barrier());
      EXPECT_EQ(end.received(), before);
      end.shuffle().BeginAttempt(kAttempt + 1);
      ASSERT_OK(context->exchange->Barrier());
      ASSERT_OK(end.AddSome());
      ASSERT_OK(context->exchange->Agree(FlushAll(context, &end.shuffle())));
      const Result<uint64_t> sum = context->exchange->Sum(end.received() - before);
      ASSERT_OK(sum.status());
      EXPECT_EQ(*sum, static_cast<uint64_t>(size * kEntries));
    });
  }
}

// A damaged rank's entry must not take entries of other ranks to a place where no reader looks for
// them.
TEST_P(Shuffles, AnEntryOfAnotherColumnIsNotPassedOn) {
  constexpr int kSize = 4;
  constexpr uint32_t kGrid = 2;
  constexpr uint32_t kFirstHop = 1;
  Run(kSize, [&](const std::shared_ptr<runtime::ContextState>& context) {
    End end(context, kGrid);
    ASSERT_OK(context->exchange->Barrier());
    if (context->rank() == 0) {
      const Route route(1, kSize, kGrid);
      Code told[2] = {};  // by column
      for (uint64_t i = 0; i < 20; ++i) {
        const uint64_t hash = base::HashKey("key" + std::to_string(i));
        std::string batch;
        base::PutFixed(&batch, kAttempt);
        base::PutFixed(&batch, hash);
        std::string answer;
        const auto call = context->exchange->Start(1, runtime::Channel(1, kFirstHop), {}, batch);
        ASSERT_OK(call.status());
        told[route.PartitionOf(hash) % 2] = context->exchange->Wait(*call, &answer).code();
      }
      EXPECT_EQ(told[0], Code::kCorruption);
      EXPECT_EQ(told[1], Code::kOk);
    }
    ASSERT_OK(context->exchange->Agree(FlushAll(context, &end.shuffle())));
    const Result<uint64_t> sum = context->exchange->Sum(end.received());
    ASSERT_OK(sum.status());
    EXPECT_GT(*sum, 0u);
    EXPECT_LT(*sum, 20u);
  });
}

}  // namespace
}  // namespace quire::dataset::shuffle_test
