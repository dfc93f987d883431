/// Options of the tests: small enough that flushes and merges happen all the time.
#pragma once

#include "lsm/db/db.h"

namespace quire::lsm {

inline StorageOptions SmallOptions() {
  StorageOptions options;
  options.memtable_bytes = 64 << 10;
  options.value_segment_bytes = 64 << 10;
  options.value_separation_bytes_min = 256;
  options.block_bytes = 512;
  options.table_bytes_max = 64 << 10;
  options.compaction_trigger = 3;
  options.cache_bytes = 256 << 10;
  return options;
}

}  // namespace quire::lsm
