// The counts of a dataset's writer and reader by the C interface, on several ranks.
#include <cstdint>
#include <string>

#include "dataset_c_fixture.h"

namespace quire::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

uint64_t CountOf(const quire_dataset_writer* writer, const char* name) {
  uint64_t count = UINT64_MAX;
  EXPECT_EQ(quire_dataset_writer_statistic(writer, name, &count), QUIRE_OK) << name;
  return count;
}

uint64_t CountOf(const quire_dataset_reader* reader, const char* name) {
  uint64_t count = UINT64_MAX;
  EXPECT_EQ(quire_dataset_reader_statistic(reader, name, &count), QUIRE_OK) << name;
  return count;
}

TEST_F(DatasetInC, AWriterReturnsItsCounts) {
  ASSERT_NO_FATAL_FAILURE(Write("ribbon"));
  EXPECT_EQ(CountOf(writer_, "pairs"), kPairs);
  EXPECT_EQ(CountOf(writer_, "pair_bytes"), pair_bytes_);
  EXPECT_GT(CountOf(writer_, "table_bytes"), 0u);
  EXPECT_GT(CountOf(writer_, "map_bytes"), 0u);
  EXPECT_EQ(CountOf(writer_, "refused_batches"), 0u);
  uint64_t received = CountOf(writer_, "received");
  MPI_Allreduce(MPI_IN_PLACE, &received, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(received, kPairs * static_cast<uint64_t>(size_));
  uint64_t count = 77;
  EXPECT_EQ(quire_dataset_writer_statistic(writer_, "pair", &count), QUIRE_NOT_FOUND);
  EXPECT_EQ(quire_dataset_writer_statistic(writer_, nullptr, &count), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_dataset_writer_statistic(nullptr, "pairs", &count), QUIRE_INVALID_ARGUMENT);
  EXPECT_THAT(quire_error_message(), HasSubstr("writer is null"));
  EXPECT_EQ(count, 77u);
  EXPECT_EQ(quire_dataset_writer_statistic(writer_, "pairs", nullptr), QUIRE_INVALID_ARGUMENT);
  char* text = nullptr;
  EXPECT_EQ(quire_dataset_writer_statistics(writer_, nullptr), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_dataset_writer_statistics(nullptr, &text), QUIRE_INVALID_ARGUMENT);
  ASSERT_EQ(quire_dataset_writer_statistics(writer_, &text), QUIRE_OK);
  EXPECT_THAT(text, StartsWith("pairs 51\npair_bytes " + std::to_string(pair_bytes_) + "\n"));
  EXPECT_THAT(text,
              HasSubstr("\nmap_bytes " + std::to_string(CountOf(writer_, "map_bytes")) + "\n"));
  quire_free(text);
  ASSERT_NO_FATAL_FAILURE(Close());
}

TEST_F(DatasetInC, AReaderReturnsItsCounts) {
  if (NodeCount() > 1) GTEST_SKIP() << "a reader sees the storage of one node";
  ASSERT_NO_FATAL_FAILURE(Write("ribbon"));
  ASSERT_NO_FATAL_FAILURE(Read());
  EXPECT_EQ(CountOf(reader_, "queries"), 0u);
  const uint64_t reads = CountOf(reader_, "reads");
  for (const std::string& key : {OwnKey(rank_, 0), OwnKey(rank_, 1), std::string("shared")}) {
    quire_dataset_values* values = nullptr;
    ASSERT_EQ(quire_dataset_reader_get(reader_, kEpoch, key.data(), key.size(), &values), QUIRE_OK);
    quire_dataset_values_destroy(values);
  }
  EXPECT_EQ(CountOf(reader_, "queries"), 3u);
  EXPECT_EQ(CountOf(reader_, "partitions"), 2u + static_cast<uint64_t>(size_));
  EXPECT_EQ(CountOf(reader_, "false_candidates"), 0u);
  EXPECT_GT(CountOf(reader_, "reads"), reads);
  EXPECT_GT(CountOf(reader_, "bytes_read"), CountOf(reader_, "reads"));
  uint64_t count = 77;
  EXPECT_EQ(quire_dataset_reader_statistic(reader_, "pairs", &count), QUIRE_NOT_FOUND);
  EXPECT_EQ(quire_dataset_reader_statistic(reader_, nullptr, &count), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_dataset_reader_statistic(nullptr, "reads", &count), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(count, 77u);
  EXPECT_EQ(quire_dataset_reader_statistic(reader_, "reads", nullptr), QUIRE_INVALID_ARGUMENT);
  char* text = nullptr;
  EXPECT_EQ(quire_dataset_reader_statistics(reader_, nullptr), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_dataset_reader_statistics(nullptr, &text), QUIRE_INVALID_ARGUMENT);
  ASSERT_EQ(quire_dataset_reader_statistics(reader_, &text), QUIRE_OK);
  EXPECT_THAT(text, StartsWith("queries 3\npartitions "));
  quire_free(text);
  ASSERT_NO_FATAL_FAILURE(Close());
}

}  // namespace
}  // namespace quire::test
