/// How much of a known genome the contigs cover, and how well: by minimap2, a program of its own.
///
/// Layer      example
/// Threads    one thread
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::assemble {

/// What minimap2 finds.
struct Comparison {
  double covered = 0;   ///< share of the reference's bases that lie in an aligned block
  double identity = 0;  ///< share of equal bases within the aligned blocks
  int block_count = 0;
};

/// Aligns the FASTA file `contigs` to the FASTA file `reference`, locally.
/// Errors  kUnsupported where minimap2 cannot be run; kIo, kCorruption where it fails or says what
/// we do not understand.
Result<Comparison> CompareWithReference(const std::string& contigs, const std::string& reference);

}  // namespace quire::assemble
