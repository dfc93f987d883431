/// Partitioned datasets: what a running simulation writes, epoch by epoch, found again by key.
/// Every rank keeps the pairs that it puts; only the hash of each key travels, into a compact map
/// from keys to ranks at the key's partition. The hash, or a function of the program, says which
/// partition that is.
///
/// Layer      public
/// Source     FilterKV, CMU-PDL-19-104; docs/decisions/0011-partitioned-datasets.md
/// Threads    DatasetWriter: Put from any thread, the rest as it says. DatasetReader: any
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

/// What travels, and what the key's partition keeps of it. The first two are what FilterKV is
/// compared with.
enum class DatasetFormat {
  kBase = 0,     ///< whole pairs travel, and lie at the key's partition
  kPointer = 1,  ///< the key and 12 bytes that say where its value lies
  kBloom = 2,    ///< 8 bytes of hash; a Bloom filter of keys and ranks
  kCuckoo = 3,   ///< 8 bytes of hash; partial-key cuckoo tables of ranks
  kRibbon = 4,   ///< 8 bytes of hash; a static function from keys to ranks (default: the smallest)
};

/// What shapes a dataset. Each field is one row of the option table (quire::OptionTable), from
/// which its name and its environment variable (QUIRE_DATASET_<NAME>) follow.
struct DatasetOptions {
  DatasetFormat format = DatasetFormat::kRibbon;
  /// [0, 2 .. 2^24] kBloom: ranks that a query asks on average, the right one included; 0: as many
  /// as 4 + log2 N bits per key give.
  uint32_t bloom_ranks = 0;
  /// [bytes, 1 KiB .. 16 MiB] payload of a message
  uint64_t batch_bytes = 16 << 10;
  /// [bytes, 64 KiB .. 64 GiB] pairs in memory before they become a table; there are two of it.
  /// Where this one and the next two have their defaults they shrink, to 1 MiB at least, until the
  /// writer plans with half of what is left of ContextOptions::memory_bytes.
  uint64_t table_bytes = 64ull << 20;
  /// [bytes, 64 KiB .. 64 GiB] what has come to this rank's partition before it becomes a map (or,
  /// kBase and kPointer, a table); there are two of it, once it is full, and 3/2 of it for building
  uint64_t partition_bytes = 256ull << 20;
  /// [bytes, 64 KiB .. 16 GiB] batches that are sent and not yet answered, or passed on
  uint64_t in_flight_bytes = 8ull << 20;
  /// [2 .. 2^24] from so many ranks on batches go over a grid, in two hops
  uint32_t grid_ranks_min = 1024;
  /// [bytes, 512 .. 1 MiB] block of a table, before compression
  uint64_t block_bytes = 16 << 10;
  Compression compression = Compression::kNone;
  /// The rank whose partition a key belongs to, in [0, rank_count): for example, so that each
  /// partition has a range of keys. Pure: each rank gives the same answer to the same key. Put
  /// calls it, on several threads at a time if several put. Empty: the hash of the key picks the
  /// rank.
  Partitioner partitioner = {};
  /// The name of that function, which is stored: a dataset keeps its partitioner, and only the name
  /// tells one from another. Given with a function, and not "hash"; empty without.
  std::string partitioner_name = {};
};

/// What one rank's writer did, since it was opened.
struct DatasetWriterStatistics {
  uint64_t pairs = 0;             ///< put by this rank
  uint64_t pair_bytes = 0;        ///< their keys and values
  uint64_t received = 0;          ///< entries that came to this rank's partition
  uint64_t sent_batches = 0;      ///< messages
  uint64_t sent_bytes = 0;        ///< their payloads
  uint64_t refused_batches = 0;   ///< answered "busy", and sent again
  uint64_t put_waits = 0;         ///< Puts that had to wait
  uint64_t buffer_bytes_max = 0;  ///< batches in memory, the most there ever were
  uint64_t table_bytes = 0;       ///< of main tables, written
  uint64_t map_bytes = 0;         ///< of auxiliary tables, written
};

/// Writes a dataset, one epoch after another. An epoch is complete, or it is not there.
class DatasetWriter {
 public:
  /// Opens the dataset `name` in the context's repository, or creates it. What a writer left behind
  /// the last complete epoch is cut off. Any number of ranks may go on with what another number
  /// wrote.
  ///
  /// Collective   Yes.
  ///
  /// @param name  [A-Za-z0-9._-]{1,255}, no leading dot or dash.
  ///
  /// Errors       kInvalidArgument  The name or an option is not allowed, they differ between
  ///                                ranks, the dataset has another format or partitioner, a
  ///                                database has the name, a partitioner has no name of its own,
  ///                                or what was given does not fit into memory_bytes.
  ///              kBusy             Somebody else writes it: the text names the holder.
  ///              kUnsupported      Made by a newer version.
  ///              kCorruption       A file is damaged: the text names it.
  static Result<std::unique_ptr<DatasetWriter>> Open(Context& context, const std::string& name,
                                                     const DatasetOptions& options = {});
  /// Drops what was put since the last EndEpoch. Waits until the background has written what it
  /// writes, however long the device takes. If the context is closed first, the context does all
  /// this, and later calls return kInvalidArgument.
  virtual ~DatasetWriter() = default;

  /// Begins the epoch `number`: a step of the simulation, larger than that of all epochs before.
  ///
  /// Collective   Every rank calls it; nobody waits.
  /// Errors       kInvalidArgument  An epoch has begun, or the number is not larger.
  virtual Status BeginEpoch(uint64_t number) = 0;

  /// Adds a pair to the epoch. Of a key that this rank puts twice in an epoch the later value
  /// counts; of one that several ranks put there is a value of each.
  ///
  /// Collective   No. Any thread of any rank, between BeginEpoch and EndEpoch.
  /// Durability   None before EndEpoch.
  ///
  /// @param key    [bytes] 1 to 65,536. Copied before return.
  /// @param value  [bytes] up to 2^32 - 1. Copied before return.
  ///
  /// Errors       kInvalidArgument  A size is out of range, no epoch has begun, or the partitioner
  ///                                threw or answered no rank: the pair is not put.
  ///              kNoSpace, kIo     A table or value could not be written.
  ///              kTimedOut, kPeerFailed  Another rank does not take what is sent.
  ///              kOutOfMemory      There was no memory for the pair, or for sending it.
  ///              But for kInvalidArgument the epoch cannot be completed after that: this rank's
  ///              later Puts fail with the same, and EndEpoch will tell all ranks.
  /// Cost         One or two copies; every batch_bytes of what travels a message. Waits while
  ///              table_bytes or in_flight_bytes are used up.
  virtual Status Put(Slice key, Slice value) = 0;

  /// Ends the epoch: all that all ranks have put is sent, in tables and maps, and durable (P2).
  ///
  /// Collective   Yes.
  /// Errors       On all ranks alike, with the rank and the reason, also where a Put has told it:
  ///              what was put since BeginEpoch is gone, all epochs before are as they were, and a
  ///              new one may begin, also with the same number.
  ///              kInvalidArgument: ranks began different epochs.
  ///              Where a rank died, or was not heard of for ContextOptions::timeout_ms (most
  ///              often kTimedOut, kPeerFailed), and where memory ran out amid what ranks do
  ///              together, the text says that it is not known whether the epoch is complete.
  ///              Other ranks may have been told that it is. Nothing more can be written before
  ///              the dataset is opened again; then the epoch is complete or not there. The same
  ///              holds of a rank that cannot cut off what it wrote.
  /// Cost         Tables of what is left in memory, the map; two syncs (kPointer: three), on rank 0
  ///              two more; four collectives and two jobs.
  virtual Status EndEpoch() = 0;

  /// The last complete epoch; none where there is none yet.
  virtual std::optional<uint64_t> LastEpoch() const = 0;

  /// Lets go of the dataset. Nothing may be called after it.
  ///
  /// Collective   Yes.
  /// Errors       kInvalidArgument: an epoch has begun; end it first.
  virtual Status Finish() = 0;

  /// What this rank's writer did so far.
  virtual DatasetWriterStatistics Statistics() const = 0;
};

/// A value of a key, and who put it when.
struct DatasetValue {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::string value;
};

/// One complete epoch.
struct DatasetEpoch {
  uint64_t number = 0;
  uint32_t rank_count = 0;  ///< ranks that wrote it
  uint64_t pair_count = 0;
  uint64_t unix_time = 0;  ///< [s] when it was completed
};

/// What a reader did. Counts of one key are differences.
struct DatasetReaderStatistics {
  uint64_t queries = 0;           ///< keys asked for, in an epoch
  uint64_t partitions = 0;        ///< ranks whose tables were searched
  uint64_t false_candidates = 0;  ///< of those, ranks that did not have the key
  uint64_t reads = 0;             ///< pieces read from files
  uint64_t bytes_read = 0;
};

struct DatasetReaderOptions {
  /// [bytes] Blocks and indexes of tables in memory; and once more as much of maps.
  uint64_t cache_bytes = 64ull << 20;
  /// [1 ..] Epochs of ranks whose tables and maps are open: a file of each rank among them, in the
  /// format kPointer two.
  uint32_t open_parts_max = 512;
  /// The function that the dataset was made with. Empty: a dataset that was made with one is read
  /// all the same, but each key costs a question to every partition.
  Partitioner partitioner = {};
  /// Its name, which must be the stored one. A function of that name that answers otherwise than
  /// the writer's makes Get miss keys; Verify reports it.
  std::string partitioner_name = {};
  /// For keys that one rank puts in an epoch: Get, GetMany and GetTrajectory stop at the first rank
  /// found to have the key, and give one value of each epoch. If several ranks put the key, it is
  /// not specified whose value that is. Absent keys cost the same.
  bool first_match = false;
};

/// All pairs of an epoch, or of some of its ranks: one rank after another, and of each by rising
/// key (in the formats kBase and kPointer: of each partition). A scan must not outlive its reader.
class DatasetScan {
 public:
  virtual ~DatasetScan() = default;
  /// Whether it stands on a pair.
  virtual bool Valid() const = 0;
  /// To the next pair.
  virtual void Next() = 0;
  /// Until Next.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;
  virtual uint32_t rank() const = 0;
  /// Why Valid() is false, where it is not the end.
  virtual Status status() const = 0;
};

/// Reads a dataset, also beside its writer: the epochs that were complete when it was opened or
/// refreshed. Without MPI, without a lock; any number of processes.
class DatasetReader {
 public:
  /// @param directory  <repository>/<name>
  ///
  /// Errors     kNotFound         There is no dataset.
  ///            kInvalidArgument  It was made with another partitioner than the one given: the text
  ///                              names both.
  ///            kCorruption       A file is damaged: names it.
  ///            kUnsupported      Made by a newer version.
  static Result<std::unique_ptr<DatasetReader>> Open(const std::string& directory,
                                                     const DatasetReaderOptions& options = {});
  virtual ~DatasetReader() = default;

  /// How it was written.
  virtual DatasetFormat format() const = 0;
  /// The rule that gives each key its partition: "hash", or the name that the program gave.
  virtual std::string partitioner_name() const = 0;
  /// The complete epochs, in order.
  virtual std::vector<DatasetEpoch> Epochs() const = 0;

  /// The values of `key` in one epoch, by rank; with DatasetReaderOptions::first_match one of them.
  ///
  /// Errors     kNotFound    Nobody put the key, or there is no such epoch (then with a text).
  ///            kCorruption  Names the file and the place.
  ///            kInvalidArgument  The partitioner threw or answered no rank.
  /// Cost       Once for each part: its index record and the heads of its map or tables. Then a
  ///            shard of the map (some 130 KiB for 2^16 keys; held) and a block of each rank asked.
  ///            If the dataset was made with a partitioner that this reader does not have: of every
  ///            partition.
  virtual Status Get(uint64_t epoch, Slice key, std::vector<DatasetValue>* values) const = 0;
  /// The values of `key` in all epochs, in order: its trajectory. kNotFound: there is none.
  virtual Status GetTrajectory(Slice key, std::vector<DatasetValue>* values) const = 0;
  /// (*values)[i] are those of keys[i], perhaps none. Keys of one partition are looked for
  /// together.
  ///
  /// Errors     kNotFound    There is no such epoch. kCorruption: names the file and the place.
  virtual Status GetMany(uint64_t epoch, const std::vector<Slice>& keys,
                         std::vector<std::vector<DatasetValue>>* values) const = 0;
  /// The pairs of ranks [rank_begin, rank_end) of the epoch, as DatasetScan says. Never null.
  virtual std::unique_ptr<DatasetScan> Scan(uint64_t epoch, uint32_t rank_begin = 0,
                                            uint32_t rank_end = UINT32_MAX) const = 0;
  /// Reads all of one epoch, compares every checksum, and asks for every pair as Get does.
  ///
  /// Errors     kCorruption  Names the file. kNotFound: there is no such epoch.
  ///            kInvalidArgument  The partitioner threw, or a pair is not in the partition that it
  ///                              answers: most likely it is not the writer's.
  /// Cost       Two readings of all tables and one of all maps, and some 300 ns for each pair.
  ///            Where the maps do not fit into cache_bytes they are read once for each 2^17 pairs
  ///            of a rank. Without the dataset's partitioner each pair is looked for in every map.
  virtual Status Verify(uint64_t epoch) const = 0;
  /// Looks for epochs that were completed since.
  virtual Status Refresh() = 0;
  /// What this reader did so far.
  virtual DatasetReaderStatistics Statistics() const = 0;
};

}  // namespace QUIRE_EXPORT
