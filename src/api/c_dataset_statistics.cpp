// Counts of writers and readers of datasets, by name, of the C interface.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "api/dataset_handles.h"
#include "api/handles.h"

using quire::DatasetReaderStatistics;
using quire::DatasetWriterStatistics;
using quire::Status;
using quire::api::NullArgument;
using quire::api::With;

namespace quire::api {
namespace {

template <typename Statistics>
struct Count {
  const char* name;
  uint64_t Statistics::*field;
};

constexpr Count<DatasetWriterStatistics> kWriterCounts[] = {
    {"pairs", &DatasetWriterStatistics::pairs},
    {"pair_bytes", &DatasetWriterStatistics::pair_bytes},
    {"received", &DatasetWriterStatistics::received},
    {"sent_batches", &DatasetWriterStatistics::sent_batches},
    {"sent_bytes", &DatasetWriterStatistics::sent_bytes},
    {"refused_batches", &DatasetWriterStatistics::refused_batches},
    {"put_waits", &DatasetWriterStatistics::put_waits},
    {"buffer_bytes_max", &DatasetWriterStatistics::buffer_bytes_max},
    {"table_bytes", &DatasetWriterStatistics::table_bytes},
    {"map_bytes", &DatasetWriterStatistics::map_bytes},
};

constexpr Count<DatasetReaderStatistics> kReaderCounts[] = {
    {"queries", &DatasetReaderStatistics::queries},
    {"partitions", &DatasetReaderStatistics::partitions},
    {"false_candidates", &DatasetReaderStatistics::false_candidates},
    {"reads", &DatasetReaderStatistics::reads},
    {"bytes_read", &DatasetReaderStatistics::bytes_read},
};

// One name for each field.
static_assert(sizeof(DatasetWriterStatistics) == std::size(kWriterCounts) * sizeof(uint64_t));
static_assert(sizeof(DatasetReaderStatistics) == std::size(kReaderCounts) * sizeof(uint64_t));

template <typename Statistics, size_t kSize>
Status GiveCount(const Count<Statistics> (&counts)[kSize], const Statistics& statistics,
                 const char* name, uint64_t* value) {
  for (const Count<Statistics>& count : counts) {
    if (Slice(name) != count.name) continue;
    *value = statistics.*count.field;
    return Status();
  }
  return Status(Code::kNotFound);
}

template <typename Statistics, size_t kSize>
Status GiveCounts(const Count<Statistics> (&counts)[kSize], const Statistics& statistics,
                  char** text) {
  std::string lines;
  for (const Count<Statistics>& count : counts) {
    lines += std::string(count.name) + " " + std::to_string(statistics.*count.field) + "\n";
  }
  return GiveText(lines, text);
}

}  // namespace
}  // namespace quire::api

using quire::api::GiveCount;
using quire::api::GiveCounts;
using quire::api::kReaderCounts;
using quire::api::kWriterCounts;

extern "C" {

int quire_dataset_writer_statistic(const quire_dataset_writer* writer, const char* name,
                                   uint64_t* value) {
  return With(writer, [&](const quire::DatasetWriter& dataset) -> Status {
    if (name == nullptr || value == nullptr) return NullArgument("name or value");
    return GiveCount(kWriterCounts, dataset.Statistics(), name, value);
  });
}

int quire_dataset_writer_statistics(const quire_dataset_writer* writer, char** text) {
  return With(writer, [&](const quire::DatasetWriter& dataset) -> Status {
    if (text == nullptr) return NullArgument("text");
    return GiveCounts(kWriterCounts, dataset.Statistics(), text);
  });
}

int quire_dataset_reader_statistic(const quire_dataset_reader* reader, const char* name,
                                   uint64_t* value) {
  return With(reader, [&](const quire::DatasetReader& dataset) -> Status {
    if (name == nullptr || value == nullptr) return NullArgument("name or value");
    return GiveCount(kReaderCounts, dataset.Statistics(), name, value);
  });
}

int quire_dataset_reader_statistics(const quire_dataset_reader* reader, char** text) {
  return With(reader, [&](const quire::DatasetReader& dataset) -> Status {
    if (text == nullptr) return NullArgument("text");
    return GiveCounts(kReaderCounts, dataset.Statistics(), text);
  });
}

}  // extern "C"
