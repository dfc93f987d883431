/// Checksums of more than 240 bytes: compiled twice, for any machine and for AVX2, same values.
///
/// Layer      base (internal)
/// Threads    pure functions
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quire::base {

constexpr size_t kHashStateBytes = 576;

struct HashPart {
  const char* data;
  size_t size;
};

/// XXH3-64 with a seed, of one string and of three strings one after another; and with seed 0, of
/// each of `count` blocks of 256 bytes; and of one string that comes in pieces, in a `state` of
/// kHashStateBytes, which begins at a multiple of 64.
struct LongHash {
  uint64_t (*one)(const char* data, size_t size, uint64_t seed);
  uint64_t (*three)(const HashPart parts[3], uint64_t seed);
  void (*blocks)(const char* data, size_t count, uint64_t* hashes);
  void (*begin)(void* state, uint64_t seed);
  void (*add)(void* state, const char* data, size_t size);
  uint64_t (*end)(const void* state);
};

extern const LongHash kLongHashAny;
#if defined(__x86_64__)
/// Call it only on a processor with AVX2.
extern const LongHash kLongHashAvx2;
#endif

}  // namespace quire::base
