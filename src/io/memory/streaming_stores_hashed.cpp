// StreamingCopyHashed and CopyHashed: hash long inputs by XXH3 while they are copied. For up to 240
// bytes XXH3 is another function, and they are in the caches anyway, so that two calls are enough.
#include <algorithm>
#include <cstring>

#include "io/memory/hashed_stripes.h"
#include "io/memory/streaming_stores.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quire::io {
namespace {

constexpr size_t kShortBytesMax = 240;
constexpr size_t kBlockBytes = kBlockStripes * kStripeBytes;
// Larger copies would drive everything else out of the caches, and in the end themselves.
constexpr size_t kCachedBytesMax = 8 << 20;

// The lanes of XXH3 before the first stripe.
constexpr uint64_t kPrime32[] = {0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D};
constexpr uint64_t kPrime64[] = {0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                                 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5};
constexpr uint64_t kFirstLanes[8] = {kPrime32[2], kPrime64[0], kPrime64[1], kPrime64[2],
                                     kPrime64[3], kPrime32[1], kPrime64[4], kPrime32[0]};
// The places in the secret of the last stripe's key, and of the key with which the lanes are
// merged.
constexpr size_t kLastKey = kSecretBytes - kStripeBytes - 7;
constexpr size_t kMergeKey = 11;

#if defined(__x86_64__)

uint64_t Read64(const void* from) {
  uint64_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

uint64_t MultiplyAndFold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

void Begin(uint64_t seed, HashedStripes* hash) {
  std::memcpy(hash->lanes, kFirstLanes, sizeof(kFirstLanes));
  XXH3_generateSecret_fromSeed(hash->secret, seed);
}

// Adds the last 64 bytes of the input, which may overlap those that were added before.
void AddLastStripe(const char* from, HashedStripes* hash) {
  for (size_t i = 0; i < 8; ++i) {
    const uint64_t value = Read64(from + 8 * i);
    const uint64_t keyed = value ^ Read64(hash->secret + kLastKey + 8 * i);
    hash->lanes[i ^ 1] += value;
    hash->lanes[i] += (keyed & 0xFFFFFFFF) * (keyed >> 32);
  }
}

uint64_t Merge(const HashedStripes& hash, size_t size) {
  uint64_t merged = size * kPrime64[0];
  for (size_t i = 0; i < 8; i += 2) {
    const unsigned char* key = hash.secret + kMergeKey + 8 * i;
    merged += MultiplyAndFold(hash.lanes[i] ^ Read64(key), hash.lanes[i + 1] ^ Read64(key + 8));
  }
  merged ^= merged >> 37;
  merged *= 0x165667919E3779F9;
  return merged ^ merged >> 32;
}

uint64_t End(const char* from, size_t size, HashedStripes* hash) {
  AddLastStripe(from + size - kStripeBytes, hash);
  return Merge(*hash, size);
}

// Returns the number of stripes before the last one: of whole blocks, and of the unfinished block.
size_t StripesOf(size_t size) {
  return (size - 1) / kStripeBytes;
}

// Returns null for a kind without a copier.
const StripeCopier* CopierOf(StoreKind kind) {
  if (kind == StoreKind::kSse2) return &kStripesSse2;
  return kind == StoreKind::kAvx2 || kind == StoreKind::kAvx512 ? &kStripesAvx2 : nullptr;
}

#endif

// Copies and hashes pieces that stay in the nearest cache, for kinds without a loop of their own.
// `copy` returns the place at which to hash a piece.
template <typename CopyPiece>
void CopyInPieces(size_t begin, size_t end, XXH3_state_t* hash, const CopyPiece& copy) {
  constexpr size_t kPieceBytes = 16 << 10;
  for (size_t at = begin; at < end; at += kPieceBytes) {
    const size_t bytes = std::min(kPieceBytes, end - at);
    XXH3_64bits_update(hash, copy(at, bytes), bytes);
  }
}

void BeginPieces(uint64_t seed, XXH3_state_t* hash) {
  XXH3_INITSTATE(hash);
  XXH3_64bits_reset_withSeed(hash, seed);
}

}  // namespace

uint64_t StreamingCopyHashed(char* to, const char* from, size_t size, uint64_t seed,
                             StoreKind kind) {
  if (size <= kShortBytesMax) {
    const uint64_t hash = XXH3_64bits_withSeed(from, size, seed);
    StreamingCopy(to, from, size, kind);
    return hash;
  }
#if defined(__x86_64__)
  if (const StripeCopier* copier = CopierOf(kind)) {
    HashedStripes hash;
    Begin(seed, &hash);
    const size_t count = StripesOf(size);
    copier->past_caches_64(to, from, count, &hash);
    const size_t done = count * kStripeBytes;
    StreamingCopy(to + done, from + done, size - done, kind);
    return End(from, size, &hash);
  }
#endif
  XXH3_state_t hash;
  BeginPieces(seed, &hash);
  CopyInPieces(0, size, &hash, [to, from, kind](size_t at, size_t bytes) {
    StreamingCopy(to + at, from + at, bytes, kind);
    return from + at;
  });
  return XXH3_64bits_digest(&hash);
}

// A copy whose hash is that of the bytes at `to`, because `from` may change while this runs.
struct HashedCopy::State {
  State(char* target, const char* source, size_t bytes, uint64_t seed)
      : to(target), from(source), size(bytes) {
#if defined(__x86_64__)
    if (size > kShortBytesMax) copier = CopierOf(BestStores());
    if (copier != nullptr) {
      Begin(seed, &stripes);
      return;
    }
#endif
    BeginPieces(seed, &pieces);
  }

  void CopyUpTo(size_t end) {
#if defined(__x86_64__)
    // Copies whole blocks; End copies the rest in another way.
    if (copier != nullptr) {
      return CopyStripes(std::min(end, size - 1) / kBlockBytes * kBlockStripes);
    }
#endif
    end = std::min(end, size);
    if (end <= done) return;
    CopyInPieces(done, end, &pieces, [this](size_t at, size_t bytes) {
      std::memcpy(to + at, from + at, bytes);
      return to + at;
    });
    done = end;
  }

  uint64_t End() {
#if defined(__x86_64__)
    if (copier != nullptr) {
      CopyStripes(StripesOf(size));
      if (PastCaches()) DrainStreamingStores();
      std::memcpy(to + done, from + done, size - done);
      return io::End(to, size, &stripes);
    }
#endif
    CopyUpTo(size);
    return XXH3_64bits_digest(&pieces);
  }

#if defined(__x86_64__)
  bool PastCaches() const {
    return size > kCachedBytesMax && reinterpret_cast<uintptr_t>(to) % 16 == 0;
  }
  // Copies the stripes before stripe `end` that were not copied yet.
  void CopyStripes(size_t end) {
    const size_t begin = done / kStripeBytes;
    if (end <= begin) return;
    const auto copy = PastCaches() ? copier->past_caches_16 : copier->to_any;
    copy(to + done, from + done, end - begin, &stripes);
    done = end * kStripeBytes;
  }

  const StripeCopier* copier = nullptr;
  HashedStripes stripes;
#endif
  char* const to;
  const char* const from;
  const size_t size;
  size_t done = 0;
  XXH3_state_t pieces;
};

uint64_t CopyHashed(char* to, const char* from, size_t size, uint64_t seed) {
  if (size <= kShortBytesMax) {
    if (size != 0) std::memcpy(to, from, size);
    return XXH3_64bits_withSeed(to, size, seed);
  }
  return HashedCopy::State(to, from, size, seed).End();
}

HashedCopy::HashedCopy(char* to, const char* from, size_t size, uint64_t seed)
    : state_(std::make_unique<State>(to, from, size, seed)) {}
HashedCopy::~HashedCopy() = default;
HashedCopy::HashedCopy(HashedCopy&&) noexcept = default;
void HashedCopy::CopyUpTo(size_t end) {
  state_->CopyUpTo(end);
}
uint64_t HashedCopy::End() {
  return state_->End();
}

}  // namespace quire::io
