/// The reader of a store that is on another node: the daemon of this node fetches the requested
/// versions into a mirror, and the reader reads there.
///
/// Layer      stream
/// Source     NVStream, HPDC18, sections 5.3 and 6.1
/// Threads    as StreamReader
#pragma once

#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "quire/stream.h"

namespace quire::stream {

/// Errors   kNotFound  No daemon runs here, or no daemon that it can ask has the part.
Result<std::unique_ptr<StreamReader>> OpenRemoteReader(io::FileSystem& fs, const std::string& place,
                                                       const std::string& name, uint32_t rank,
                                                       const StreamReaderOptions& options);

/// Opens a store at this place, or one that the daemon can fetch: StreamReader::Open.
Result<std::unique_ptr<StreamReader>> OpenReader(io::FileSystem& fs, const std::string& place,
                                                 const std::string& name, uint32_t rank,
                                                 const StreamReaderOptions& options);

}  // namespace quire::stream
