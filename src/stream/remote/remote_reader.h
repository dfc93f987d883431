/// The reader of a store that is on another node: the daemon of this one fetches what it asks for
/// into a mirror, in which it reads.
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

/// Errors   kNotFound  No daemon runs here, or none of those that it can ask has the part.
Result<std::unique_ptr<StreamReader>> OpenRemoteReader(io::FileSystem& fs, const std::string& place,
                                                       const std::string& name, uint32_t rank,
                                                       const StreamReaderOptions& options);

/// Reads a store at this place, or one that its daemon can fetch: StreamReader::Open.
Result<std::unique_ptr<StreamReader>> OpenReader(io::FileSystem& fs, const std::string& place,
                                                 const std::string& name, uint32_t rank,
                                                 const StreamReaderOptions& options);

}  // namespace quire::stream
