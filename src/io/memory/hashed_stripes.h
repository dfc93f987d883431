/// The loop that copies long inputs and hashes them on the way, so that memory is read once. It is
/// compiled once per register width, with the same results.
///
/// Layer      io (internal)
/// Source     XXH3's specification: the long inputs' lanes
/// Threads    pure functions
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace quire::io {

/// The bytes that XXH3 reads at once, and the number of such stripes between two scrambles.
constexpr size_t kStripeBytes = 64;
constexpr size_t kBlockStripes = 16;
constexpr size_t kSecretBytes = 192;
/// The step of the secret from stripe to stripe.
constexpr size_t kSecretStep = 8;

/// The lanes, and the secret derived from the seed.
struct HashedStripes {
  alignas(64) uint64_t lanes[8];
  alignas(64) unsigned char secret[kSecretBytes];
};

/// Copies `count` stripes, the first of them the first of a block, and adds them to the lanes. The
/// lanes are scrambled behind each whole block. Reads nothing else, but may prefetch it.
using CopyStripes = void (*)(char* to, const char* from, size_t count, HashedStripes* hash);

/// The copy functions: for every `to`, and, bypassing the caches, for multiples of 64 and of 16.
struct StripeCopier {
  CopyStripes to_any;
  CopyStripes past_caches_64;
  CopyStripes past_caches_16;
};

#if defined(__x86_64__)
extern const StripeCopier kStripesSse2;
/// Call it only on a processor with AVX2.
extern const StripeCopier kStripesAvx2;
#endif

}  // namespace quire::io
