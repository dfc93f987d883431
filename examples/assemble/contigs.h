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

/// Stores contigs, each once, in the smaller of their two readings, and marks their k-mers.
class ContigStore {
 public:
  ContigStore(Database& contigs, Graph& graph) : contigs_(contigs), graph_(graph) {}
  /// One contig, in either reading.
  Status Add(std::string bases);

 private:
  Database& contigs_;
  Graph& graph_;
};

/// Joins the segments of each path that begins at this rank, and gives those to `store` whose
/// beginning comes before their end: so each path is given once.
Status JoinSegments(Database& segments, const KmerShape& shape, ContigStore* store);

/// What is wrong with the contigs, by what this rank owns.
struct Check {
  uint64_t kmer_count = 0;      ///< k-mers in the graph, marked or not
  uint64_t unmarked_count = 0;  ///< stand in no contig
  uint64_t repeated_count = 0;  ///< stand in more than one place
};
/// Looks at every mark. A k-mer of a contig that was not kept counts in kmer_count, which is then
/// more than were kept.
Result<Check> CheckMarks(Graph& graph);

/// What was written.
struct Assembly {
  uint64_t contig_count = 0;
  uint64_t base_count = 0;
  uint64_t longest = 0;
  uint64_t n50 = 0;
};
/// Writes all contigs, longest first, as FASTA. On the rank that owns them.
Result<Assembly> WriteFasta(Database& contigs, const std::string& path);

}  // namespace quire::assemble
