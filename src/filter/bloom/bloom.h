/// Blocked Bloom filter: every key's bits lie in one 64-byte block, so that a lookup costs one
/// cache miss (keep the filter's bytes aligned to 64 for that).
///
/// Layer      filter
/// Source     PapyrusKV, SC17, section 2.4; Putze, Sanders, Singler: Cache-, Hash- and
///            Space-Efficient Bloom Filters
/// Encoding   docs/format/bloom.md
/// Threads    pure functions on bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/slice.h"

namespace quire::filter {

/// Returns the filter of the keys with these hashes (base::HashKey), at `bits_per_key` bits each,
/// clamped to [1, 64]; above 32, bits no longer lower the error much. No keys: empty string.
/// Duplicate hashes take space like others. Errors at 10 bits: 1 % of the lookups of absent keys
/// return true.
std::string BloomBuild(const std::vector<uint64_t>& hashes, int bits_per_key);

/// Returns false only if no key with that hash is in the filter. Returns true for malformed and
/// empty filters, so that the table is read.
/// Cost: one cache miss, no branches on the data.
bool BloomMayContain(Slice filter, uint64_t hash);

/// Prefetches the block that BloomMayContain will read.
void BloomPrefetch(Slice filter, uint64_t hash);

}  // namespace quire::filter
