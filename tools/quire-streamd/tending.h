// Which parts nobody writes any more, and when they are to be tended: while that is done, a writer
// that opens the part waits, so it is done seldom, and not right after a writer has gone.
//
// Layer      tools
// Threads    an object belongs to one thread at a time
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "stream/request.h"

namespace quire::streamd {

class Tending {
 public:
  // At the second look at which nobody writes a part it is tended, then at every so many looks.
  static constexpr uint32_t kLooksBetween = 60;

  // One look at all parts that there are. `written`: whether somebody writes the part.
  std::vector<stream::StorePart> Due(const std::vector<stream::StorePart>& parts,
                                     const std::function<bool(const stream::StorePart&)>& written);

 private:
  std::map<stream::StorePart, uint32_t> looks_;  // at which nobody wrote it, without one between
};

}  // namespace quire::streamd
