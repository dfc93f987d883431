// A database read without being opened: its generations as a chain, the newest included.
#include "kv/database/database_reader.h"

#include <mutex>
#include <utility>
#include <vector>

#include "base/core/own_buffer.h"
#include "base/core/program_call.h"
#include "base/threads/forked_child.h"
#include "io/files/machine.h"
#include "kv/generations/generation_chain.h"
#include "kv/owner/local_iterator.h"
#include "kv/persistence/checkpoint_files.h"
#include "table/table.h"

namespace quire::kv {
namespace {

constexpr int kLooksMax = 64;

// A database's generations, or the one of a checkpoint.
Result<std::vector<Generation>> GenerationsIn(io::FileSystem& fs, const std::string& directory) {
  const Result<DatabaseDescriptor> descriptor = ReadDescriptor(fs, directory);
  if (descriptor.ok()) {
    if (IsThere(*descriptor)) return descriptor->generations;
    return Status(Code::kNotFound, "the database in " + directory + " is being made or removed");
  }
  if (descriptor.status().code() != Code::kNotFound) return descriptor.status();
  const Result<CommitRecord> record = ReadCommitRecord(fs, directory);
  if (record.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, "there is no database and no checkpoint in " + directory +
                                       "; name a database's directory, <repository>/<name>");
  }
  QUIRE_RETURN_IF_ERROR(record.status());
  return std::vector<Generation>{
      {1, static_cast<int>(record->parts.size()), record->partitioner, directory, record->seal}};
}

// Whether generations came or went since they were `seen`.
bool Changed(io::FileSystem& fs, const std::string& directory,
             const std::vector<Generation>& seen) {
  const Result<std::vector<Generation>> now = GenerationsIn(fs, directory);
  return !now.ok() || !SameGenerations(*now, seen);
}

class DatabaseReaderImpl final : public DatabaseReader {
 public:
  DatabaseReaderImpl(io::FileSystem& fs, std::string directory,
                     const DatabaseReaderOptions& options)
      : fs_(fs), directory_(std::move(directory)), partitioning_(options.partitioner) {
    reader_.storage.cache_bytes = options.cache_bytes;
    reader_.cache = table::NewBlockCache(options.cache_bytes);
  }

  ~DatabaseReaderImpl() override {
    if (!process_.forked()) return;
    // No other thread came into the child; one may have held the mutex in the parent.
    std::shared_ptr<const GenerationChain> chain = std::move(chain_);
    base::LeaveInChild(chain, reader_);
  }

  Status Get(Slice key, const BufferAllocator& allocate) const override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the reader"));
    return base::GetInto(allocate, [&](const BufferAllocator& own) {
      return base::CallProgram([] { return std::string("the buffer allocator"); },
                               [&] { return Present()->Get(key, own); });
    });
  }
  std::unique_ptr<LocalIterator> NewIterator() const override {
    if (!process_.MayCall()) return NewFailedIterator(process_.Check("the reader"));
    return NewEntryPairIterator(NewChainBackingStore(Present(), 0, kAllRanks)->NewIterator());
  }
  Status Refresh() override {
    QUIRE_RETURN_IF_ERROR(process_.Check("the reader"));
    for (int look = 0; look < kLooksMax; ++look) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<Generation> generations,
                             GenerationsIn(fs_, directory_));
      QUIRE_RETURN_IF_ERROR(CheckPartitioners(generations));
      auto chain = std::make_shared<GenerationChain>(OptionsFor(generations));
      QUIRE_RETURN_IF_ERROR(chain->CheckWriters());
      const std::shared_ptr<const GenerationChain> former = Present();
      const Status taken = former == nullptr ? Status() : chain->TakeOver(*former);
      // Tombstones of a generation may go, and files, once DATABASE names no older one any more.
      if (Changed(fs_, directory_, generations)) continue;
      if (taken.ok()) Replace(std::move(chain));
      return taken;
    }
    return Status(Code::kBusy, "the generations of the database in " + directory_ +
                                   " changed at each of many looks; try again");
  }

 private:
  std::shared_ptr<const GenerationChain> Present() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return chain_;
  }
  // The former one may end here, without the mutex.
  void Replace(std::shared_ptr<const GenerationChain> chain) {
    const std::lock_guard<std::mutex> lock(mutex_);
    chain_.swap(chain);
  }
  Status CheckPartitioners(const std::vector<Generation>& generations) const {
    // `quire repair` may have found an older generation by hash whose function it could not know.
    for (const Generation& generation : generations) {
      const bool by_hash = generation.partitioner == runtime::Partitioning::kByHash;
      const bool newest = &generation == &generations.front();
      if (by_hash == partitioning_.by_hash() || (by_hash && !newest)) continue;
      const std::string advice =
          by_hash ? ", by the hash of keys: give no function in " : ": give the function in ";
      return Status(Code::kInvalidArgument, "the database in " + directory_ +
                                                " was made with the partitioner \"" +
                                                generation.partitioner + "\"" + advice +
                                                "DatabaseReaderOptions::partitioner");
    }
    return Status();
  }
  // A part that is opened after generations went may miss tombstones, or be gone.
  GenerationChain::Options OptionsFor(const std::vector<Generation>& generations) {
    GenerationChain::Options options;
    options.fs = &fs_;
    options.directory = directory_;
    options.generations = generations;
    options.partitioning = partitioning_;
    options.reader = reader_;
    // Iterators may outlive this reader.
    options.still_present = [&fs = fs_, directory = directory_, generations] {
      if (!Changed(fs, directory, generations)) return Status();
      return Status(Code::kBusy, "stale: what was seen of " + directory +
                                     " has moved to other ranks; refresh, and ask again");
    };
    return options;
  }
  const base::OwnProcess process_;
  io::FileSystem& fs_;
  const std::string directory_;
  const runtime::Partitioning partitioning_;
  engine::ReaderOptions reader_;
  // Not an atomic pointer: GCC 12's releases its lock without ordering what was read under it.
  mutable std::mutex mutex_;
  std::shared_ptr<const GenerationChain> chain_;
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
  QUIRE_RETURN_IF_ERROR(base::CheckNoProgramCall("DatabaseReader::Open"));
  QUIRE_ASSIGN_OR_RETURN(const std::string path, io::AbsolutePath(directory));
  return kv::OpenDatabaseReader(io::PosixFileSystem(), path, options);
}

Status DatabaseReader::Get(Slice key, std::string* value) const {
  return Get(key, Into(value));
}

}  // namespace quire
