/// The directories and files that a call made before it could know whether it will succeed. They go
/// with this object, unless the call keeps them: a refused call leaves nothing behind.
///
/// Layer      io
/// Threads    one at a time
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"

namespace quire::io {

class MadePaths {
 public:
  MadePaths() = default;
  /// Removes what was added, in the opposite order. A directory that is not empty stays: another
  /// program uses it. A failure is ignored: what stays costs room, and the call has failed already.
  ~MadePaths();
  MadePaths(MadePaths&& other) noexcept = default;
  MadePaths& operator=(MadePaths&& other) noexcept;

  /// Notes that the caller made the file `path`. If it is the file of a lock, the caller holds the
  /// lock for as long as this object lives: else it would take away the lock of another program.
  void AddFile(FileSystem& fs, std::string path) {
    paths_.push_back({&fs, std::move(path), false});
  }
  /// Notes that the caller made the directory `path`.
  void AddDirectory(FileSystem& fs, std::string path) {
    paths_.push_back({&fs, std::move(path), true});
  }
  /// Notes the file `path`, which the caller is about to make, unless it is there. The caller holds
  /// a lock under which alone it is made.
  Status AddFileIfAbsent(FileSystem& fs, const std::string& path);
  /// Makes the directory `path` durable, and notes it unless it was there.
  Status MakeDirectory(FileSystem& fs, const std::string& path);
  /// Locks `path` for `holder`, and notes it unless it was there.
  Result<std::unique_ptr<FileLock>> Lock(FileSystem& fs, const std::string& path,
                                         const std::string& holder);
  /// The created paths stay.
  void Keep() { paths_.clear(); }

 private:
  struct Path {
    FileSystem* fs;
    std::string path;
    bool is_directory;
  };
  void Remove() noexcept;

  std::vector<Path> paths_;
};

/// Calls `make`, which makes directories and something in them, again while it finds one of them
/// gone (kNotFound): another call that was refused has taken back what it made, between two steps
/// of this one. A few times: what is never there is an error.
template <typename Make>
Status AgainIfTakenBack(const Make& make) {
  constexpr int kAttempts = 10;
  Status made = make();
  for (int i = 1; i < kAttempts && made.code() == Code::kNotFound; ++i) made = make();
  return made;
}

}  // namespace quire::io
