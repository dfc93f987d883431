/// Which ranks wrote a key: a map from the keys of one partition to ranks that takes a few bits per
/// key, because it does not keep the keys. It never leaves out a rank; what else it answers depends
/// on its kind:
///   bloom     the rank, and others by chance: (N - 1) times the error of its filter
///   cuckoo    the rank, and others by chance: about one, whatever N is
///   ribbon    the rank alone, of a key that is in; any one rank or none, of a key that is not
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

#include "base/executor.h"
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
  /// kBloom: how many ranks a question may answer by chance, on average; 0: as many as
  /// 4 + log2 N bits per key give, as in the paper's figure 7.
  double chance_ranks = 0;
};

/// The map of these pairs, which may be any; a key that several ranks wrote is in several, and the
/// same pair counts once. Changes `pairs`. The same pairs give the same bytes in any order.
/// Shards are built beside each other where threads of `executor` (null: none) are free.
/// Cost: 60 to 250 ns per pair and some 24 bytes of memory beside them.
std::string BuildRankMap(const RankMapOptions& options, std::vector<KeyRank>* pairs,
                         base::Executor* executor = nullptr);

/// A map: its head, which says where its shards lie. A shard has all pairs of some 65,536 keys, and
/// is read, checked and asked by itself.
class RankMap {
 public:
  /// The bytes at the beginning of a map that HeadBytes needs.
  static constexpr uint64_t kPrefixBytes = 32;
  /// The size of the head. Errors  kCorruption: this is not the beginning of a map.
  static Result<uint64_t> HeadBytes(Slice prefix);
  /// Errors  kCorruption; kUnsupported: a kind of a newer version.
  static Result<RankMap> Open(Slice head);

  /// Returns the part of a map's bytes by which its head differs from all others.
  static uint64_t Fingerprint(Slice map);

  RankMapKind kind() const { return kind_; }
  uint32_t rank_count() const { return rank_count_; }
  uint64_t pair_count() const { return pair_count_; }
  uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
  /// Size of all of it: the shards follow the head, one behind another.
  uint64_t bytes() const;

  struct Extent {
    uint64_t offset;  ///< from the beginning of the map
    uint64_t bytes;
  };
  Extent shard(uint32_t number) const { return shards_[number].extent; }
  /// Returns the shard of the key with this hash, if the map contains it; there is at least one
  /// shard.
  uint32_t ShardOf(uint64_t hash) const;
  /// The bytes of that shard are as they were written.
  ///
  /// Errors  kCorruption
  /// Cost    one reading
  Status Check(uint32_t number, Slice shard) const;
  /// Appends the ranks that may have written the key with this hash, each once, in rising order.
  /// `shard`: the bytes of ShardOf(hash), checked.
  /// Cost: one to three cache misses; kBloom asks its filter about each of the N ranks.
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
