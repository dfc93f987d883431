/// How often each k-mer occurs, and beside which bases: kept in a distributed database, changed by
/// updates that run where a k-mer lives.
///
/// Layer      example
/// Encoding   record of a k-mer: u32 little-endian count, then 8 bytes: how often A, C, G, T stood
/// left of it, then
///            right of it; each stops at its largest value. Argument of the update: a record to be
///            added.
/// Threads    KmerCounter: one thread
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kmer.h"
#include "quire/database.h"

namespace quire::assemble {

/// The counts of one k-mer.
struct KmerCounts {
  uint32_t count = 0;
  std::array<uint8_t, 8> beside{};  ///< left A, C, G, T, right A, C, G, T

  static constexpr size_t kBytes = 12;
  /// Adds one occurrence.
  void Add(uint8_t left, uint8_t right);
  /// Adds what was counted elsewhere.
  void Add(const KmerCounts& other);
  void Encode(char* bytes) const;
  /// Errors  kCorruption where `bytes` is no record.
  static Result<KmerCounts> Decode(Slice bytes);
};

/// The number of the update that adds to a k-mer's counts.
inline constexpr uint32_t kAddCounts = 1;

/// Adds the counts in `argument` to those that are there.
Status AddCounts(Slice key, const Slice* present, Slice argument, std::string* updated);

/// Counts k-mers of one rank's reads into the database. What comes again soon is added up here, in
/// a table of fixed size, before it is sent.
class KmerCounter {
 public:
  /// @param slot_bits  the table has 2^slot_bits slots of 32 bytes; 0: none, every occurrence is an
  /// update
  KmerCounter(Database& database, const KmerShape& shape, unsigned slot_bits);

  /// Counts every k-mer of `sequence`.
  Status Add(Slice sequence);
  /// Sends what is still here. (Visible to all after Fence or Barrier.)
  Status Flush();

  /// K-mers counted so far, each occurrence once.
  uint64_t occurrence_count() const { return occurrence_count_; }

 private:
  struct Slot {
    Kmer kmer;
    KmerCounts counts;
  };

  // Where a k-mer's counts may stand: one cache line.
  struct alignas(64) Bucket {
    std::array<Slot, 2> slots;
  };

  Bucket& BucketOf(Kmer kmer) { return buckets_[MixKmer(kmer) & (buckets_.size() - 1)]; }
  Status AddCollected();
  Status AddOne(const KmerInRead& found);
  Status Send(Kmer kmer, const KmerCounts& counts);

  Database& database_;
  KmerShape shape_;
  std::vector<Bucket> buckets_;
  std::vector<KmerInRead> collected_;  // their buckets are being fetched
  uint64_t occurrence_count_ = 0;
};

}  // namespace quire::assemble
