/// Small files that the kernel makes up (/proc, /sys): read whole, searched for numbers.
///
/// Layer      io (internal)
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>

namespace quire::io {

/// The contents (at most 64 KiB); empty where the file is not there or cannot be read.
std::string ReadProcFile(const std::string& path);

/// The number after the line's label, as in ProcField(text, "MemTotal:"); 0 if there is none.
uint64_t ProcField(const std::string& text, const std::string& label);

/// MemoryLimitBytes() as read from the tree below `root` ("" is the real one): for tests.
uint64_t MemoryLimitBytesUnder(const std::string& root);

}  // namespace quire::io
