/// Lists the stores of a place, and the ranks that have a part of one.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md ("Places and names")
/// Threads    pure functions of what is on disk
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::stream {

/// Returns the stores at a place, sorted by name; a directory without a rank's log is no store.
/// kNotFound: there is no such place.
Result<std::vector<std::string>> ListStores(io::FileSystem& fs, const std::string& place);
/// Returns the ranks that have a log in a store, sorted. kNotFound: there is no such store.
Result<std::vector<uint32_t>> ListRanks(io::FileSystem& fs, const std::string& place,
                                        const std::string& name);

}  // namespace quire::stream
