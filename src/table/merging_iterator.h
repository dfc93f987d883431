/// Several ordered sources as one: entries by rising key, versions of a key newest first.
///
/// Layer      table
/// Source     k-way merge by a heap whose nodes hold the first 8 bytes of their keys, so that most
///            comparisons touch nothing else
/// Threads    an iterator belongs to one thread at a time
/// Invariants an error in one source ends the merge: nothing of that source is silently left out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "table/entry_iterator.h"

namespace quire::table {

class MergingIterator {
 public:
  /// All keys of all sources must begin with the same `common_bytes` bytes, which comparisons skip.
  MergingIterator(std::vector<std::unique_ptr<EntryIterator>> sources, size_t common_bytes);

  bool Valid() const { return !heap_.empty() && failed_ == nullptr; }
  void SeekToFirst();
  void SeekToLast();
  /// As EntryIterator's.
  void Seek(Slice key);
  void SeekBefore(Slice key);
  /// Moves on. Only after SeekToFirst, Seek and Next: to change the direction, seek again.
  void Next();
  /// Moves back. Only after SeekToLast, SeekBefore and Prev.
  void Prev();
  /// Returns the present entry, while Valid().
  const Entry& entry() const { return *heap_[0].entry; }
  Slice key() const { return entry().key; }
  Slice value() const { return entry().value; }
  log::RecordType type() const { return entry().type; }
  uint64_t lsn() const { return entry().lsn; }
  /// Returns OK at the end, or the failure that ended the walk.
  Status status() const;

 private:
  struct Node {
    uint64_t prefix;  // of the key behind the common bytes
    const Entry* entry;
    EntryIterator* source;
  };
  bool ComesFirst(const Node& a, const Node& b) const;
  bool Load(Node* node);
  void Rebuild();
  void SiftDown(size_t at);
  void AdvanceTop();

  const std::vector<std::unique_ptr<EntryIterator>> sources_;
  const size_t common_bytes_;
  bool forward_ = true;
  std::vector<Node> heap_;   // sources with an entry; that of the present one at the root
  const EntryIterator* failed_ = nullptr;
};

}  // namespace quire::table
