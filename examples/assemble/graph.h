/// The de Bruijn graph of the k-mers that were kept: one node per k-mer, in a distributed database.
///
/// A node has two sides. An edge joins a side of one k-mer to a side of another (they overlap by k
/// - 1 bases, and the k + 1 bases of both were seen often enough). A link is an edge that is the
/// only one at both its sides, where the sides differ and neither k-mer is its own reverse
/// complement. Links join k-mers into paths and rings: the contigs.
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

/// A k-mer as it is read on the way, and what stands before and behind it in that reading.
struct Node {
  Kmer kmer = 0;       ///< in reading direction
  uint8_t before = 0;  ///< bit b: base b stands before it
  uint8_t behind = 0;  ///< bit b: base b stands behind it

  bool EndsBefore() const { return std::popcount(before) != 1; }
  bool EndsBehind() const { return std::popcount(behind) != 1; }
  /// The one base behind it, where there is one.
  unsigned BaseBehind() const { return static_cast<unsigned>(std::countr_zero(behind)); }
};

/// The database of nodes, and how to move in it.
class Graph {
 public:
  Graph(Database& database, const KmerShape& shape) : database_(database), shape_(shape) {}

  /// Registers the update that marks. All ranks, before the first Mark (a barrier lies between).
  Status RegisterUpdates();

  /// Stores `kmer` with the edges that were seen at least `count_min` times.
  Status Put(Kmer kmer, const KmerCounts& counts, unsigned count_min);

  /// The nodes with these k-mers, in these readings. Errors: kCorruption where one is not in the
  /// graph.
  Status Get(const std::vector<Kmer>& kmers, std::vector<Node>* nodes);

  /// Calls `visit(node, mark_count)` for each k-mer that this rank owns, in canonical reading.
  Status ForEachOwned(const std::function<Status(const Node&, unsigned)>& visit);

  /// Notes that `kmer` stands in a contig.
  Status Mark(Kmer kmer);

  /// The same place on the other strand.
  Node Reverse(const Node& node) const;
  /// True where `kmer` is its own reverse complement (k is even).
  bool IsPalindrome(Kmer kmer) const { return shape_.ReverseComplement(kmer) == kmer; }
  /// The k-mer that follows `kmer` with `base`.
  Kmer Following(Kmer kmer, unsigned base) const { return shape_.Append(kmer, base); }
  /// True where the one edge behind `from` that leads to `to` is a link.
  bool IsLink(const Node& from, const Node& to) const;

  const KmerShape& shape() const { return shape_; }
  Database& database() { return database_; }

 private:
  /// The node with `kmer` in this reading, from its record.
  Result<Node> Decode(Kmer kmer, Slice record) const;

  Database& database_;
  KmerShape shape_;
};

}  // namespace quire::assemble
