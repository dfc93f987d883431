/// The contents of a data block, read in place: entries under a common key prefix, found by their
/// hash tags, by binary search, or one after another.
///
/// Layer      table
/// Source     PapyrusKV, SC17, section 2.6 (sequential and binary search); tags: Swiss tables, F14
/// Encoding   docs/format/table.md, "Data block"
/// Threads    immutable
/// Invariants a BlockView is made only over contents that ValidateBlock has accepted, and trusts
///            them.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/text/coding.h"
#include "log/record.h"
#include "quire/slice.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace quire::table {

constexpr size_t kBlockHeadBytes = 16;
constexpr size_t kBlockPrefixBytesMax = 65535;
/// Instead of the size of an offset: all entries have one size, type and LSN, and are stored
/// without offsets and heads.
constexpr uint8_t kBlockAlike = 0;
constexpr size_t kTagGroup = 64;
/// Bytes behind the contents that FindTagged may read (never use).
constexpr size_t kBlockSlackBytes = kTagGroup;

/// Returns the tag of a key's hash: bits on which neither the owner rank nor the Bloom filter's
/// choice of a block depends.
inline uint8_t TagOf(uint64_t hash) {
  return static_cast<uint8_t>(hash >> 28);
}

/// One version in a block; the slices point into the block.
struct BlockEntry {
  Slice suffix;  ///< the key without the block's prefix
  Slice value;
  uint64_t lsn = 0;
  log::RecordType type = log::RecordType::kPut;
};

/// Returns whether a version may be in a table, and its value has a size that fits its type.
inline bool ValidEntry(log::RecordType type, uint64_t value_size) {
  switch (type) {
    case log::RecordType::kPut:
      return value_size <= log::kValueBytesMax;
    case log::RecordType::kDelete:
      return value_size == 0;
    case log::RecordType::kValueRef:
      return value_size == sizeof(log::ValueRef);
    default:
      return false;
  }
}

/// The first and the last key of a block, in parts that point into the block.
struct BlockKeys {
  Slice prefix;  ///< of both
  Slice first;   ///< what follows the prefix
  Slice last;    ///< what follows the prefix
};

/// Returns null if `contents` is a sorted block as the format page says (tags excepted: a wrong tag
/// only hides its key), and sets *keys to its first and last key; else what is wrong with it. Reads
/// nothing outside `contents`. Cost: one pass over the entries, values untouched.
const char* ValidateBlock(Slice contents, BlockKeys* keys);

class BlockView {
 public:
  BlockView() = default;
  /// `contents` has been validated.
  explicit BlockView(Slice contents)
      : tags_(contents.data() + kBlockHeadBytes), end_(contents.data() + contents.size()) {
    count_ = base::LoadLe<uint32_t>(contents.data());
    prefix_size_ = base::LoadLe<uint16_t>(contents.data() + 4);
    const auto offset_bytes = static_cast<uint8_t>(contents[6]);
    offset_shift_ = offset_bytes / 2;
    min_lsn_ = base::LoadLe<uint64_t>(contents.data() + 8);
    offsets_ = tags_ + count_;
    if (offset_bytes == kBlockAlike) {
      ReadAlike();
    } else {
      entries_ = offsets_ + (size_t{count_} << offset_shift_) + prefix_size_;
    }
  }

  uint32_t count() const { return count_; }
  Slice prefix() const { return Slice(entries_ - prefix_size_, prefix_size_); }
  uint8_t tag(uint32_t index) const { return static_cast<uint8_t>(tags_[index]); }
  inline BlockEntry Entry(uint32_t index) const;

  /// Finds the newest version of `key` at or below `snapshot`; false: the block does not contain
  /// it. FindTagged reads up to kBlockSlackBytes behind the contents.
  inline bool FindTagged(Slice key, uint8_t tag, uint64_t snapshot, BlockEntry* entry) const;
  bool FindBinary(Slice key, uint64_t snapshot, BlockEntry* entry) const;
  /// Compares one entry after another. *passed: the block has an entry with a key above `key`.
  bool FindSequential(Slice key, uint64_t snapshot, BlockEntry* entry, bool* passed) const;
  /// Returns the first entry whose key is >= `key`; count() if there is none.
  uint32_t LowerBound(Slice key) const;

 private:
  void ReadAlike();
  inline BlockEntry AlikeEntry(uint32_t index) const;
  size_t Offset(uint32_t index) const {
    if (alike_bytes_ != 0) return index * alike_bytes_;
    return offset_shift_ == 1 ? base::LoadLe<uint16_t>(offsets_ + 2 * size_t{index})
                              : base::LoadLe<uint32_t>(offsets_ + 4 * size_t{index});
  }
  inline bool Matches(uint32_t index, Slice key, uint64_t snapshot, BlockEntry* entry) const;
  /// Returns <0, 0 or >0 if the keys with this block's prefix lie below, around or above `key`;
  /// *rest is the key's remainder.
  int ComparePrefix(Slice key, Slice* rest) const;
  void Narrow(Slice suffix, uint32_t* low, uint32_t* high) const;
  uint32_t Bisect(Slice suffix, uint32_t low, uint32_t high) const;

  const char* tags_ = nullptr;
  const char* offsets_ = nullptr;
  const char* entries_ = nullptr;
  const char* end_ = nullptr;
  uint64_t min_lsn_ = 0;
  size_t alike_bytes_ = 0;   ///< of each entry, if all are alike
  uint64_t alike_head_ = 0;  ///< the head that each of them would have
  uint32_t count_ = 0;
  uint16_t prefix_size_ = 0;
  uint8_t offset_shift_ = 0;
};

/// Returns whether `size` bytes are equal; for keys cheaper than a library call.
inline bool SameBytes(const char* a, const char* b, size_t size) {
  if (size < 8) {
    for (size_t i = 0; i < size; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }
  for (size_t i = 0; i + 8 < size; i += 8) {
    if (base::LoadLe<uint64_t>(a + i) != base::LoadLe<uint64_t>(b + i)) return false;
  }
  return base::LoadLe<uint64_t>(a + size - 8) == base::LoadLe<uint64_t>(b + size - 8);
}

/// Copies `size` bytes between places that do not overlap; for keys cheaper than a library call.
inline void CopyBytes(char* to, const char* from, size_t size) {
  if (size > 32 || size < 8) {
    // (An empty key's bytes may be nowhere.)
    if (size != 0) std::memcpy(to, from, size);
    return;
  }
  // Pieces that overlap if the size is not a multiple of theirs.
  uint64_t last;
  std::memcpy(&last, from + size - 8, 8);
  for (size_t i = 0; i + 8 < size; i += 8) std::memcpy(to + i, from + i, 8);
  std::memcpy(to + size - 8, &last, 8);
}

/// Reads a varint from validated bytes.
inline const char* ReadVarint(const char* from, uint64_t* value) {
  uint64_t result = static_cast<uint8_t>(*from++);
  if (result >= 0x80) {
    result &= 0x7f;
    uint64_t byte = 0x80;
    for (int shift = 7; byte >= 0x80; shift += 7) {
      byte = static_cast<uint8_t>(*from++);
      result |= (byte & 0x7f) << shift;
    }
  }
  *value = result;
  return from;
}

inline BlockEntry BlockView::AlikeEntry(uint32_t index) const {
  const char* const suffix = entries_ + Offset(index);
  const size_t suffix_size = alike_head_ >> 3;
  BlockEntry entry;
  entry.suffix = Slice(suffix, suffix_size);
  entry.value = Slice(suffix + suffix_size, alike_bytes_ - suffix_size);
  entry.lsn = min_lsn_;
  entry.type = static_cast<log::RecordType>(alike_head_ & 7);
  return entry;
}

inline BlockEntry BlockView::Entry(uint32_t index) const {
  if (alike_bytes_ != 0) return AlikeEntry(index);
  const char* const end = index + 1 < count_ ? entries_ + Offset(index + 1) : end_;
  uint64_t head;
  uint64_t lsn_delta;
  const char* suffix = ReadVarint(entries_ + Offset(index), &head);
  suffix = ReadVarint(suffix, &lsn_delta);
  const char* const value = suffix + (head >> 3);
  BlockEntry entry;
  entry.suffix = Slice(suffix, head >> 3);
  entry.value = Slice(value, static_cast<size_t>(end - value));
  entry.lsn = min_lsn_ + lsn_delta;
  entry.type = static_cast<log::RecordType>(head & 7);
  return entry;
}

inline bool BlockView::Matches(uint32_t index, Slice key, uint64_t snapshot,
                               BlockEntry* entry) const {
  *entry = Entry(index);
  return entry->suffix.size() + prefix_size_ == key.size() && entry->lsn <= snapshot &&
         SameBytes(entry->suffix.data(), key.data() + prefix_size_, entry->suffix.size()) &&
         SameBytes(entries_ - prefix_size_, key.data(), prefix_size_);
}

inline bool BlockView::FindTagged(Slice key, uint8_t tag, uint64_t snapshot,
                                  BlockEntry* entry) const {
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(tag));
  for (uint32_t group = 0; group < count_; group += kTagGroup) {
    // All of a group at once: so there is no branch to predict on which sixteen have the tag.
    uint64_t hits = 0;
    for (uint32_t i = 0; i < kTagGroup; i += 16) {
      const __m128i tags = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tags_ + group + i));
      hits |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(tags, wanted)))} << i;
    }
    // The bytes after the last tag are no tags.
    if (count_ - group < kTagGroup) hits &= (uint64_t{1} << (count_ - group)) - 1;
    for (; hits != 0; hits &= hits - 1) {
      const uint32_t index = group + static_cast<uint32_t>(std::countr_zero(hits));
      if (Matches(index, key, snapshot, entry)) return true;
    }
  }
#else
  for (uint32_t index = 0; index < count_; ++index) {
    if (static_cast<uint8_t>(tags_[index]) == tag && Matches(index, key, snapshot, entry)) {
      return true;
    }
  }
#endif
  return false;
}

}  // namespace quire::table
