#include "dataset/calls/dataset_testing.h"

#include <gtest/gtest.h>

#include "base/core/random.h"
#include "dataset/calls/dataset_writer.h"

namespace quire::dataset {
namespace {

testing::AssertionResult Fine(const Status& status) {
  return status.ok() ? testing::AssertionSuccess()
                     : testing::AssertionFailure() << status.ToString();
}

// A share of the keys of an epoch is put by every rank.
std::string KeyOf(base::Random* random, int rank, int i) {
  const std::string number = std::to_string(i);
  switch (random->Below(8)) {
    case 0:
      return "shared" + number;
    case 1:
      return std::string("nul\0", 4) + std::to_string(rank) + std::string(1, '\0') + number;
    case 2:
      return std::to_string(rank) + "again" + std::to_string(i / 4);
    default:
      return std::to_string(rank) + "own" + number;
  }
}

}  // namespace

Result<std::unique_ptr<DatasetWriter>> OpenWriter(
    const std::shared_ptr<runtime::ContextState>& context, const DatasetOptions& options,
    const std::string& name) {
  QUIRE_RETURN_IF_ERROR(io::MakeDurableDirectory(*context->fs, context->repository));
  return NewDatasetWriter(context, name, options);
}

Pairs PairsOf(uint64_t epoch, int rank, int rank_count, int count, size_t value_bytes_max) {
  base::Random random(epoch * 1000 + static_cast<uint64_t>(rank * 100 + rank_count));
  Pairs pairs;
  for (int i = 0; i < count; ++i) {
    std::string value(random.Below(value_bytes_max + 1), static_cast<char>('a' + i % 26));
    if (!value.empty()) value[0] = static_cast<char>(epoch);
    pairs.emplace_back(KeyOf(&random, rank, i), std::move(value));
  }
  return pairs;
}

Truth TruthOf(uint64_t epoch, int rank_count, int count, size_t value_bytes_max) {
  Truth truth;
  for (int rank = 0; rank < rank_count; ++rank) {
    for (auto& [key, value] : PairsOf(epoch, rank, rank_count, count, value_bytes_max)) {
      truth[key][static_cast<uint32_t>(rank)] = value;
    }
  }
  return truth;
}

Status PutAll(DatasetWriter& writer, const Pairs& pairs) {
  for (const auto& [key, value] : pairs) QUIRE_RETURN_IF_ERROR(writer.Put(key, value));
  return Status();
}

Status WriteEpoch(DatasetWriter& writer, uint64_t epoch, int rank, int rank_count, int count) {
  QUIRE_RETURN_IF_ERROR(writer.BeginEpoch(epoch));
  const Status put = PutAll(writer, PairsOf(epoch, rank, rank_count, count));
  const Status ended = writer.EndEpoch();
  return ended.ok() ? put : ended;
}

namespace {

void ExpectValues(const std::string& key, const std::vector<DatasetValue>& values,
                  const std::map<uint32_t, std::string>& truth, uint64_t epoch) {
  ASSERT_EQ(values.size(), truth.size()) << key;
  auto expected = truth.begin();
  for (const DatasetValue& value : values) {
    ASSERT_EQ(value.epoch, epoch);
    ASSERT_EQ(value.rank, expected->first) << key;
    ASSERT_EQ(value.value, expected->second) << key;
    ++expected;
  }
}

void ExpectScan(const DatasetReader& reader, uint64_t epoch, const Truth& truth) {
  Truth scanned;
  const auto scan = reader.Scan(epoch);
  for (; scan->Valid(); scan->Next()) {
    auto& values = scanned[std::string(scan->key())];
    ASSERT_TRUE(values.emplace(scan->rank(), scan->value()).second) << scan->key();
  }
  ASSERT_TRUE(Fine(scan->status()));
  ASSERT_EQ(scanned, truth);
}

}  // namespace

void ExpectEpoch(const DatasetReader& reader, uint64_t epoch, const Truth& truth) {
  std::vector<Slice> keys;
  std::vector<DatasetValue> values;
  for (const auto& [key, expected] : truth) {
    ASSERT_TRUE(Fine(reader.Get(epoch, key, &values))) << key;
    ASSERT_NO_FATAL_FAILURE(ExpectValues(key, values, expected, epoch));
    keys.push_back(key);
  }
  for (int i = 0; i < 100; ++i) {
    const Status status = reader.Get(epoch, "absent" + std::to_string(i), &values);
    ASSERT_EQ(status.code(), Code::kNotFound) << status.ToString();
    ASSERT_TRUE(values.empty());
  }
  std::vector<std::vector<DatasetValue>> many;
  keys.push_back("absent");
  ASSERT_TRUE(Fine(reader.GetMany(epoch, keys, &many)));
  ASSERT_EQ(many.size(), keys.size());
  ASSERT_TRUE(many.back().empty());
  size_t next = 0;
  for (const auto& [key, expected] : truth) {
    ASSERT_NO_FATAL_FAILURE(ExpectValues(key, many[next++], expected, epoch));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectScan(reader, epoch, truth));
}

std::vector<uint64_t> NumbersOf(const DatasetReader& reader) {
  std::vector<uint64_t> numbers;
  for (const DatasetEpoch& epoch : reader.Epochs()) numbers.push_back(epoch.number);
  return numbers;
}

}  // namespace quire::dataset
