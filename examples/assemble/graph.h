/// The de Bruijn graph of the k-mers that were kept: one node per k-mer, in a distributed database.
///
/// A node has two sides. An edge joins a side of one k-mer to a side of another (they overlap by k
/// - 1 bases, and the k + 1 bases of both were seen often enough). A link is an edge that is the
/// only one at both its sides, joins two different sides, and joins no k-mer that is its own
/// reverse complement. Links join k-mers into paths and rings: the contigs.
///
/// Layer      example
/// Encoding   record of a k-mer: byte 0: bits 0 to 3 the bases left of it (A lowest), bits 4 to 7
/// those right of it, in its
///            canonical reading; byte 1: in how many contigs it stands
/// Threads    Graph: calls from one thread
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "counting.h"
#include "kmer.h"
#include "quire/database.h"

namespace quire::assemble {

/// A k-mer in reading direction, and the bases before and behind it in that reading.
struct Node {
  Kmer kmer = 0;       ///< in reading direction
  uint8_t before = 0;  ///< bit b: base b precedes it
  uint8_t behind = 0;  ///< bit b: base b follows it

  bool EndsBefore() const { return std::popcount(before) != 1; }
  bool EndsBehind() const { return std::popcount(behind) != 1; }
  /// Returns the base behind it; requires that there is exactly one.
  unsigned BaseBehind() const { return static_cast<unsigned>(std::countr_zero(behind)); }
};

/// The database of nodes, and the steps from node to node.
class Graph {
 public:
  Graph(Database& database, const KmerShape& shape) : database_(database), shape_(shape) {}

  /// Registers the update that marks. All ranks call it before the first Mark, with a barrier in
  /// between.
  Status RegisterUpdates();

  /// Stores `kmer` with the edges that were seen at least `count_min` times.
  Status Put(Kmer kmer, const KmerCounts& counts, unsigned count_min);

  /// Gets the nodes with these k-mers, in these readings. Errors: kCorruption if one is not in the
  /// graph.
  Status Get(const std::vector<Kmer>& kmers, std::vector<Node>* nodes);

  /// Calls `visit(node, mark_count)` for each k-mer that this rank owns, in canonical reading.
  Status ForEachOwned(const std::function<Status(const Node&, unsigned)>& visit);

  /// Records that `kmer` is in a contig.
  Status Mark(Kmer kmer);

  /// Returns the same place on the other strand.
  Node Reverse(const Node& node) const;
  /// Returns whether `kmer` is its own reverse complement (only if k is even).
  bool IsPalindrome(Kmer kmer) const { return shape_.ReverseComplement(kmer) == kmer; }
  /// Returns the k-mer that follows `kmer` with `base`.
  Kmer Following(Kmer kmer, unsigned base) const { return shape_.Append(kmer, base); }
  /// Returns whether the only edge behind `from`, which leads to `to`, is a link.
  bool IsLink(const Node& from, const Node& to) const;

  const KmerShape& shape() const { return shape_; }
  Database& database() { return database_; }

 private:
  /// Returns the node with `kmer` in this reading, from its record.
  Result<Node> Decode(Kmer kmer, Slice record) const;

  Database& database_;
  KmerShape shape_;
};

}  // namespace quire::assemble
