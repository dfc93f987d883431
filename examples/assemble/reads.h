/// Sequences of FASTA and FASTQ files, plain or compressed with gzip.
///
/// Layer      example
/// Threads    one thread per reader
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::assemble {

/// Reads one file, record by record. FASTA records may have any number of lines, FASTQ records have
/// four.
class SequenceReader {
 public:
  /// Opens a file. Errors  kNotFound, kIo if it cannot be opened.
  static Result<std::unique_ptr<SequenceReader>> Open(const std::string& path);
  virtual ~SequenceReader() = default;
  /// Returns the next sequence, valid until the next call. kNotFound at the end; kCorruption, with
  /// the record's number, if the file is neither FASTA nor FASTQ, or ends within a record.
  virtual Status Next(Slice* sequence) = 0;
};

}  // namespace quire::assemble
