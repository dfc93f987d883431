/// Measures how much of a known genome the contigs cover, and how well, with the program minimap2.
///
/// Layer      example
/// Threads    one thread
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::assemble {

/// The result of minimap2.
struct Comparison {
  double covered = 0;   ///< share of the reference's bases that lie in an aligned block
  double identity = 0;  ///< share of equal bases within the aligned blocks
  int block_count = 0;
};

/// Aligns the FASTA file `contigs` to the FASTA file `reference`, locally.
/// Errors  kUnsupported if minimap2 cannot be run; kIo, kCorruption if it fails or its output is
/// invalid.
Result<Comparison> CompareWithReference(const std::string& contigs, const std::string& reference);

}  // namespace quire::assemble
