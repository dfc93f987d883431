// The sync points that the sources have: a test compares them with those that it passed, so that
// none is forgotten.
//
// Threads: one thread.
#ifndef QUIRE_TESTS_SUPPORT_SYNC_POINT_PLACES_H_
#define QUIRE_TESTS_SUPPORT_SYNC_POINT_PLACES_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

namespace quire::test {

// Returns the names that begin with `prefix` of all sync points in the source files below `folder`.
inline std::set<std::string> SyncPointsIn(const std::string& folder, const std::string& prefix) {
  static const std::string kCall = "SyncPoint(\"";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".cpp") && !path.ends_with(".h")) continue;
    if (path.ends_with("_test.cpp")) continue;
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    for (size_t at = text.find(kCall); at != std::string::npos; at = text.find(kCall, at)) {
      at += kCall.size();
      const std::string name = text.substr(at, text.find('"', at) - at);
      if (name.starts_with(prefix)) names.insert(name);
    }
  }
  EXPECT_FALSE(names.empty()) << "no sync point " << prefix << "* below " << folder;
  return names;
}

// The test fails for each of `places` that is not among those `passed`, unless `left_out` has it,
// with the reason; and for each in `left_out` that is none of `places`.
inline void ExpectPassed(const std::set<std::string>& places, const std::set<std::string>& passed,
                         const std::map<std::string, std::string>& left_out) {
  for (const std::string& place : places) {
    EXPECT_TRUE(passed.contains(place) || left_out.contains(place)) << place << " is never passed";
  }
  for (const auto& [place, reason] : left_out) {
    EXPECT_TRUE(places.contains(place)) << place << " (" << reason << ") is not in the sources";
  }
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_SYNC_POINT_PLACES_H_
