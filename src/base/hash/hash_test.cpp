#include "base/hash/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/core/random.h"
#include "base/hash/hash_long.h"

namespace quire::base::hash_test {
namespace {

std::string Pattern(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 7 + 3);
  return bytes;
}

// These stand in files and choose owners: a change of any breaks stored data.
// docs/format/checksum.md
TEST(HashKey, ValuesArePinned) {
  EXPECT_EQ(HashKey(""), 0x2D06800538D394C2u);
  EXPECT_EQ(HashKey("a"), 0xE6C632B61E964E1Fu);
  EXPECT_EQ(HashKey("quire"), 0x9BA9C72DBD0AD0ECu);
  EXPECT_EQ(HashKey("lambda phage"), 0x5BC5A28FC53492B3u);
  EXPECT_EQ(HashKey(Slice("\0", 1)), 0xC44BDFF4074EECDBu);
  EXPECT_EQ(HashKey(std::string(64, 'x')), 0x269CB9F6ACF81244u);
  EXPECT_EQ(HashKey(std::string(1000, 'y')), 0x6A7DF51DF515DBABu);
}

TEST(HashBlocks, AreTheHashesOfKeysOnAnyMachine) {
  const std::string bytes = Pattern(5 * kHashedBlockBytes + 1);
  std::array<uint64_t, 5> hashes;
  std::array<uint64_t, 5> anywhere;
  HashBlocks(bytes.data() + 1, hashes.size(), hashes.data());
  kLongHashAny.blocks(bytes.data() + 1, anywhere.size(), anywhere.data());
  EXPECT_EQ(hashes, anywhere);
  for (size_t i = 0; i < hashes.size(); ++i) {
    EXPECT_EQ(hashes[i], HashKey(Slice(bytes.data() + 1 + i * kHashedBlockBytes,
                                       kHashedBlockBytes)));
  }
}

TEST(OwnerOf, ValuesArePinned) {
  EXPECT_EQ(OwnerOf(HashKey("a"), 4), 2);
  EXPECT_EQ(OwnerOf(HashKey("quire"), 4), 2);
  EXPECT_EQ(OwnerOf(HashKey("quire"), 1000), 541);
  EXPECT_EQ(OwnerOf(HashKey("lambda phage"), 1), 0);
}

TEST(OwnerOf, IsEvenAndLeavesTheHashesOfEachOwnerEven) {
  for (const int ranks : {2, 3, 4, 64, 1000}) {
    constexpr int kKeys = 1 << 20;
    constexpr uint64_t kSlots = 64;
    std::vector<int> owners(static_cast<size_t>(ranks));
    // The keys of rank 0, counted by the lowest and by the highest bits of their hashes.
    std::array<int, kSlots> low{}, high{};
    for (int i = 0; i < kKeys; ++i) {
      const uint64_t hash = HashKey(std::to_string(i));
      const int owner = OwnerOf(hash, ranks);
      ASSERT_TRUE(owner >= 0 && owner < ranks);
      ++owners[static_cast<size_t>(owner)];
      if (owner != 0) continue;
      ++low[hash % kSlots];
      ++high[hash >> 58];
    }
    const auto even = [](const auto& counts, double expected) {
      for (const int count : counts) {
        EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
      }
    };
    even(owners, static_cast<double>(kKeys) / ranks);
    even(low, static_cast<double>(kKeys) / ranks / kSlots);
    even(high, static_cast<double>(kKeys) / ranks / kSlots);
  }
}

TEST(ChecksumSeed, ValuesArePinned) {
  EXPECT_EQ(ChecksumSeed(ChecksumKind::kLogRecord, 1, 4096), 0xF9C1129B6AD43C6Fu);
  EXPECT_EQ(ChecksumSeed(ChecksumKind::kDataBlock, 7, 0), 0x20D7C00DC5597B92u);
  EXPECT_EQ(ChecksumSeed(ChecksumKind::kFooter, 0, 0), 0x7A94E2EB123B0746u);
  EXPECT_EQ(ChecksumSeed(ChecksumKind::kValue, ~uint64_t{0}, ~uint64_t{0}), 0x73378D2375745580u);
}

TEST(ChecksumSeed, DiffersByKindFileAndOffset) {
  std::set<uint64_t> seeds;
  for (uint8_t kind = 1; kind <= 10; ++kind) {
    for (uint64_t file = 0; file < 30; ++file) {
      for (uint64_t offset = 0; offset < 300; ++offset) {
        seeds.insert(ChecksumSeed(static_cast<ChecksumKind>(kind), file, offset * 8));
      }
    }
  }
  EXPECT_EQ(seeds.size(), 10u * 30 * 300);
}

TEST(Checksum, ValuesArePinned) {
  const uint64_t seed = ChecksumSeed(ChecksumKind::kLogRecord, 1, 4096);
  EXPECT_EQ(Checksum("quire", seed), 0x7E16589D992F7A2Du);
  const std::vector<std::pair<size_t, uint64_t>> pinned = {
      {0, 0x3C5486FD4407AC58},    {16, 0x4B32B6BD2BE8BDB1},  {17, 0xBD2FBD26556F7438},
      {128, 0x41E1A4597BC6CDEB},  {129, 0x11FAE8FD0EA86F6D}, {240, 0x17947EA616ADFB8E},
      {241, 0xD5246AAAFCBE991B},  {1024, 0x6BFDB0833F8230C6}, {1025, 0xFAD65A5975A21FE6},
      {4096, 0x06C378ABDA29287A},
  };
  for (const auto& [size, checksum] : pinned) {
    EXPECT_EQ(Checksum(Pattern(size), seed), checksum) << size;
  }
}

TEST(Checksum, FlippingAnyBitChangesIt) {
  for (const size_t size : {1u, 24u, 250u}) {
    std::string bytes = Pattern(size);
    const uint64_t checksum = Checksum(bytes, 5);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_NE(Checksum(bytes, 5), checksum) << size << " " << bit;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    }
    EXPECT_NE(Checksum(bytes, 6), checksum);
  }
}

TEST(Checksum, PartsApartGiveTheSameAsTheWhole) {
  const std::vector<size_t> head_sizes = {0, 1, 16, 100};
  const std::vector<size_t> key_sizes = {0, 1, 16, 139, 140, 255, 1000, 65536};
  const std::vector<size_t> value_sizes = {0, 1, 100, 240, 241, 4096, 100000};
  for (const size_t head_size : head_sizes) {
    for (const size_t key_size : key_sizes) {
      for (const size_t value_size : value_sizes) {
        const std::string all = Pattern(head_size + key_size + value_size);
        const Slice whole = all;
        const uint64_t seed = head_size * 31 + key_size * 17 + value_size;
        const Slice head = whole.substr(0, head_size);
        const Slice key = whole.substr(head_size, key_size);
        const Slice value = whole.substr(head_size + key_size);
        const std::string head_copy(head), key_copy(key), value_copy(value);
        const uint64_t expected = Checksum(whole, seed);
        EXPECT_EQ(ChecksumParts(head, key, value, seed), expected);
        EXPECT_EQ(ChecksumParts(head_copy, key, value, seed), expected);
        EXPECT_EQ(ChecksumParts(head, key, value_copy, seed), expected);
        EXPECT_EQ(ChecksumParts(head_copy, key_copy, value_copy, seed), expected);
        EXPECT_EQ(ChecksumParts(Slice(), Slice(), whole, seed), expected);
        EXPECT_EQ(ChecksumParts(whole, Slice(), Slice(), seed), expected);
      }
    }
  }
}

TEST(Checksum, ComesPieceByPieceToTheSame) {
  const std::string all = Pattern(100'000);
  for (const size_t size : {0u, 1u, 240u, 241u, 4096u, 100'000u}) {
    for (const size_t piece_size : {1u, 63u, 256u, 1000u, 65536u}) {
      PiecewiseChecksum pieces(size);
      for (size_t at = 0; at < size; at += piece_size) {
        pieces.Add(Slice(all.data() + at, std::min(piece_size, size - at)));
      }
      EXPECT_EQ(pieces.Sum(), Checksum(Slice(all.data(), size), size)) << size << " " << piece_size;
    }
  }
}

uint64_t InTwo(const LongHash& hash, const char* data, size_t size) {
  alignas(64) unsigned char state[kHashStateBytes];
  hash.begin(state, size);
  hash.add(state, data, size / 3);
  hash.add(state, data + size / 3, size - size / 3);
  return hash.end(state);
}

TEST(Checksum, ProcessorsAgree) {
  const std::string bytes = Pattern(10000);
  for (size_t size = 241; size <= bytes.size(); size += 37) {
    const HashPart parts[3] = {
        {bytes.data(), 10}, {nullptr, 0}, {bytes.data() + 10, size - 10}};
    const uint64_t any = kLongHashAny.one(bytes.data(), size, size);
    EXPECT_EQ(kLongHashAny.three(parts, size), any) << size;
    EXPECT_EQ(InTwo(kLongHashAny, bytes.data(), size), any) << size;
    EXPECT_EQ(Checksum(Slice(bytes.data(), size), size), any) << size;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
      EXPECT_EQ(kLongHashAvx2.one(bytes.data(), size, size), any) << size;
      EXPECT_EQ(kLongHashAvx2.three(parts, size), any) << size;
      EXPECT_EQ(InTwo(kLongHashAvx2, bytes.data(), size), any) << size;
    }
#endif
  }
}

}  // namespace
}  // namespace quire::base::hash_test
