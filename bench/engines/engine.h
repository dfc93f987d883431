/// One storage engine under test, seen through the few calls that the `engine` benchmark makes.
///
/// Layer      bench
/// Threads    Put from one thread, each EngineReader in one thread, side by side
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::bench {

/// What is the same for all engines of a comparison. Log on, no sync; no compression.
struct EngineOptions {
  std::string directory;
  uint64_t write_buffer_bytes = 64ull << 20;
  uint64_t cache_bytes = 64ull << 20;
  int bloom_bits_per_key = 10;
  bool verify_checksums = true;  ///< of every block that is read from a file
  // Quire's own, for choosing its default.
  CompactionPolicy compaction = StorageOptions().compaction;
  int compaction_trigger = StorageOptions().compaction_trigger;
  int dead_percent_max = StorageOptions().dead_percent_max;
};

/// What a scan saw.
struct ScanTotals {
  uint64_t pairs = 0;
  uint64_t bytes = 0;
  uint64_t first_bytes_sum = 0;  ///< of the values, so that each is touched
};

/// Reads through one thread.
class EngineReader {
 public:
  virtual ~EngineReader() = default;
  /// The value of `key`, valid until the next call. kNotFound where it is absent.
  virtual Status Get(Slice key, Slice* value) = 0;
  /// A new iterator: the pair at or after `from`, and the `next_count` pairs behind it, with their
  /// values.
  virtual Status Scan(Slice from, int next_count, ScanTotals* totals) = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual Status Put(Slice key, Slice value) = 0;
  virtual std::unique_ptr<EngineReader> NewReader() = 0;
  /// Waits until no background work is due.
  virtual Status Settle() = 0;
  /// Bytes that reached files without a write call (through mappings) since open: to be added to
  /// what the kernel counts.
  virtual uint64_t MappedBytes() const = 0;
  /// Sorted runs that a scan has to merge; 0: this engine does not tell.
  virtual uint64_t RunCount() const { return 0; }
};

/// The engines of this build, best known first: "lsm", then "rocksdb", "rocksdb-blob", "leveldb"
/// where they were found.
std::vector<std::string> EngineNames();

/// Opens a new database of engine `name`. Errors: kUnsupported where this build lacks it, and those
/// of the engine.
Result<std::unique_ptr<Engine>> OpenEngine(const std::string& name, const EngineOptions& options);

/// The rest is for engines.cpp: one opener per engine.
Result<std::unique_ptr<Engine>> OpenLsmEngine(const EngineOptions& options);
Result<std::unique_ptr<Engine>> OpenRocksDbEngine(const EngineOptions& options, bool blob_files);
Result<std::unique_ptr<Engine>> OpenLevelDbEngine(const EngineOptions& options);

/// Walks `iterator` (any with the calls of LevelDB's) as EngineReader::Scan says.
template <typename Iterator, typename Key>
void ScanPairs(Iterator* iterator, const Key& from, int next_count, ScanTotals* totals) {
  iterator->Seek(from);
  for (int i = 0; i <= next_count && iterator->Valid(); ++i) {
    const auto key = iterator->key();
    const auto value = iterator->value();
    ++totals->pairs;
    totals->bytes += key.size() + value.size();
    if (value.size() > 0) {
      totals->first_bytes_sum += static_cast<unsigned char>(value.data()[0]);
    }
    iterator->Next();
  }
}

}  // namespace quire::bench
