// Partitioned datasets over MPI: every format, straight and over the grid, by C++ and by C.
#include <string>
#include <vector>

#include "parallel_fixture.h"
#include "quire/dataset.h"
#include "quire/quire_dataset.h"

namespace quire::test {
namespace {

constexpr int kCount = 500;
constexpr uint64_t kEpochs = 3;

// Particles move: in each epoch another rank has the i-th.
std::string IdOf(int owner, int i) {
  return "p" + std::to_string(owner) + "." + std::to_string(i);
}
std::string StateOf(uint64_t epoch, int owner, int i) {
  return std::string(48, 's') + std::to_string(epoch * 1000 + static_cast<uint64_t>(owner + i));
}
int HolderOf(uint64_t epoch, int owner, int i, int size) {
  return (owner + i * static_cast<int>(epoch)) % size;
}

Status PutEpoch(DatasetWriter& writer, uint64_t epoch, int rank, int size) {
  QUIRE_RETURN_IF_ERROR(writer.BeginEpoch(epoch));
  for (int owner = 0; owner < size; ++owner) {
    for (int i = 0; i < kCount; ++i) {
      if (HolderOf(epoch, owner, i, size) != rank) continue;
      QUIRE_RETURN_IF_ERROR(writer.Put(IdOf(owner, i), StateOf(epoch, owner, i)));
    }
  }
  return writer.EndEpoch();
}

void ExpectTrajectories(const std::string& directory, int owner, int size) {
  auto reader = DatasetReader::Open(directory);
  ASSERT_OK(reader.status());
  for (int i = 0; i < kCount; ++i) {
    std::vector<DatasetValue> values;
    ASSERT_OK((*reader)->GetTrajectory(IdOf(owner, i), &values));
    ASSERT_EQ(values.size(), kEpochs);
    for (uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
      const DatasetValue& value = values[epoch - 1];
      ASSERT_EQ(value.epoch, epoch);
      ASSERT_EQ(value.rank, static_cast<uint32_t>(HolderOf(epoch, owner, i, size)));
      ASSERT_EQ(value.value, StateOf(epoch, owner, i));
    }
  }
}

bool OneStorage() {
  return NodeCount() == 1;
}

TEST_F(Parallel, DatasetsReturnTheTrajectoryOfEveryParticle) {
  if (!OneStorage()) GTEST_SKIP() << "a reader sees the storage of one node";
  const auto context = NewContext();
  ASSERT_NE(context, nullptr);
  for (const DatasetFormat format :
       {DatasetFormat::kBase, DatasetFormat::kPointer, DatasetFormat::kBloom,
        DatasetFormat::kCuckoo, DatasetFormat::kRibbon}) {
    for (const uint32_t grid_ranks_min : {1024u, 2u}) {
      const std::string name =
          "steps" + std::to_string(static_cast<int>(format)) + "." + std::to_string(grid_ranks_min);
      DatasetOptions options;
      options.format = format;
      options.grid_ranks_min = grid_ranks_min;
      options.batch_bytes = 1024;
      options.table_bytes = 64 << 10;
      options.partition_bytes = 64 << 10;
      options.in_flight_bytes = 64 << 10;
      auto writer = DatasetWriter::Open(*context, name, options);
      ASSERT_OK(writer.status());
      for (uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
        ASSERT_OK(PutEpoch(**writer, epoch, rank_, size_));
      }
      ASSERT_OK((*writer)->Finish());
      ASSERT_NO_FATAL_FAILURE(ExpectTrajectories(context->repository() + "/" + name, rank_, size_));
    }
  }
}

TEST_F(Parallel, ADatasetAndADatabaseAreNotConfused) {
  const auto context = NewContext();
  ASSERT_NE(context, nullptr);
  auto writer = DatasetWriter::Open(*context, "steps");
  ASSERT_OK(writer.status());
  EXPECT_CODE(DatasetWriter::Open(*context, "steps").status(), Code::kBusy);
  EXPECT_CODE(context->Open("steps", {}).status(), Code::kInvalidArgument);
  ASSERT_OK((*writer)->Finish());
  auto db = context->Open("db", {});
  ASSERT_OK(db.status());
  ASSERT_OK((*db)->Close());
  EXPECT_CODE(DatasetWriter::Open(*context, "db").status(), Code::kInvalidArgument);
  const auto names = context->ListDatabases();
  ASSERT_OK(names.status());
  EXPECT_THAT(*names, testing::ElementsAre("db"));
}

// A writer goes where its rank wants: what the ranks have left then differs.
TEST_F(Parallel, ADatabaseOpensAlikeWhereSomeRanksHoldAWriterStill) {
  ContextOptions options;
  options.memory_bytes = 512 << 20;  // less than the defaults of both
  const auto context = NewContext(options);
  ASSERT_NE(context, nullptr);
  auto writer = DatasetWriter::Open(*context, "steps", {});
  ASSERT_OK(writer.status());
  ASSERT_OK((*writer)->Finish());
  if (context->rank() > 0) writer->reset();
  auto database = context->Open("db", {});
  ASSERT_OK(database.status());
  const std::string mine = std::to_string((*database)->GetStatistics().at("memory.planned"));
  if (context->rank() == 0) {
    ASSERT_OK((*database)->Put("planned", mine));
  }
  ASSERT_OK((*database)->Barrier(Level::kMemTable));
  std::string planned;
  ASSERT_OK((*database)->Get("planned", &planned));
  EXPECT_EQ(planned, mine);
  ASSERT_OK((*database)->Close());
}

// The same by the C interface: epochs 100 and 200, in which each rank puts a key of its own and one
// that all put.
void WriteInC(quire_context* context, const quire_options* options, const std::string& mine) {
  quire_dataset_writer* writer = nullptr;
  ASSERT_EQ(quire_dataset_writer_open(context, "steps", options, &writer), QUIRE_OK)
      << quire_error_message();
  uint64_t last = 77;
  EXPECT_EQ(quire_dataset_writer_last_epoch(writer, &last), QUIRE_NOT_FOUND);
  EXPECT_EQ(quire_dataset_writer_put(writer, "k", 1, "v", 1), QUIRE_INVALID_ARGUMENT);
  for (const uint64_t epoch : {100u, 200u}) {
    ASSERT_EQ(quire_dataset_writer_begin_epoch(writer, epoch), QUIRE_OK);
    ASSERT_EQ(quire_dataset_writer_put(writer, mine.data(), mine.size(), "own", 3), QUIRE_OK);
    ASSERT_EQ(quire_dataset_writer_put(writer, "all", 3, mine.data(), mine.size()), QUIRE_OK);
    ASSERT_EQ(quire_dataset_writer_end_epoch(writer), QUIRE_OK) << quire_error_message();
  }
  ASSERT_EQ(quire_dataset_writer_last_epoch(writer, &last), QUIRE_OK);
  EXPECT_EQ(last, 200u);
  ASSERT_EQ(quire_dataset_writer_finish(writer), QUIRE_OK);
  quire_dataset_writer_destroy(writer);
}

void ExpectEpochsInC(const quire_dataset_reader* reader, int size) {
  quire_dataset_epoch* epochs = nullptr;
  size_t count = 0;
  ASSERT_EQ(quire_dataset_reader_epochs(reader, &epochs, &count), QUIRE_OK);
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(epochs[1].number, 200u);
  EXPECT_EQ(epochs[1].rank_count, static_cast<uint32_t>(size));
  EXPECT_EQ(epochs[1].pair_count, static_cast<uint64_t>(2 * size));
  quire_free(epochs);
}

void ExpectValuesInC(const quire_dataset_reader* reader, const std::string& mine, int size) {
  quire_dataset_values* values = nullptr;
  EXPECT_EQ(quire_dataset_reader_get(reader, 100, "none", 4, &values), QUIRE_NOT_FOUND);
  ASSERT_EQ(quire_dataset_reader_get(reader, 100, "all", 3, &values), QUIRE_OK);
  ASSERT_EQ(quire_dataset_values_count(values), static_cast<size_t>(size));
  uint64_t epoch = 0;
  uint32_t rank = 0;
  quire_bytes value{};
  for (int i = 0; i < size; ++i) {
    const auto index = static_cast<size_t>(i);
    ASSERT_EQ(quire_dataset_values_at(values, index, &epoch, &rank, &value), QUIRE_OK);
    EXPECT_EQ(epoch, 100u);
    EXPECT_EQ(rank, static_cast<uint32_t>(i));
    EXPECT_EQ(Slice(static_cast<const char*>(value.data), value.size), "rank" + std::to_string(i));
  }
  EXPECT_EQ(quire_dataset_values_at(values, 99, &epoch, &rank, &value), QUIRE_INVALID_ARGUMENT);
  quire_dataset_values_destroy(values);
  ASSERT_EQ(quire_dataset_reader_trajectory(reader, mine.data(), mine.size(), &values), QUIRE_OK);
  EXPECT_EQ(quire_dataset_values_count(values), 2u);
  quire_dataset_values_destroy(values);
}

void ExpectScanInC(const quire_dataset_reader* reader, int size) {
  quire_dataset_scan* scan = nullptr;
  quire_bytes key{};
  quire_bytes value{};
  uint32_t rank = 0;
  ASSERT_EQ(quire_dataset_scan_create(reader, 200, 0, UINT32_MAX, &scan), QUIRE_OK);
  int pairs = 0;
  for (; quire_dataset_scan_valid(scan) == 1; ++pairs) {
    ASSERT_EQ(quire_dataset_scan_pair(scan, &rank, &key, &value), QUIRE_OK);
    EXPECT_GT(key.size, 0u);
    ASSERT_EQ(quire_dataset_scan_next(scan), QUIRE_OK);
  }
  EXPECT_EQ(quire_dataset_scan_status(scan), QUIRE_OK);
  EXPECT_EQ(pairs, 2 * size);
  EXPECT_EQ(quire_dataset_scan_next(scan), QUIRE_INVALID_ARGUMENT);
  quire_dataset_scan_destroy(scan);
  EXPECT_EQ(quire_dataset_scan_create(reader, 300, 0, UINT32_MAX, &scan), QUIRE_NOT_FOUND);
}

TEST_F(Parallel, DatasetsAreWrittenAndReadInC) {
  if (!OneStorage()) GTEST_SKIP() << "a reader sees the storage of one node";
  quire_options* options = nullptr;
  quire_context* context = nullptr;
  quire_dataset_reader* reader = nullptr;
  const std::string repository = directory_ + "/repository";
  const std::string mine = "rank" + std::to_string(rank_);
  ASSERT_EQ(quire_options_create(&options), QUIRE_OK);
  ASSERT_EQ(quire_options_set(options, "dataset_format", "cuckoo"), QUIRE_OK);
  ASSERT_EQ(quire_options_set(options, "dataset_format", "fastest"), QUIRE_INVALID_ARGUMENT);
  ASSERT_EQ(quire_context_open_fortran(MPI_Comm_c2f(MPI_COMM_WORLD), repository.c_str(), options,
                                       &context),
            QUIRE_OK);
  ASSERT_NO_FATAL_FAILURE(WriteInC(context, options, mine));
  ASSERT_EQ(quire_dataset_reader_open((repository + "/steps").c_str(), nullptr, &reader), QUIRE_OK);
  ASSERT_EQ(quire_dataset_reader_refresh(reader), QUIRE_OK);
  ASSERT_NO_FATAL_FAILURE(ExpectEpochsInC(reader, size_));
  ASSERT_NO_FATAL_FAILURE(ExpectValuesInC(reader, mine, size_));
  ASSERT_NO_FATAL_FAILURE(ExpectScanInC(reader, size_));
  quire_dataset_reader_destroy(reader);
  quire_options_destroy(options);
  ASSERT_EQ(quire_context_close(context), QUIRE_OK);
}

}  // namespace
}  // namespace quire::test
