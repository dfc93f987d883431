/// The cuckoo tables of a shard of a RankMap: each pair is a slot of a partial key (4 bits) and a
/// rank (log2 N bits) in one of two buckets of four slots. A key that finds no slot after 500 moves
/// goes into a further, smaller table. A lookup compares the partial keys of both buckets in every
/// table.
///
/// Layer      filter
/// Source     FilterKV, section 4.2; Fan, Andersen, Kaminsky, Mitzenmacher: Cuckoo Filter, 2014
/// Encoding   docs/format/rankmap.md
/// Threads    pure functions on bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "filter/rank_map/rank_map.h"

namespace quire::filter {

/// Appends the body for `pairs`, which are sorted by hash and rank, without duplicates.
void BuildCuckoo(int rank_bits, const std::vector<KeyRank>& pairs, std::string* to);
/// Returns why `body` is invalid, or null.
const char* ValidateCuckoo(Slice body, int rank_bits, uint32_t rank_count);
/// Appends the ranks of a key; a rank may be appended several times. The body must be valid.
void FindInCuckoo(Slice body, int rank_bits, uint64_t hash, std::vector<uint32_t>* ranks);

}  // namespace quire::filter
