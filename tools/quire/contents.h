/// Finds the data of Quire at a path, of any kind: for commands that find none of their own kind
/// there.
///
/// Layer      tools
/// Encoding   docs/format/database.md, dataset.md, checkpoint.md, stream.md
/// Threads    pure functions of what is on disk
#pragma once

#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::tool {

/// The absolute directories of each kind that `path` names: those in it, or itself.
struct Contents {
  std::vector<std::string> databases;
  std::vector<std::string> datasets;
  std::vector<std::string> checkpoints;  ///< of the databases that have some
  std::vector<std::string> stores;       ///< of streams

  bool empty() const {
    return databases.empty() && datasets.empty() && checkpoints.empty() && stores.empty();
  }
};

/// Looks at everything; what cannot be read is left out.
Contents ContentsOf(io::FileSystem& fs, const std::string& path);
/// kNotFound with the text of `missing`, what lies at `path` instead, and the command that shows
/// it. If `path` cannot be listed, why.
Status Absent(io::FileSystem& fs, const std::string& missing, const std::string& path);
/// The command that shows the stores of streams in `directories`, or the only one.
std::string StreamCommand(const std::vector<std::string>& directories);

}  // namespace quire::tool
