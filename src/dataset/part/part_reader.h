/// One rank's part of one epoch: its tables and its maps, read on demand.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 3.3
/// Encoding   docs/format/dataset.md
/// Threads    any
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dataset/part/files.h"
#include "filter/rank_map/rank_map.h"
#include "io/files/file_system.h"
#include "table/table.h"

namespace quire::dataset {

class PartReader {
 public:
  struct Options {
    std::shared_ptr<io::File> part;
    std::shared_ptr<io::File> values;  ///< format pointer
    PartRecord record;
    uint32_t rank_count = 0;  ///< of the epoch
    std::shared_ptr<table::BlockCache> cache;
    std::shared_ptr<std::atomic<uint64_t>> held;  ///< bytes of shards, of all parts together
    uint64_t held_max = 0;                        ///< of this one
  };
  ~PartReader();
  PartReader(const PartReader&) = delete;
  PartReader& operator=(const PartReader&) = delete;
  /// Errors  kCorruption. Cost: one read, and two for each table when it is first searched.
  static Result<std::shared_ptr<PartReader>> Open(Options options);

  /// Appends to `ranks` the ranks that may have put the key, each once, in rising order.
  Status FindRanks(uint64_t hash, std::vector<uint32_t>* ranks);
  /// Passes each rank's value of the key in the tables to `take`; of several values of one rank,
  /// that of the newest table. `many`: entries may be from several ranks. The value is valid during
  /// the call.
  using Take = std::function<Status(uint32_t rank, Slice value)>;
  Status Get(Slice key, uint64_t hash, bool many, const Take& take);

  size_t table_count() const { return list_.tables.size(); }
  Result<std::shared_ptr<table::Table>> TableAt(size_t number);
  /// Reads everything, even if it was read before, and compares every checksum.
  Status Verify();
  const PartRecord& record() const { return options_.record; }
  const io::File& values() const { return *options_.values; }

 private:
  struct Map {
    filter::RankMap map;
    std::vector<std::string> shards;  ///< those that were read
  };
  explicit PartReader(Options options) : options_(std::move(options)) {}
  Result<PartList> ReadList() const;
  void Forget();
  Result<Map*> MapAt(size_t number);
  Result<Slice> ShardOf(size_t number, Map* map, uint32_t shard);
  void DropShards();

  const Options options_;
  PartList list_;
  std::mutex mutex_;  ///< guards what follows
  std::vector<std::shared_ptr<table::Table>> tables_;
  std::vector<std::unique_ptr<Map>> maps_;
  uint64_t held_ = 0;
};

}  // namespace quire::dataset
