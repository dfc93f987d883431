/// Partitioned datasets: a running simulation writes pairs, epoch by epoch; an analysis finds them
/// by key. Every rank stores the pairs that it puts. It sends only the hash of each key to the
/// key's partition, which builds a compact map from keys to ranks. The hash, or a function of the
/// program, determines the partition.
///
/// Layer      public
/// Source     FilterKV, CMU-PDL-19-104; docs/decisions/0011-partitioned-datasets.md
/// Threads    DatasetWriter: Put from any thread; the other calls are described below.
///            DatasetReader: any
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quire/database.h"
#include "quire/export.h"
#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire QUIRE_EXPORT {

/// The bytes sent to the partition for each pair, and the index built from them. kBase and kPointer
/// are the designs that the FilterKV paper compares itself with.
enum class DatasetFormat {
  kBase = 0,     ///< sends whole pairs and stores them at the key's partition
  kPointer = 1,  ///< sends the key and 12 bytes with the place of its value
  kBloom = 2,    ///< sends 8 bytes of hash; a Bloom filter of keys and ranks
  kCuckoo = 3,   ///< sends 8 bytes of hash; partial-key cuckoo tables of ranks
  kRibbon = 4,   ///< sends 8 bytes of hash; a static function from keys to ranks (the smallest
                 ///< index, and the default)
};

/// The options of a dataset. Each field is one row of the option table (quire::OptionTable), which
/// also gives its environment variable (QUIRE_DATASET_<NAME>). Open sets each option that has its
/// default from its variable. A later writer may have other options, but the same format and
/// partitioner.
struct DatasetOptions {
  DatasetFormat format = DatasetFormat::kRibbon;
  /// [0, 2 .. 2^24] kBloom: number of ranks that a query asks on average, including the right one.
  /// 0: the number that follows from 4 + log2(rank count) bits per key.
  uint32_t bloom_ranks = 0;
  /// [bytes, 1 KiB .. 16 MiB] Payload of a message.
  uint64_t batch_bytes = 16 << 10;
  /// [bytes, 64 KiB .. 64 GiB] Size of each of the two write buffers; a full one becomes a table.
  /// If this option and the next two have their defaults, they are reduced (to 1 MiB at least)
  /// until the writer fits into half of the remaining ContextOptions::memory_bytes.
  uint64_t table_bytes = 64ull << 20;
  /// [bytes, 64 KiB .. 64 GiB] Size of the buffer for entries that this rank's partition receives;
  /// a full one becomes a map (kBase and kPointer: a table). Once it is full, there are two such
  /// buffers, and building a map takes 3/2 of the size in addition.
  uint64_t partition_bytes = 256ull << 20;
  /// [bytes, 64 KiB .. 16 GiB] Limit on batches that are sent but not yet acknowledged.
  uint64_t in_flight_bytes = 8ull << 20;
  /// [2 .. 2^24] From this number of ranks on, batches travel over a grid, in two hops.
  uint32_t grid_ranks_min = 1024;
  /// [bytes, 512 .. 1 MiB] Size of a table's block before compression.
  uint64_t block_bytes = 16 << 10;
  Compression compression = Compression::kNone;
  /// Returns the rank, in [0, rank_count), whose partition a key belongs to; for example so that
  /// each partition has a range of keys. Must be a pure function, the same on all ranks. Put calls
  /// it, on several threads at once if several threads put. Empty: the hash of the key decides.
  Partitioner partitioner = {};
  /// The name of the partitioner, stored with the dataset, which must be opened with the same name.
  /// Required with a partitioner (and not "hash"); without one it must be empty or "hash".
  std::string partitioner_name = {};
};

/// Counters of one rank's writer, from when it was opened.
struct DatasetWriterStatistics {
  uint64_t pairs = 0;             ///< pairs that this rank put
  uint64_t pair_bytes = 0;        ///< their keys and values
  uint64_t received = 0;          ///< entries that this rank's partition received
  uint64_t sent_batches = 0;      ///< messages
  uint64_t sent_bytes = 0;        ///< their payloads
  uint64_t refused_batches = 0;   ///< batches that a busy rank refused, and that were sent again
  uint64_t put_waits = 0;         ///< Puts that had to wait
  uint64_t buffer_bytes_max = 0;  ///< the most bytes of batches in memory at any time
  uint64_t table_bytes = 0;       ///< bytes of main tables written
  uint64_t map_bytes = 0;         ///< bytes of auxiliary tables written
};

/// Writes a dataset, one epoch after another. Readers see an epoch as a whole, or not at all.
class DatasetWriter {
 public:
  /// Opens the dataset `name` in the context's repository, or creates it. Removes the remains of an
  /// epoch that was not completed. Earlier epochs may have been written by a different number of
  /// ranks.
  ///
  /// Collective   Yes.
  ///
  /// @param name  [A-Za-z0-9._-]{1,255}, no leading dot or dash.
  ///
  /// Errors       kInvalidArgument  The name or an option is not allowed, they differ between
  ///                                ranks, the dataset has another format or partitioner, a
  ///                                database has the name, a partitioner has no name of its own, or
  ///                                explicitly set sizes do not fit into memory_bytes.
  ///              kBusy             Another program writes it; the text names the holder.
  ///              kUnsupported      A newer version of Quire created it.
  ///              kCorruption       A file is damaged or missing, or the ranks see storages that
  ///                                do not belong together: rank 0 finds no dataset, a different
  ///                                one, or fewer epochs than another rank. The text names the
  ///                                file. No file is changed.
  static Result<std::unique_ptr<DatasetWriter>> Open(Context& context, const std::string& name,
                                                     const DatasetOptions& options = {});
  /// Drops the pairs put since the last EndEpoch. Waits for writes in the background, however long
  /// the device takes. If the context is destroyed first, the context does this, and later calls
  /// return kInvalidArgument.
  virtual ~DatasetWriter() = default;

  /// Begins the epoch `number`: a step of the simulation, larger than all earlier numbers.
  ///
  /// Collective   Every rank must call it, but it does not wait.
  /// Errors       kInvalidArgument  An epoch has begun, or the number is not larger.
  virtual Status BeginEpoch(uint64_t number) = 0;

  /// Adds a pair to the epoch. If this rank puts a key twice in an epoch, the later value wins. If
  /// several ranks put a key, the dataset has a value of each.
  ///
  /// Collective   No. Any thread of any rank, between BeginEpoch and EndEpoch.
  /// Durability   None before EndEpoch.
  ///
  /// @param key    [bytes] 1 to 65,536. Copied before return.
  /// @param value  [bytes] up to 2^32 - 1. Copied before return.
  ///
  /// Errors       kInvalidArgument  A size is out of range, no epoch has begun, or the partitioner
  ///                                threw or returned no rank. The pair is not put.
  ///              kNoSpace, kIo     A table or value could not be written.
  ///              kTimedOut, kPeerFailed  Another rank does not receive batches.
  ///              kOutOfMemory      There was no memory for the pair, or for sending it.
  ///              After all of these but kInvalidArgument the epoch cannot be completed: this
  ///              rank's later Puts return the same error, and EndEpoch fails on all ranks.
  /// Cost         One or two copies; one message for every batch_bytes sent. Waits while
  ///              table_bytes or in_flight_bytes are used up.
  virtual Status Put(Slice key, Slice value) = 0;

  /// Ends the epoch. At return the pairs of all ranks are in tables and maps, and durable (P2).
  ///
  /// Collective   Yes.
  /// Errors       The same on all ranks, with the rank and the reason, even if a Put has reported
  ///              it. The pairs put since BeginEpoch are dropped, earlier epochs are unchanged, and
  ///              a new epoch may begin, also with the same number.
  ///              kInvalidArgument: ranks began different epochs.
  ///              If a rank died or did not answer within ContextOptions::timeout_ms (usually
  ///              kTimedOut, kPeerFailed), or if memory ran out during a collective step, the text
  ///              says that it is unknown whether the epoch is complete; on other ranks the call
  ///              may have succeeded. Nothing can be written until the dataset is reopened; then
  ///              the epoch is either complete or absent. The same holds if a rank cannot remove
  ///              its part of a failed epoch.
  /// Cost         Writes the tables of the pairs in memory, and the map; two syncs (kPointer:
  ///              three), two more on rank 0; four collectives and two jobs.
  virtual Status EndEpoch() = 0;

  /// Returns the last complete epoch, if there is one.
  virtual std::optional<uint64_t> LastEpoch() const = 0;

  /// Closes the dataset. Afterwards LastEpoch and Statistics still work; other calls return
  /// kInvalidArgument.
  ///
  /// Collective   Yes.
  /// Errors       kInvalidArgument: an epoch has begun; end it first.
  virtual Status Finish() = 0;

  /// Returns this rank's counters; all 0 inside a function that Quire called.
  virtual DatasetWriterStatistics Statistics() const = 0;
};

/// A value of a key, with the epoch in which it was put, and the rank that put it.
struct DatasetValue {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::string value;
};

/// One complete epoch.
struct DatasetEpoch {
  uint64_t number = 0;
  uint32_t rank_count = 0;  ///< number of ranks that wrote it
  uint64_t pair_count = 0;
  uint64_t unix_time = 0;  ///< [s] when it was completed
};

/// Counters of a reader, from when it was opened.
struct DatasetReaderStatistics {
  uint64_t queries = 0;           ///< lookups of a key in an epoch
  uint64_t partitions = 0;        ///< ranks whose tables were searched
  uint64_t false_candidates = 0;  ///< those of them that did not have the key
  uint64_t reads = 0;             ///< pieces read from files
  uint64_t bytes_read = 0;
};

struct DatasetReaderOptions {
  /// [bytes] Cache for blocks and indexes of tables; a second one of this size is for maps.
  uint64_t cache_bytes = 64ull << 20;
  /// [1 ..] Limit on open parts. A part is one rank's tables and maps of one epoch; it needs one
  /// open file (kPointer: two).
  uint32_t open_parts_max = 512;
  /// The partitioner that the dataset was created with. If it is empty although the dataset has a
  /// partitioner, every lookup searches all partitions.
  Partitioner partitioner = {};
  /// The partitioner's name, which must equal the stored one. If the function differs from the
  /// writer's, Get does not find some keys; Verify reports it.
  std::string partitioner_name = {};
  /// For keys that only one rank puts in an epoch: Get, GetMany and GetTrajectory stop at the first
  /// rank that has the key, and return one value of each epoch. If several ranks put the key, it is
  /// unspecified whose value is returned. Absent keys cost the same.
  bool first_match = false;
};

/// A walk over all pairs of an epoch, or of some of its ranks: rank by rank, and for each rank in
/// key order (kBase and kPointer: partition by partition). It must not outlive its reader.
class DatasetScan {
 public:
  virtual ~DatasetScan() = default;
  /// Returns whether the scan is at a pair.
  virtual bool Valid() const = 0;
  /// Moves to the next pair.
  virtual void Next() = 0;
  /// Returns the key; requires Valid(). Readable until Next.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;
  virtual uint32_t rank() const = 0;
  /// Returns OK at the end, or the failure that ended the scan (kOutOfMemory: a step had no
  /// memory).
  virtual Status status() const = 0;
};

/// Reads the epochs of a dataset that were complete when it was opened or refreshed. Works beside
/// the writer, without MPI and without a lock, in any number of processes.
class DatasetReader {
 public:
  /// @param directory  <repository>/<name>
  ///
  /// Errors     kNotFound         There is no dataset.
  ///            kInvalidArgument  The dataset has another partitioner than the given one; the text
  ///                              names both.
  ///            kCorruption       A file is damaged; the text names it.
  ///            kUnsupported      A newer version of Quire created it.
  static Result<std::unique_ptr<DatasetReader>> Open(const std::string& directory,
                                                     const DatasetReaderOptions& options = {});
  virtual ~DatasetReader() = default;

  /// Returns the format that the dataset was created with.
  virtual DatasetFormat format() const = 0;
  /// Returns "hash", or the name of the partitioner that the writer gave.
  virtual std::string partitioner_name() const = 0;
  /// Returns the complete epochs, in order.
  virtual std::vector<DatasetEpoch> Epochs() const = 0;

  /// Returns the values of `key` in one epoch, sorted by rank; with
  /// DatasetReaderOptions::first_match one of them.
  ///
  /// Errors     kNotFound    No rank put the key, or there is no such epoch (then the status has a
  ///                         text).
  ///            kCorruption  The text names the file and the offset.
  ///            kInvalidArgument  The partitioner threw or returned no rank.
  /// Cost       Once for each part: its index record and the heads of its map or tables. Then a
  ///            shard of the map (about 130 KiB for 2^16 keys; cached) and a block of each rank
  ///            asked. Without the dataset's partitioner: a shard of every partition.
  virtual Status Get(uint64_t epoch, Slice key, std::vector<DatasetValue>* values) const = 0;
  /// Returns the values of `key` in all epochs, in order: its trajectory. kNotFound: there is none.
  virtual Status GetTrajectory(Slice key, std::vector<DatasetValue>* values) const = 0;
  /// Sets (*values)[i] to the values of keys[i]; empty if there is none. Keys of one partition are
  /// searched together.
  ///
  /// Errors     kNotFound    There is no such epoch. kCorruption: the text names file and offset.
  virtual Status GetMany(uint64_t epoch, const std::vector<Slice>& keys,
                         std::vector<std::vector<DatasetValue>>* values) const = 0;
  /// Returns a scan of the pairs that ranks [rank_begin, rank_end) put in the epoch; with kBase and
  /// kPointer, a scan of the pairs stored in the partitions of these numbers, whichever ranks put
  /// them. Never null.
  virtual std::unique_ptr<DatasetScan> Scan(uint64_t epoch, uint32_t rank_begin = 0,
                                            uint32_t rank_end = UINT32_MAX) const = 0;
  /// Reads one epoch in full, compares every checksum, and looks up every pair as Get does.
  ///
  /// Errors     kCorruption  The text names the file. kNotFound: there is no such epoch.
  ///            kInvalidArgument  The partitioner threw, or a pair is not in the partition that it
  ///                              returns: the partitioner probably differs from the writer's.
  /// Cost       Reads all tables twice and all maps once, and takes about 300 ns for each pair. If
  ///            the maps do not fit into cache_bytes, they are read once for each 2^17 pairs of a
  ///            rank. Without the dataset's partitioner each pair is looked up in every map.
  virtual Status Verify(uint64_t epoch) const = 0;
  /// Looks for epochs that were completed since Open or the last Refresh.
  virtual Status Refresh() = 0;
  /// Returns this reader's counters.
  virtual DatasetReaderStatistics Statistics() const = 0;
};

}  // namespace quire
