/// The rule that gives every key its owner among a number of ranks: the hash of the key, or a
/// function of the program. An exception of that function reaches callers as a Status alone.
///
/// Layer      runtime
/// Threads    any; the program's function runs on the caller's
#pragma once

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "quire/database.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::runtime {

class Partitioning {
 public:
  /// The name of the rule by hash, as it is stored with what was partitioned by it.
  static constexpr char kByHash[] = "hash";

  /// By hash.
  Partitioning() = default;
  /// By `function`, whose name is `name`.
  ///
  /// Errors  kInvalidArgument: there is a function without a name of its own, or a name without a
  ///         function. No function and no name, or kByHash: by hash.
  static Result<Partitioning> Make(const Partitioner& function, const std::string& name);
  /// By `function` under no name, for readers that are given none; by hash if it is empty.
  explicit Partitioning(Partitioner function);

  bool by_hash() const { return !function_; }
  /// Empty: a function without a name.
  const std::string& name() const { return name_; }

  /// Returns what the rule answers for `key`, whose hash is `hash`: the owner, one of `rank_count`
  /// ranks, or, if the program's function errs or throws, a number that is none of them.
  int Ask(Slice key, uint64_t hash, int rank_count) const {
    if (function_) [[unlikely]]
      return function_(key, rank_count);
    return base::OwnerOf(hash, rank_count);
  }
  /// Why `answer`, which Ask returned on this thread just now, is no rank of `rank_count`:
  /// kInvalidArgument, or kOutOfMemory if the function threw std::bad_alloc.
  static Status NoSuchOwner(int answer, int rank_count);
  /// Ask, of which only what the function threw is an error: NoSuchOwner's.
  Result<int> AnswerFor(Slice key, uint64_t hash, int rank_count) const;
  /// Ask, of which every answer that is no rank is an error: NoSuchOwner's.
  Result<int> OwnerOf(Slice key, uint64_t hash, int rank_count) const;

  /// Whether a key that `rank` of `rank_count` owns may be one that `other` of `other_count` does.
  bool MayShareKeys(int rank, int rank_count, int other, int other_count) const;

 private:
  Partitioner function_;  ///< does not throw
  std::string name_ = kByHash;
};

}  // namespace quire::runtime
