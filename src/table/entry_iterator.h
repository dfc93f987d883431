/// Ordered access to versions: the interface that tables, MemTables and merges of them share.
///
/// Layer      table
/// Threads    an iterator belongs to one thread at a time
/// Invariants entries come in ascending key order; versions of one key newest (highest LSN) first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "log/record.h"
#include "quire/slice.h"
#include "quire/status.h"

namespace quire::table {

/// One version, at an iterator's position. The slices are valid until the iterator moves.
struct Entry {
  Slice key;
  Slice value;  ///< kValueRef: the 32 bytes of a log::ValueRef
  uint64_t lsn = 0;
  log::RecordType type = log::RecordType::kPut;
};

class EntryIterator {
 public:
  virtual ~EntryIterator() = default;
  bool Valid() const { return entry_ != nullptr; }
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  /// Moves to the first entry whose key is >= `key` (its newest version).
  virtual void Seek(Slice key) = 0;
  /// Moves to the last entry whose key is < `key` (its oldest version): for walking back.
  virtual void SeekBefore(Slice key) = 0;
  virtual void Next() = 0;
  virtual void Prev() = 0;
  /// Returns the present entry, valid until the iterator moves; null if Valid() is false. Not a
  /// virtual call.
  const Entry* entry() const { return entry_; }
  /// Return the fields of the present entry, while Valid().
  Slice key() const { return entry_->key; }
  Slice value() const { return entry_->value; }
  log::RecordType type() const { return entry_->type; }
  uint64_t lsn() const { return entry_->lsn; }
  /// Returns OK at the end, or the failure that ended the walk: kCorruption, kIo.
  virtual Status status() const = 0;

 protected:
  /// Sets the present entry. For implementations: an Entry of their own, or of an iterator that
  /// they wrap.
  void StandOn(const Entry* entry) { entry_ = entry; }

 private:
  const Entry* entry_ = nullptr;
};

/// Returns an iterator over nothing, whose status() is `status` from the beginning.
std::unique_ptr<EntryIterator> NewEmptyIterator(Status status = Status());

/// A tombstone of [begin, end), hiding versions with a lower LSN.
struct RangeTombstone {
  std::string begin;
  std::string end;
  uint64_t lsn = 0;
};

}  // namespace quire::table
