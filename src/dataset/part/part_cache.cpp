#include "dataset/part/part_cache.h"

#include "io/paths/forwarding.h"

namespace quire::dataset {
namespace {

// Counts what is read from a file.
class CountedFile final : public io::ForwardingFile {
 public:
  CountedFile(std::unique_ptr<io::File> file, std::shared_ptr<ReadCounts> counts)
      : ForwardingFile(std::move(file)), counts_(std::move(counts)) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    counts_->reads.fetch_add(1, std::memory_order_relaxed);
    counts_->bytes.fetch_add(size, std::memory_order_relaxed);
    return ForwardingFile::ReadAt(offset, size, to);
  }

 private:
  const std::shared_ptr<ReadCounts> counts_;
};

}  // namespace

PartCache::PartCache(Options options)
    : options_(std::move(options)),
      blocks_(table::NewBlockCache(options_.cache_bytes)),
      held_shards_(std::make_shared<std::atomic<uint64_t>>(0)) {}

// Opens a file, which the parts of a rank share. Reads from it are counted.
Result<std::shared_ptr<io::File>> PartCache::Open(const std::string& path) {
  const std::lock_guard<std::mutex> lock(files_mutex_);
  std::weak_ptr<io::File>& known = files_[path];
  if (std::shared_ptr<io::File> file = known.lock()) return file;
  std::erase_if(files_,
                [&](const auto& file) { return file.first != path && file.second.expired(); });
  auto opened = options_.fs->Open(path, io::FileOpenMode::kRead);
  if (!opened.ok() && opened.status().code() == Code::kNotFound) return MissingFile(path);
  QUIRE_RETURN_IF_ERROR(opened.status());
  const auto file = std::make_shared<CountedFile>(std::move(*opened), options_.counts);
  known = file;
  return std::shared_ptr<io::File>(file);
}

Result<std::shared_ptr<PartReader>> PartCache::OpenPart(const std::vector<EpochRecord>& epochs,
                                                        size_t which, uint32_t rank) {
  QUIRE_ASSIGN_OR_RETURN(const auto index, Open(IndexPath(options_.directory, rank)));
  PartReader::Options part;
  QUIRE_ASSIGN_OR_RETURN(part.record, ReadRecord(*index, options_.dataset.id, rank, epochs, which));
  QUIRE_ASSIGN_OR_RETURN(part.part, Open(PartPath(options_.directory, rank)));
  if (options_.dataset.format == DatasetFormat::kPointer) {
    QUIRE_ASSIGN_OR_RETURN(part.values, Open(ValuesPath(options_.directory, rank)));
  }
  part.rank_count = epochs[which].rank_count;
  part.cache = blocks_;
  part.held = held_shards_;
  part.held_max = options_.cache_bytes / 2 + 1;
  return PartReader::Open(std::move(part));
}

Result<std::shared_ptr<PartReader>> PartCache::Find(const std::vector<EpochRecord>& epochs,
                                                    size_t which, uint32_t rank) {
  const Place place{epochs[which].attempt, rank};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto held = parts_.find(place);
    if (held != parts_.end()) {
      uses_.splice(uses_.begin(), uses_, held->second.use);
      const std::shared_ptr<PartReader> part = held->second.part;
      Evict();  // the cached parts may have read more since
      return part;
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<PartReader> part, OpenPart(epochs, which, rank));
  const std::lock_guard<std::mutex> lock(mutex_);
  std::list<Place> use{place};  // before any change, because there may be no memory
  const auto [held, added] = parts_.try_emplace(place, Held{part, use.begin()});
  if (!added) return held->second.part;  // another thread was faster
  uses_.splice(uses_.begin(), use);
  Evict();
  return part;
}

void PartCache::Evict() {
  while (uses_.size() > options_.open_parts_max ||
         (uses_.size() > 1 && *held_shards_ > options_.cache_bytes)) {
    parts_.erase(uses_.back());
    uses_.pop_back();
  }
}

}  // namespace quire::dataset
