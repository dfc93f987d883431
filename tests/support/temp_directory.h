// A directory of a test's own, removed with all in it when the object goes.
//
// Threads: an object belongs to one thread.
#ifndef QUIRE_TESTS_SUPPORT_TEMP_DIRECTORY_H_
#define QUIRE_TESTS_SUPPORT_TEMP_DIRECTORY_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace quire::test {

class TempDirectory {
 public:
  TempDirectory() : path_(::testing::TempDir() + "/quire-test-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TempDirectory() {
    std::error_code ignored;  // what a test made unremovable stays behind
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// The path of `name` in it.
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_TEMP_DIRECTORY_H_
