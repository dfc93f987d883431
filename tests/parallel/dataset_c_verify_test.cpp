// The verification of a dataset by the C interface, on several ranks.
#include <fstream>
#include <string>

#include "dataset_c_fixture.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

TEST_F(DatasetInC, VerifyNamesTheFileThatIsDamaged) {
  if (NodeCount() > 1) GTEST_SKIP() << "a reader sees the storage of one node";
  ASSERT_NO_FATAL_FAILURE(Write("ribbon"));
  ASSERT_NO_FATAL_FAILURE(Read());
  EXPECT_EQ(quire_dataset_reader_verify(reader_, kEpoch), QUIRE_OK) << quire_error_message();
  EXPECT_EQ(quire_dataset_reader_verify(reader_, kEpoch + 1), QUIRE_NOT_FOUND);
  EXPECT_THAT(quire_error_message(), HasSubstr("no complete epoch 8"));
  EXPECT_EQ(quire_dataset_reader_verify(nullptr, kEpoch), QUIRE_INVALID_ARGUMENT);
  EXPECT_THAT(quire_error_message(), HasSubstr("reader is null"));
  quire_dataset_reader_destroy(reader_);
  MPI_Barrier(MPI_COMM_WORLD);
  const std::string damaged = dataset_ + "/part-" + std::to_string(size_ - 1);
  if (rank_ == 0) {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    const int byte = file.get();
    EXPECT_TRUE(file.seekp(0).put(static_cast<char>(byte ^ 1)).flush());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_NO_FATAL_FAILURE(Read());
  EXPECT_EQ(quire_dataset_reader_verify(reader_, kEpoch), QUIRE_CORRUPTION);
  EXPECT_THAT(quire_error_message(), HasSubstr(damaged));
  ASSERT_NO_FATAL_FAILURE(Close());
}

}  // namespace
}  // namespace quire::test
