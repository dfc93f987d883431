/// A database on disk as one key space: all ranks and generations, newest first. The chain of
/// docs/decisions/0009-persistence.md, read by one process.
///
/// Layer      tools
/// Threads    one
/// Invariants the newest state of a key is in the newest generation that contains it
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/files/file_system.h"
#include "lsm/offline/reader.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/table.h"
#include "tools/quire/catalog.h"

namespace quire::tool {

class Chain {
 public:
  Chain(io::FileSystem& fs, DatabaseOnDisk place);
  /// Errors  kNotFound: the key is absent or deleted (without a message); the database is
  ///         incomplete (with a message). kBusy, kCorruption, kIo as of lsm::Reader.
  Status Get(Slice key, std::string* value);
  /// Passes the live pairs in [from, to) to `take`, by key, until it returns false. A value is read
  /// when `take` calls for it.
  using Value = std::function<Status(std::string* value)>;
  Status Scan(const std::string& from, const std::string& to,
              const std::function<Result<bool>(Slice key, const Value& value)>& take);

 private:
  struct Cursor;
  Status CheckReady() const;
  Status CheckPresent() const;
  Result<std::shared_ptr<lsm::Reader>> ReaderOf(const PartOnDisk& part);
  std::vector<const PartOnDisk*> PartsFor(const kv::Generation& generation, Slice key) const;
  Result<table::KeyState> Ask(const kv::Generation& generation, Slice key, std::string* value);
  Result<bool> HiddenByNewer(size_t generation_index, Slice key);
  Result<std::vector<Cursor>> OpenCursors(const std::string& from, const std::string& to);

  io::FileSystem& fs_;
  const DatabaseOnDisk place_;
  const std::shared_ptr<table::BlockCache> cache_;
  std::map<std::string, std::shared_ptr<lsm::Reader>> readers_;  // by directory
};

/// Calls `read` with the current state of the database at `path`. If `read` returns kBusy, the
/// writer has removed files that were still to be read: calls `read` again with the newer state.
/// `read` sets `*progress` once it has data that it need not read again.
///
/// Errors  as of FindDatabase and `read`. kBusy: ten consecutive calls made no progress.
Status ReadBesideWriter(
    io::FileSystem& fs, const std::string& path,
    const std::function<Status(const DatabaseOnDisk& place, Chain& chain, bool* progress)>& read);

}  // namespace quire::tool
