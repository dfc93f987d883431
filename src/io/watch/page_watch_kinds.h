/// The kinds of PageWatch, untested.
///
/// Layer      io (internal)
/// Threads    as io/watch/page_watch.h
#pragma once

#include <cstdint>
#include <memory>

#include "io/watch/page_watch.h"

namespace quire::io {

Result<std::unique_ptr<PageWatch>> NewKernelWatch(char* memory, uint64_t pages);
Result<std::unique_ptr<PageWatch>> NewProtectWatch(char* memory, uint64_t pages);

/// Appends pages to runs, and joins adjacent runs.
inline void AppendRun(uint64_t first, uint64_t count, std::vector<PageRun>* runs) {
  if (!runs->empty() && runs->back().first + runs->back().count == first) {
    runs->back().count += count;
  } else {
    runs->push_back({first, count});
  }
}

}  // namespace quire::io
