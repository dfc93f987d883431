/// The Bloom filter of a shard of a RankMap: its members are pairs of key and rank, so that a
/// lookup of a key tests each of the N ranks. One array of bits, as in the paper: at 4 + log2 N
/// bits a pair it needs an error rate that a filter in blocks (filter/bloom/bloom.h) does not
/// reach.
///
/// Layer      filter
/// Source     FilterKV, section 4.1; Kirsch, Mitzenmacher: Less Hashing, Same Performance, 2006
/// Encoding   docs/format/rankmap.md
/// Threads    pure functions on bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "filter/rank_map/rank_map.h"

namespace quire::filter {

/// Appends the body for `pairs`.
void BuildRankBloom(double bits_per_pair, const std::vector<KeyRank>& pairs, std::string* to);
/// Returns why `body` is invalid, or null.
const char* ValidateRankBloom(Slice body);
/// Returns all ranks below `rank_count` that the filter does not exclude. The body must be valid.
void FindInRankBloom(Slice body, uint32_t rank_count, uint64_t hash, std::vector<uint32_t>* ranks);

}  // namespace quire::filter
