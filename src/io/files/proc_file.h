/// Small files that the kernel generates (/proc, /sys): reading them whole, and finding numbers in
/// them.
///
/// Layer      io (internal)
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>

namespace quire::io {

/// Returns the contents (at most 64 KiB); empty if the file is absent or cannot be read.
std::string ReadProcFile(const std::string& path);

/// Returns the number after the line's label, as in ProcField(text, "MemTotal:"); 0 if there is
/// none.
uint64_t ProcField(const std::string& text, const std::string& label);

/// Returns MemoryLimitBytes() as read from the tree below `root` ("" is the real one): for tests.
uint64_t MemoryLimitBytesUnder(const std::string& root);

}  // namespace quire::io
