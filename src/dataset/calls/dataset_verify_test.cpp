// Damage that only a reader that asks for every pair can find: bytes that are as they were written,
// but wrong.
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/hash/hash.h"
#include "dataset/calls/dataset_reader.h"
#include "dataset/calls/dataset_testing.h"
#include "dataset/part/part_writer.h"
#include "io/sim/sim_file_system.h"
#include "runtime/repository.h"
#include "tests/support/status_asserts.h"

namespace quire::dataset::dataset_verify_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kId = 77;
const std::vector<std::string> kKeys = {"a", "b", "c", "d", "e", "f", "g", "h"};

// A dataset of one epoch, made by hand: what each part has, its maker says.
class HandMade {
 public:
  HandMade(DatasetFormat format, uint32_t rank_count) : rank_count_(rank_count) {
    EXPECT_OK(disk_->MakeDirectory("/repository"));
    EXPECT_OK(disk_->MakeDirectory(kDatasetDirectory));
    Write(runtime::kDatasetFile, EncodeDescriptor({format, kId}));
  }

  void AddPart(uint32_t rank, const std::vector<std::string>& keys,
               std::vector<filter::KeyRank> map) {
    PartWriter::Options options;
    options.fs = disk_.get();
    options.directory = kDatasetDirectory;
    options.id = kId;
    options.rank = rank;
    const auto part = PartWriter::Open(options, {});
    ASSERT_OK(part.status());
    ASSERT_OK((*part)->Prepare());
    (*part)->KeepFiles();
    PairBuffer pairs(1 << 20);
    for (const std::string& key : keys) pairs.Add(key, "value", rank);
    if (!pairs.empty()) ASSERT_OK((*part)->AddTable(&pairs, true));
    filter::RankMapOptions map_options;
    map_options.rank_count = rank_count_;
    ASSERT_OK((*part)->AddMap(map_options, &map));
    ASSERT_OK((*part)->Seal(1, kId));
    pair_count_ += keys.size();
  }

  Result<std::unique_ptr<DatasetReader>> Reader() {
    Write(kEpochsName, EncodeEpochs({{1, kId, pair_count_, 0, rank_count_}}, kId));
    return OpenReader(*disk_, kDatasetDirectory, {});
  }
  Status Verify() {
    const auto reader = Reader();
    QUIRE_RETURN_IF_ERROR(reader.status());
    return (*reader)->Verify(1);
  }
  // Changes a byte of the part of `rank`; false: there is none.
  bool Flip(uint32_t rank, size_t at) {
    bool there = false;
    EXPECT_OK(disk_->Damage(PartPath(kDatasetDirectory, rank), [&](std::string* bytes) {
      there = at < bytes->size();
      if (there) (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1);
    }));
    return there;
  }

 private:
  void Write(const std::string& name, const std::string& bytes) {
    std::string path = kDatasetDirectory;
    EXPECT_OK(io::ReplaceFile(*disk_, path.append("/").append(name), bytes));
  }

  const std::unique_ptr<io::SimFileSystem> disk_ = io::NewSimFileSystem();
  const uint32_t rank_count_;
  uint64_t pair_count_ = 0;
};

TEST(DatasetVerify, NamesAPairThatTheMapDoesNotAnswer) {
  std::vector<filter::KeyRank> map;
  for (const std::string& key : kKeys) map.push_back({base::HashKey(key), 0});
  HandMade whole(DatasetFormat::kRibbon, 1);
  ASSERT_NO_FATAL_FAILURE(whole.AddPart(0, kKeys, map));
  EXPECT_OK(whole.Verify());

  HandMade forgetful(DatasetFormat::kRibbon, 1);
  ASSERT_NO_FATAL_FAILURE(forgetful.AddPart(0, kKeys, {}));
  const Status status = forgetful.Verify();
  EXPECT_CODE(status, Code::kCorruption);
  EXPECT_THAT(status.ToString(), HasSubstr(PartPath(kDatasetDirectory, 0)));
}

TEST(DatasetVerify, NamesAPairThatLiesInAnotherPartition) {
  std::vector<std::string> keys[2];
  for (const std::string& key : kKeys) {
    keys[base::OwnerOf(base::HashKey(key), 2)].push_back(key);
  }
  ASSERT_FALSE(keys[0].empty() || keys[1].empty());
  for (const bool right : {true, false}) {
    HandMade dataset(DatasetFormat::kBase, 2);
    ASSERT_NO_FATAL_FAILURE(dataset.AddPart(0, keys[right ? 0 : 1], {}));
    ASSERT_NO_FATAL_FAILURE(dataset.AddPart(1, keys[right ? 1 : 0], {}));
    EXPECT_CODE(dataset.Verify(), right ? Code::kOk : Code::kCorruption);
  }
}

TEST(DatasetVerify, ReadsAgainWhatTheReaderHasReadBefore) {
  std::vector<filter::KeyRank> map;
  for (const std::string& key : kKeys) map.push_back({base::HashKey(key), 0});
  HandMade dataset(DatasetFormat::kRibbon, 1);
  ASSERT_NO_FATAL_FAILURE(dataset.AddPart(0, kKeys, map));
  const auto reader = dataset.Reader();
  ASSERT_OK(reader.status());
  std::vector<DatasetValue> values;
  for (size_t at = 0; dataset.Flip(0, at); ++at) {
    dataset.Flip(0, at);
    for (const std::string& key : kKeys) ASSERT_OK((*reader)->Get(1, key, &values));
    dataset.Flip(0, at);
    ASSERT_EQ((*reader)->Verify(1).code(), Code::kCorruption) << "byte " << at;
    dataset.Flip(0, at);
  }
  EXPECT_OK((*reader)->Verify(1));
}

}  // namespace
}  // namespace quire::dataset::dataset_verify_test
