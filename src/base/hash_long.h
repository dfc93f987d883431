/// Checksums of more than 240 bytes: compiled twice, for any machine and for AVX2, same values.
///
/// Layer      base (internal)
/// Threads    pure functions
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quire::base {

struct HashPart {
  const char* data;
  size_t size;
};

/// XXH3-64 with a seed, of one string and of three strings one after another.
struct LongHash {
  uint64_t (*one)(const char* data, size_t size, uint64_t seed);
  uint64_t (*three)(const HashPart parts[3], uint64_t seed);
};

extern const LongHash kLongHashAny;
#if defined(__x86_64__)
/// To be called only where the processor has AVX2.
extern const LongHash kLongHashAvx2;
#endif

}  // namespace quire::base
