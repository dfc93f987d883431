/// Decides when parts without a writer are tended: rarely, and not right after a writer has ended,
/// because a writer that opens the part may have to wait.
///
/// Layer      tools
/// Threads    an object belongs to one thread at a time
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "stream/remote/request.h"

namespace quire::streamd {

class TendingSchedule {
 public:
  /// A part is tended at the second check without a writer, then once in this many checks.
  static constexpr uint32_t kLooksBetween = 60;

  /// Checks all existing parts once and returns those to tend. `written`: returns whether a program
  /// writes the part.
  std::vector<stream::StorePart> Due(const std::vector<stream::StorePart>& parts,
                                     const std::function<bool(const stream::StorePart&)>& written);

 private:
  std::map<stream::StorePart, uint32_t> looks_;  ///< without a writer, one after another
};

}  // namespace quire::streamd
