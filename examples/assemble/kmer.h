/// K-mers: words of k bases, two bits each, of either strand. Reads are split into them, and graphs
/// consist of them.
///
/// Layer      example
/// Encoding   a base is A 0, C 1, G 2, T 3, so that its complement is 3 - base; a k-mer is a number
/// of 2k bits
///            whose highest base comes first; as a database key, its bytes, highest first
/// Threads    values
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "quire/slice.h"

namespace quire::assemble {

using Kmer = unsigned __int128;

/// The largest k: a base takes two bits, and 128 bits have room for one more base during a step.
inline constexpr int kKmerBasesMax = 63;

/// The code of every other letter (N and so on), at which a read is split.
inline constexpr uint8_t kNoBase = 4;

/// Returns the code of a letter, either case.
inline uint8_t BaseCode(char letter) {
  switch (letter) {
    case 'A':
    case 'a':
      return 0;
    case 'C':
    case 'c':
      return 1;
    case 'G':
    case 'g':
      return 2;
    case 'T':
    case 't':
      return 3;
    default:
      return kNoBase;
  }
}

/// Returns the letter of a code below 4.
inline char BaseLetter(unsigned code) {
  return "ACGT"[code];
}

/// Returns a hash of all bits of a k-mer: equal on every machine and for every number of ranks.
inline uint64_t MixKmer(Kmer kmer) {
  uint64_t x =
      static_cast<uint64_t>(kmer) ^ (static_cast<uint64_t>(kmer >> 64) * 0x9e3779b97f4a7c15ull);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// A k-mer as bytes, without heap memory.
class KmerKey {
 public:
  Slice slice() const { return {bytes_.data(), size_}; }
  operator Slice() const { return slice(); }  // NOLINT: implicit by intent

 private:
  friend class KmerShape;
  std::array<char, 16> bytes_;
  size_t size_ = 0;
};

/// The operations that depend on k.
class KmerShape {
 public:
  /// @param k  bases, in [1, kKmerBasesMax]
  explicit KmerShape(int k)
      : k_(k), mask_((Kmer{1} << (2 * k)) - 1), key_bytes_(static_cast<size_t>(2 * k + 7) / 8) {}

  int k() const { return k_; }
  size_t key_bytes() const { return key_bytes_; }

  /// Returns `kmer` without its first base, with `base` appended.
  Kmer Append(Kmer kmer, unsigned base) const { return ((kmer << 2) | base) & mask_; }
  /// Returns `kmer` without its last base, with `base` prepended.
  Kmer Prepend(Kmer kmer, unsigned base) const {
    return (kmer >> 2) | (static_cast<Kmer>(base) << (2 * (k_ - 1)));
  }
  unsigned FirstBase(Kmer kmer) const { return static_cast<unsigned>(kmer >> (2 * (k_ - 1))); }

  /// Returns the same place read on the other strand.
  Kmer ReverseComplement(Kmer kmer) const {
    Kmer result = 0;
    for (int i = 0; i < k_; ++i, kmer >>= 2) {
      result = (result << 2) | (3 - static_cast<unsigned>(kmer & 3));
    }
    return result;
  }
  /// Returns the smaller of the two readings, which represents both strands.
  Kmer Canonical(Kmer kmer) const {
    const Kmer other = ReverseComplement(kmer);
    return kmer < other ? kmer : other;
  }

  KmerKey Key(Kmer kmer) const {
    KmerKey key;
    key.size_ = key_bytes_;
    for (size_t i = key_bytes_; i-- > 0; kmer >>= 8) key.bytes_[i] = static_cast<char>(kmer & 0xff);
    return key;
  }
  /// Returns the k-mer that Key() converted to these bytes.
  static Kmer FromKey(Slice key) {
    Kmer kmer = 0;
    for (const char byte : key) kmer = (kmer << 8) | static_cast<unsigned char>(byte);
    return kmer;
  }

  std::string Text(Kmer kmer) const {
    std::string text(static_cast<size_t>(k_), ' ');
    for (size_t i = text.size(); i-- > 0; kmer >>= 2) {
      text[i] = BaseLetter(static_cast<unsigned>(kmer & 3));
    }
    return text;
  }

 private:
  int k_;
  Kmer mask_;
  size_t key_bytes_;
};

/// One k-mer of a read, in its canonical reading, and the bases beside it there (kNoBase: none).
struct KmerInRead {
  Kmer kmer;
  uint8_t left;
  uint8_t right;
};

/// Calls `visit(KmerInRead)` for each k-mer of `sequence`, from left to right; twice for a k-mer
/// that is its own reverse complement (k is even), because it occurs on both strands. So no k-mer
/// is counted less often than one of its edges.
template <typename Visit>
void ForEachKmer(const KmerShape& shape, Slice sequence, Visit&& visit) {
  const auto k = static_cast<size_t>(shape.k());
  Kmer forward = 0;
  Kmer backward = 0;
  size_t run = 0;  // bases since the last break
  uint8_t next = sequence.empty() ? kNoBase : BaseCode(sequence[0]);
  for (size_t i = 0; i < sequence.size(); ++i) {
    const uint8_t base = next;
    next = i + 1 < sequence.size() ? BaseCode(sequence[i + 1]) : kNoBase;
    if (base == kNoBase) {
      run = 0;
      continue;
    }
    forward = shape.Append(forward, base);
    backward = shape.Prepend(backward, 3u - base);
    if (++run < k) continue;
    const uint8_t left = run > k ? BaseCode(sequence[i - k]) : kNoBase;
    const auto complement = [](uint8_t code) {
      return static_cast<uint8_t>(code == kNoBase ? kNoBase : 3 - code);
    };
    if (forward <= backward) visit(KmerInRead{forward, left, next});
    if (backward <= forward) visit(KmerInRead{backward, complement(next), complement(left)});
  }
}

}  // namespace quire::assemble
