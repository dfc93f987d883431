/// A map that is in memory as a whole, for tests and benchmarks.
///
/// Layer      filter
/// Threads    any
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "filter/rank_map/rank_map.h"

namespace quire::filter {

class WholeRankMap {
 public:
  /// Every shard is checked. Errors  kCorruption.
  static Result<WholeRankMap> Open(std::string bytes) {
    QUIRE_ASSIGN_OR_RETURN(RankMap map, RankMap::Open(bytes));
    if (map.bytes() != bytes.size()) return Status(Code::kCorruption, "another size");
    WholeRankMap whole(std::move(bytes), std::move(map));
    for (uint32_t number = 0; number < whole.map_.shard_count(); ++number) {
      QUIRE_RETURN_IF_ERROR(whole.map_.Check(number, whole.ShardBytes(number)));
    }
    return whole;
  }
  const RankMap& map() const { return map_; }
  void Find(uint64_t hash, std::vector<uint32_t>* ranks) const {
    map_.Find(hash, ShardBytes(map_.ShardOf(hash)), ranks);
  }

 private:
  WholeRankMap(std::string bytes, RankMap map) : bytes_(std::move(bytes)), map_(std::move(map)) {}
  Slice ShardBytes(uint32_t number) const {
    const RankMap::Extent extent = map_.shard(number);
    return Slice(bytes_).substr(extent.offset, extent.bytes);
  }

  std::string bytes_;
  RankMap map_;
};

}  // namespace quire::filter
