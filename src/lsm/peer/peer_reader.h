/// Reads a neighbour's database directly: its MemTables through shared memory, its tables and value
/// segments as files. No message, no wake-up, nothing written.
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, section 2.7 (storage groups);
///            docs/decisions/0005-direct-reads.md
/// Threads    Get: any number of threads
/// Invariants what a Get gives was the key's newest value at some instant during the call: the
///            board is looked at first, and MemTables are on it before they take writes
#pragma once

#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "lsm/memtable/shared_region.h"
#include "lsm/vlog/value_log.h"
#include "table/table.h"

namespace quire::lsm {

class PeerReader {
 public:
  /// `directory`: the neighbour's rank directory; region by name and size, as received from the
  /// neighbour. Reads the manifest; tables are opened by the first Get.
  static Result<std::unique_ptr<PeerReader>> Open(io::FileSystem& fs, const std::string& directory,
                                                  const std::string& region_name,
                                                  uint64_t region_bytes,
                                                  const StorageOptions& options,
                                                  std::shared_ptr<table::BlockCache> cache);
  virtual ~PeerReader() = default;
  /// The newest value that the owner had applied at some instant during the call. kNotFound: absent
  /// or deleted. kBusy: no consistent view could be had (the owner keeps changing it, closed it, or
  /// died, or a file of it cannot be opened): ask it by message instead. kCorruption, kIo: what is
  /// in a file of the neighbour. `allocate` may be called more than once; the last place counts.
  /// Cost: in the MemTable about two cache misses; in tables as at the owner; at first and after
  /// the owner changed its set of tables, one look at its manifest, and its new tables are opened.
  virtual Status Get(Slice key, const BufferAllocator& allocate) const = 0;
};

}  // namespace quire::lsm
