// Golden files: bytes that a released version wrote, kept beside the tests of their format. What is
// written today must be the same, and what was written then must still be read.
//
// A file that is not there yet is written where QUIRE_NEW_GOLDEN is set; one that is there is never
// changed (CONTRIBUTING.md, "A change").
//
// Threads: one thread.
#ifndef QUIRE_TESTS_SUPPORT_GOLDEN_H_
#define QUIRE_TESTS_SUPPORT_GOLDEN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace quire::test {

/// The bytes of the golden file at `path`; if there is none, the test fails.
inline std::string GoldenBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << "there is no " << path;
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

/// The bytes of the golden file at `path`, which are those of `today`; else the test fails.
inline std::string Golden(const std::string& path, const std::string& today) {
  if (!std::filesystem::exists(path) && std::getenv("QUIRE_NEW_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << today;
  }
  const std::string bytes = GoldenBytes(path);
  EXPECT_EQ(bytes.size(), today.size()) << path;
  const auto differ = std::mismatch(bytes.begin(), bytes.end(), today.begin(), today.end());
  EXPECT_TRUE(bytes == today) << path << " differs from offset "
                              << differ.first - bytes.begin() << " on";
  return bytes;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_GOLDEN_H_
