/// Finds data of Quire of any kind at a path, for commands that find none of their own kind there.
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

/// Lists everything; omits what cannot be read.
Contents ContentsOf(io::FileSystem& fs, const std::string& path);
/// Returns kNotFound with the text of `missing`, the data at `path`, and the command that shows
/// them; if there are none, those of directories in `path` (the first three). If `path` cannot be
/// listed, the text has the reason.
Status Absent(io::FileSystem& fs, const std::string& missing, const std::string& path);
/// Returns the command that shows the stores of streams in `directories`, or the only store.
std::string StreamCommand(const std::vector<std::string>& directories);

}  // namespace quire::tool
