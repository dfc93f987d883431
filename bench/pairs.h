/// The pairs that a benchmark puts and gets, on any store with Put and Get: those of keys.h, each
/// value compared with the one that was put.
///
/// Layer      bench
/// Threads    one thread each
#pragma once

#include <cstdint>
#include <string>

#include "keys.h"
#include "quire/status.h"

namespace quire::bench {

class Pairs {
 public:
  Pairs(size_t key_bytes, size_t value_bytes, uint64_t value_seed = 1)
      : keys_(key_bytes), values_(value_bytes, value_seed) {}

  /// Returns the i-th key; valid until the next call.
  Slice Key(uint64_t i) { return keys_(i); }

  /// Puts pair number `i`. Errors  the store's.
  template <typename Store>
  Status Put(Store& store, uint64_t i) {
    return store.Put(keys_(i), values_(i));
  }

  /// Puts the pairs [begin, begin + count), in this order. Errors  the store's.
  template <typename Store>
  Status PutAll(Store& store, uint64_t begin, uint64_t count) {
    for (uint64_t i = begin; i < begin + count; ++i) QUIRE_RETURN_IF_ERROR(Put(store, i));
    return Status();
  }

  /// Gets pair number `i`. Errors  the store's; kCorruption if the value belongs to another key.
  template <typename Store>
  Status Get(Store& store, uint64_t i) {
    QUIRE_RETURN_IF_ERROR(store.Get(keys_(i), &value_));
    if (values_.Matches(i, value_)) return Status();
    return Status(Code::kCorruption, "wrong value for key " + std::to_string(i));
  }

  /// Makes `count` operations, each on a random one of the pairs [begin, begin + count):
  /// `put_percent` of 100 are puts, the rest gets. Errors  those of Put and Get.
  template <typename Store>
  Status Mix(Store& store, uint64_t begin, uint64_t count, int put_percent) {
    KeyRandom random(begin + 1);
    for (uint64_t n = 0; n < count; ++n) {
      const uint64_t i = begin + random.Below(count);
      const bool put = random.Below(100) < static_cast<uint64_t>(put_percent);
      QUIRE_RETURN_IF_ERROR(put ? Put(store, i) : Get(store, i));
    }
    return Status();
  }

 private:
  KeyMaker keys_;
  ValueMaker values_;
  std::string value_;  // the last one got
};

}  // namespace quire::bench
