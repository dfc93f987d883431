/// A layer below a database's runs, consulted for keys that the database does not contain.
///
/// Layer      engine
/// Source     docs/decisions/0009-persistence.md
/// Threads    Get, NewIterator: any
/// Invariants its pairs never change. While a database has a backing store, it drops no tombstone.
#pragma once

#include <memory>

#include "quire/buffer_allocator.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/entry_iterator.h"

namespace quire::engine {

class BackingStore {
 public:
  virtual ~BackingStore() = default;
  /// Returns the value in memory from `allocate`; kNotFound if the key is absent.
  virtual Status Get(Slice key, const BufferAllocator& allocate) const = 0;
  /// Returns an iterator over its pairs: of type kPut, with LSN 0.
  virtual std::unique_ptr<table::EntryIterator> NewIterator() const = 0;
};

}  // namespace quire::engine
