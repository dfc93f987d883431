/// Copies of files as by `cp`, and their state in the page cache: the comparison for checkpoint and
/// restart.
///
/// Layer      bench
/// Threads    one thread at a time for each directory
#pragma once

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::bench {

/// Copies the files of `from` (no directories, no log segments) into the new directory `to`, one
/// after another, as cp of coreutils 9 does: copy_file_range over the whole file, or read and write
/// if the kernel refuses that. `sync`: then syncs each copy and the directory, as the command
/// `sync` does.
///
/// Returns the bytes copied. Errors  kIo, with the path.
Result<uint64_t> CopyFiles(const std::string& from, const std::string& to, bool sync);

/// Brings all files under `directory` into the page cache, or drops them from it (mapped and
/// unwritten pages stay: sync first); ignores log segments. Errors  kIo, with the path.
Status SetPageCache(const std::string& directory, bool in_cache);

/// Fills a new file at `path` with `bytes` and removes it, before it reaches the device: on virtual
/// machines that return free memory to the host, the next measurement then does not include getting
/// it back. Errors  kIo, with the path.
Status TouchPageCache(const std::string& path, uint64_t bytes);

/// Removes `directory` and everything in it. Errors  kIo, with the path.
Status RemoveTree(const std::string& directory);

/// Sizes of files.
struct FileBytes {
  uint64_t all = 0;
  uint64_t single = 0;  ///< of files with only one name: they were copied, not linked
};
/// Counts the files under `directory`, without log segments. Errors  kIo if it cannot be read.
Result<FileBytes> CountFileBytes(const std::string& directory);

}  // namespace quire::bench
