#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash.h"
#include "io/memory/streaming_stores.h"

namespace quire::io::streaming_stores_hashed_test {
namespace {

constexpr size_t kMarginBytes = 2 * kLineBytes;
constexpr char kUntouched = '#';

std::string RandomBytes(size_t size, uint64_t seed) {
  base::Random random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
  return bytes;
}

// Memory that begins at a line, with margins that must stay unchanged.
class Target {
 public:
  explicit Target(size_t bytes) : memory_(bytes + 2 * kMarginBytes + kLineBytes, kUntouched) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data() + kMarginBytes);
    begin_ = kMarginBytes + (kLineBytes - address % kLineBytes) % kLineBytes;
  }
  char* begin() { return memory_.data() + begin_; }
  // Returns whether `expected` lies `at` bytes behind the beginning, and nothing else has changed.
  bool HasOnly(size_t at, const std::string& expected) const {
    std::string whole(begin_ + at, kUntouched);
    whole += expected;
    whole.append(memory_.size() - whole.size(), kUntouched);
    return std::memcmp(whole.data(), memory_.data(), whole.size()) == 0;
  }

 private:
  std::vector<char> memory_;
  size_t begin_ = 0;
};

void ExpectStoresAndHashes(StoreKind kind, const std::string& bytes, size_t from, uint64_t seed) {
  const size_t size = bytes.size() - from;
  const size_t lines_bytes = (size + kLineBytes - 1) / kLineBytes * kLineBytes;
  Target target(lines_bytes);
  const uint64_t hash = StreamingCopyHashed(target.begin(), bytes.data() + from, size, seed, kind);
  DrainStreamingStores();
  std::string expected = bytes.substr(from);
  ASSERT_EQ(hash, base::Checksum(expected, seed))
      << StoreKindName(kind) << ", " << size << " bytes, from " << from;
  expected.resize(lines_bytes, '\0');
  ASSERT_TRUE(target.HasOnly(0, expected))
      << StoreKindName(kind) << ", " << size << " bytes, from " << from;
}

void ExpectCopiesAndHashes(const std::string& bytes, size_t from, size_t to, uint64_t seed) {
  const std::string expected = bytes.substr(from);
  Target target(to + expected.size());
  const uint64_t hash = CopyHashed(target.begin() + to, bytes.data() + from, expected.size(), seed);
  ASSERT_EQ(hash, base::Checksum(expected, seed)) << expected.size() << " bytes to " << to;
  ASSERT_TRUE(target.HasOnly(to, expected)) << expected.size() << " bytes to " << to;
}

TEST(HashedStores, StoreWholeLinesAndHashWhatAChecksumHashesAtEverySize) {
  const std::string bytes = RandomBytes(4096 + 3, 1);
  for (const StoreKind kind : StoreKinds()) {
    for (size_t size = 0; size <= 4096; ++size) {
      ASSERT_NO_FATAL_FAILURE(ExpectStoresAndHashes(kind, bytes.substr(0, size + 3), 3, size));
    }
  }
}

TEST(HashedStores, TakeTheirBytesFromAnyAddress) {
  const std::string bytes = RandomBytes(20'000, 2);
  for (const StoreKind kind : StoreKinds()) {
    for (size_t from = 0; from <= kLineBytes; ++from) {
      for (const size_t size : {1u, 240u, 241u, 1024u, 1025u, 2048u, 16384u, 16385u, 19'000u}) {
        const std::string part = bytes.substr(0, from + size);
        ASSERT_NO_FATAL_FAILURE(ExpectStoresAndHashes(kind, part, from, 77));
      }
    }
  }
}

TEST(HashedStores, HashUnderEverySeed) {
  const std::string bytes = RandomBytes(5'000, 3);
  base::Random random(4);
  for (const StoreKind kind : StoreKinds()) {
    for (int i = 0; i < 100; ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectStoresAndHashes(kind, bytes, 0, random.Next()));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectStoresAndHashes(kind, bytes, 0, 0));
    ASSERT_NO_FATAL_FAILURE(ExpectStoresAndHashes(kind, bytes, 0, UINT64_MAX));
  }
}

TEST(HashedStores, StoreAndHashWhatIsLarge) {
  base::Random random(5);
  for (const StoreKind kind : StoreKinds()) {
    for (int i = 0; i < 4; ++i) {
      const size_t size = 1'000'000 + random.Below(3'000'000);
      const std::string bytes = RandomBytes(size, size);
      ASSERT_NO_FATAL_FAILURE(ExpectStoresAndHashes(kind, bytes, random.Below(64), size));
    }
  }
}

TEST(HashedCopies, CopyAndHashEverySizeBetweenAnyAddresses) {
  const std::string bytes = RandomBytes(4096 + 64, 6);
  for (size_t size = 0; size <= 4096; ++size) {
    const size_t from = size % 61;
    ASSERT_NO_FATAL_FAILURE(
        ExpectCopiesAndHashes(bytes.substr(0, from + size), from, size % 67, size));
  }
}

void ExpectTheSameInSteps(const std::string& bytes, size_t to, base::Random* random) {
  Target target(to + bytes.size());
  HashedCopy copy(target.begin() + to, bytes.data(), bytes.size(), bytes.size());
  for (size_t end = 0; end < bytes.size(); end += 1 + random->Below(bytes.size() / 2 + 1)) {
    copy.CopyUpTo(end);
    const size_t copied = end - std::min<size_t>(end, 1024);
    ASSERT_EQ(std::memcmp(target.begin() + to, bytes.data(), copied), 0) << end;
  }
  if (random->OneIn(2)) copy.CopyUpTo(bytes.size() + random->Below(100));
  ASSERT_EQ(copy.End(), base::Checksum(bytes, bytes.size())) << bytes.size() << " bytes to " << to;
  ASSERT_TRUE(target.HasOnly(to, bytes)) << bytes.size() << " bytes to " << to;
}

TEST(HashedCopies, CopiesInStepsOfAnySizeAreTheSame) {
  const std::string bytes = RandomBytes(20'000, 8);
  base::Random random(9);
  for (size_t size = 0; size <= 5'000; ++size) {
    ASSERT_NO_FATAL_FAILURE(ExpectTheSameInSteps(bytes.substr(0, size), size % 67, &random));
  }
  const std::string large = RandomBytes((8 << 20) + 5'000, 10);
  for (const size_t to : {0u, 16u, 5u}) {
    for (const size_t size : {size_t{8 << 20}, size_t{(8 << 20) + 1}, large.size()}) {
      ASSERT_NO_FATAL_FAILURE(ExpectTheSameInSteps(large.substr(0, size), to, &random));
    }
  }
}

// Bypasses the caches if the target is a multiple of 16.
TEST(HashedCopies, CopyAndHashWhatIsLargerThanTheCaches) {
  const std::string bytes = RandomBytes((9 << 20) + 12'345, 7);
  for (const size_t to : {0u, 16u, 48u, 1u, 63u}) {
    ASSERT_NO_FATAL_FAILURE(ExpectCopiesAndHashes(bytes, to % 5, to, to));
  }
}

}  // namespace
}  // namespace quire::io::streaming_stores_hashed_test
