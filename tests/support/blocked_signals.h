/// Reads the signal masks of this process's threads from /proc.
///
/// Layer      tests
/// Threads    any
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace quire::test {

struct ThreadMask {
  std::string name;
  uint64_t blocked = 0;  ///< bit n - 1: signal n

  bool Blocks(int signal) const { return (blocked >> (signal - 1) & 1) != 0; }
};

/// The threads that there are now, by their kernel ids, without the main one.
inline std::map<int, ThreadMask> OtherThreads() {
  std::map<int, ThreadMask> threads;
  std::error_code gone;  // a thread may end while the directory is read
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    const int id = std::stoi(entry.path().filename().string());
    if (id == ::getpid()) continue;
    std::ifstream status(entry.path() / "status");
    ThreadMask thread;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:\t")) thread.name = line.substr(6);
      if (line.starts_with("SigBlk:\t")) thread.blocked = std::stoull(line.substr(8), nullptr, 16);
    }
    if (!thread.name.empty()) threads[id] = thread;
  }
  return threads;
}

}  // namespace quire::test
