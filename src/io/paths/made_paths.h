/// The directories and files that a call creates before it knows whether it will succeed. They are
/// removed with this object, unless the call keeps them: a refused call leaves nothing behind.
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
  /// program uses it. A failure is ignored: a remaining file only takes space, and the call has
  /// failed already.
  ~MadePaths();
  MadePaths(MadePaths&& other) noexcept = default;
  MadePaths& operator=(MadePaths&& other) noexcept;

  /// Records that the caller created the file `path`. If it is a lock's file, the caller must hold
  /// the lock while this object exists: otherwise this object could remove the lock of another
  /// program.
  void AddFile(FileSystem& fs, std::string path) {
    paths_.push_back({&fs, std::move(path), false});
  }
  /// Records that the caller created the directory `path`.
  void AddDirectory(FileSystem& fs, std::string path) {
    paths_.push_back({&fs, std::move(path), true});
  }
  /// Records the file `path`, which the caller is about to create, unless it exists. The caller
  /// must hold the lock that protects its creation.
  Status AddFileIfAbsent(FileSystem& fs, const std::string& path);
  /// Creates the directory `path`, durable, and records it unless it existed.
  Status MakeDirectory(FileSystem& fs, const std::string& path);
  /// Locks `path` for `holder`, and records the file unless it existed.
  Result<std::unique_ptr<FileLock>> Lock(FileSystem& fs, const std::string& path,
                                         const std::string& holder);
  /// Makes the created paths stay.
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

/// Calls `make`, which creates directories and files in them, and repeats it a few times if a
/// directory has disappeared (kNotFound): another, refused call may have removed its directories
/// again between two steps of this one.
template <typename Make>
Status AgainIfTakenBack(const Make& make) {
  constexpr int kAttempts = 10;
  Status made = make();
  for (int i = 1; i < kAttempts && made.code() == Code::kNotFound; ++i) made = make();
  return made;
}

}  // namespace quire::io
