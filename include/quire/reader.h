/// Reading a database beside the program that writes it, or one that nobody writes: without MPI,
/// without a lock, without writing anything.
///
/// Layer      public
/// Source     docs/decisions/0009-persistence.md
/// Threads    Get, NewIterator: any. Refresh: one thread at a time, beside the others
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "quire/database.h"

namespace quire QUIRE_EXPORT {

/// How a DatabaseReader reads.
struct DatabaseReaderOptions {
  /// The function that the database was made with, where it was made with one; empty: by hash.
  Partitioner partitioner;
  /// [bytes] Blocks of tables in memory.
  uint64_t cache_bytes = 64ull << 20;
};

/// All pairs of all ranks, as they were last published: what is in tables, and, where no program
/// has a part open, in its log. Never a half of anything, never older than what was seen before.
/// Each rank publishes by itself, and a part is looked at when it is first needed: beside a writer,
/// pairs of several ranks may be of different moments.
class DatabaseReader {
 public:
  /// @param directory  <repository>/<name>, or a checkpoint: <path>/<name>/<number>. It may lie on
  ///                   a file system that cannot be written to. Parts on other nodes are not seen.
  ///
  /// Errors     kNotFound         There is no database.
  ///            kInvalidArgument  It was made with a partitioner, and none is given.
  ///            kCorruption       A part is missing or damaged: names it. kUnsupported: newer.
  /// Cost       The descriptor; the manifest and tables of a part when it is first needed.
  static Result<std::unique_ptr<DatabaseReader>> Open(const std::string& directory,
                                                      const DatabaseReaderOptions& options = {});
  virtual ~DatabaseReader() = default;

  /// The value of `key`, in the place that `place` gives.
  ///
  /// Errors     kNotFound  The key is absent or deleted.
  ///            kBusy      Stale: the writer has removed what this reader has not opened yet.
  ///                       Refresh, and ask again.
  virtual Status Get(Slice key, const PlaceFunction& place) const = 0;
  /// The same into a string.
  Status Get(Slice key, std::string* value) const;
  /// An ordered walk over the pairs of all ranks. Never null: errors are in its status(); kBusy as
  /// above.
  virtual std::unique_ptr<LocalIterator> NewIterator() const = 0;
  /// Looks at what is published now. On an error what was seen before stays.
  virtual Status Refresh() = 0;
};

}  // namespace quire
