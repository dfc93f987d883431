/// Pairs as they are, sorted by hash: those for which a RankMap has no better place.
///
/// Layer      filter
/// Encoding   docs/format/rankmap.md
/// Threads    pure functions on bytes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "filter/rank_map/rank_map.h"

namespace quire::filter {

/// Sorts the pairs and appends them: u64 hash, u32 rank of each.
void AppendPairs(std::vector<KeyRank>* pairs, std::string* to);

class PairList {
 public:
  static uint64_t Bytes(uint64_t count) { return count * 12; }
  /// `bytes` may be longer than the list.
  PairList(Slice bytes, uint32_t count) : bytes_(bytes), count_(count) {}
  /// Returns why the list is invalid, or null.
  const char* Validate(uint32_t rank_count) const;
  /// Appends the ranks of a key. The list must be valid.
  void Find(uint64_t hash, std::vector<uint32_t>* ranks) const;

 private:
  uint64_t HashAt(uint32_t i) const;
  uint32_t RankAt(uint32_t i) const;

  Slice bytes_;
  uint32_t count_;
};

}  // namespace quire::filter
