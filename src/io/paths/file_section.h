/// A part of a file that is used as a file of its own: for tables that are stored one after
/// another.
///
/// Layer      io
/// Threads    as of the file
#pragma once

#include <cstdint>
#include <memory>

#include "io/files/file_system.h"

namespace quire::io {

/// Returns the bytes [begin, begin + size) of `file` as a file for reading.
std::unique_ptr<File> NewFileSection(std::shared_ptr<File> file, uint64_t begin, uint64_t size);

/// Returns all bytes of `file` from `begin` on as a file for writing, which grows with `file`. Its
/// Sync only makes the system begin to write the bytes: the Sync of `file` makes several such tails
/// durable together.
std::unique_ptr<File> NewFileTail(std::shared_ptr<File> file, uint64_t begin);

}  // namespace quire::io
