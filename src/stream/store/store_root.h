/// The file ROOT, which marks a directory as a store of streams. All parts of a store share it, and
/// their writers may create it at the same time.
///
/// Layer      stream
/// Encoding   docs/format/stream.md
/// Threads    one at a time; any number of processes
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "io/files/file_system.h"

namespace quire::stream {

class StoreRoot {
 public:
  /// Returns the path of the file that makes `directory` a store.
  static std::string PathIn(const std::string& directory) { return directory + "/ROOT"; }
  StoreRoot(io::FileSystem& fs, std::string directory)
      : fs_(fs), directory_(std::move(directory)) {}
  /// Removes what Make created, unless Keep was called. ROOT stays if the directory contains
  /// another part. The holder of the lock may remove its file at any time.
  ~StoreRoot();
  StoreRoot(const StoreRoot&) = delete;
  StoreRoot& operator=(const StoreRoot&) = delete;

  /// Creates ROOT if it is absent. The caller has already created a file in the directory:
  /// therefore another writer that removes its own files again does not remove ROOT.
  Status Make();
  /// Makes the created directories stay.
  void Keep();

 private:
  std::string path() const { return PathIn(directory_); }
  std::string lock_path() const { return directory_ + "/ROOT.lock"; }
  Result<std::unique_ptr<io::FileLock>> Lock();
  Status Remove();

  io::FileSystem& fs_;
  const std::string directory_;
  bool made_ = false;
  bool lock_made_ = false;
};

}  // namespace quire::stream
