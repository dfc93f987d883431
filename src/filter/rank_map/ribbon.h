/// The ribbon of a shard of a RankMap: a static function from key to rank. Each key is a linear
/// equation over 64 neighbouring slots of log2 N bits, of which those that its coefficients name
/// give its rank by exclusive or. The keys that find no place in the first layer are bumped, and
/// are the keys of the next, smaller one; what no layer takes is listed.
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

/// Appends the body: of pairs that are sorted by hash and rank, each once.
void BuildRibbon(int rank_bits, const std::vector<KeyRank>& pairs, std::string* to);
/// Why `body` is none, or null.
const char* ValidateRibbon(Slice body, int rank_bits, uint32_t rank_count);
/// The body must be valid. Absent keys get some number of so many bits, or nothing.
void FindInRibbon(Slice body, int rank_bits, uint64_t hash, std::vector<uint32_t>* ranks);

}  // namespace quire::filter
