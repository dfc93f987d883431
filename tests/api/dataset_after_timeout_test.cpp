// Datasets after a collective call that timed out on all ranks: their calls match, and have the
// same effect as without the timeout. Also a call of a dataset that times out itself: all ranks
// receive kTimedOut, and epochs that they write afterwards are whole.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataset/calls/dataset_reader.h"
#include "kv/database/sim_cluster_testing.h"
#include "kv/database/timeouts_testing.h"
#include "quire/dataset.h"
#include "tests/support/status_asserts.h"

namespace quire::kv {
namespace {

constexpr int kRanks = 2;
constexpr int kPairs = 50;

std::string KeyOf(int rank, int i) {
  return std::to_string(rank) + "/" + std::to_string(i);
}

// One rank's writer of the dataset "set".
class Writing {
 public:
  explicit Writing(Context& context) : context_(context) {}

  Status Open() {
    writer_.reset();
    DatasetOptions options;
    options.table_bytes = 1 << 20;
    options.partition_bytes = 1 << 20;
    QUIRE_ASSIGN_OR_RETURN(writer_, DatasetWriter::Open(context_, "set", options));
    return Status();
  }
  Status Begin(uint64_t epoch) { return writer_->BeginEpoch(epoch); }
  Status Put(uint64_t epoch) {
    for (int i = 0; i < kPairs; ++i) {
      QUIRE_RETURN_IF_ERROR(writer_->Put(KeyOf(context_.rank(), i), std::to_string(epoch)));
    }
    return Status();
  }
  Status End() { return writer_->EndEpoch(); }
  Status Finish() { return writer_->Finish(); }
  bool HasEpoch(uint64_t epoch) const { return writer_->LastEpoch() == epoch; }
  // An epoch from its begin to its end.
  Status Write(uint64_t epoch) {
    QUIRE_RETURN_IF_ERROR(Begin(epoch));
    QUIRE_RETURN_IF_ERROR(Put(epoch));
    return End();
  }

 private:
  Context& context_;
  std::unique_ptr<DatasetWriter> writer_;
};

class DatasetAfterATimeout : public testing::Test {
 protected:
  using Program = std::function<void(int rank, Context& context, Writing& writing)>;
  void Run(const Program& program) {
    cluster_.Run([&](int rank, Context& context) {
      Writing writing(context);
      program(rank, context, writing);
    });
  }
  // Both ranks make the call, one of them so late that the other has given it up.
  void MakeLate(int rank, Context& context, const std::function<Status()>& call) {
    ASSERT_NO_FATAL_FAILURE(StopRankOne(cluster_, rank, context));
    acknowledged_[static_cast<size_t>(rank)] = call();
  }
  // Expects that all ranks received the same code.
  void ExpectTimedOut() const {
    for (const Status& heard : acknowledged_)
      EXPECT_CODE(heard, Code::kTimedOut) << heard.ToString();
  }
  // The epochs that there are, each with all of its pairs.
  std::vector<uint64_t> WholeEpochs() {
    std::vector<uint64_t> numbers;
    const auto reader = dataset::OpenReader(cluster_.disk(0), "/repository/set", {});
    EXPECT_OK(reader.status());
    if (!reader.ok()) return numbers;
    for (const DatasetEpoch& epoch : (*reader)->Epochs()) {
      numbers.push_back(epoch.number);
      EXPECT_EQ(epoch.pair_count, uint64_t{kRanks * kPairs}) << epoch.number;
      EXPECT_OK((*reader)->Verify(epoch.number));
    }
    return numbers;
  }

  SimCluster cluster_{{}};
  std::array<Status, kRanks> acknowledged_;
};

TEST_F(DatasetAfterATimeout, EachCallDoesWhatItDoesWithoutIt) {
  Run([&](int rank, Context& context, Writing& writing) {
    const std::vector<std::function<Status()>> calls = {
        [&] { return writing.Open(); }, [&] { return writing.Begin(1); },
        [&] { return writing.Put(1); }, [&] { return writing.End(); },
        [&] { return writing.Write(2); }, [&] { return writing.Finish(); }};
    for (const auto& call : calls) {
      ASSERT_OK(context.Barrier());  // not all calls wait for the other rank
      ASSERT_NO_FATAL_FAILURE(LetACallTimeOut(cluster_, rank, context));
      ASSERT_OK(call());
    }
  });
  EXPECT_EQ(WholeEpochs(), (std::vector<uint64_t>{1, 2}));
}

TEST_F(DatasetAfterATimeout, AnOpenThatTimedOutWorksAgain) {
  Run([&](int rank, Context& context, Writing& writing) {
    MakeLate(rank, context, [&] { return writing.Open(); });
    ASSERT_OK(writing.Open());
    ASSERT_OK(writing.Write(1));
    ASSERT_OK(writing.Finish());
  });
  ExpectTimedOut();
  EXPECT_EQ(WholeEpochs(), std::vector<uint64_t>{1});
}

TEST_F(DatasetAfterATimeout, AnEpochWhoseEndTimedOutIsCompleteOrAbsent) {
  std::array<bool, kRanks> complete = {};
  Run([&](int rank, Context& context, Writing& writing) {
    ASSERT_OK(writing.Open());
    ASSERT_OK(writing.Write(1));
    ASSERT_OK(writing.Begin(2));
    ASSERT_OK(writing.Put(2));
    MakeLate(rank, context, [&] { return writing.End(); });
    ASSERT_OK(context.Barrier());
    const Status refused = writing.Begin(3);  // until it is known what became of it
    EXPECT_NE(refused.message().find("opened again"), std::string::npos) << refused.ToString();
    ASSERT_OK(writing.Open());
    complete[static_cast<size_t>(rank)] = writing.HasEpoch(2);
    ASSERT_OK(writing.Write(3));
    ASSERT_OK(writing.Finish());
  });
  ExpectTimedOut();
  EXPECT_EQ(complete[0], complete[1]);
  EXPECT_EQ(WholeEpochs(), complete[0] ? (std::vector<uint64_t>{1, 2, 3})
                                       : (std::vector<uint64_t>{1, 3}));
}

TEST_F(DatasetAfterATimeout, AFinishThatTimedOutLosesNothing) {
  Run([&](int rank, Context& context, Writing& writing) {
    ASSERT_OK(writing.Open());
    ASSERT_OK(writing.Write(1));
    MakeLate(rank, context, [&] { return writing.Finish(); });
    ASSERT_OK(context.Barrier());
    ASSERT_OK(writing.Open());
    ASSERT_OK(writing.Write(2));
    ASSERT_OK(writing.Finish());
  });
  ExpectTimedOut();
  EXPECT_EQ(WholeEpochs(), (std::vector<uint64_t>{1, 2}));
}

}  // namespace
}  // namespace quire::kv
