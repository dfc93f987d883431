// Arbitrary bytes as a whole map of ranks whose checksums are made right first, so that the fuzzer
// comes past them: what is accepted is read within bounds, and names ranks that there are.
//
// Input: the map.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "filter/rank_map/rank_map.h"

namespace quire::filter {
namespace {

constexpr uint64_t kQuestions = 64;
// A Bloom filter is asked for every rank.
constexpr uint32_t kAskedRanksMax = 10'000;
constexpr size_t kChecksumAt = 24;
constexpr size_t kEntryBytes = 12;

// As docs/format/rankmap.md says. False: it has no whole head.
bool Forge(std::string* map) {
  const auto head_bytes = RankMap::HeadBytes(*map);
  if (!head_bytes.ok() || *head_bytes > map->size()) return false;
  const auto pair_count = base::LoadLe<uint64_t>(map->data() + 8);
  uint64_t offset = *head_bytes;
  uint32_t number = 0;
  for (uint64_t at = RankMap::kPrefixBytes; at < *head_bytes; at += kEntryBytes, ++number) {
    const auto bytes = base::LoadLe<uint32_t>(map->data() + at);
    if (bytes > map->size() - offset) break;
    const uint64_t seed = base::ChecksumSeed(base::ChecksumKind::kRankMap, pair_count + 1, number);
    base::StoreLe(map->data() + at + 4, base::Checksum(Slice(*map).substr(offset, bytes), seed));
    offset += bytes;
  }
  const Slice head = Slice(*map).substr(0, *head_bytes);
  const uint64_t seed = base::ChecksumSeed(base::ChecksumKind::kRankMap, 0, 0);
  base::StoreLe(map->data() + kChecksumAt,
                base::ChecksumParts(head.substr(0, kChecksumAt), head.substr(RankMap::kPrefixBytes),
                                    {}, seed));
  return true;
}

void Ask(const RankMap& map, uint64_t hash, Slice shard) {
  std::vector<uint32_t> ranks;
  map.Find(hash, shard, &ranks);
  QUIRE_CHECK(std::is_sorted(ranks.begin(), ranks.end(), std::less_equal<>()));
  for (const uint32_t rank : ranks) QUIRE_CHECK(rank < map.rank_count());
}

void AskAll(const RankMap& map, Slice bytes) {
  if (map.kind() == RankMapKind::kBloom && map.rank_count() > kAskedRanksMax) return;
  for (uint64_t i = 0; i < kQuestions; ++i) {
    const uint64_t hash = i * 0x9E3779B97F4A7C15;
    const uint32_t number = map.ShardOf(hash);
    QUIRE_CHECK(number < map.shard_count());
    const RankMap::Extent extent = map.shard(number);
    if (extent.offset > bytes.size() || extent.bytes > bytes.size() - extent.offset) continue;
    // Exactly this size: the sanitizer sees every access beyond it.
    const std::unique_ptr<char[]> copy(new char[extent.bytes]);
    if (extent.bytes > 0) std::memcpy(copy.get(), bytes.data() + extent.offset, extent.bytes);
    const Slice shard(copy.get(), extent.bytes);
    const Status checked = map.Check(number, shard);
    QUIRE_CHECK(checked.message().find("it is damaged") == std::string::npos);
    if (checked.ok()) Ask(map, hash, shard);
  }
}

}  // namespace
}  // namespace quire::filter

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (!quire::filter::Forge(&bytes)) return 0;
  const auto map = quire::filter::RankMap::Open(bytes);
  QUIRE_CHECK(map.status().message().find("head is damaged") == std::string::npos);
  if (map.ok()) quire::filter::AskAll(*map, bytes);
  return 0;
}
