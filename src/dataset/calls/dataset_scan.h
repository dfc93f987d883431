/// Walks over the pairs of an epoch: part by part, and in each part over the merged tables.
///
/// Layer      dataset
/// Threads    a scan belongs to one thread at a time
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dataset/part/part_reader.h"
#include "quire/dataset.h"

namespace quire::dataset {

struct ScanOptions {
  uint32_t rank_begin = 0;
  uint32_t rank_end = 0;
  std::function<Result<std::shared_ptr<PartReader>>(uint32_t rank)> part_of;
  /// Returns the value for the stored bytes; empty: the stored bytes are the value.
  std::function<Status(uint32_t rank, Slice stored, std::string* value)> value_of;
};

std::unique_ptr<DatasetScan> NewDatasetScan(ScanOptions options);
/// Returns an empty scan with that status.
std::unique_ptr<DatasetScan> NewFailedScan(const Status& status);

}  // namespace quire::dataset
