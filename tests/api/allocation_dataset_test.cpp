// The n-th allocation of a process fails while it writes a dataset, for n = 0, 1, ...: an epoch of
// which a put failed is not complete, one that is complete has all of its pairs, by key and in a
// scan, and the next epoch can be written. The same while it reads one: no call crashes or returns
// what was not put, and with memory again the same reader finds all.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/hash/hash.h"
#include "child_process.h"
#include "dataset/part/double_buffer.h"
#include "dataset/part/files.h"
#include "dataset/part/part_reader.h"
#include "dataset/part/part_writer.h"
#include "failing_allocations.h"
#include "filter/rank_map/rank_map.h"
#include "io/sim/sim_file_system.h"
#include "quire/quire.h"
#include "quire/quire_dataset.h"
#include "runtime/sim_ranks_testing.h"
#include "starved_program.h"

namespace {

using quire::test::kRan;
using quire::test::kTooFar;
using quire::test::kWrong;
using quire::test::Outcome;

constexpr uint64_t kEpochs = 2;  // while memory is short
constexpr uint64_t kBehind = kEpochs + 1;
constexpr size_t kPairs = 90;  // more than a buffer holds
constexpr const char* kFormats[] = {"base", "pointer", "ribbon"};

// The epochs that were reported complete to the program. Survives the process.
struct Record {
  bool complete[kBehind + 1];
};

template <int kFormat>
class Workload : protected quire::test::StarvedProgram {
 public:
  Workload(const std::string& repository, Record* record)
      : StarvedProgram(repository, 0), directory_(repository + "/steps"), record_(record) {
    for (size_t i = 0; i < kPairs; ++i) {
      keys_.push_back("key" + std::to_string(i));
      values_.push_back(std::to_string(i) + std::string(1000, 'v'));
    }
  }

  Outcome Run(int64_t n) {
    quire::test::FailAllocation(n);
    if (OpenContext() && OpenWriter()) {
      for (uint64_t epoch = 1; epoch <= kEpochs; ++epoch) WriteEpoch(epoch);
    }
    const bool failed = quire::test::AllocationFailed();
    if (writer_ != nullptr && !WriteEpoch(kBehind) && !Unknown()) Complain("writes no more");
    CloseWriter();
    if (wrong_) return kWrong;
    return failed ? kRan : kTooFar;
  }

  // With memory, in another process.
  Outcome Verify() {
    if (!OpenContext() || !OpenWriter()) Complain("cannot be opened again");
    if (writer_ != nullptr && !WriteEpoch(kBehind + 1)) Complain("cannot be gone on with");
    CloseWriter();
    quire_dataset_reader* reader = nullptr;
    if (Check(OpenReader(&reader))) {
      for (uint64_t epoch = 1; epoch <= kBehind; ++epoch) VerifyEpoch(reader, epoch);
      quire_dataset_reader_destroy(reader);
    }
    return wrong_ || failed_ ? kWrong : kRan;
  }

 protected:
  int OpenReader(quire_dataset_reader** reader) const {
    return quire_dataset_reader_open(directory_.c_str(), nullptr, reader);
  }
  const std::string& KeyOf(size_t i) const { return keys_[i]; }
  // Whether a pair was put. Allocates nothing.
  bool IsPair(const quire_bytes& key, const quire_bytes& value) const {
    for (size_t i = 0; i < kPairs; ++i) {
      if (Is(key, keys_[i])) return Is(value, values_[i]);
    }
    return false;
  }

  // It has all of its pairs, or it is not there.
  void VerifyEpoch(const quire_dataset_reader* reader, uint64_t epoch) {
    quire_dataset_scan* scan = nullptr;
    const int code = quire_dataset_scan_create(reader, epoch, 0, UINT32_MAX, &scan);
    if (code == QUIRE_NOT_FOUND && !record_->complete[epoch]) return;
    size_t scanned = 0;
    for (; quire_dataset_scan_valid(scan) == 1 && scanned <= kPairs; ++scanned) {
      quire_dataset_scan_next(scan);
    }
    if (code != QUIRE_OK || quire_dataset_scan_status(scan) != QUIRE_OK || scanned != kPairs) {
      Complain("epoch " + std::to_string(epoch) + " has " + std::to_string(scanned) + " pairs");
    }
    quire_dataset_scan_destroy(scan);
    for (size_t i = 0; i < kPairs; ++i) VerifyPair(reader, epoch, i);
  }

  void VerifyPair(const quire_dataset_reader* reader, uint64_t epoch, size_t i) {
    quire_dataset_values* values = nullptr;
    quire_dataset_reader_get(reader, epoch, keys_[i].data(), keys_[i].size(), &values);
    uint64_t of = 0;
    uint32_t rank = 0;
    quire_bytes value{};
    const bool found = quire_dataset_values_count(values) == 1 &&
                       quire_dataset_values_at(values, 0, &of, &rank, &value) == QUIRE_OK &&
                       std::string(static_cast<const char*>(value.data), value.size) == values_[i];
    if (!found) Complain(keys_[i] + " of epoch " + std::to_string(epoch) + " is not as it was put");
    quire_dataset_values_destroy(values);
  }

 private:
  static bool Is(const quire_bytes& bytes, const std::string& text) {
    return bytes.size == text.size() && std::memcmp(bytes.data, text.data(), bytes.size) == 0;
  }

  bool OpenWriter() {
    quire_options* options = nullptr;
    if (!Check(quire_options_create(&options))) return false;
    const bool opened = Check(quire_options_set(options, "dataset_format", kFormats[kFormat])) &&
                        Check(quire_options_set(options, "dataset_batch_bytes", "1KiB")) &&
                        Check(quire_options_set(options, "dataset_table_bytes", "64KiB")) &&
                        Check(quire_options_set(options, "dataset_partition_bytes", "64KiB")) &&
                        Check(quire_dataset_writer_open(context_, "steps", options, &writer_));
    quire_options_destroy(options);
    return opened;
  }

  void CloseWriter() {
    quire_dataset_writer_destroy(writer_);
    writer_ = nullptr;
    CloseAll();
  }

  // A put that fails does not keep the program from going on.
  bool WriteEpoch(uint64_t epoch) {
    if (!Check(quire_dataset_writer_begin_epoch(writer_, epoch))) return false;
    bool all = true;
    for (size_t i = 0; i < kPairs; ++i) {
      all = Check(quire_dataset_writer_put(writer_, keys_[i].data(), keys_[i].size(),
                                           values_[i].data(), values_[i].size())) &&
            all;
    }
    const bool ended = Check(quire_dataset_writer_end_epoch(writer_));
    if (ended && !all) Complain("an epoch of which a put failed is complete");
    if (ended && epoch <= kBehind) record_->complete[epoch] = true;
    return ended;
  }

  // Whether the writer says that the dataset must be opened again.
  static bool Unknown() {
    return std::strstr(quire_error_message(), "whether the epoch is complete is not known") !=
           nullptr;
  }

  const std::string directory_;
  Record* const record_;
  std::vector<std::string> keys_;
  std::vector<std::string> values_;
  quire_dataset_writer* writer_ = nullptr;
};

// Reads an epoch that is there, while memory is short and behind it.
template <int kFormat>
class Reading : private Workload<kFormat> {
 public:
  Reading(const std::string& repository, Record* record) : Workload<kFormat>(repository, record) {}

  Outcome Write() { return Workload<kFormat>::Run(INT64_MAX) == kTooFar ? kRan : kWrong; }

  Outcome Run(int64_t n) {
    quire_dataset_reader* reader = nullptr;
    quire_dataset_scan* scan = nullptr;
    quire::test::FailAllocation(n);
    if (Done(this->OpenReader(&reader)) &&
        Done(quire_dataset_scan_create(reader, 1, 0, UINT32_MAX, &scan))) {
      Walk(scan);
      for (size_t i = 0; i < kPairs; i += 7) Get(reader, i);
      Done(quire_dataset_reader_verify(reader, 1));
    }
    const bool failed = quire::test::AllocationFailed();
    if (reader != nullptr) {
      for (size_t i = 0; i < kPairs; ++i) this->VerifyPair(reader, 1, i);
      this->VerifyEpoch(reader, 1);
    }
    quire_dataset_scan_destroy(scan);
    quire_dataset_reader_destroy(reader);
    if (this->wrong_) return kWrong;
    return failed ? kRan : kTooFar;
  }

 private:
  // What is there is never absent.
  bool Done(int code) {
    if (code != QUIRE_OK && code != QUIRE_OUT_OF_MEMORY) this->Complain(quire_code_name(code));
    return code == QUIRE_OK;
  }

  // A step that fails ends the walk, which says so.
  void Walk(quire_dataset_scan* scan) {
    size_t count = 0;
    for (; quire_dataset_scan_valid(scan) == 1 && count <= kPairs; ++count) {
      uint32_t rank = 0;
      quire_bytes key{};
      quire_bytes value{};
      if (!Done(quire_dataset_scan_pair(scan, &rank, &key, &value))) break;
      if (!this->IsPair(key, value)) this->Complain("a scan shows what was not put");
      Done(quire_dataset_scan_next(scan));
    }
    if (Done(quire_dataset_scan_status(scan)) && count != kPairs) {
      this->Complain("a scan ends after " + std::to_string(count) + " pairs");
    }
  }

  void Get(const quire_dataset_reader* reader, size_t i) {
    quire_dataset_values* values = nullptr;
    const std::string& key = this->KeyOf(i);
    if (Done(quire_dataset_reader_get(reader, 1, key.data(), key.size(), &values)) &&
        quire_dataset_values_count(values) != 1) {
      this->Complain("a get has not the value that was put");
    }
    quire_dataset_values_destroy(values);
  }
};

uint64_t HashOf(uint64_t i) {
  return quire::base::HashKey(std::to_string(i));
}

struct Flag {
  bool full = false;
  bool empty() const { return !full; }
  void Clear() { full = false; }
};

// Gives a buffer away, again and again until no allocation of that fails.
void TurnStarved(quire::dataset::DoubleBuffer<Flag>* buffer) {
  bool failed = true;
  for (int64_t n = 0; failed; ++n) {
    buffer->filling().full = true;
    quire::test::FailAllocation(n);
    try {
      buffer->Turn();
      failed = quire::test::AllocationFailed();
    } catch (const std::bad_alloc&) {
      failed = quire::test::AllocationFailed();
      EXPECT_FALSE(buffer->filling().empty());
    }
    ASSERT_TRUE(buffer->spare_free());
  }
}

TEST(DoubleBuffer, StaysTheOneToFillWhereThereIsNoMemoryToGiveIt) {
  quire::runtime::RunSimRanks(
      {.rank_count = 1}, [](const std::shared_ptr<quire::runtime::ContextState>& context) {
        const auto queue =
            std::make_shared<quire::dataset::SerialQueue>(nullptr, context->exchange.get());
        int written = 0;
        quire::dataset::DoubleBuffer<Flag> buffer(queue.get(), [&](Flag* /*full*/, bool /*only*/) {
          ++written;
          return quire::Status();
        });
        for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(TurnStarved(&buffer));
        EXPECT_GE(written, 100);
      });
}

// A part of one map; the keys are their hashes.
std::shared_ptr<quire::dataset::PartReader> PartOfAMap(quire::io::FileSystem& fs,
                                                       uint32_t pair_count, uint64_t held_max) {
  using namespace quire::dataset;
  constexpr uint32_t kRanks = 1024;
  constexpr char kDirectory[] = "/steps";
  EXPECT_TRUE(fs.MakeDirectory(kDirectory).ok());
  PartWriter::Options options;
  options.fs = &fs;
  options.directory = kDirectory;
  options.id = 1;
  const auto writer = PartWriter::Open(options, {});
  EXPECT_TRUE(writer.ok() && (*writer)->Prepare().ok());
  std::vector<quire::filter::KeyRank> pairs;
  for (uint32_t i = 0; i < pair_count; ++i) pairs.push_back({HashOf(i), i % kRanks});
  quire::filter::RankMapOptions map;
  map.rank_count = kRanks;
  EXPECT_TRUE((*writer)->AddMap(map, &pairs).ok());
  EXPECT_TRUE((*writer)->Seal(1, 7).ok());
  (*writer)->KeepFiles();
  PartReader::Options part;
  part.part = *fs.Open(PartPath(kDirectory, 0), quire::io::FileOpenMode::kRead);
  part.record = ReadIndex(fs, kDirectory, 1, 0)->at(0);
  part.rank_count = kRanks;
  part.cache = quire::table::NewBlockCache(0);
  part.held = std::make_shared<std::atomic<uint64_t>>(0);
  part.held_max = held_max;
  const auto reader = PartReader::Open(std::move(part));
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  return *reader;
}

TEST(PartReader, ReturnsTheMemoryOfShardsThatItLetsGo) {
  constexpr uint32_t kPairCount = 20 << 16;
  constexpr uint64_t kHeldMax = 200'000;  // of some 2 MB
  const auto fs = quire::io::NewSimFileSystem();
  const auto part = PartOfAMap(*fs, kPairCount, kHeldMax);
  std::vector<uint32_t> ranks;
  ranks.reserve(64);
  const int64_t before = quire::test::AllocatedBytes();
  for (uint32_t i = 0; i < 1000; ++i) {
    ranks.clear();
    ASSERT_TRUE(part->FindRanks(HashOf(i), &ranks).ok());
    EXPECT_EQ(ranks, (std::vector<uint32_t>{i % 1024}));
    ASSERT_LT(quire::test::AllocatedBytes() - before, static_cast<int64_t>(2 * kHeldMax));
  }
}

using DatasetAllocations = quire::test::StarvedTest<Record>;

TEST_F(DatasetAllocations, OneFailsAndNoEpochIsIncompleteInTheFormatBase) {
  quire::test::FailInTurn(
      [this](int64_t n) { return RunAndVerify<Workload<0>>(directory_ + "/base", n); });
}

TEST_F(DatasetAllocations, OneFailsAndNoEpochIsIncompleteInTheFormatPointer) {
  quire::test::FailInTurn(
      [this](int64_t n) { return RunAndVerify<Workload<1>>(directory_ + "/pointer", n); });
}

TEST_F(DatasetAllocations, OneFailsAndNoEpochIsIncompleteInTheFormatRibbon) {
  quire::test::FailInTurn(
      [this](int64_t n) { return RunAndVerify<Workload<2>>(directory_ + "/ribbon", n); });
}

using DatasetReads = quire::test::StarvedTest<Record>;

// Writes once, and reads again and again: each time another allocation fails.
template <int kFormat>
void ReadStarved(const std::string& place, Record* record) {
  using Program = Reading<kFormat>;
  ASSERT_EQ(quire::test::InProcess([&] { return Program(place, record).Write(); }), kRan);
  Outcome outcome = kRan;
  for (int64_t n = 0; outcome != kTooFar; ++n) {
    outcome = quire::test::InProcess([&] { return Program(place, record).Run(n); });
    ASSERT_TRUE(outcome == kRan || outcome == kTooFar) << "allocation " << n << ": " << outcome;
  }
}

TEST_F(DatasetReads, OneAllocationFailsAndNothingIsWrongInTheFormatBase) {
  ReadStarved<0>(directory_ + "/base", record_);
}

TEST_F(DatasetReads, OneAllocationFailsAndNothingIsWrongInTheFormatPointer) {
  ReadStarved<1>(directory_ + "/pointer", record_);
}

TEST_F(DatasetReads, OneAllocationFailsAndNothingIsWrongInTheFormatRibbon) {
  ReadStarved<2>(directory_ + "/ribbon", record_);
}

}  // namespace
