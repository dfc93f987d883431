// Makes a repository for the tests of the command quire: make_repository DIRECTORY
//
//   numbers   two generations. The older, of 2 ranks: k000 to k099 with old<i>. The newer, of 3:
//             k000 to k049 with new<i>, k050 to k059 deleted, a large value, a binary key, and
//             (rank of its hash) a key that is in the log only.
//   own       2 ranks, and a rule of the program: keys on rank 1, in two runs of a table each
//
// and DIRECTORY-checkpoints/own/1, a checkpoint of own.
//
// make_repository DIRECTORY logged: a database of 4 ranks, each with a log of 64 MiB. It contains
// only k000 to k009.
#include <cstdio>
#include <memory>
#include <string>

#include "base/hash/hash.h"
#include "base/threads/executor.h"
#include "io/files/file_system.h"
#include "kv/persistence/checkpoint_files.h"
#include "kv/protocol/descriptor.h"
#include "lsm/db/db.h"

namespace quire {
namespace {

std::string KeyOf(int i) {
  char key[8];
  std::snprintf(key, sizeof key, "k%03d", i);
  return key;
}

// Pretends that older pairs exist, so that tombstones stay: those of the other generation, which
// this program does not read.
class OlderGeneration final : public engine::BackingStore {
 public:
  Status Get(Slice /*key*/, const BufferAllocator& /*allocate*/) const override {
    return Status(Code::kNotFound);
  }
  std::unique_ptr<table::EntryIterator> NewIterator() const override {
    return table::NewEmptyIterator();
  }
};

// The ranks of one generation, all open at once.
class Ranks {
 public:
  Ranks(std::string directory, kv::Generation generation, uint64_t memtable_bytes = 64 << 10)
      : directory_(std::move(directory)),
        generation_(std::move(generation)),
        memtable_bytes_(memtable_bytes) {}
  Status Open() {
    io::FileSystem& fs = io::PosixFileSystem();
    QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(kv::GenerationDirectory(directory_, generation_)));
    for (int rank = 0; rank < generation_.rank_count; ++rank) {
      engine::EngineEnvironment environment;
      environment.fs = &fs;
      environment.executor = executor_.get();
      environment.base = std::make_shared<OlderGeneration>();
      StorageOptions options;
      options.memtable_bytes = memtable_bytes_;
      options.value_segment_bytes = 64 << 10;
      options.compaction = CompactionPolicy::kEveryNth;  // tables stay as they are flushed
      QUIRE_ASSIGN_OR_RETURN(
          std::unique_ptr<lsm::Db> db,
          lsm::Db::Open(environment, kv::PartDirectory(directory_, generation_, rank), options,
                        engine::OpenFlags::kMustNotExist));
      ranks_.push_back(std::move(db));
    }
    return Status();
  }
  lsm::Db& Owner(const std::string& key) {
    if (generation_.partitioner != "hash") return *ranks_.back();
    const auto rank = base::OwnerOf(base::HashKey(key), generation_.rank_count);
    return *ranks_[static_cast<size_t>(rank)];
  }
  Status Put(const std::string& key, const std::string& value) {
    return Owner(key).Put(key, value);
  }
  Result<std::shared_ptr<const engine::Capture>> Capture(size_t rank) {
    return ranks_[rank]->NewCapture();
  }
  std::string PartOf(int rank) const { return kv::PartDirectory(directory_, generation_, rank); }
  Status Flush() {
    for (const auto& rank : ranks_) QUIRE_RETURN_IF_ERROR(rank->Flush());
    return Status();
  }

 private:
  const std::string directory_;
  const kv::Generation generation_;
  const uint64_t memtable_bytes_;
  std::unique_ptr<base::Executor> executor_ = base::NewThreadPool(1, "maker").value();
  std::vector<std::unique_ptr<lsm::Db>> ranks_;
};

Status FillOlder(const std::string& directory, const kv::Generation& generation) {
  Ranks ranks(directory, generation);
  QUIRE_RETURN_IF_ERROR(ranks.Open());
  for (int i = 0; i < 100; ++i) {
    QUIRE_RETURN_IF_ERROR(ranks.Put(KeyOf(i), "old" + std::to_string(i)));
  }
  return ranks.Flush();
}

Status FillNewer(const std::string& directory, const kv::Generation& generation) {
  Ranks ranks(directory, generation);
  QUIRE_RETURN_IF_ERROR(ranks.Open());
  for (int i = 0; i < 50; ++i) {
    QUIRE_RETURN_IF_ERROR(ranks.Put(KeyOf(i), "new" + std::to_string(i)));
  }
  for (int i = 50; i < 60; ++i) QUIRE_RETURN_IF_ERROR(ranks.Owner(KeyOf(i)).Delete(KeyOf(i)));
  QUIRE_RETURN_IF_ERROR(ranks.Put("large", std::string(3000, 'L')));
  QUIRE_RETURN_IF_ERROR(ranks.Put(std::string("\x00\xff\x01", 3), "binary\n"));
  QUIRE_RETURN_IF_ERROR(ranks.Flush());
  return ranks.Put("logged", "in the log");
}

Status MakeNumbers(const std::string& directory) {
  io::FileSystem& fs = io::PosixFileSystem();
  QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(directory));
  kv::DatabaseDescriptor descriptor;
  descriptor.generations = {{2, 3, "hash", ""}, {1, 2, "hash", ""}};
  QUIRE_RETURN_IF_ERROR(FillOlder(directory, descriptor.generations[1]));
  QUIRE_RETURN_IF_ERROR(FillNewer(directory, descriptor.generations[0]));
  return kv::WriteDescriptor(fs, directory, descriptor);
}

// Returns the checksum of a small file.
uint64_t SumOf(Slice bytes) {
  return kv::AddToSum(0, 0, bytes);
}

Status CopyPart(Ranks& ranks, int rank, const std::string& to, kv::CommitRecord::Part* part) {
  io::FileSystem& fs = io::PosixFileSystem();
  QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(to));
  QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const engine::Capture> capture,
                         ranks.Capture(static_cast<size_t>(rank)));
  kv::FileList list;
  for (const engine::Capture::File& file : capture->files()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string bytes,
                           io::ReadFile(fs, ranks.PartOf(rank) + "/" + file.name, 1 << 20));
    QUIRE_RETURN_IF_ERROR(io::ReplaceFile(fs, to + "/" + file.name, bytes));
    list.files[file.name] = {bytes.size(), file.identity, SumOf(bytes)};
  }
  const std::string& manifest = capture->manifest();
  QUIRE_RETURN_IF_ERROR(io::ReplaceFile(fs, to + "/MANIFEST", manifest));
  list.files["MANIFEST"] = {manifest.size(), 0, SumOf(manifest)};
  const std::string encoded = kv::EncodeFileList(list);
  *part = kv::PartOf(list, encoded);
  return io::ReplaceFile(fs, to + "/" + kv::kFilesName, encoded);
}

Status MakeCheckpoint(Ranks& ranks, const std::string& path) {
  io::FileSystem& fs = io::PosixFileSystem();
  const std::string home = kv::CheckpointHome(path, "own");
  const std::string directory = kv::CheckpointDirectory(home, 1);
  for (const std::string& made : {path, home, directory}) {
    QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(made));
  }
  kv::CommitRecord record;
  record.database = "own";
  record.partitioner = "mine";
  record.time = 1;
  record.parts.resize(2);
  for (int rank = 0; rank < 2; ++rank) {
    QUIRE_RETURN_IF_ERROR(CopyPart(ranks, rank, directory + "/rank-" + std::to_string(rank),
                                   &record.parts[static_cast<size_t>(rank)]));
  }
  return io::ReplaceFile(fs, directory + "/" + kv::kCommitName, kv::EncodeCommitRecord(record));
}

Status MakeOwn(const std::string& directory, const std::string& checkpoints) {
  io::FileSystem& fs = io::PosixFileSystem();
  QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(directory));
  kv::DatabaseDescriptor descriptor;
  descriptor.generations = {{1, 2, "mine", ""}};
  Ranks ranks(directory, descriptor.generations[0]);
  QUIRE_RETURN_IF_ERROR(ranks.Open());
  QUIRE_RETURN_IF_ERROR(ranks.Put("mine", "on rank 1"));
  QUIRE_RETURN_IF_ERROR(ranks.Flush());
  QUIRE_RETURN_IF_ERROR(ranks.Put("mine too", std::string(3000, 'M')));
  QUIRE_RETURN_IF_ERROR(ranks.Flush());
  QUIRE_RETURN_IF_ERROR(MakeCheckpoint(ranks, checkpoints));
  return kv::WriteDescriptor(fs, directory, descriptor);
}

Status MakeLogged(const std::string& directory) {
  io::FileSystem& fs = io::PosixFileSystem();
  QUIRE_RETURN_IF_ERROR(fs.MakeDirectory(directory));
  kv::DatabaseDescriptor descriptor;
  descriptor.generations = {{1, 4, "hash", ""}};
  Ranks ranks(directory, descriptor.generations[0], 64 << 20);
  QUIRE_RETURN_IF_ERROR(ranks.Open());
  for (int i = 0; i < 10; ++i) QUIRE_RETURN_IF_ERROR(ranks.Put(KeyOf(i), "logged"));
  return kv::WriteDescriptor(fs, directory, descriptor);
}

Status MakeRepository(const std::string& directory) {
  QUIRE_RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectory(directory));
  QUIRE_RETURN_IF_ERROR(MakeNumbers(directory + "/numbers"));
  return MakeOwn(directory + "/own", directory + "-checkpoints");
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  const bool logged = argc == 3 && std::string(argv[2]) == "logged";
  if (argc != 2 && !logged) {
    std::fprintf(stderr, "usage: make_repository DIRECTORY [logged]\n");
    return 2;
  }
  const quire::Status status =
      logged ? quire::MakeLogged(argv[1]) : quire::MakeRepository(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "make_repository: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
