/// Counting of k-mers in a hand-written MPI program: rounds of MPI_Alltoallv, and a hash table at
/// each rank.
///
/// Layer      bench
/// Threads    one thread per rank; all calls are collective unless said otherwise
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "counting.h"
#include "kmer.h"

namespace quire::bench {

/// An open-addressing hash table of k-mers that fit into 64 bits together with their two
/// neighbouring bases (k up to 29).
class KmerTable {
 public:
  KmerTable() : slots_(1 << 12) {}
  /// Adds one occurrence.
  void Add(uint64_t kmer, uint8_t left, uint8_t right);
  /// Calls `visit(kmer, counts)` for each k-mer.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.counts.count != 0) visit(assemble::Kmer{slot.kmer}, slot.counts);
    }
  }

 private:
  struct Slot {
    uint64_t kmer = 0;
    assemble::KmerCounts counts;
  };

  Slot& Find(uint64_t kmer);
  void Grow();

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

/// Counts the k-mers of all ranks' `reads`, each in the table of its owner. k up to 29.
void CountByExchange(const std::vector<std::string>& reads, const assemble::KmerShape& shape,
                     MPI_Comm communicator, KmerTable* table);

}  // namespace quire::bench
