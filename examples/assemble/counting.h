/// Counts of each k-mer and of its neighbouring bases, stored in a distributed database and changed
/// by updates that run at the k-mer's owner.
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
  /// Adds other counts.
  void Add(const KmerCounts& other);
  void Encode(char* bytes) const;
  /// Decodes a record. Errors  kCorruption if `bytes` is no record.
  static Result<KmerCounts> Decode(Slice bytes);
};

/// The number of the update that adds to a k-mer's counts.
inline constexpr uint32_t kAddCounts = 1;

/// Adds the counts in `argument` to the present ones.
Status AddCounts(Slice key, const Slice* present, Slice argument, std::string* updated);

/// Counts k-mers of one rank's reads into the database. Repeated k-mers are first added up in a
/// local table of fixed size, then sent.
class KmerCounter {
 public:
  /// @param slot_bits  the table has 2^slot_bits slots of 32 bytes; 0: none, every occurrence is an
  /// update
  KmerCounter(Database& database, const KmerShape& shape, unsigned slot_bits);

  /// Counts every k-mer of `sequence`.
  Status Add(Slice sequence);
  /// Sends the remaining counts. (Visible to all ranks after Fence or Barrier.)
  Status Flush();

  /// Returns the number of k-mers counted so far, each occurrence once.
  uint64_t occurrence_count() const { return occurrence_count_; }

 private:
  struct Slot {
    Kmer kmer;
    KmerCounts counts;
  };

  // The places in which a k-mer's counts may be: one cache line.
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
