/// The options of a database's storage. Each field is one row of the option table
/// (quire::OptionTable), which also gives its environment variable (QUIRE_<NAME>). Open sets each
/// option that has its default from its variable; any other value that the program sets wins.
///
/// A later program may open a database with other options, including sizes, block size and
/// compression: they apply to data written from then on. The partitioner must stay the same.
///
/// Layer      public
/// Threads    plain values
#pragma once

#include <cstdint>
#include <string>

namespace quire {

/// The failures that a put survives once it has returned OK (docs/durability.md).
enum class WalMode {
  /// V1: no failure; tables are durable after Barrier(kSsTable)
  kOff = 0,
  kOn = 1,    ///< P1 (default): kill -9 of any or all ranks, without a system call per put
  kSync = 2,  ///< P2: power loss; puts of several threads share one device sync (group commit)
};

enum class Compression { kNone = 0, kLz4 = 1, kZstd = 2 };

/// How a table is searched. The first two are the paper's (section 2.6), kept for comparison.
enum class SearchMode {
  kSequential = 1,  ///< reads SSData from its beginning
  kBinary = 2,      ///< binary search in SSIndex, binary search in the block
  /// binary search in SSIndex, one-byte hash tags in the block (default: the fastest)
  kTagged = 3,
};

enum class CompactionPolicy {
  /// merge runs of similar size; bounds the number of runs and the space of dead versions (default)
  kTiered = 0,
  /// the paper's: merge all tables whenever an SSID is a multiple of compaction_trigger
  kEveryNth = 1,
};

/// Options of one rank's storage: MemTables, log, tables, compaction.
struct StorageOptions {
  /// [bytes, 64 KiB .. 16 GiB] capacity of a MemTable (its log segment); rounded down to 4 KiB
  uint64_t memtable_bytes = 64ull << 20;
  /// [1 .. 64] immutable MemTables that may wait for flushing
  int flushing_queue_length = 2;
  WalMode wal = WalMode::kOn;
  /// [bytes, 64 .. 2^32] values of this size or larger are stored apart from their keys
  uint64_t value_separation_bytes_min = 1024;
  /// [bytes, 64 KiB .. 16 GiB] size of a value segment
  uint64_t value_segment_bytes = 64ull << 20;
  /// [bytes, 512 .. 1 MiB] SSData block, before compression
  uint64_t block_bytes = 4096;
  int bloom_bits_per_key = 10;                  ///< [0 .. 32] 0: no filter
  Compression compression = Compression::kNone;
  SearchMode search = SearchMode::kTagged;
  /// [bytes, 64 KiB .. 64 GiB] size at which a compaction starts a new table
  uint64_t table_bytes_max = 256ull << 20;
  CompactionPolicy compaction = CompactionPolicy::kTiered;
  /// [2 .. 1000] number of runs of similar size that are merged (kTiered); N (kEveryNth)
  int compaction_trigger = 4;
  /// [10 .. 1000] bytes of the newer runs, in per cent of the oldest run, that start a full merge
  int dead_percent_max = 33;
  /// [bytes] cache for blocks, indexes and filters of tables
  uint64_t cache_bytes = 64ull << 20;
  /// if false, this is recorded in the tables that are written
  bool verify_checksums = true;
};

}  // namespace quire
