/// Blocked Bloom filter: every key's bits lie in one 64-byte block, so a question costs one cache miss.
///
/// Layer      filter
/// Source     PapyrusKV, SC17, section 2.4; Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters
/// Encoding   docs/format/bloom.md
/// Threads    pure functions on bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/slice.h"

namespace quire::filter {

/// The filter of the keys with these hashes (base::HashKey), at about `bits_per_key` bits each. No keys: empty string.
std::string BloomBuild(const std::vector<uint64_t>& hashes, int bits_per_key);
/// False only if no key with that hash is in. Malformed or empty filters answer true (fail open), except BloomBuild({}).
/// Cost: one cache miss, no branches on the data.
bool BloomMayContain(Slice filter, uint64_t hash);
/// Asks the cache for the block that BloomMayContain will read.
void BloomPrefetch(Slice filter, uint64_t hash);

}  // namespace quire::filter
