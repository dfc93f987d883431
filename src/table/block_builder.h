/// Collects the entries of one data block and encodes them once their common prefix and lowest LSN
/// are known.
///
/// Layer      table
/// Encoding   docs/format/table.md, "Data block"
/// Threads    one thread
#pragma once

#include <cstdint>
#include <vector>

#include "log/record.h"
#include "quire/slice.h"
#include "table/buffer.h"

namespace quire::table {

class BlockBuilder {
 public:
  /// Adds the next entry in order; the caller has checked order, sizes and type.
  void Add(Slice key, uint8_t tag, log::RecordType type, Slice value, uint64_t lsn);
  bool empty() const { return entries_.empty(); }
  /// Returns the bytes of keys and values so far.
  size_t raw_bytes() const { return staged_.size(); }
  /// Returns the last key; the block must not be empty. Valid until the next call.
  Slice last_key() const;
  /// Appends the contents to `to`; the builder is empty afterwards.
  void Finish(Buffer* to);

 private:
  struct Staged {
    size_t key_offset;  ///< in staged_; the value follows the key
    uint64_t value_size;
    uint64_t lsn;
    uint32_t key_size;
    log::RecordType type;
    uint8_t tag;
  };

  Slice KeyOf(const Staged& entry) const {
    return Slice(staged_.data() + entry.key_offset, entry.key_size);
  }
  size_t CommonPrefix() const;
  uint64_t MinLsn() const;
  bool Alike() const;
  void WriteAlike(Buffer* to) const;
  void WriteEntries(Buffer* to) const;
  /// Writes head and tags; returns where the tags end.
  char* PutHead(char* to, size_t prefix_size, size_t offset_bytes, uint64_t min_lsn) const;

  Buffer staged_;
  std::vector<Staged> entries_;
};

}  // namespace quire::table
