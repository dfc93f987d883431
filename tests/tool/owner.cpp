// The program that owns the data that looking_test.py reads: owner DIRECTORY HOW
//
//   repository/numbers  pairs k0 to k299 in tables and in the log
//   repository/atoms    a dataset of two epochs
//   checkpoints         one of numbers
//   place/heat          rank 0 of a stream store, whose log has wrapped: object0 to object23, large
//
// HOW is one of: end: makes or opens all of them, writes, and ends properly. stay: prints "ready"
// instead of ending, keeps all open, and writes nothing more until it is killed or its input ends.
// write: like stay, but writes all of that again and again, and prints "ready" each time. Existing
// data goes on: epochs and snapshots have the next numbers.
#include <atomic>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "quire/database.h"
#include "quire/dataset.h"
#include "quire/stream.h"

namespace quire {
namespace {

constexpr int kPairs = 300;
constexpr int kObjects = 24;
constexpr int kSnapshots = 40;
constexpr uint64_t kEpochsMax = 40;  // each is verified by several commands
constexpr uint64_t kObjectBytes = 8000;
constexpr uint64_t kLargeBytes = 200'000;  // more than a pipe holds

class Owner {
 public:
  explicit Owner(std::string directory) : directory_(std::move(directory)) {}

  Status Write() {
    QUIRE_ASSIGN_OR_RETURN(context_, Context::OpenSerial(directory_ + "/repository"));
    QUIRE_RETURN_IF_ERROR(WriteDatabase());
    QUIRE_RETURN_IF_ERROR(WriteDataset());
    return WriteStream();
  }

  Status WriteMore() {
    QUIRE_RETURN_IF_ERROR(PutPairs(0, kPairs));
    QUIRE_RETURN_IF_ERROR(database_->Barrier(Level::kSsTable));
    if (dataset_->LastEpoch() < kEpochsMax) {
      QUIRE_RETURN_IF_ERROR(dataset_->EndEpoch());
      QUIRE_RETURN_IF_ERROR(WriteEpoch(*dataset_->LastEpoch() + 1));
    }
    return MakeSnapshots();
  }

  // The dataset has an unfinished epoch, which is dropped.
  Status End() {
    QUIRE_RETURN_IF_ERROR(stream_->Finish());
    stream_.reset();
    dataset_.reset();
    return database_->Close();
  }

 private:
  Status WriteDatabase() {
    DatabaseOptions options;
    options.storage.memtable_bytes = 256 << 10;
    options.storage.value_segment_bytes = 256 << 10;
    QUIRE_ASSIGN_OR_RETURN(database_, context_->Open("numbers", options));
    QUIRE_RETURN_IF_ERROR(PutPairs(0, kPairs / 2));
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Event> copied,
                           database_->Checkpoint(directory_ + "/checkpoints", {}));
    QUIRE_RETURN_IF_ERROR(copied->Wait());
    return PutPairs(kPairs / 2, kPairs);
  }

  Status PutPairs(int from, int to) {
    for (int i = from; i < to; ++i) {
      const std::string value(i % 10 == 0 ? 3000 : 30, 'v');
      QUIRE_RETURN_IF_ERROR(database_->Put("k" + std::to_string(i), value));
    }
    return Status();
  }

  Status WriteDataset() {
    DatasetOptions options;
    options.table_bytes = 64 << 10;
    QUIRE_ASSIGN_OR_RETURN(dataset_, DatasetWriter::Open(*context_, "atoms", options));
    uint64_t next = dataset_->LastEpoch().value_or(0) + 1;
    for (int i = 0; i < 2; ++i) {
      QUIRE_RETURN_IF_ERROR(WriteEpoch(next++));
      QUIRE_RETURN_IF_ERROR(dataset_->EndEpoch());
    }
    return WriteEpoch(next);
  }

  Status WriteEpoch(uint64_t number) {
    QUIRE_RETURN_IF_ERROR(dataset_->BeginEpoch(number));
    for (int i = 0; i < kPairs; ++i) {
      QUIRE_RETURN_IF_ERROR(dataset_->Put("atom" + std::to_string(i), "at " + std::to_string(i)));
    }
    return Status();
  }

  Status WriteStream() {
    StreamOptions options;
    options.log_bytes = 4 << 20;
    options.keep_versions = 3;
    QUIRE_ASSIGN_OR_RETURN(stream_, StreamWriter::Open(directory_ + "/place", "heat", 0, options));
    for (int i = 0; i < kObjects; ++i) {
      QUIRE_ASSIGN_OR_RETURN(char* const memory,
                             stream_->Create("object" + std::to_string(i), kObjectBytes));
      objects_.push_back(memory);
    }
    QUIRE_ASSIGN_OR_RETURN(char* const large, stream_->Create("large", kLargeBytes));
    objects_.push_back(large);
    return MakeSnapshots();
  }

  Status MakeSnapshots() {
    for (int snapshot = 0; snapshot < kSnapshots; ++snapshot) {
      for (char* const object : objects_) ++object[snapshot];
      QUIRE_RETURN_IF_ERROR(stream_->Snapshot().status());
    }
    return Status();
  }

  const std::string directory_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<DatasetWriter> dataset_;
  std::unique_ptr<StreamWriter> stream_;
  std::vector<char*> objects_;
};

Status WriteUntilInputEnds(Owner& owner) {
  std::atomic<bool> ended = false;
  std::thread input([&ended] {
    std::cin.ignore(std::numeric_limits<std::streamsize>::max());
    ended = true;
  });
  Status written;
  while (written.ok() && !ended) {
    written = owner.WriteMore();
    std::cout << "ready" << std::endl;
  }
  input.join();
  return written;
}

Status Run(const std::string& directory, const std::string& how) {
  Owner owner(directory);
  QUIRE_RETURN_IF_ERROR(owner.Write());
  if (how != "end") std::cout << "ready" << std::endl;
  if (how == "write") QUIRE_RETURN_IF_ERROR(WriteUntilInputEnds(owner));
  if (how == "stay") std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  return owner.End();
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const quire::Status done = quire::Run(argv[1], argv[2]);
  if (!done.ok()) std::fprintf(stderr, "owner: %s\n", done.ToString().c_str());
  return done.ok() ? 0 : 1;
}
