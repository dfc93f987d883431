/// The writer of a stream, on any file system.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    as quire/stream.h
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "quire/stream.h"

namespace quire::stream {

/// Opens a writer as StreamWriter::Open; `options` must be in range.
Result<std::unique_ptr<StreamWriter>> OpenWriter(io::FileSystem& fs, const std::string& place,
                                                 const std::string& name, uint32_t rank,
                                                 const StreamOptions& options);

}  // namespace quire::stream
