/// quire::DatabaseReader on any file system.
///
/// Layer      kv
/// Source     docs/decisions/0009-persistence.md
/// Threads    as DatabaseReader
#pragma once

#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "quire/reader.h"

namespace quire::kv {

Result<std::unique_ptr<DatabaseReader>> OpenDatabaseReader(io::FileSystem& fs,
                                                           const std::string& directory,
                                                           const DatabaseReaderOptions& options);

}  // namespace quire::kv
