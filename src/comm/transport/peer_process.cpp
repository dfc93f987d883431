#include "comm/transport/peer_process.h"

#include <cstdlib>
#include <string>

#include "io/files/machine.h"
#include "io/files/proc_file.h"

namespace quire::comm {
namespace {

// The number of the start time among the fields behind the name, which is in parentheses and may
// contain any character.
constexpr int kStartField = 20;

uint64_t StartOf(int process_id) {
  const std::string stat = io::ReadProcFile("/proc/" + std::to_string(process_id) + "/stat");
  return ParseProcessStart(stat.data(), stat.size());
}

}  // namespace

uint64_t ParseProcessStart(const char* stat, uint64_t size) {
  const std::string text(stat, size);
  size_t at = text.rfind(')');
  for (int field = 0; field < kStartField; ++field) {
    if (at == std::string::npos) return 0;
    at = text.find(' ', at + 1);
  }
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at, nullptr, 10);
}

PeerProcess OwnProcess() {
  return {io::ProcessId(), StartOf(io::ProcessId())};
}

bool IsRunning(const PeerProcess& process) {
  if (process.id == 0) return true;
  if (!io::ProcessAlive(process.id)) return false;
  const uint64_t start = process.start == 0 ? 0 : StartOf(process.id);
  return start == 0 || start == process.start;
}

}  // namespace quire::comm
