#include "report.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

#include "commit.h"

namespace quire::bench {
namespace {

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

Json DescribeMachine() {
  struct utsname system {};
  ::uname(&system);
  struct sysinfo memory {};
  ::sysinfo(&memory);
  return {{"processor", ProcessorName()},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", memory.totalram * memory.mem_unit},
          {"kernel", std::string(system.sysname) + " " + system.release}};
}

}  // namespace

void PrintCase(const std::string& bench, const Json& params, const Json& results) {
  static const Json machine = DescribeMachine();
  const Json line = {{"bench", bench},
                     {"params", params},
                     {"results", results},
                     {"machine", machine},
                     {"commit", QUIRE_COMMIT}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void Say(const std::string& text) {
  std::fprintf(stderr, "quire-bench: %s\n", text.c_str());
}

double Rounded(double x, int digits) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double places = digits - 1 - std::floor(std::log10(std::fabs(x)));
  // A power of ten below 1 would not be exact.
  const double scale = std::pow(10.0, std::fabs(places));
  return places < 0 ? std::round(x / scale) * scale : std::round(x * scale) / scale;
}

}  // namespace quire::bench
