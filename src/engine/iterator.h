/// Snapshots and iterators of one rank's database, and of a reader of it.
///
/// Layer      engine
/// Threads    an iterator belongs to one thread at a time; any thread may use a snapshot
#pragma once

#include <cstdint>
#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::engine {

/// A point in the order of writes. Released by destruction (before the database).
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  virtual uint64_t lsn() const = 0;
};

/// Ordered access to what a user sees: live keys, newest values at the iterator's snapshot.
class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  virtual void Seek(Slice key) = 0;         ///< first key >= `key`
  virtual void SeekForPrev(Slice key) = 0;  ///< last key <= `key`
  virtual void Next() = 0;
  virtual void Prev() = 0;
  virtual Slice key() const = 0;
  /// Reads a separated value on the first call at a position. If that fails, returns an empty value
  /// and sets status().
  virtual Slice value() = 0;
  virtual Status status() const = 0;
};

struct IteratorOptions {
  const Snapshot* snapshot = nullptr;  ///< null: now
  std::string lower_bound;             ///< inclusive; empty: none
  std::string upper_bound;             ///< exclusive; empty: none
};

}  // namespace quire::engine
