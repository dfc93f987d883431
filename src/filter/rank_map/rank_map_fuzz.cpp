// Arbitrary bytes as a map of ranks and, since checksums keep those out, as a shard of each kind:
// what is accepted is read within bounds, whatever is asked.
//
// Input: one byte (kind), one byte (bits of a rank), then the shard.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/core/check.h"
#include "filter/rank_map/cuckoo.h"
#include "filter/rank_map/rank_bloom.h"
#include "filter/rank_map/rank_map.h"
#include "filter/rank_map/ribbon.h"

namespace quire::filter {
namespace {

constexpr uint64_t kQuestions = 64;
// A Bloom filter is asked for every rank.
constexpr uint32_t kAskedRanks = 100;

void AskShard(uint8_t kind, int rank_bits, Slice shard) {
  const uint32_t rank_count = 1u << rank_bits;
  const char* why = kind == 0   ? ValidateRankBloom(shard)
                    : kind == 1 ? ValidateCuckoo(shard, rank_bits, rank_count)
                                : ValidateRibbon(shard, rank_bits, rank_count);
  if (why != nullptr) return;
  std::vector<uint32_t> ranks;
  for (uint64_t i = 0; i < kQuestions; ++i) {
    const uint64_t hash = i * 0x9E3779B97F4A7C15;
    if (kind == 0) FindInRankBloom(shard, kAskedRanks, hash, &ranks);
    if (kind == 1) FindInCuckoo(shard, rank_bits, hash, &ranks);
    if (kind == 2) FindInRibbon(shard, rank_bits, hash, &ranks);
  }
  for (const uint32_t rank : ranks) QUIRE_CHECK(rank < rank_count || kind == 0);
}

}  // namespace
}  // namespace quire::filter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::Slice;
  using quire::filter::RankMap;
  // Exactly this size: the sanitizer sees every access beyond it.
  const std::unique_ptr<char[]> bytes(new char[size]);
  if (size > 0) std::memcpy(bytes.get(), data, size);
  const auto map = RankMap::Open(Slice(bytes.get(), size));
  if (map.ok()) {
    for (uint32_t number = 0; number < map->shard_count(); ++number) {
      QUIRE_CHECK(map->shard(number).offset + map->shard(number).bytes <= map->bytes());
    }
  }
  if (size < 2) return 0;
  const Slice shard(bytes.get() + 2, size - 2);
  quire::filter::AskShard(data[0] % 3, 1 + data[1] % 24, shard);
  return 0;
}
