/// A part of a file that is used as a file of its own: tables that lie one behind another.
///
/// Layer      io
/// Threads    as of the file
#pragma once

#include <cstdint>
#include <memory>

#include "io/files/file_system.h"

namespace quire::io {

/// The bytes [begin, begin + size) of `file`, for reading. What is behind them is not there.
std::unique_ptr<File> NewFileSection(std::shared_ptr<File> file, uint64_t begin, uint64_t size);

/// All bytes of `file` from `begin` on, for writing: it grows with the file. Its Sync only has the
/// system begin to write them out: several that are written one behind another are made durable
/// together, by the Sync of `file`.
std::unique_ptr<File> NewFileTail(std::shared_ptr<File> file, uint64_t begin);

}  // namespace quire::io
