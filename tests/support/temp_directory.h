// A directory of a test's own, removed with all in it when the object goes.
//
// Threads: an object belongs to one thread.
#ifndef QUIRE_TESTS_SUPPORT_TEMP_DIRECTORY_H_
#define QUIRE_TESTS_SUPPORT_TEMP_DIRECTORY_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace quire::test {

/// A place in memory where there is one, else testing::TempDir(): for what is synced often and need
/// not survive anything.
inline std::string PlaceInMemory() {
  const char* const memory = "/dev/shm";
  return ::access(memory, W_OK) == 0 ? memory : ::testing::TempDir();
}

class TempDirectory {
 public:
  explicit TempDirectory(const std::string& place = ::testing::TempDir())
      : path_(place + "/quire-test-XXXXXX") {
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
