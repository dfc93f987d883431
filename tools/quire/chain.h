/// A database on disk as one key space: all ranks and generations, newest first. The chain of
/// docs/decisions/0009-persistence.md, read by one process.
///
/// Layer      tools
/// Threads    one
/// Invariants a key's newest state is that of the newest generation that knows it
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
  /// Errors  kNotFound: absent or deleted (without a message); the database is not whole (with
  ///         one). kBusy, kCorruption, kIo as of lsm::Reader.
  Status Get(Slice key, std::string* value);
  /// Live pairs in [from, to) by key, until `take` says false. A value is read when it is asked
  /// for.
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

/// Calls `read` with the database at `path` as it is now. If `read` returns kBusy, the writer has
/// removed what was to be read: calls it again, with the newer state. `*progress` is for `read` to
/// set once it has something that it need not read again.
///
/// Errors  as of FindDatabase and `read`. kBusy: ten calls one after another made no progress.
Status ReadBesideWriter(
    io::FileSystem& fs, const std::string& path,
    const std::function<Status(const DatabaseOnDisk& place, Chain& chain, bool* progress)>& read);

}  // namespace quire::tool
