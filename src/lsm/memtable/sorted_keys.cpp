#include "lsm/memtable/sorted_keys.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/text/coding.h"

namespace quire::lsm {
namespace {

constexpr size_t kPrefixBytes = sizeof(uint64_t);
constexpr size_t kRecordsAhead = 16;  // records whose cache misses overlap
constexpr size_t kSample = 64;        // keys from which the common bytes are guessed
constexpr size_t kRadixMin = 96;      // below, comparing is quicker than counting
constexpr size_t kCompareTiesMax = 16;
constexpr int kTopShift = 56;
constexpr size_t kEntriesPerLine = 64 / sizeof(SortedEntry);

using Entries = std::vector<SortedEntry>;

bool ByPrefix(const SortedEntry& a, const SortedEntry& b) {
  return a.prefix < b.prefix;
}

Slice From(Slice key, size_t depth) {
  return key.substr(std::min(depth, key.size()));
}

size_t CommonLength(Slice a, Slice b) {
  const size_t size = std::min(a.size(), b.size());
  size_t same = 0;
  while (same + kPrefixBytes <= size &&
         base::LoadLe<uint64_t>(a.data() + same) == base::LoadLe<uint64_t>(b.data() + same)) {
    same += kPrefixBytes;
  }
  while (same < size && a[same] == b[same]) ++same;
  return same;
}

// Looks at the keys of a range of entries, in order, with their cache misses overlapped.
template <typename Look>
void ForEachKey(const char* data, SortedEntry* begin, SortedEntry* end, Look look) {
  for (SortedEntry* entry = begin; entry < end; ++entry) {
    if (static_cast<size_t>(end - entry) > kRecordsAhead) {
      __builtin_prefetch(data + uint64_t{entry[kRecordsAhead].record} * 8);
    }
    look(*entry, KeyOf(data, *entry));
  }
}

void FillPrefixes(const char* data, SortedEntry* begin, SortedEntry* end, size_t depth) {
  ForEachKey(data, begin, end, [depth](SortedEntry& entry, Slice key) {
    entry.prefix = base::KeyPrefix(From(key, depth));
  });
}

// Length of what all keys from `begin` on share, given that they share their first `depth` bytes.
size_t SharedLength(const char* data, SortedEntry* begin, SortedEntry* end, size_t depth) {
  const Slice first = KeyOf(data, *begin).substr(depth);
  size_t shared = first.size();
  ForEachKey(data, begin + 1, end, [&](const SortedEntry&, Slice key) {
    shared = std::min(shared, CommonLength(first.substr(0, shared), key.substr(depth)));
  });
  return depth + shared;
}

// Sorts by prefix: one pass per byte that differs, each a stable scatter through `spare`.
void RadixSort(SortedEntry* entries, SortedEntry* spare, size_t count, int shift) {
  if (count < kRadixMin) {
    std::sort(entries, entries + count, ByPrefix);
    return;
  }
  std::array<uint32_t, 256> ends{};
  const auto digit = [&](const SortedEntry& entry) { return (entry.prefix >> shift) & 0xFF; };
  for (size_t i = 0; i < count; ++i) ++ends[digit(entries[i])];
  if (ends[digit(entries[0])] == count) {
    if (shift > 0) RadixSort(entries, spare, count, shift - 8);
    return;
  }
  uint32_t sum = 0;
  for (uint32_t& end : ends) end = std::exchange(sum, sum + end);  // now where each digit begins
  for (size_t i = 0; i < count; ++i) spare[ends[digit(entries[i])]++] = entries[i];
  std::copy(spare, spare + count, entries);
  if (shift == 0) return;
  size_t begin = 0;
  for (const uint32_t end : ends) {
    if (end - begin > 1) RadixSort(entries + begin, spare, end - begin, shift - 8);
    begin = end;
  }
}

// Calls `tie(begin, end)` for each range of two and more entries of equal prefix.
template <typename Tie>
void ForEachTie(SortedEntry* begin, SortedEntry* end, Tie tie) {
  while (begin < end) {
    SortedEntry* after = begin + 1;
    while (after < end && after->prefix == begin->prefix) ++after;
    if (after - begin > 1) tie(begin, after);
    begin = after;
  }
}

// Entries whose keys are equal in their first `depth` bytes, where shorter keys count as followed
// by zeros.
struct TieRange {
  SortedEntry* begin;
  SortedEntry* end;
  size_t depth;
};

// Sorts one such range, or splits it by the next bytes that differ; what is still equal in them is
// added to `work`.
void SplitTies(const char* data, TieRange range, SortedEntry* spare, std::vector<TieRange>* work) {
  const auto by_key = [data](const SortedEntry& a, const SortedEntry& b) {
    return KeyOf(data, a) < KeyOf(data, b);
  };
  if (static_cast<size_t>(range.end - range.begin) <= kCompareTiesMax) {
    std::sort(range.begin, range.end, by_key);
    return;
  }
  // Keys that end here are prefixes of the rest: they come first, the shorter before the longer.
  SortedEntry* const rest = std::partition(range.begin, range.end, [&](const SortedEntry& entry) {
    return KeyOf(data, entry).size() <= range.depth;
  });
  std::sort(range.begin, rest, by_key);
  if (range.end - rest < 2) return;
  const size_t depth = SharedLength(data, rest, range.end, range.depth);
  FillPrefixes(data, rest, range.end, depth);
  RadixSort(rest, spare, static_cast<size_t>(range.end - rest), kTopShift);
  ForEachTie(rest, range.end, [&](SortedEntry* begin, SortedEntry* end) {
    work->push_back({begin, end, depth + kPrefixBytes});
  });
}

// Orders entries of equal prefix, which stands for the 8 bytes before `depth`.
void SortTie(const char* data, TieRange tie, SortedEntry* spare) {
  const uint64_t prefix = tie.begin->prefix;
  std::vector<TieRange> work = {tie};
  while (!work.empty()) {
    const TieRange range = work.back();
    work.pop_back();
    SplitTies(data, range, spare, &work);
  }
  for (SortedEntry* entry = tie.begin; entry < tie.end; ++entry) entry->prefix = prefix;
}

// A length that the keys seem to share: that of a few of them.
size_t GuessShared(const char* data, const Entries& entries) {
  const Slice first = KeyOf(data, entries[0]);
  size_t shared = first.size();
  const size_t step = std::max<size_t>(entries.size() / kSample, 1);
  for (size_t i = 0; i < entries.size(); i += step) {
    shared = std::min(shared, CommonLength(first.substr(0, shared), KeyOf(data, entries[i])));
  }
  return shared;
}

// Computes the prefixes; returns the length of what all keys share, which they leave out. The
// records are read once, unless the guess was wrong.
size_t FillAll(const char* data, Entries* entries) {
  const Slice first = KeyOf(data, (*entries)[0]);
  const size_t guess = GuessShared(data, *entries);
  size_t shared = guess;
  SortedEntry* const begin = entries->data();
  SortedEntry* const end = begin + entries->size();
  ForEachKey(data, begin, end, [&](SortedEntry& entry, Slice key) {
    shared = std::min(shared, CommonLength(first.substr(0, shared), key));
    entry.prefix = base::KeyPrefix(From(key, guess));
  });
  if (shared < guess) FillPrefixes(data, begin, end, shared);
  return shared;
}

void FillTops(SortedKeys* run) {
  run->tops.reserve(run->entries.size() / kTopStep + 1);
  for (size_t i = 0; i < run->entries.size(); i += kTopStep) {
    run->tops.push_back(run->entries[i].prefix);
  }
}

}  // namespace

SortedKeys MakeRun(const char* data, Entries entries) {
  SortedKeys run;
  if (entries.empty()) return run;
  const size_t shared = FillAll(data, &entries);
  run.common = KeyOf(data, entries[0]).substr(0, shared);
  Entries spare(entries.size());
  RadixSort(entries.data(), spare.data(), entries.size(), kTopShift);
  ForEachTie(entries.data(), entries.data() + entries.size(),
             [&](SortedEntry* begin, SortedEntry* end) {
               SortTie(data, {begin, end, shared + kPrefixBytes}, spare.data());
             });
  run.entries = std::move(entries);
  FillTops(&run);
  return run;
}

SortedKeys MergeRuns(const char* data, const SortedKeys& first, const SortedKeys& second) {
  const size_t shared = CommonLength(first.common, second.common);
  const auto adapted = [&](const SortedKeys& run) {
    Entries entries = run.entries;
    if (run.common.size() != shared) {
      FillPrefixes(data, entries.data(), entries.data() + entries.size(), shared);
    }
    return entries;
  };
  const Entries a = adapted(first);
  const Entries b = adapted(second);
  SortedKeys run;
  run.common = first.common.substr(0, shared);
  run.entries.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(run.entries),
             [data](const SortedEntry& x, const SortedEntry& y) {
               if (x.prefix != y.prefix) return x.prefix < y.prefix;
               return KeyOf(data, x) < KeyOf(data, y);
             });
  FillTops(&run);
  return run;
}

// Among the tops first, which stay in the processor's cache: of the entries themselves a seek then
// touches a few neighbours.
size_t SortedKeys::LowerBound(const char* data, Slice key) const {
  const int against_common = key.substr(0, common.size()).compare(common);
  if (against_common != 0) return against_common < 0 ? 0 : entries.size();
  const uint64_t prefix = base::KeyPrefix(key.substr(common.size()));
  // Entries whose prefix is that of `key` may lie before and behind several tops.
  const auto [low, high] = std::equal_range(tops.begin(), tops.end(), prefix);
  const size_t first =
      low == tops.begin() ? 0 : static_cast<size_t>(low - 1 - tops.begin()) * kTopStep;
  const size_t last =
      high == tops.end() ? entries.size() : static_cast<size_t>(high - tops.begin()) * kTopStep;
  for (size_t i = first; i < std::min(last, first + kTopStep); i += kEntriesPerLine) {
    __builtin_prefetch(&entries[i]);
  }
  const auto begin = entries.begin();
  const auto found =
      std::lower_bound(begin + static_cast<ptrdiff_t>(first), begin + static_cast<ptrdiff_t>(last),
                       key, [&](const SortedEntry& entry, Slice wanted) {
                         if (entry.prefix != prefix) return entry.prefix < prefix;
                         return KeyOf(data, entry) < wanted;
                       });
  return static_cast<size_t>(found - begin);
}

}  // namespace quire::lsm
