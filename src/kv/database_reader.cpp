// A database read without being opened: its generations as a chain, the newest included.
#include "kv/database_reader.h"

#include <atomic>
#include <utility>
#include <vector>

#include "kv/chain.h"
#include "kv/checkpoint_files.h"
#include "kv/local_iterator.h"

namespace quire::kv {
namespace {

// A database's generations, or the one of a checkpoint.
Result<std::vector<Generation>> GenerationsIn(io::FileSystem& fs, const std::string& directory) {
  const Result<Descriptor> descriptor = ReadDescriptor(fs, directory);
  if (descriptor.ok()) {
    if (descriptor->state == DescriptorState::kReady) return descriptor->generations;
    return Status(Code::kNotFound, "the database in " + directory + " is being made or removed");
  }
  if (descriptor.status().code() != Code::kNotFound) return descriptor.status();
  const Result<CommitRecord> record = ReadCommitRecord(fs, directory);
  if (record.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, "there is no database and no checkpoint in " + directory);
  }
  QUIRE_RETURN_IF_ERROR(record.status());
  return std::vector<Generation>{
      {1, static_cast<int>(record->parts.size()), record->partitioner, directory}};
}

class DatabaseReaderImpl final : public DatabaseReader {
 public:
  DatabaseReaderImpl(io::FileSystem& fs, std::string directory,
                     const DatabaseReaderOptions& options)
      : fs_(fs), directory_(std::move(directory)), options_(options) {
    reader_.storage.cache_bytes = options.cache_bytes;
    reader_.cache = table::NewBlockCache(options.cache_bytes);
  }

  Status Get(Slice key, const PlaceFunction& place) const override {
    const std::shared_ptr<const Chain> chain = Present();
    const Status status = chain->Get(key, place);
    return status.code() == Code::kCorruption && Changed(*chain) ? Stale() : status;
  }
  std::unique_ptr<LocalIterator> NewIterator() const override {
    // As if one rank owned everything.
    return NewEntryPairIterator(NewChainBase(Present(), 0, 1)->NewIterator());
  }
  Status Refresh() override {
    QUIRE_ASSIGN_OR_RETURN(std::vector<Generation> generations, GenerationsIn(fs_, directory_));
    for (const Generation& generation : generations) {
      if (generation.partitioner == "hash" || options_.partitioner) continue;
      return Status(Code::kInvalidArgument,
                    "the database in " + directory_ + " was made with the partitioner \"" +
                        generation.partitioner +
                        "\": give the function in DatabaseReaderOptions::partitioner");
    }
    const std::shared_ptr<const Chain> former = Present();
    Chain::Options options;
    options.fs = &fs_;
    options.directory = directory_;
    options.generations = std::move(generations);
    options.partitioner = options_.partitioner;
    options.reader = reader_;
    auto chain = std::make_shared<Chain>(std::move(options));
    if (former != nullptr) QUIRE_RETURN_IF_ERROR(chain->TakeOver(*former));
    chain_.store(std::move(chain));
    return Status();
  }

 private:
  std::shared_ptr<const Chain> Present() const { return chain_.load(); }
  Status Stale() const {
    return Status(Code::kBusy, "what was seen of " + directory_ +
                                   " is stale: its pairs have moved to other ranks; Refresh, and "
                                   "ask again");
  }
  // Whether generations came or went since: then a part that is missing is no damage.
  bool Changed(const Chain& chain) const {
    const Result<std::vector<Generation>> now = GenerationsIn(fs_, directory_);
    return now.ok() && !(now->size() == chain.generations().size() &&
                         (*now)[0].number == chain.generations()[0].number);
  }

  io::FileSystem& fs_;
  const std::string directory_;
  const DatabaseReaderOptions options_;
  lsm::ReaderOptions reader_;
  std::atomic<std::shared_ptr<const Chain>> chain_;
};

}  // namespace

Result<std::unique_ptr<DatabaseReader>> OpenDatabaseReader(io::FileSystem& fs,
                                                           const std::string& directory,
                                                           const DatabaseReaderOptions& options) {
  auto reader = std::make_unique<DatabaseReaderImpl>(fs, directory, options);
  QUIRE_RETURN_IF_ERROR(reader->Refresh());
  return std::unique_ptr<DatabaseReader>(std::move(reader));
}

}  // namespace quire::kv

namespace quire {

Result<std::unique_ptr<DatabaseReader>> DatabaseReader::Open(const std::string& directory,
                                                             const DatabaseReaderOptions& options) {
  return kv::OpenDatabaseReader(io::PosixFileSystem(), directory, options);
}

Status DatabaseReader::Get(Slice key, std::string* value) const {
  return Get(key, [value](size_t size) {
    value->resize(size);
    return value->data();
  });
}

}  // namespace quire
