#include "api/log_level.h"

#include <cstdio>
#include <iterator>
#include <mutex>
#include <string>

#include "base/core/log_sink.h"
#include "io/files/machine.h"

namespace quire::api {
namespace {

constexpr const char* kLevels[] = {"error", "warning", "info", "debug"};

void Install(LogLevel most) {
  SetLogSink([most](LogLevel level, const std::string& text) {
    if (level > most) return;
    std::fprintf(stderr, "quire %s: %s\n", kLevels[static_cast<int>(level)], text.c_str());
  });
}

}  // namespace

Status InstallLogSink() {
  const auto wanted = io::Environment("QUIRE_LOG");
  if (!wanted || wanted->empty()) return Status();
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    if (*wanted != kLevels[i]) continue;
    static std::once_flag once;
    // A sink that the program has installed stays.
    if (!base::LogEnabled()) std::call_once(once, Install, static_cast<LogLevel>(i));
    return Status();
  }
  return Status(Code::kInvalidArgument, "environment variable QUIRE_LOG is \"" + *wanted +
                                            "\"; it must be error, warning, info or debug");
}

}  // namespace quire::api
