// All that is below a directory, for tests of what a call leaves behind.
//
// Threads: any.
#ifndef QUIRE_TESTS_SUPPORT_FILE_TREE_H_
#define QUIRE_TESTS_SUPPORT_FILE_TREE_H_

#include <string>
#include <vector>

#include "io/files/file_system.h"

namespace quire::test {

/// The paths of all files and directories below `directory`; none if it is not there.
inline std::vector<std::string> FileTree(io::FileSystem& fs, const std::string& directory) {
  std::vector<std::string> paths;
  const auto files = fs.List(directory);
  if (!files.ok()) return paths;
  for (const io::FileInfo& file : *files) {
    const std::string path = directory + "/" + file.name;
    paths.push_back(path);
    if (!file.is_directory) continue;
    const std::vector<std::string> below = FileTree(fs, path);
    paths.insert(paths.end(), below.begin(), below.end());
  }
  return paths;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_FILE_TREE_H_
