/// Walks over the pairs of an epoch: one part after another, of each the merged tables.
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
  /// The value that what is stored stands for; empty: itself.
  std::function<Status(uint32_t rank, Slice stored, std::string* value)> value_of;
};

std::unique_ptr<DatasetScan> NewDatasetScan(ScanOptions options);
/// One that has only that status.
std::unique_ptr<DatasetScan> NewFailedScan(const Status& status);

}  // namespace quire::dataset
