/// The way of programs without Quire: every rank writes its pairs into a file of its own, unsorted.
/// A search for a key reads all files of a step, or one file into which they were sorted.
///
/// Layer      bench
/// Threads    one thread; each rank writes its own files
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::bench {

/// Pairs of one size; the key comes first.
struct PairShape {
  size_t key_bytes = 8;
  size_t pair_bytes = 64;
};

/// Writes one file of pairs, through a buffer.
class PlainWriter {
 public:
  /// Creates a file. Errors  those of the file system.
  static Result<PlainWriter> Create(io::FileSystem& fs, const std::string& path);
  Status Put(Slice key, Slice value);
  /// Makes everything durable (P2).
  Status Finish();

 private:
  explicit PlainWriter(std::unique_ptr<io::File> file) : file_(std::move(file)) {}
  Status Flush();
  std::unique_ptr<io::File> file_;
  std::string buffer_;
  uint64_t end_ = 0;
};

/// Reads the files until it finds `key`; kNotFound if no file contains it.
Status ScanForKey(io::FileSystem& fs, const std::vector<std::string>& paths, PairShape shape,
                  Slice key, std::string* value);

/// Sorts all pairs of the files into the new file `sorted` with no more than `memory_bytes` of
/// them in memory: sorted runs beside it, then one merge. Durable (P2) at return.
Status SortExternally(io::FileSystem& fs, const std::vector<std::string>& paths, PairShape shape,
                      uint64_t memory_bytes, const std::string& sorted);

/// Searches a sorted file for `key` by bisection; kNotFound if it does not contain it.
Status SearchSorted(io::FileSystem& fs, const std::string& sorted, PairShape shape, Slice key,
                    std::string* value);

}  // namespace quire::bench
