/// Blocked Bloom filter: every key's bits lie in one 64-byte block, so a question costs one cache
/// miss (keep the filter's bytes aligned to 64 for that).
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

/// The filter of the keys with these hashes (base::HashKey), at `bits_per_key` bits each, clamped
/// to [1, 64]; above 32, bits no longer lower the error much. No keys: empty string. Duplicate
/// hashes take room like others. Errors at 10 bits: 1 % of the questions about absent keys answer
/// true.
std::string BloomBuild(const std::vector<uint64_t>& hashes, int bits_per_key);

/// False only if no key with that hash is in. Malformed and empty filters answer true: they are no
/// reason not to read the table.
/// Cost: one cache miss, no branches on the data.
bool BloomMayContain(Slice filter, uint64_t hash);

/// Asks the cache for the block that BloomMayContain will read.
void BloomPrefetch(Slice filter, uint64_t hash);

}  // namespace quire::filter
