/// Files as `cp` copies them, and what of them is in the page cache: what checkpoint and restart
/// are compared with.
///
/// Layer      bench
/// Threads    one thread at a time for each directory
#pragma once

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::bench {

/// Copies the files of `from` (no directories, no log segments) into the new directory `to`, one
/// after another, as cp of coreutils 9 does: copy_file_range over the whole file, read and write
/// where the kernel refuses that. `sync`: then each copy is synced, and the directory, as `sync` of
/// them does.
///
/// Gives the bytes copied. Errors  kIo, with the path.
Result<uint64_t> CopyFiles(const std::string& from, const std::string& to, bool sync);

/// Brings all files under `directory` into the page cache, or throws them out of it (what is
/// mapped or not yet written stays: sync first); log segments stay as they are. Errors  kIo, with
/// the path.
Status SetPageCache(const std::string& directory, bool in_cache);

/// Fills a new file at `path` with `bytes` and removes it, before it reaches the device: on virtual
/// machines that hand free memory to the host, the page cache does not pay for getting it back in
/// what comes next. Errors  kIo, with the path.
Status TouchPageCache(const std::string& path, uint64_t bytes);

/// Removes `directory` and all it holds. Errors  kIo, with the path.
Status RemoveTree(const std::string& directory);

/// Sizes of files.
struct FileBytes {
  uint64_t all = 0;
  uint64_t single = 0;  ///< of those that have one name only: they were copied, not linked
};
/// Of the files under `directory`, log segments left out. Errors  kIo where it cannot be read.
Result<FileBytes> CountFileBytes(const std::string& directory);

}  // namespace quire::bench
