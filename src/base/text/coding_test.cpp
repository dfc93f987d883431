#include "base/text/coding.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/core/random.h"

namespace quire::base::coding_test {
namespace {

std::vector<uint64_t> InterestingNumbers() {
  std::vector<uint64_t> numbers = {0};
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    numbers.insert(numbers.end(), {power - 1, power, power + 1});
  }
  numbers.push_back(std::numeric_limits<uint64_t>::max());
  return numbers;
}

TEST(Coding, FixedNumbersAreLittleEndian) {
  std::string bytes;
  PutFixed<uint32_t>(&bytes, 0x04030201);
  PutFixed<uint16_t>(&bytes, 0x0605);
  EXPECT_EQ(bytes, "\x01\x02\x03\x04\x05\x06");
  char stored[8];
  StoreLe<uint64_t>(stored, 0x0807060504030201);
  EXPECT_EQ(Slice(stored, 8), "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(LoadLe<uint64_t>(stored), 0x0807060504030201u);
}

TEST(Coding, VarintsHavePinnedBytes) {
  std::string bytes;
  PutVarint(&bytes, 0);
  PutVarint(&bytes, 127);
  PutVarint(&bytes, 128);
  PutVarint(&bytes, 300);
  EXPECT_EQ(bytes, std::string("\x00\x7f\x80\x01\xac\x02", 6));
}

TEST(Coding, VarintsComeBackAndCountTheirBytes) {
  for (const uint64_t number : InterestingNumbers()) {
    std::string bytes;
    PutVarint(&bytes, number);
    EXPECT_EQ(static_cast<int>(bytes.size()), VarintSize(number)) << number;
    uint64_t decoded = ~number;
    const char* end = bytes.data() + bytes.size();
    EXPECT_EQ(DecodeVarint(bytes.data(), end, &decoded), end) << number;
    EXPECT_EQ(decoded, number);
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      EXPECT_EQ(DecodeVarint(bytes.data(), bytes.data() + cut, &decoded), nullptr) << number;
    }
  }
}

TEST(Coding, VarintsOfMoreThan64BitsAreRefused) {
  uint64_t decoded = 0;
  const std::string eleven = std::string(10, '\x80') + '\x01';
  EXPECT_EQ(DecodeVarint(eleven.data(), eleven.data() + eleven.size(), &decoded), nullptr);
  const std::string bit_64 = std::string(9, '\x80') + '\x02';
  EXPECT_EQ(DecodeVarint(bit_64.data(), bit_64.data() + bit_64.size(), &decoded), nullptr);
}

TEST(ByteReader, ReadsWhatWasPut) {
  std::string bytes;
  PutFixed<uint16_t>(&bytes, 7);
  PutVarint(&bytes, 1u << 20);
  PutLengthPrefixed(&bytes, Slice("a\0b", 3));
  PutLengthPrefixed(&bytes, "");
  bytes += "tail";
  ByteReader reader(bytes);
  uint16_t fixed = 0;
  uint64_t varint = 0;
  Slice first, second, tail;
  EXPECT_TRUE(reader.Fixed(&fixed) && reader.Varint(&varint) && reader.LengthPrefixed(&first) &&
              reader.LengthPrefixed(&second));
  EXPECT_EQ(fixed, 7);
  EXPECT_EQ(varint, 1u << 20);
  EXPECT_EQ(first, Slice("a\0b", 3));
  EXPECT_EQ(second, "");
  EXPECT_EQ(reader.rest(), "tail");
  EXPECT_TRUE(reader.Bytes(4, &tail));
  EXPECT_EQ(tail, "tail");
  EXPECT_TRUE(reader.ok());
}

TEST(ByteReader, StaysFailedAfterTheFirstFailure) {
  ByteReader reader("abc");
  uint64_t number = 0;
  EXPECT_FALSE(reader.Fixed(&number));
  EXPECT_FALSE(reader.ok());
  Slice bytes;
  EXPECT_FALSE(reader.Bytes(1, &bytes));
  EXPECT_FALSE(reader.Varint(&number));
  EXPECT_FALSE(reader.LengthPrefixed(&bytes));
  EXPECT_EQ(reader.rest(), "abc");
}

TEST(ByteReader, RefusesLengthsBeyondTheEnd) {
  for (const uint64_t length : {uint64_t{4}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::string bytes;
    PutVarint(&bytes, length);
    bytes += "abc";
    ByteReader reader(bytes);
    Slice value;
    EXPECT_FALSE(reader.LengthPrefixed(&value)) << length;
  }
}

TEST(KeyPrefix, OrdersLikeTheFirstEightBytes) {
  EXPECT_EQ(KeyPrefix(""), 0u);
  EXPECT_EQ(KeyPrefix("a"), 0x6100000000000000u);
  EXPECT_EQ(KeyPrefix("abcdefgh"), 0x6162636465666768u);
  EXPECT_EQ(KeyPrefix("abcdefghi"), 0x6162636465666768u);
  Random random(7);
  for (int i = 0; i < 10000; ++i) {
    std::string keys[2];
    for (std::string& key : keys) {
      for (uint64_t size = random.Below(12); size > 0; --size) {
        key += static_cast<char>(random.OneIn(3) ? 0 : random.Below(256));
      }
    }
    const uint64_t a = KeyPrefix(keys[0]);
    const uint64_t b = KeyPrefix(keys[1]);
    if (a != b) {
      EXPECT_EQ(a < b, keys[0] < keys[1]);
    }
  }
}

}  // namespace
}  // namespace quire::base::coding_test
