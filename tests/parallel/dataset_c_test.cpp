// Many keys of a dataset at once by the C interface, on several ranks.
#include <cstdint>
#include <string>
#include <vector>

#include "dataset_c_fixture.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

// Keys as C takes them.
struct Keys {
  explicit Keys(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      pointers.push_back(key.data());
      sizes.push_back(key.size());
    }
  }
  std::vector<const void*> pointers;
  std::vector<size_t> sizes;
};

int GetMany(const quire_dataset_reader* reader, uint64_t epoch, const Keys& keys,
            quire_dataset_values** values) {
  return quire_dataset_reader_get_many(reader, epoch, keys.sizes.size(), keys.pointers.data(),
                                       keys.sizes.data(), values);
}

// The values, each of `rank_of` of its place, and frees them.
template <typename RankOf, typename ValueOf>
void ExpectValues(quire_dataset_values* values, size_t count, const RankOf& rank_of,
                  const ValueOf& value_of) {
  ASSERT_EQ(quire_dataset_values_count(values), count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t epoch = 0;
    uint32_t rank = 0;
    quire_bytes value{};
    ASSERT_EQ(quire_dataset_values_at(values, i, &epoch, &rank, &value), QUIRE_OK);
    EXPECT_EQ(epoch, kEpoch);
    EXPECT_EQ(rank, static_cast<uint32_t>(rank_of(i)));
    EXPECT_EQ(Slice(static_cast<const char*>(value.data), value.size), Slice(value_of(i)));
  }
  quire_dataset_values_destroy(values);
}

TEST_F(DatasetInC, ManyKeysHaveTheirValuesAtTheirPlaces) {
  if (NodeCount() > 1) GTEST_SKIP() << "a reader sees the storage of one node";
  for (const char* const format : {"base", "pointer", "ribbon"}) {
    ASSERT_NO_FATAL_FAILURE(Write(format));
    ASSERT_NO_FATAL_FAILURE(Read());
    std::vector<std::string> wanted = {"shared", "nobody's", "shared"};
    for (int rank = 0; rank < size_; ++rank) {
      for (int i = 0; i < kOwnPairs; ++i) wanted.push_back(OwnKey(rank, i));
    }
    std::vector<quire_dataset_values*> values(wanted.size(), nullptr);
    ASSERT_EQ(GetMany(reader_, kEpoch, Keys(wanted), values.data()), QUIRE_OK)
        << quire_error_message();
    EXPECT_EQ(values[1], nullptr);
    for (const size_t at : {0, 2}) {
      ASSERT_NO_FATAL_FAILURE(ExpectValues(
          values[at], static_cast<size_t>(size_), [](size_t i) { return i; },
          [](size_t i) { return SharedValue(static_cast<int>(i)); }));
    }
    for (int rank = 0; rank < size_; ++rank) {
      for (int i = 0; i < kOwnPairs; ++i) {
        ASSERT_NO_FATAL_FAILURE(ExpectValues(
            values[static_cast<size_t>(3 + rank * kOwnPairs + i)], 1, [&](size_t) { return rank; },
            [&](size_t) { return OwnValue(rank, i); }));
      }
    }
    ASSERT_NO_FATAL_FAILURE(Close());
  }
}

TEST_F(DatasetInC, ManyKeysThatCannotBeGotLeaveTheValuesAlone) {
  if (NodeCount() > 1) GTEST_SKIP() << "a reader sees the storage of one node";
  ASSERT_NO_FATAL_FAILURE(Write("cuckoo"));
  ASSERT_NO_FATAL_FAILURE(Read());
  const Keys keys({"shared", OwnKey(rank_, 0)});
  int anything = 0;
  auto* const before = reinterpret_cast<quire_dataset_values*>(&anything);
  quire_dataset_values* values[] = {before, before};
  EXPECT_EQ(GetMany(reader_, kEpoch + 1, keys, values), QUIRE_NOT_FOUND);
  EXPECT_THAT(quire_error_message(), HasSubstr("no complete epoch 8"));
  const auto refused = [&](const quire_dataset_reader* reader, const void* const* key,
                           const size_t* sizes, quire_dataset_values** to) {
    return quire_dataset_reader_get_many(reader, kEpoch, 2, key, sizes, to);
  };
  const void* const* const pointers = keys.pointers.data();
  EXPECT_EQ(refused(nullptr, pointers, keys.sizes.data(), values), QUIRE_INVALID_ARGUMENT);
  EXPECT_THAT(quire_error_message(), HasSubstr("reader is null"));
  EXPECT_EQ(refused(reader_, nullptr, keys.sizes.data(), values), QUIRE_INVALID_ARGUMENT);
  EXPECT_THAT(quire_error_message(), HasSubstr("keys is null"));
  EXPECT_EQ(refused(reader_, pointers, nullptr, values), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(refused(reader_, pointers, keys.sizes.data(), nullptr), QUIRE_INVALID_ARGUMENT);
  EXPECT_THAT(quire_error_message(), HasSubstr("values is null"));
  EXPECT_THAT(values, testing::Each(before));
  // No keys are no failure, but no epoch is.
  EXPECT_EQ(quire_dataset_reader_get_many(reader_, kEpoch, 0, nullptr, nullptr, nullptr), QUIRE_OK);
  EXPECT_EQ(quire_dataset_reader_get_many(reader_, kEpoch + 1, 0, nullptr, nullptr, nullptr),
            QUIRE_NOT_FOUND);
  ASSERT_NO_FATAL_FAILURE(Close());
}

}  // namespace
}  // namespace quire::test
