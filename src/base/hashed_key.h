/// A key with its hash, which is taken once in a call and travels with it: to the rule that picks
/// the owner, to caches, indexes and filters.
///
/// Layer      base
/// Threads    pure
#pragma once

#include <concepts>
#include <cstdint>

#include "base/hash.h"
#include "quire/slice.h"

namespace quire::base {

struct HashedKey {
  /// Takes the hash. A key in any form that is a Slice is given as it is.
  template <typename Key>
    requires std::convertible_to<const Key&, Slice>
  HashedKey(const Key& of)  // NOLINT(google-explicit-constructor)
      : key(of), hash(HashKey(key)) {}
  HashedKey(Slice of, uint64_t its_hash) : key(of), hash(its_hash) {}
  HashedKey(const char*, uint64_t) = delete;  // the number would be a size

  Slice key;
  uint64_t hash;  ///< HashKey(key)
};

}  // namespace quire::base
