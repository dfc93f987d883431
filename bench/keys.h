/// Keys and values of the benchmarks: the i-th key is a pure function of i, so nothing needs to be
/// remembered; keys of different i differ, and their order has nothing to do with i.
///
/// Layer      bench
/// Threads    KeyMaker, ValueMaker: one thread each
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "quire/slice.h"

namespace quire::bench {

/// A bijection on 64 bits that looks random (the finalizer of SplitMix64).
inline uint64_t Mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// A small random generator: a counter through Mix64.
class KeyRandom {
 public:
  explicit KeyRandom(uint64_t seed) : state_(Mix64(seed)) {}
  /// Returns 64 random bits.
  uint64_t Next() { return Mix64(state_++); }
  /// Returns a number in [0, bound), bound >= 1.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

/// Keys of `key_bytes` letters and digits. Unique for all i from 16 bytes on; for shorter keys, as
/// far as they can be.
class KeyMaker {
 public:
  explicit KeyMaker(size_t key_bytes) : key_(key_bytes, '.') {}
  /// The i-th key; valid until the next call.
  Slice operator()(uint64_t i) {
    uint64_t bits = Mix64(i);
    if (key_.size() < 16) bits = ShortBits(i);
    for (size_t at = 0; at < key_.size(); at += 16) {
      const size_t end = at + 16 < key_.size() ? at + 16 : key_.size();
      Fill(bits, at, end);
      bits = Mix64(bits);
    }
    return key_;
  }

 private:
  /// A bijection on the 4 * size bits that the key has room for (an odd multiple, then a xor of its
  /// halves).
  uint64_t ShortBits(uint64_t i) const {
    const auto bits = static_cast<unsigned>(4 * key_.size());
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    uint64_t x = (i * 0x9e3779b97f4a7c15ull) & mask;
    x ^= x >> (bits / 2);
    x = (x * 0xbf58476d1ce4e5b9ull) & mask;
    return (x ^ (x >> (bits / 2))) << (64 - bits);
  }

  void Fill(uint64_t bits, size_t begin, size_t end) {
    for (size_t at = begin; at < end; ++at) {
      key_[at] = "0123456789abcdef"[bits >> 60];
      bits <<= 4;
    }
  }

  std::string key_;
};

/// Values of `value_bytes` random bytes whose first 8 (if there is room) contain the key's number,
/// so that a reader can detect a wrong value.
class ValueMaker {
 public:
  explicit ValueMaker(size_t value_bytes, uint64_t seed = 1)
      : value_bytes_(value_bytes), bytes_(value_bytes + kSlack, '\0'), random_(seed) {
    for (size_t at = 0; at + 8 <= bytes_.size(); at += 8) {
      const uint64_t bits = random_.Next();
      std::memcpy(&bytes_[at], &bits, 8);
    }
  }

  /// A value for key number `i`; valid until the next call.
  Slice operator()(uint64_t i) {
    char* value = &bytes_[random_.Below(kSlack)];
    std::memcpy(value, &i, value_bytes_ < 8 ? value_bytes_ : 8);
    return {value, value_bytes_};
  }

  /// Returns whether `value` was made for key number `i`.
  bool Matches(uint64_t i, Slice value) const {
    return value.size() == value_bytes_ &&
           std::memcmp(value.data(), &i, value_bytes_ < 8 ? value_bytes_ : 8) == 0;
  }

 private:
  static constexpr size_t kSlack = 4096;
  size_t value_bytes_;
  std::string bytes_;
  KeyRandom random_;
};

}  // namespace quire::bench
