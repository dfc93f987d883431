/// Helpers of the tests of watched pages.
///
/// Layer      io (tests)
/// Threads    pure functions
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "io/files/page_memory.h"
#include "io/watch/page_watch.h"

namespace quire::io {

using Pages = std::vector<uint64_t>;

inline PageMemory NewMemory(uint64_t pages) {
  Result<PageMemory> memory = AllocatePages(pages * PageBytes());
  EXPECT_TRUE(memory.ok()) << memory.status().ToString();
  return std::move(*memory);
}

/// Page `page` changes.
inline void Store(const PageMemory& memory, uint64_t page) {
  volatile char* const at = memory.data() + page * PageBytes() + page % PageBytes();
  *at = static_cast<char>(*at + 1);
}

inline Pages EachOf(const std::vector<PageRun>& runs) {
  Pages pages;
  for (const PageRun& run : runs) {
    for (uint64_t page = run.first; page < run.first + run.count; ++page) pages.push_back(page);
  }
  return pages;
}

/// The result of a Collect, page by page.
inline Pages Collected(PageWatch& watch) {
  std::vector<PageRun> runs;
  const Status status = watch.Collect(&runs);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return EachOf(runs);
}

/// The result of a Look, page by page.
inline Pages Looked(const PageWatch& watch) {
  std::vector<PageRun> runs;
  const Status status = watch.Look(&runs);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return EachOf(runs);
}

inline std::unique_ptr<PageWatch> NewWatch(WatchKind kind, const PageMemory& memory) {
  auto watch = PageWatch::New(kind, memory.data(), memory.bytes() / PageBytes());
  EXPECT_TRUE(watch.ok()) << watch.status().ToString();
  return watch.ok() ? std::move(*watch) : nullptr;
}

}  // namespace quire::io
