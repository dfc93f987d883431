/// Data at a path that belongs to no database: `verify` and `repair` do not read it, and report
/// this.
///
/// Layer      tools
/// Encoding   docs/tool.md
/// Threads    one
#pragma once

#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "tools/quire/catalog.h"
#include "tools/quire/output.h"

namespace quire::tool {

class Unverified {
 public:
  /// Adds the datasets, checkpoints and streams at `path` that do not belong to `databases`.
  void Add(io::FileSystem& fs, const std::string& path,
           const std::vector<DatabaseOnDisk>& databases);
  /// Sets "not_verified" of a JSON report, if there are some.
  void AddTo(Json* report) const;
  /// Prints a line for each on standard error, with the command that verifies it.
  void Print() const;

 private:
  void Add(const char* kind, const std::string& directory, const std::string& command);

  Json list_ = Json::array();
};

}  // namespace quire::tool
