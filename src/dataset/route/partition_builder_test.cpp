#include "dataset/route/partition_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "io/sim/sim_file_system.h"
#include "runtime/sim_ranks_testing.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::partition_builder_test {
namespace {

using testing::HasSubstr;

constexpr uint32_t kRank = 5;
constexpr uint32_t kSize = 16;  // a grid of four columns
constexpr uint32_t kPasser = 9;
constexpr uint16_t kOwn = 1;     // the mark of what the passer put itself
constexpr uint16_t kNobody = 8;  // there are two rows from which it can have come

// How large the map or the table of what it has taken in `body` is [bytes].
uint64_t RunCollector(DatasetFormat format, const std::function<void(PartitionBuilder&)>& body) {
  uint64_t bytes = 0;
  const auto disk = io::NewSimFileSystem();
  runtime::RunSimRanks(
      {.rank_count = 1}, [&](const std::shared_ptr<runtime::ContextState>& context) {
        ASSERT_OK(io::MakeDurableDirectory(*disk, "/d"));
        PartWriter::Options options;
        options.fs = disk.get();
        options.directory = "/d";
        options.rank = kRank;
        auto part = PartWriter::Open(options, {});
        ASSERT_OK(part.status());
        ASSERT_OK((*part)->Prepare());
        (*part)->KeepFiles();
        const auto queue = std::make_shared<SerialQueue>(nullptr, context->exchange.get());
        DatasetOptions dataset;
        dataset.format = format;
        PartitionBuilder builder(dataset, Route(kRank, kSize, 2), queue.get(), part->get());
        body(builder);
        builder.Finish();
        EXPECT_OK(queue->Drain());
        bytes = (*part)->map_bytes() + (*part)->table_bytes();
      });
  return bytes;
}

std::string Marked(uint16_t mark, const std::string& entry) {
  std::string bytes;
  base::PutFixed(&bytes, mark);
  return bytes + entry;
}

std::string EntryOf(DatasetFormat format, uint64_t number = 7) {
  const std::string key = "key" + std::to_string(number);
  std::string bytes;
  PutEntry(format, {base::HashKey(key), key, "value"}, &bytes);
  return bytes;
}

// The first `size` bytes of a batch, with nothing behind them that may be read.
Status TakeCut(PartitionBuilder& builder, bool marked, const std::string& batch, size_t size) {
  const std::vector<char> bytes(batch.data(), batch.data() + size);
  return builder.Take(kPasser, marked, Slice(bytes.data(), bytes.size()));
}

TEST(PartitionBuilder, TakesHashesOfTheRanksThatTheMarksName) {
  RunCollector(DatasetFormat::kRibbon, [](PartitionBuilder& builder) {
    const std::string entry = EntryOf(DatasetFormat::kRibbon);
    EXPECT_OK(builder.Take(kPasser, true, Marked(kOwn, entry) + Marked(kOwn + 1, entry)));
    EXPECT_EQ(builder.received(), 2u);
    EXPECT_OK(builder.Take(kPasser, false, entry + entry + entry));
    EXPECT_EQ(builder.received(), 5u);
    EXPECT_OK(builder.Take(kPasser, true, ""));
    EXPECT_EQ(builder.received(), 5u);
  });
}

// If a batch is cut off anywhere, or an entry has the mark of no rank, even the last entry, nothing
// of it is taken.
TEST(PartitionBuilder, TakesNothingOfABatchThatHoldsNoEntries) {
  for (const DatasetFormat format : {DatasetFormat::kRibbon, DatasetFormat::kBase}) {
    RunCollector(format, [&](PartitionBuilder& builder) {
      const std::string entry = EntryOf(format);
      const std::string plain = entry + entry;
      const std::string marked = Marked(kOwn, entry) + Marked(kOwn, entry);
      for (size_t size = 1; size < marked.size(); ++size) {
        if (size == marked.size() / 2) continue;
        const Status told = TakeCut(builder, true, marked, size);
        EXPECT_CODE(told, Code::kCorruption) << size;
        EXPECT_THAT(told.message(), HasSubstr("rank 9 sent"));
      }
      for (size_t size = 1; size < plain.size(); ++size) {
        if (size == plain.size() / 2) continue;
        EXPECT_CODE(TakeCut(builder, false, plain, size), Code::kCorruption);
      }
      EXPECT_CODE(builder.Take(kPasser, true, Marked(kOwn, entry) + Marked(kNobody, entry)),
                  Code::kCorruption);
      EXPECT_EQ(builder.received(), 0u);
      EXPECT_OK(builder.Take(kPasser, true, marked));
      EXPECT_EQ(builder.received(), 2u);
    });
  }
}

TEST(PartitionBuilder, KeepsNothingOfABatchWhoseLastEntryIsNone) {
  for (const DatasetFormat format : {DatasetFormat::kRibbon, DatasetFormat::kBase}) {
    const std::string good = Marked(kOwn, EntryOf(format));
    std::string bad;
    for (uint64_t i = 0; i < 1000; ++i) bad += Marked(kOwn, EntryOf(format, i));
    bad += Marked(kNobody, EntryOf(format));
    const uint64_t bytes = RunCollector(
        format, [&](PartitionBuilder& builder) { EXPECT_OK(builder.Take(kPasser, true, good)); });
    EXPECT_GT(bytes, 0u);
    EXPECT_EQ(bytes, RunCollector(format, [&](PartitionBuilder& builder) {
                EXPECT_CODE(builder.Take(kPasser, true, bad), Code::kCorruption);
                EXPECT_OK(builder.Take(kPasser, true, good));
              }));
  }
}

}  // namespace
}  // namespace quire::dataset::partition_builder_test
