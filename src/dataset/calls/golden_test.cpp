// Datasets of earlier versions are read: golden/<format>, written by 2 ranks. Epochs 1 and 5 have
// keys k0 to k39, of which rank r put those whose number has the parity of r + epoch, in order,
// with v<epoch>.<i>; and both ranks put "both" with rank<r>. Those named -by-last-byte have the
// partitioner ByLastByte.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "dataset/calls/dataset_testing.h"
#include "quire/dataset.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::dataset::golden_test {
namespace {

Truth GoldenTruth(uint64_t epoch) {
  Truth truth;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (uint64_t i = 0; i < 20; ++i) {
      truth["k" + std::to_string(i * 2 + (rank + epoch) % 2)][rank] =
          "v" + std::to_string(epoch) + "." + std::to_string(i);
    }
    truth["both"][rank] = "rank" + std::to_string(rank);
  }
  return truth;
}

int ByLastByte(Slice key, int rank_count) {
  return key.back() % rank_count;
}

// All that was put is found.
void ExpectGolden(const std::string& name, const DatasetReaderOptions& options) {
  SCOPED_TRACE(name);
  // A clone may be a group's; a copy is this user's alone.
  const test::TempDirectory copies;
  const std::string directory = copies / name;
  std::filesystem::copy(std::string(QUIRE_GOLDEN) + "/" + name, directory);
  std::filesystem::permissions(directory, std::filesystem::perms::owner_all);
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  }
  const auto reader = DatasetReader::Open(directory, options);
  ASSERT_OK(reader.status());
  ASSERT_EQ(NumbersOf(**reader), (std::vector<uint64_t>{1, 5}));
  for (const uint64_t epoch : {1u, 5u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectEpoch(**reader, epoch, GoldenTruth(epoch)));
    EXPECT_OK((*reader)->Verify(epoch));
  }
}

TEST(DatasetGolden, AllFormatsAreReadAsTheyWereWritten) {
  for (const char* format : {"base", "pointer", "bloom", "cuckoo", "ribbon"}) {
    ASSERT_NO_FATAL_FAILURE(ExpectGolden(format, {}));
  }
}

// With the function, and without.
TEST(DatasetGolden, DatasetsOfAPartitionerAreReadAsTheyWereWritten) {
  DatasetReaderOptions with;
  with.partitioner = ByLastByte;
  with.partitioner_name = "by the last byte";
  for (const char* name : {"base-by-last-byte", "ribbon-by-last-byte"}) {
    ASSERT_NO_FATAL_FAILURE(ExpectGolden(name, with));
    ASSERT_NO_FATAL_FAILURE(ExpectGolden(name, {}));
  }
}

}  // namespace
}  // namespace quire::dataset::golden_test
