/// From walked segments to contigs: joined, marked in the graph, checked, written.
///
/// Layer      example
/// Encoding   contig, in a database that rank 0 owns: key: length, u64 big-endian, all bits turned,
/// then the first bases;
///            so that the order of keys is by length, longest first, then by bases. Value: the
///            bases
/// Threads    one thread per rank
#pragma once

#include <cstdint>
#include <string>

#include "graph.h"
#include "quire/database.h"

namespace quire::assemble {

/// A store of contigs, each once, in the smaller of its two readings. Also marks their k-mers.
class ContigStore {
 public:
  ContigStore(Database& contigs, Graph& graph) : contigs_(contigs), graph_(graph) {}
  /// Adds one contig, in either reading.
  Status Add(std::string bases);

 private:
  Database& contigs_;
  Graph& graph_;
};

/// Joins the segments of each path that begins at this rank, and passes the path to `store` if its
/// beginning comes before its end: so each path is stored once.
Status JoinSegments(Database& segments, const KmerShape& shape, ContigStore* store);

/// The errors in the contigs, counted over this rank's k-mers.
struct Check {
  uint64_t kmer_count = 0;      ///< k-mers in the graph, marked or not
  uint64_t unmarked_count = 0;  ///< are in no contig
  uint64_t repeated_count = 0;  ///< are in more than one place
};
/// Checks every mark. A k-mer of a contig that was not kept counts in kmer_count, which is then
/// larger than the number kept.
Result<Check> CheckMarks(Graph& graph);

/// The result of writing.
struct Assembly {
  uint64_t contig_count = 0;
  uint64_t base_count = 0;
  uint64_t longest = 0;
  uint64_t n50 = 0;
};
/// Writes all contigs, longest first, as FASTA. Call it on the rank that owns them.
Result<Assembly> WriteFasta(Database& contigs, const std::string& path);

}  // namespace quire::assemble
