#include "comm/transport/core_set.h"

#include <algorithm>
#include <cstdlib>

#include "io/files/proc_file.h"

namespace quire::comm {
namespace {

constexpr char kLabel[] = "Cpus_allowed_list:";

}  // namespace

CoreSet ParseCoreList(const std::string& list) {
  CoreSet cores;
  const char* at = list.c_str();
  for (;;) {
    char* end = nullptr;
    const unsigned long first = std::strtoul(at, &end, 10);
    if (end == at) return cores;
    unsigned long last = first;
    at = end;
    if (*at == '-') {
      last = std::strtoul(at + 1, &end, 10);
      if (end == at + 1) return cores;
      at = end;
    }
    for (unsigned long core = first; core <= last && core < kCoresMax; ++core) cores.set(core);
    if (*at != ',') return cores;
    ++at;
  }
}

CoreSet OwnCores() {
  const std::string status = io::ReadProcFile("/proc/self/status");
  const size_t line = status.find(kLabel);
  if (line == std::string::npos) return {};
  return ParseCoreList(status.substr(line + sizeof kLabel - 1));
}

int ParseCoreQuota(const std::string& text) {
  char* end = nullptr;
  const double quota = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return kCoresMax;  // "max", or no such file
  const double period = std::strtod(end, nullptr);
  if (quota <= 0 || period <= 0 || quota / period >= kCoresMax) return kCoresMax;
  return std::max(1, static_cast<int>((quota + period - 1) / period));
}

int CoreQuota() {
  return ParseCoreQuota(io::ReadProcFile("/sys/fs/cgroup/cpu.max"));
}

}  // namespace quire::comm
