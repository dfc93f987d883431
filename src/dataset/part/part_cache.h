/// The most recently used parts of epochs, which a reader keeps open.
///
/// Layer      dataset
/// Threads    any
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dataset/part/files.h"
#include "dataset/part/part_reader.h"
#include "io/files/file_system.h"

namespace quire::dataset {

/// A cache of parts that were read from the files of a dataset.
struct ReadCounts {
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> bytes{0};
};

class PartCache {
 public:
  struct Options {
    io::FileSystem* fs = nullptr;
    std::string directory;
    DatasetDescriptor dataset;
    uint64_t cache_bytes = 0;
    uint32_t open_parts_max = 1;
    std::shared_ptr<ReadCounts> counts;
  };
  explicit PartCache(Options options);

  /// Returns the part of `rank` in epochs[which]. Errors  kCorruption: it is damaged or missing.
  Result<std::shared_ptr<PartReader>> Find(const std::vector<EpochRecord>& epochs, size_t which,
                                           uint32_t rank);

 private:
  using Place = std::pair<uint64_t, uint32_t>;  // attempt of the epoch, rank
  struct Held {
    std::shared_ptr<PartReader> part;
    std::list<Place>::iterator use;
  };
  Result<std::shared_ptr<PartReader>> OpenPart(const std::vector<EpochRecord>& epochs, size_t which,
                                               uint32_t rank);
  Result<std::shared_ptr<io::File>> Open(const std::string& path);
  void Evict();

  const Options options_;
  const std::shared_ptr<table::BlockCache> blocks_;
  const std::shared_ptr<std::atomic<uint64_t>> held_shards_;
  std::mutex files_mutex_;
  std::map<std::string, std::weak_ptr<io::File>> files_;  // that parts have open, by path
  std::mutex mutex_;
  std::list<Place> uses_;  // the last used first
  std::map<Place, Held> parts_;
};

}  // namespace quire::dataset
