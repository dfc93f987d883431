/// Numbers of bytes as people write them: "4096", "64KiB", "16MiB", "1GiB", "2TiB".
///
/// Layer      base
/// Threads    pure function
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quire::base {

/// The units that ParseBytes knows, for error texts.
inline constexpr char kByteUnits[] = "KiB, MiB, GiB, TiB";

/// Returns the number of bytes; none if the text is no number, has another unit, or is beyond 64
/// bits.
std::optional<uint64_t> ParseBytes(std::string_view text);

}  // namespace quire::base
