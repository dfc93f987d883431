/// A map from the keys of one partition to the ranks that wrote them. It takes a few bits per key,
/// because it does not store the keys. A lookup never omits a rank that wrote the key; which other
/// ranks it returns depends on the kind of map:
///   bloom     others by chance: (N - 1) times the error of its filter
///   cuckoo    others by chance: about one, whatever N is
///   ribbon    none, for a key that is in the map; any one rank or none, for any other key
///
/// Layer      filter
/// Source     FilterKV, CMU-PDL-19-104, section 4 (bloom, cuckoo); Dillinger, Huebschle-Schneider,
///            Sanders, Walzer: Fast Succinct Retrieval and Approximate Membership using Ribbon,
///            2022 (ribbon: bumped, in shards)
/// Encoding   docs/format/rankmap.md
/// Threads    pure functions on bytes
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/threads/executor.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::filter {

/// Ranks are below 2^24.
constexpr uint32_t kRankCountMax = 1u << 24;

/// One key, by its hash (base::HashKey), and a rank that wrote it.
struct KeyRank {
  uint64_t hash;
  uint32_t rank;

  friend auto operator<=>(const KeyRank& a, const KeyRank& b) = default;
};

enum class RankMapKind : uint8_t { kBloom = 1, kCuckoo = 2, kRibbon = 3 };

struct RankMapOptions {
  RankMapKind kind = RankMapKind::kRibbon;
  uint32_t rank_count = 1;  ///< N: ranks are below it
  /// kBloom: how many ranks a lookup may return by chance, on average; 0: as many as result from 4
  /// + log2 N bits per key, as in the paper's figure 7.
  double chance_ranks = 0;
};

/// Builds the map of `pairs`, in any order. A key that several ranks wrote is in several pairs;
/// duplicate pairs count once. Changes `pairs`. The same pairs give the same bytes in any order.
/// Shards are built in parallel if threads of `executor` (null: none) are free.
/// Cost: 60 to 250 ns per pair and some 24 bytes of memory beside them.
std::string BuildRankMap(const RankMapOptions& options, std::vector<KeyRank>* pairs,
                         base::Executor* executor = nullptr);

/// The head of a map, which says where its shards lie. A shard contains all pairs of some 65,536
/// keys, and is read, checked and searched by itself.
class RankMap {
 public:
  /// The bytes at the beginning of a map that HeadBytes needs.
  static constexpr uint64_t kPrefixBytes = 32;
  /// Returns the size of the head. Errors  kCorruption: this is not the beginning of a map.
  static Result<uint64_t> HeadBytes(Slice prefix);
  /// Opens a map by its head. Errors  kCorruption; kUnsupported: a kind of a newer version.
  static Result<RankMap> Open(Slice head);

  /// Returns the part of a map's bytes by which its head differs from all others.
  static uint64_t Fingerprint(Slice map);

  RankMapKind kind() const { return kind_; }
  uint32_t rank_count() const { return rank_count_; }
  uint64_t pair_count() const { return pair_count_; }
  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  /// Returns the size of the whole map: the shards follow the head, one behind another.
  uint64_t bytes() const;

  struct Extent {
    uint64_t offset;  ///< from the beginning of the map
    uint64_t bytes;
  };
  Extent shard(uint32_t number) const { return shards_[number].extent; }
  /// Returns the shard of the key with this hash, if the map contains it; there is at least one
  /// shard.
  uint32_t ShardOf(uint64_t hash) const;
  /// Verifies that the bytes of that shard are as they were written.
  ///
  /// Errors  kCorruption
  /// Cost    reads the shard once
  Status Check(uint32_t number, Slice shard) const;
  /// Appends the ranks that may have written the key with this hash, each once, in rising order.
  /// `shard`: the bytes of ShardOf(hash), checked.
  /// Cost: one to three cache misses; kBloom tests each of the N ranks in its filter.
  void Find(uint64_t hash, Slice shard, std::vector<uint32_t>* ranks) const;

 private:
  struct Shard {
    Extent extent;
    uint64_t checksum;
  };
  RankMapKind kind_ = RankMapKind::kRibbon;
  uint32_t rank_count_ = 0;
  uint64_t pair_count_ = 0;
  std::vector<Shard> shards_;
};

}  // namespace quire::filter
