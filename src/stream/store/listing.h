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

/// The stores at a place, by name; a directory without a rank's log is none. kNotFound: there is no
/// such place.
Result<std::vector<std::string>> ListStores(io::FileSystem& fs, const std::string& place);
/// The ranks that have a log in a store, in order. kNotFound: there is no such store.
Result<std::vector<uint32_t>> ListRanks(io::FileSystem& fs, const std::string& place,
                                        const std::string& name);

}  // namespace quire::stream
