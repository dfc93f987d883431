/// The ribbon of a shard of a RankMap: a static function from key to rank. Each key is a linear
/// equation over 64 neighbouring slots of log2 N bits: its rank is the exclusive or of the slots
/// that its coefficients select. Keys that find no place in the first layer are bumped to the next,
/// smaller one; keys that no layer takes are listed.
///
/// Layer      filter
/// Encoding   docs/format/rankmap.md
/// Threads    pure functions on bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "filter/rank_map/rank_map.h"

namespace quire::filter {

/// Appends the body for `pairs`, which are sorted by hash and rank, without duplicates.
void BuildRibbon(int rank_bits, const std::vector<KeyRank>& pairs, std::string* to);
/// Returns why `body` is invalid, or null.
const char* ValidateRibbon(Slice body, int rank_bits, uint32_t rank_count);
/// Appends the ranks of a key; for an absent key, any number of `rank_bits` bits, or nothing. The
/// body must be valid.
void FindInRibbon(Slice body, int rank_bits, uint64_t hash, std::vector<uint32_t>* ranks);

}  // namespace quire::filter
