#include "base/text/bytes_text.h"

#include <charconv>
#include <limits>

namespace quire::base {

std::optional<uint64_t> ParseBytes(std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(rest - text.data()));
  if (unit.empty()) return number;
  uint64_t factor = 1;
  for (const std::string_view known : {"KiB", "MiB", "GiB", "TiB"}) {
    factor *= 1024;
    if (unit != known) continue;
    if (number > std::numeric_limits<uint64_t>::max() / factor) return std::nullopt;
    return number * factor;
  }
  return std::nullopt;
}

}  // namespace quire::base
