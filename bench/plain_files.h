/// What programs do without Quire: every rank writes its pairs into a file of its own, as they
/// come. Who looks for a key reads all files of its step, or has sorted them into one.
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

/// Pairs of one size, their keys at the front.
struct PairShape {
  size_t key_bytes = 8;
  size_t pair_bytes = 64;
};

/// Writes one file of pairs, through a buffer.
class PlainWriter {
 public:
  /// A new file. Errors  those of the file system.
  static Result<PlainWriter> Create(io::FileSystem& fs, const std::string& path);
  Status Put(Slice key, Slice value);
  /// All is durable (P2).
  Status Finish();

 private:
  explicit PlainWriter(std::unique_ptr<io::File> file) : file_(std::move(file)) {}
  Status Flush();
  std::unique_ptr<io::File> file_;
  std::string buffer_;
  uint64_t end_ = 0;
};

/// Reads all of the files until it meets `key`; kNotFound where none has it.
Status ScanForKey(io::FileSystem& fs, const std::vector<std::string>& paths, PairShape shape,
                  Slice key, std::string* value);

/// Sorts all pairs of the files into the new file `sorted` with no more than `memory_bytes` of
/// them in memory: sorted runs beside it, then one merge. Durable (P2) at return.
Status SortExternally(io::FileSystem& fs, const std::vector<std::string>& paths, PairShape shape,
                      uint64_t memory_bytes, const std::string& sorted);

/// Halves a sorted file until it meets `key`; kNotFound where it does not have it.
Status SearchSorted(io::FileSystem& fs, const std::string& sorted, PairShape shape, Slice key,
                    std::string* value);

}  // namespace quire::bench
