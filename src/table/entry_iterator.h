/// Ordered access to versions: the interface that tables, MemTables and merges of them share.
///
/// Layer      table
/// Threads    an iterator belongs to one thread at a time
/// Invariants entries come in ascending key order; versions of one key newest (highest LSN) first.
#pragma once

#include <cstdint>
#include <string>

#include "log/record.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::table {

class EntryIterator {
 public:
  virtual ~EntryIterator() = default;
  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  /// The first entry whose key is >= `key` (its newest version).
  virtual void Seek(Slice key) = 0;
  /// The last entry whose key is < `key` (its oldest version): for walking back.
  virtual void SeekBefore(Slice key) = 0;
  virtual void Next() = 0;
  virtual void Prev() = 0;
  /// While Valid(). The slices live until the iterator moves.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;  ///< kValueRef: the 32 bytes of a log::ValueRef
  virtual log::RecordType type() const = 0;
  virtual uint64_t lsn() const = 0;
  /// Why Valid() is false, where it is not the end: kCorruption, kIo.
  virtual Status status() const = 0;
};

/// A tombstone of [begin, end), hiding versions with a lower LSN.
struct RangeTombstone {
  std::string begin;
  std::string end;
  uint64_t lsn = 0;
};

}  // namespace quire::table
