#include "lsm/version/compaction_picker.h"

#include <algorithm>

namespace quire::lsm {
namespace {

// A merge takes neighbours up to so many times the trigger at once; more would only hold up
// flushes.
constexpr size_t kTriggersPerRunCount = 3;
constexpr size_t kRunCountMin = 12;

uint64_t BytesBefore(const std::vector<RunShape>& runs, size_t end) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < end; ++i) bytes += runs[i].bytes;
  return bytes;
}

bool NewerRunsOutweighOldest(const std::vector<RunShape>& runs, const StorageOptions& options) {
  const uint64_t oldest = runs.back().bytes;
  const uint64_t percent = static_cast<uint64_t>(options.dead_percent_max);
  // In two parts, so that no product can overflow.
  return BytesBefore(runs, runs.size() - 1) >=
         oldest / 100 * percent + oldest % 100 * percent / 100;
}

CompactionChoice PickLikeSizes(const std::vector<RunShape>& runs, size_t end, size_t trigger,
                               uint64_t bytes_end) {
  for (size_t first = 0; first + trigger <= end; ++first) {
    uint64_t bytes = runs[first].bytes;
    size_t last = first + 1;
    while (last < end && runs[last].bytes <= bytes && bytes + runs[last].bytes < bytes_end) {
      bytes += runs[last++].bytes;
    }
    if (last - first >= trigger) return {first, last - first};
  }
  return {};
}

CompactionChoice PickTiered(const std::vector<RunShape>& runs, size_t end,
                            const StorageOptions& options, uint64_t bytes_end) {
  const bool all = end == runs.size() && BytesOf(runs) < bytes_end;
  if (all && NewerRunsOutweighOldest(runs, options)) return {0, end};
  return PickLikeSizes(runs, end, static_cast<size_t>(options.compaction_trigger), bytes_end);
}

CompactionChoice PickEveryNth(const std::vector<RunShape>& runs, const StorageOptions& options) {
  const uint64_t n = static_cast<uint64_t>(options.compaction_trigger);
  // The oldest run may be the result of a merge, whose SSID says nothing.
  for (size_t i = 0; i + 1 < runs.size(); ++i) {
    if (runs[i].newest_ssid % n == 0) return {0, runs.size()};
  }
  return {};
}

}  // namespace

uint64_t BytesOf(const std::vector<RunShape>& runs) { return BytesBefore(runs, runs.size()); }

CompactionChoice PickCompaction(const std::vector<RunShape>& runs, const StorageOptions& options,
                                uint64_t bytes_end) {
  size_t end = 0;
  while (end < runs.size() && !runs[end].busy) ++end;
  if (end < 2) return {};
  if (options.compaction == CompactionPolicy::kEveryNth) {
    const bool all = end == runs.size() && BytesOf(runs) < bytes_end;
    return all ? PickEveryNth(runs, options) : CompactionChoice{};
  }
  return PickTiered(runs, end, options, bytes_end);
}

size_t RunCountMax(const StorageOptions& options) {
  const size_t trigger = static_cast<size_t>(options.compaction_trigger);
  return std::max(kRunCountMin, kTriggersPerRunCount * trigger);
}

}  // namespace quire::lsm
