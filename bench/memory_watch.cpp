#include "memory_watch.h"

#include <chrono>
#include <fstream>
#include <string>

namespace quire::bench {
namespace {

uint64_t HeldBytes() {
  std::ifstream file("/proc/self/status");
  uint64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("RssAnon:", 0) == 0 || line.rfind("RssShmem:", 0) == 0) {
      kib += std::stoull(line.substr(line.find(':') + 1));
    }
  }
  return kib * 1024;
}

}  // namespace

MemoryWatch::MemoryWatch() : start_bytes_(HeldBytes()), peak_bytes_(start_bytes_) {
  thread_ = std::thread([this] {
    while (!stop_) {
      const uint64_t bytes = HeldBytes();
      if (bytes > peak_bytes_) peak_bytes_ = bytes;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
}

MemoryWatch::~MemoryWatch() {
  stop_ = true;
  thread_.join();
}

uint64_t MemoryWatch::PeakBytes() const {
  return peak_bytes_ - start_bytes_;
}

}  // namespace quire::bench
