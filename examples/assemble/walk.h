/// Walks along the links of the graph, many at a time, so that one message requests many k-mers. A
/// path is split at k-mers that a hash selects, so that all ranks walk parts even of a single long
/// contig.
///
/// Layer      example
/// Encoding   segment, in the database of segments: key: 'E' (begins where a path begins) or 'M'
/// (begins at a milestone),
///            then the first k-mer in reading direction; value: 'E' or 'M' (where it ends), then
///            the bases behind the first k-mer
/// Threads    one thread per rank
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph.h"
#include "kmer.h"
#include "quire/database.h"

namespace quire::assemble {

/// Returns the key of the segment that begins with `first`.
std::string SegmentKey(char begin, const KmerShape& shape, Kmer first);

inline constexpr char kPathEnd = 'E';
inline constexpr char kMilestone = 'M';

/// Walks and stores every segment that begins at a k-mer of this rank, or next to one if the graph
/// branches there.
Status WalkSegments(Graph& graph, Database& segments);

/// Finds the rings among this rank's k-mers that are in no contig yet. Only the owner of a ring's
/// smallest k-mer (in the order of MixKmer) returns it, beginning with this k-mer.
Status WalkRings(Graph& graph, std::vector<std::string>* rings);

}  // namespace quire::assemble
