// Options of databases of tests that flush, compact and lay values apart with little data.
//
// Threads: any.
#ifndef QUIRE_TESTS_SUPPORT_SMALL_DATABASE_H_
#define QUIRE_TESTS_SUPPORT_SMALL_DATABASE_H_

#include "quire/database.h"

namespace quire::test {

inline DatabaseOptions SmallDatabase(OpenMode mode) {
  DatabaseOptions options;
  options.mode = mode;
  options.storage.memtable_bytes = 1 << 20;
  options.storage.value_segment_bytes = 1 << 20;
  options.storage.cache_bytes = 1 << 20;
  return options;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_SMALL_DATABASE_H_
