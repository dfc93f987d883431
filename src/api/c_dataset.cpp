// Partitioned datasets, of the C interface.
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "api/dataset_handles.h"
#include "api/handles.h"
#include "api/key_arrays.h"
#include "base/core/out_of_memory.h"
#include "kv/database/together.h"

using quire::Code;
using quire::DatasetReader;
using quire::DatasetScan;
using quire::DatasetValue;
using quire::DatasetWriter;
using quire::Slice;
using quire::Status;
using quire::api::Bytes;
using quire::api::CheckArrays;
using quire::api::CopyText;
using quire::api::Guarded;
using quire::api::NullArgument;
using quire::api::SlicesOf;
using quire::api::With;

struct quire_dataset_values {
  std::vector<DatasetValue> values;
};

struct quire_dataset_scan {
  static constexpr const char* kName = "scan";
  std::unique_ptr<DatasetScan> object;
  quire::base::OwnProcess process = {};
};

namespace quire::api {
namespace {

// Gives the values that `get` finds as a handle.
template <typename Get>
Status GiveValues(quire_dataset_values** values, const Get& get) {
  if (values == nullptr) return NullArgument("values");
  auto found = std::make_unique<quire_dataset_values>();
  QUIRE_RETURN_IF_ERROR(get(&found->values));
  *values = found.release();
  return Status();
}

quire_bytes BytesOf(Slice slice) {
  return {slice.data(), slice.size()};
}

}  // namespace
}  // namespace quire::api

using quire::api::BytesOf;
using quire::api::GiveValues;

extern "C" {

int quire_options_set_dataset_partitioner(quire_options* options, const char* name,
                                          quire_partitioner function, void* user) {
  return Guarded([&]() -> Status {
    if (options == nullptr || name == nullptr || function == nullptr) {
      return NullArgument("options, name or function");
    }
    options->dataset.partitioner_name = name;
    options->dataset.partitioner = [function, user](Slice key, int rank_count) {
      return function(key.data(), key.size(), rank_count, user);
    };
    return Status();
  });
}

int quire_dataset_writer_open(quire_context* context, const char* name,
                              const quire_options* options, quire_dataset_writer** writer) {
  return Guarded([&]() -> Status {
    if (context == nullptr) return NullArgument("context");
    const quire::DatasetOptions defaults;
    std::string text;
    std::unique_ptr<quire_dataset_writer> handle;
    QUIRE_RETURN_IF_ERROR(quire::kv::PrepareTogether(*context->object, [&]() -> Status {
      if (writer == nullptr) return NullArgument("writer");
      handle = std::make_unique<quire_dataset_writer>();
      return CopyText(name, "name", &text);
    }));
    QUIRE_ASSIGN_OR_RETURN(handle->object,
                           DatasetWriter::Open(*context->object, text,
                                               options == nullptr ? defaults : options->dataset));
    *writer = handle.release();
    return Status();
  });
}

void quire_dataset_writer_destroy(quire_dataset_writer* writer) {
  delete writer;
}

int quire_dataset_writer_begin_epoch(quire_dataset_writer* writer, uint64_t number) {
  return With(writer, [&](DatasetWriter& dataset) { return dataset.BeginEpoch(number); });
}

int quire_dataset_writer_put(quire_dataset_writer* writer, const void* key, size_t key_size,
                             const void* value, size_t value_size) {
  return With(writer, [&](DatasetWriter& dataset) -> Status {
    if (value == nullptr && value_size > 0) return NullArgument("value");
    return dataset.Put(Bytes(key, key_size), Bytes(value, value_size));
  });
}

int quire_dataset_writer_end_epoch(quire_dataset_writer* writer) {
  return With(writer, [](DatasetWriter& dataset) { return dataset.EndEpoch(); });
}

int quire_dataset_writer_last_epoch(const quire_dataset_writer* writer, uint64_t* number) {
  return With(writer, [&](const DatasetWriter& dataset) -> Status {
    if (number == nullptr) return NullArgument("number");
    const auto last = dataset.LastEpoch();
    if (!last.has_value()) return Status(Code::kNotFound);
    *number = *last;
    return Status();
  });
}

int quire_dataset_writer_finish(quire_dataset_writer* writer) {
  return With(writer, [](DatasetWriter& dataset) { return dataset.Finish(); });
}

int quire_options_set_dataset_first_match(quire_options* options, int first_match) {
  return Guarded([&]() -> Status {
    if (options == nullptr) return NullArgument("options");
    options->dataset_first_match = first_match != 0;
    return Status();
  });
}

int quire_dataset_reader_open(const char* directory, const quire_options* options,
                              quire_dataset_reader** reader) {
  return Guarded([&]() -> Status {
    if (directory == nullptr || reader == nullptr) return NullArgument("directory or reader");
    quire::DatasetReaderOptions chosen;
    if (options != nullptr) {
      chosen.cache_bytes = options->database.storage.cache_bytes;
      chosen.partitioner = options->dataset.partitioner;
      chosen.partitioner_name = options->dataset.partitioner_name;
      chosen.first_match = options->dataset_first_match;
    }
    QUIRE_ASSIGN_OR_RETURN(auto opened, DatasetReader::Open(directory, chosen));
    *reader = new quire_dataset_reader{std::move(opened)};
    return Status();
  });
}

void quire_dataset_reader_destroy(quire_dataset_reader* reader) {
  delete reader;
}

int quire_dataset_reader_refresh(quire_dataset_reader* reader) {
  return With(reader, [](DatasetReader& dataset) { return dataset.Refresh(); });
}

int quire_dataset_reader_epochs(const quire_dataset_reader* reader, quire_dataset_epoch** epochs,
                                size_t* count) {
  return With(reader, [&](const DatasetReader& dataset) -> Status {
    if (epochs == nullptr || count == nullptr) return NullArgument("epochs or count");
    const std::vector<quire::DatasetEpoch> all = dataset.Epochs();
    auto* const copies = static_cast<quire_dataset_epoch*>(
        std::malloc((all.size() + 1) * sizeof(quire_dataset_epoch)));
    if (copies == nullptr) return quire::base::OutOfMemory();
    for (size_t i = 0; i < all.size(); ++i) {
      copies[i] = {all[i].number, all[i].pair_count, all[i].unix_time, all[i].rank_count};
    }
    *epochs = copies;
    *count = all.size();
    return Status();
  });
}

int quire_dataset_reader_get(const quire_dataset_reader* reader, uint64_t epoch, const void* key,
                             size_t key_size, quire_dataset_values** values) {
  return With(reader, [&](const DatasetReader& dataset) {
    return GiveValues(values, [&](std::vector<DatasetValue>* found) {
      return dataset.Get(epoch, Bytes(key, key_size), found);
    });
  });
}

int quire_dataset_reader_get_many(const quire_dataset_reader* reader, uint64_t epoch, size_t count,
                                  const void* const* keys, const size_t* key_sizes,
                                  quire_dataset_values** values) {
  return With(reader, [&](const DatasetReader& dataset) -> Status {
    QUIRE_RETURN_IF_ERROR(CheckArrays(count, keys, key_sizes));
    if (count > 0 && values == nullptr) return NullArgument("values");
    std::vector<std::vector<DatasetValue>> found;
    QUIRE_RETURN_IF_ERROR(dataset.GetMany(epoch, SlicesOf(count, keys, key_sizes), &found));
    // All are made before one is given to the caller: if there is no memory, the caller gets none.
    std::vector<std::unique_ptr<quire_dataset_values>> made(count);
    for (size_t i = 0; i < count; ++i) {
      if (found[i].empty()) continue;
      made[i] = std::make_unique<quire_dataset_values>();
      made[i]->values = std::move(found[i]);
    }
    for (size_t i = 0; i < count; ++i) values[i] = made[i].release();
    return Status();
  });
}

int quire_dataset_reader_verify(const quire_dataset_reader* reader, uint64_t epoch) {
  return With(reader, [&](const DatasetReader& dataset) { return dataset.Verify(epoch); });
}

int quire_dataset_reader_trajectory(const quire_dataset_reader* reader, const void* key,
                                    size_t key_size, quire_dataset_values** values) {
  return With(reader, [&](const DatasetReader& dataset) {
    return GiveValues(values, [&](std::vector<DatasetValue>* found) {
      return dataset.GetTrajectory(Bytes(key, key_size), found);
    });
  });
}

size_t quire_dataset_values_count(const quire_dataset_values* values) {
  return values == nullptr ? 0 : values->values.size();
}

int quire_dataset_values_at(const quire_dataset_values* values, size_t index, uint64_t* epoch,
                            uint32_t* rank, quire_bytes* value) {
  return Guarded([&]() -> Status {
    if (values == nullptr || epoch == nullptr || rank == nullptr || value == nullptr) {
      return NullArgument("values, epoch, rank or value");
    }
    if (index >= values->values.size()) {
      return Status(Code::kInvalidArgument, "there are " + std::to_string(values->values.size()) +
                                                " values, and the index is outside of them");
    }
    const DatasetValue& found = values->values[index];
    *epoch = found.epoch;
    *rank = found.rank;
    *value = BytesOf(found.value);
    return Status();
  });
}

void quire_dataset_values_destroy(quire_dataset_values* values) {
  delete values;
}

int quire_dataset_scan_create(const quire_dataset_reader* reader, uint64_t epoch,
                              uint32_t rank_begin, uint32_t rank_end, quire_dataset_scan** scan) {
  return With(reader, [&](const DatasetReader& dataset) -> Status {
    if (scan == nullptr) return NullArgument("scan");
    auto made = dataset.Scan(epoch, rank_begin, rank_end);
    if (!made->Valid()) QUIRE_RETURN_IF_ERROR(made->status());
    *scan = new quire_dataset_scan{std::move(made)};
    return Status();
  });
}

void quire_dataset_scan_destroy(quire_dataset_scan* scan) {
  delete scan;
}

int quire_dataset_scan_valid(const quire_dataset_scan* scan) {
  return scan != nullptr && scan->object->Valid() ? 1 : 0;
}

int quire_dataset_scan_status(const quire_dataset_scan* scan) {
  return With(scan, [](const DatasetScan& pairs) { return pairs.status(); });
}

int quire_dataset_scan_next(quire_dataset_scan* scan) {
  return With(scan, [](DatasetScan& pairs) -> Status {
    if (!pairs.Valid()) return Status(Code::kInvalidArgument, "the scan is at its end");
    pairs.Next();
    return pairs.status();
  });
}

int quire_dataset_scan_pair(const quire_dataset_scan* scan, uint32_t* rank, quire_bytes* key,
                            quire_bytes* value) {
  return With(scan, [&](const DatasetScan& pairs) -> Status {
    if (rank == nullptr || key == nullptr || value == nullptr) {
      return NullArgument("rank, key or value");
    }
    if (!pairs.Valid()) return Status(Code::kInvalidArgument, "the scan is at its end");
    *rank = pairs.rank();
    *key = BytesOf(pairs.key());
    *value = BytesOf(pairs.value());
    return Status();
  });
}

}  // extern "C"
