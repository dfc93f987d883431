/// The directories of a database's generations and parts: made, removed, found.
///
/// Layer      kv
/// Encoding   docs/format/database.md
/// Threads    any; different ranks work on different parts of one directory
#pragma once

#include <set>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "kv/core.h"
#include "kv/descriptor.h"

namespace quire::kv {

/// A part that is there: gen-<generation>/rank-<rank>.
struct PartFound {
  uint32_t generation = 0;
  int rank = 0;
  std::string path;
};
/// The parts in a database's directory, of this node's storage. No directory: none.
Result<std::vector<PartFound>> FindParts(io::FileSystem& fs, const std::string& directory);

/// Removes the parts of all generations but `kept` that fall to this rank, so that all of a node's
/// go where every rank does so. kCorruption, and nothing is removed, where there is one and it is
/// not `expected`.
Status RemoveParts(const Core& core, const std::string& directory, const std::set<uint32_t>& kept,
                   bool expected);
/// Removes the directories of generations that have nothing in them. Other ranks may be at it too.
Status RemoveEmptyGenerations(io::FileSystem& fs, const std::string& directory);
/// Removes a directory in which nothing is; one that is gone, or holds files of somebody else, is
/// left.
Status RemoveIfEmpty(io::FileSystem& fs, const std::string& directory);

}  // namespace quire::kv
