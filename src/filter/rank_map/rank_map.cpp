#include "filter/rank_map/rank_map.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "base/threads/parallel_for.h"
#include "filter/rank_map/cuckoo.h"
#include "filter/rank_map/rank_bloom.h"
#include "filter/rank_map/ribbon.h"
#include "filter/rank_map/spread.h"

namespace quire::filter {
namespace {

constexpr size_t kPairsPerShard = 1 << 16;
constexpr size_t kShardEntryBytes = 12;  // u32 bytes, u64 checksum
// Of the prefix: u32 kind, u32 rank_count, u64 pair_count, u32 shard_count, u32 0, u64 checksum of
// all that and of the shards' entries.
constexpr size_t kChecksumAt = 24;

// ceil(log2 N), at least one.
int RankBits(uint32_t rank_count) {
  return std::max(1, static_cast<int>(std::bit_width(rank_count - 1)));
}

// Which shard a key is in, and its hash there: rising, different for different keys, and even over
// 64 bits again. Keys are spread first: a program's own partitioner may leave a partition hashes
// that agree in some of their bits.
struct Place {
  Place(uint64_t hash, uint32_t shard_count) {
    const auto product = static_cast<unsigned __int128>(Spread(hash)) * shard_count;
    shard = static_cast<uint32_t>(product >> 64);
    within = static_cast<uint64_t>(product);
  }
  uint32_t shard;
  uint64_t within;
};

uint64_t HeadChecksum(Slice head) {
  const uint64_t seed = base::ChecksumSeed(base::ChecksumKind::kRankMap, 0, 0);
  const Slice numbers = head.substr(0, kChecksumAt);
  return base::ChecksumParts(numbers, head.substr(RankMap::kPrefixBytes), {}, seed);
}

// A shard's checksum binds it to its map and its place in it.
uint64_t ShardChecksum(Slice shard, uint32_t number, uint64_t pair_count) {
  return base::Checksum(shard,
                        base::ChecksumSeed(base::ChecksumKind::kRankMap, pair_count + 1, number));
}

double BloomBits(const RankMapOptions& options) {
  const double ranks = options.rank_count;
  if (options.chance_ranks <= 0) return 4 + std::log2(ranks);
  return std::max(1.0, std::log2(ranks / options.chance_ranks) / std::log(2.0));
}

void BuildShard(const RankMapOptions& options, const std::vector<KeyRank>& pairs, std::string* to) {
  switch (options.kind) {
    case RankMapKind::kBloom:
      return BuildRankBloom(BloomBits(options), pairs, to);
    case RankMapKind::kCuckoo:
      return BuildCuckoo(RankBits(options.rank_count), pairs, to);
    case RankMapKind::kRibbon:
      return BuildRibbon(RankBits(options.rank_count), pairs, to);
  }
}

// Why `shard` is none, or null.
const char* ValidateShard(RankMapKind kind, Slice shard, uint32_t rank_count) {
  switch (kind) {
    case RankMapKind::kBloom:
      return ValidateRankBloom(shard);
    case RankMapKind::kCuckoo:
      return ValidateCuckoo(shard, RankBits(rank_count), rank_count);
    case RankMapKind::kRibbon:
      return ValidateRibbon(shard, RankBits(rank_count), rank_count);
  }
  return "an unknown kind";
}

// Puts the pairs of each shard together; where each ends.
std::vector<size_t> GroupByShard(uint32_t shard_count, std::vector<KeyRank>* pairs) {
  std::vector<size_t> ends(shard_count + size_t{1});
  for (const KeyRank& pair : *pairs) ++ends[Place(pair.hash, shard_count).shard + 1];
  for (size_t shard = 1; shard < ends.size(); ++shard) ends[shard] += ends[shard - 1];
  std::vector<KeyRank> grouped(pairs->size());
  for (const KeyRank& pair : *pairs) {
    const Place place(pair.hash, shard_count);
    grouped[ends[place.shard]++] = {place.within, pair.rank};
  }
  pairs->swap(grouped);
  return ends;
}

// Writes the head of a map whose shards are in place; shard i begins at begins[i].
void WriteHead(const RankMapOptions& options, uint64_t pair_count,
               const std::vector<size_t>& begins, std::string* map) {
  const auto shard_count = static_cast<uint32_t>(begins.size() - 1);
  char* const head = map->data();
  base::StoreLe(head, static_cast<uint32_t>(options.kind));
  base::StoreLe(head + 4, options.rank_count);
  base::StoreLe(head + 8, pair_count);
  base::StoreLe(head + 16, shard_count);
  for (uint32_t number = 0; number < shard_count; ++number) {
    const size_t bytes = begins[number + 1] - begins[number];
    const Slice shard(map->data() + begins[number], bytes);
    char* const entry = head + RankMap::kPrefixBytes + number * kShardEntryBytes;
    base::StoreLe(entry, static_cast<uint32_t>(bytes));
    base::StoreLe(entry + 4, ShardChecksum(shard, number, pair_count));
  }
  base::StoreLe(head + kChecksumAt, HeadChecksum(Slice(head, begins[0])));
}

// A shard before it has its place.
struct Built {
  std::string bytes;
  uint64_t pair_count = 0;
};

std::string Join(const RankMapOptions& options, const std::vector<Built>& shards) {
  std::vector<size_t> begins{RankMap::kPrefixBytes + shards.size() * kShardEntryBytes};
  uint64_t pair_count = 0;
  for (const Built& shard : shards) {
    begins.push_back(begins.back() + shard.bytes.size());
    pair_count += shard.pair_count;
  }
  std::string map;
  map.reserve(begins.back());
  map.resize(begins.front());
  for (const Built& shard : shards) map += shard.bytes;
  WriteHead(options, pair_count, begins, &map);
  return map;
}

Status Damaged(const std::string& why) {
  return Status(Code::kCorruption, "a map of ranks: " + why);
}

}  // namespace

std::string BuildRankMap(const RankMapOptions& options, std::vector<KeyRank>* pairs,
                         base::Executor* executor) {
  QUIRE_CHECK(options.rank_count > 0 && options.rank_count <= kRankCountMax);
  const auto shard_count = static_cast<uint32_t>(pairs->size() / kPairsPerShard + 1);
  const std::vector<size_t> ends = GroupByShard(shard_count, pairs);
  std::vector<Built> shards(shard_count);
  base::ParallelFor(executor, shard_count, [&](size_t number) {
    const auto begin = static_cast<ptrdiff_t>(number == 0 ? 0 : ends[number - 1]);
    std::vector<KeyRank> shard(pairs->begin() + begin,
                               pairs->begin() + static_cast<ptrdiff_t>(ends[number]));
    std::sort(shard.begin(), shard.end());
    shard.erase(std::unique(shard.begin(), shard.end()), shard.end());
    shards[number].pair_count = shard.size();
    BuildShard(options, shard, &shards[number].bytes);
  });
  return Join(options, shards);
}

Result<uint64_t> RankMap::HeadBytes(Slice prefix) {
  if (prefix.size() < kPrefixBytes) return Damaged("it is cut off");
  const auto shard_count = base::LoadLe<uint32_t>(prefix.data() + 16);
  if (shard_count == 0) return Damaged("it has no shards");
  return kPrefixBytes + uint64_t{shard_count} * kShardEntryBytes;
}

Result<RankMap> RankMap::Open(Slice head) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t head_bytes, HeadBytes(head));
  if (head.size() < head_bytes) return Damaged("its head is cut off");
  head = head.substr(0, head_bytes);
  if (HeadChecksum(head) != base::LoadLe<uint64_t>(head.data() + kChecksumAt)) {
    return Damaged("its head is damaged");
  }
  RankMap map;
  const auto kind = base::LoadLe<uint32_t>(head.data());
  map.kind_ = static_cast<RankMapKind>(kind);
  map.rank_count_ = base::LoadLe<uint32_t>(head.data() + 4);
  map.pair_count_ = base::LoadLe<uint64_t>(head.data() + 8);
  if (kind == 0 || kind > static_cast<uint32_t>(RankMapKind::kRibbon)) {
    return Status(Code::kUnsupported, "a map of ranks of kind " + std::to_string(kind));
  }
  if (map.rank_count_ == 0 || map.rank_count_ > kRankCountMax) {
    return Damaged("an impossible number of ranks");
  }
  uint64_t offset = head_bytes;
  for (uint64_t at = kPrefixBytes; at < head_bytes; at += kShardEntryBytes) {
    const auto bytes = base::LoadLe<uint32_t>(head.data() + at);
    map.shards_.push_back({{offset, bytes}, base::LoadLe<uint64_t>(head.data() + at + 4)});
    offset += bytes;
  }
  return map;
}

uint64_t RankMap::Fingerprint(Slice map) {
  return base::LoadLe<uint64_t>(map.data() + kChecksumAt);
}

uint64_t RankMap::bytes() const {
  return shards_.back().extent.offset + shards_.back().extent.bytes;
}

uint32_t RankMap::ShardOf(uint64_t hash) const {
  return Place(hash, shard_count()).shard;
}

Status RankMap::Check(uint32_t number, Slice shard) const {
  const Shard& expected = shards_[number];
  const std::string name = "shard " + std::to_string(number) + ": ";
  if (shard.size() != expected.extent.bytes) return Damaged(name + "another size");
  if (ShardChecksum(shard, number, pair_count_) != expected.checksum) {
    return Damaged(name + "it is damaged");
  }
  const char* const why = ValidateShard(kind_, shard, rank_count_);
  return why == nullptr ? Status() : Damaged(name + why);
}

void RankMap::Find(uint64_t hash, Slice shard, std::vector<uint32_t>* ranks) const {
  const auto begin = static_cast<ptrdiff_t>(ranks->size());
  const uint64_t within = Place(hash, shard_count()).within;
  switch (kind_) {
    case RankMapKind::kBloom:
      return FindInRankBloom(shard, rank_count_, within, ranks);
    case RankMapKind::kCuckoo:
      FindInCuckoo(shard, RankBits(rank_count_), within, ranks);
      break;
    case RankMapKind::kRibbon:
      FindInRibbon(shard, RankBits(rank_count_), within, ranks);
      break;
  }
  std::sort(ranks->begin() + begin, ranks->end());
  ranks->erase(std::unique(ranks->begin() + begin, ranks->end()), ranks->end());
  while (static_cast<ptrdiff_t>(ranks->size()) > begin && ranks->back() >= rank_count_) {
    ranks->pop_back();
  }
}

}  // namespace quire::filter
