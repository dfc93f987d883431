#include "memory_watch.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace quire::bench {
namespace {

ResidentBytes Resident() {
  std::ifstream file("/proc/self/status");
  ResidentBytes bytes;
  for (std::string line; std::getline(file, line);) {
    const auto value = [&] { return std::stoull(line.substr(line.find(':') + 1)) * 1024; };
    if (line.rfind("RssAnon:", 0) == 0 || line.rfind("RssShmem:", 0) == 0) bytes.held += value();
    if (line.rfind("RssFile:", 0) == 0) bytes.mapped += value();
  }
  return bytes;
}

}  // namespace

MemoryWatch::MemoryWatch()
    : start_(Resident()), peak_held_(start_.held), peak_mapped_(start_.mapped) {
  thread_ = std::thread([this] {
    while (!stop_) {
      const ResidentBytes now = Resident();
      peak_held_ = std::max<uint64_t>(peak_held_, now.held);
      peak_mapped_ = std::max<uint64_t>(peak_mapped_, now.mapped);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
}

MemoryWatch::~MemoryWatch() {
  stop_ = true;
  thread_.join();
}

ResidentBytes MemoryWatch::Peak() const {
  return {peak_held_ - start_.held, peak_mapped_ - start_.mapped};
}

}  // namespace quire::bench
