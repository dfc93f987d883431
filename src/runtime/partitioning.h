/// The rule that gives every key its owner among a number of ranks: the hash of the key, or a
/// function of the program. An exception of that function reaches callers as a Status alone.
///
/// Layer      runtime
/// Threads    any; the program's function runs on the caller's
#pragma once

#include <cstdint>
#include <string>

#include "base/hash/hash.h"
#include "quire/database.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::runtime {

class Partitioning {
 public:
  /// The name of the rule by hash, as it is stored with databases and datasets.
  static constexpr char kByHash[] = "hash";

  /// Creates the rule by hash.
  Partitioning() = default;
  /// Creates the rule by `function`, whose name is `name`.
  ///
  /// Errors  kInvalidArgument: there is a function without a name of its own, or a name without a
  ///         function. No function and no name, or kByHash: by hash.
  static Result<Partitioning> Make(const Partitioner& function, const std::string& name);
  /// Creates the rule by `function` without a name, for readers that receive none; by hash if it is
  /// empty.
  explicit Partitioning(Partitioner function);

  bool by_hash() const { return !function_; }
  /// Empty: a function without a name.
  const std::string& name() const { return name_; }

  /// Returns the owner of `key`, whose hash is `hash`, out of `rank_count` ranks; if the program's
  /// function returns a wrong number or throws, returns a number that is no rank.
  int Ask(Slice key, uint64_t hash, int rank_count) const {
    if (function_) [[unlikely]]
      return function_(key, rank_count);
    return base::OwnerOf(hash, rank_count);
  }
  /// Returns why `answer`, which Ask has just returned on this thread, is no rank of `rank_count`:
  /// kInvalidArgument, or kOutOfMemory if the function threw std::bad_alloc.
  static Status NoSuchOwner(int answer, int rank_count);
  /// Returns the result of Ask; NoSuchOwner's error only if the function threw.
  Result<int> AnswerFor(Slice key, uint64_t hash, int rank_count) const;
  /// Returns the result of Ask; NoSuchOwner's error if it is no rank.
  Result<int> OwnerOf(Slice key, uint64_t hash, int rank_count) const;

  /// Returns whether some key may be owned by `rank` of `rank_count` and by `other` of
  /// `other_count`.
  bool MayShareKeys(int rank, int rank_count, int other, int other_count) const;

 private:
  Partitioner function_;  ///< does not throw
  std::string name_ = kByHash;
};

}  // namespace quire::runtime
