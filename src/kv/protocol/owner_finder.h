/// Finds the rank that owns a key of an open database.
///
/// Layer      kv
/// Source     PapyrusKV, SC17, section 2.3 (owners, custom hash functions)
/// Threads    any; a partitioner of the program runs on the caller's
#pragma once

#include <string>
#include <utility>

#include "base/hash/hashed_key.h"
#include "runtime/partitioning.h"

namespace quire::kv {

class OwnerFinder {
 public:
  /// A key, and the rank that the partitioning returns for it. `owner` is no rank if a partitioner
  /// of the program is wrong.
  struct Place {
    base::HashedKey key;
    int owner;
  };

  /// `database_name` is for messages, and outlives this.
  OwnerFinder(runtime::Partitioning partitioning, int rank, int rank_count,
              const std::string& database_name)
      : partitioning_(std::move(partitioning)),
        rank_(rank),
        rank_count_(rank_count),
        name_(database_name) {}
  OwnerFinder(const OwnerFinder&) = delete;
  OwnerFinder& operator=(const OwnerFinder&) = delete;

  Place Find(Slice key) const {
    const base::HashedKey hashed(key);
    return {hashed, partitioning_.Ask(key, hashed.hash, rank_count_)};
  }
  bool IsHere(int owner) const { return owner == rank_; }
  bool IsRank(int owner) const { return owner >= 0 && owner < rank_count_; }
  /// Returns the error of a call for a key whose `owner`, which Find just returned on this thread,
  /// is no rank.
  Status NoSuchOwner(int owner) const {
    return runtime::Partitioning::NoSuchOwner(owner, rank_count_).WithContext("database " + name_);
  }
  const runtime::Partitioning& partitioning() const { return partitioning_; }

 private:
  const runtime::Partitioning partitioning_;
  const int rank_;
  const int rank_count_;
  const std::string& name_;
};

}  // namespace quire::kv
