/// Reads a database, also while another program writes it: without MPI, without a lock, and without
/// writing anything.
///
/// Layer      public
/// Source     docs/decisions/0009-persistence.md
/// Threads    Get, NewIterator: any. Refresh: one thread at a time; other threads may call Get and
///            NewIterator meanwhile
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "quire/database.h"

namespace quire QUIRE_EXPORT {

/// Options of a DatabaseReader.
struct DatabaseReaderOptions {
  /// The partitioner that the database was created with. Empty: the hash.
  Partitioner partitioner;
  /// [bytes] Cache for blocks of tables.
  uint64_t cache_bytes = 64ull << 20;
};

/// Reads the pairs of all ranks as last published: those in tables, and for a part that no program
/// has open also those in its log. A reader sees a batch as a whole or not at all, and never sees
/// an older state after a newer one. Each rank publishes on its own, and the reader opens a part
/// when it first needs it. So beside a writer, pairs of different ranks may be from different
/// moments.
class DatabaseReader {
 public:
  /// @param directory  <repository>/<name>, or a checkpoint: <path>/<name>/<number>. May be on a
  ///                   read-only file system. Parts on other nodes are not seen.
  ///
  /// Errors     kNotFound         There is no database.
  ///            kInvalidArgument  The database was created with a partitioner, and none is passed;
  ///                              or it was created without, and one is passed.
  ///            kCorruption       A part is missing or damaged; the text names it.
  ///            kUnsupported      A newer version of Quire created it.
  /// Cost       The descriptor; the manifest and tables of a part when it is first needed. If a
  ///            killed job left pairs in the part's log, the reader reads these, too, and keeps
  ///            them in memory, with up to 20 bytes more for each key, until Refresh finds them in
  ///            tables.
  static Result<std::unique_ptr<DatabaseReader>> Open(const std::string& directory,
                                                      const DatabaseReaderOptions& options = {});
  virtual ~DatabaseReader() = default;

  /// Copies the value of `key` into the memory that `allocate` returns.
  ///
  /// Errors     kNotFound         The key is absent or deleted.
  ///            kBusy             The writer has removed files that this reader had not opened yet.
  ///                              Call Refresh and retry.
  ///            kInvalidArgument  The partitioner or `allocate` threw; the text contains the
  ///                              exception's text. std::bad_alloc: kOutOfMemory instead.
  virtual Status Get(Slice key, const BufferAllocator& allocate) const = 0;
  /// Copies the value into a string. As above.
  Status Get(Slice key, std::string* value) const;
  /// Returns an ordered walk over the pairs of all ranks. Never null: its status() returns errors;
  /// kBusy as above.
  virtual std::unique_ptr<LocalIterator> NewIterator() const = 0;
  /// Moves on to the newest published state. Iterators, and gets that run meanwhile, keep the state
  /// with which they began. After an error the reader keeps its previous state.
  virtual Status Refresh() = 0;
};

}  // namespace quire
