#include "io/files/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <string_view>

#include "io/files/machine.h"
#include "io/files/posix_file.h"

namespace quire::io {
namespace {

constexpr size_t kProcBytesMax = size_t{64} << 10;
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// Returns the decimal number at the beginning of `text`; kNoLimit for anything else ("max",
// nothing, huge).
uint64_t ParseLimit(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : kNoLimit;
}

// Returns the smallest limit in `file` of the group `path` below `mount`, or of one that contains
// it. A process in a container may get a path that does not exist there: then only the mount's own
// root, which is the container's, has the file.
uint64_t SmallestLimit(const std::string& mount, std::string path, const std::string& file) {
  uint64_t limit = kNoLimit;
  while (true) {
    limit = std::min(limit, ParseLimit(ReadProcFile(mount + path + "/" + file)));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return limit;
    path.resize(slash);
  }
}

// Finds the group's path in a line of /proc/self/cgroup, "id:controllers:/path", if its controllers
// include `controller` ("" is version 2).
bool GroupPath(std::string_view line, std::string_view controller, std::string* path) {
  const size_t first = line.find(':');
  const size_t second = first == line.npos ? first : line.find(':', first + 1);
  if (second == line.npos) return false;
  std::string_view controllers = line.substr(first + 1, second - first - 1);
  bool found = controllers == controller;
  while (!found && !controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    found = controllers.substr(0, comma) == controller;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  if (found) *path = line.substr(second + 1);
  return found;
}

uint64_t LimitOfLine(const std::string& root, std::string_view line) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::string path;
  if (GroupPath(line, "", &path)) {
    return std::min(SmallestLimit(mount, path, "memory.max"),
                    SmallestLimit(mount + "/unified", path, "memory.max"));
  }
  if (GroupPath(line, "memory", &path)) {
    return SmallestLimit(mount + "/memory", path, "memory.limit_in_bytes");
  }
  return kNoLimit;
}

}  // namespace

std::string ReadProcFile(const std::string& path) {
  const FileDescriptor fd = FileDescriptor::Open(path, O_RDONLY | O_CLOEXEC);
  if (!fd.ok()) return "";
  std::string text(kProcBytesMax, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

uint64_t ProcField(const std::string& text, const std::string& label) {
  size_t at = text.find(label);
  while (at != std::string::npos && at != 0 && text[at - 1] != '\n') at = text.find(label, at + 1);
  if (at == std::string::npos) return 0;
  at = text.find_first_not_of(" \t", at + label.size());
  if (at == std::string::npos) return 0;
  const uint64_t value = ParseLimit(std::string_view(text).substr(at));
  return value == kNoLimit ? 0 : value;
}

uint64_t MemoryLimitBytesUnder(const std::string& root) {
  uint64_t limit = ProcField(ReadProcFile(root + "/proc/meminfo"), "MemTotal:") * 1024;
  if (limit == 0) limit = kNoLimit;
  const std::string groups = ReadProcFile(root + "/proc/self/cgroup");
  std::string_view rest = groups;
  while (!rest.empty()) {
    const size_t line_size = std::min(rest.find('\n'), rest.size());
    limit = std::min(limit, LimitOfLine(root, rest.substr(0, line_size)));
    rest.remove_prefix(std::min(line_size + 1, rest.size()));
  }
  return limit;
}

uint64_t MemoryLimitBytes() { return MemoryLimitBytesUnder(""); }

}  // namespace quire::io
