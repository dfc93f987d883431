/// A key with its hash, which is computed once in a call and passed on with the key: to the
/// partitioner, caches, indexes and filters.
///
/// Layer      base
/// Threads    pure
#pragma once

#include <concepts>
#include <cstdint>

#include "base/hash/hash.h"
#include "quire/slice.h"

namespace quire::base {

struct HashedKey {
  /// Computes the hash. Implicit, so that any key that converts to a Slice can be passed directly.
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
