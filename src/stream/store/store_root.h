/// The file ROOT, which says that a directory is a store of streams. All parts of a store share it,
/// and their writers make it at the same time.
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
  /// The file that makes `directory` a store.
  static std::string PathIn(const std::string& directory) { return directory + "/ROOT"; }
  StoreRoot(io::FileSystem& fs, std::string directory)
      : fs_(fs), directory_(std::move(directory)) {}
  /// Removes what Make made, unless it is kept. ROOT stays if another part is there. The holder of
  /// the lock may remove its file at any time.
  ~StoreRoot();
  StoreRoot(const StoreRoot&) = delete;
  StoreRoot& operator=(const StoreRoot&) = delete;

  /// Makes ROOT unless it is there. The caller has made a file of its own in the directory: that
  /// keeps another writer, which takes back what it made, from removing ROOT.
  Status Make();
  /// The created directories stay.
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
