#include "table/block.h"

#include <algorithm>

namespace quire::table {
namespace {

constexpr uint64_t kLsnMax = UINT64_MAX;
constexpr uint32_t kPivots = 8;

// Walks the entries of unchecked contents; every step says what is wrong, or null.
class BlockValidator {
 public:
  explicit BlockValidator(Slice contents) : contents_(contents) {}

  const char* Head() {
    if (contents_.size() < kBlockHeadBytes) return "is shorter than its head";
    count_ = base::LoadLe<uint32_t>(contents_.data());
    const size_t prefix_size = base::LoadLe<uint16_t>(contents_.data() + 4);
    offset_bytes_ = static_cast<uint8_t>(contents_[6]);
    min_lsn_ = base::LoadLe<uint64_t>(contents_.data() + 8);
    if (count_ == 0) return "has no entries";
    if ((offset_bytes_ != kBlockAlike && offset_bytes_ != 2 && offset_bytes_ != 4) ||
        contents_[7] != 0) {
      return "has a bad head";
    }
    uint64_t before = kBlockHeadBytes + uint64_t{count_} * (1 + offset_bytes_);
    if (before >= contents_.size()) return "is too short for its count";
    offsets_ = contents_.data() + kBlockHeadBytes + count_;
    if (IsAlike()) {
      const char* const end = contents_.data() + contents_.size();
      const char* const behind = Varint(offsets_, end, &alike_head_);
      if (behind == nullptr) return "has a bad head";
      before = static_cast<uint64_t>(behind - contents_.data());
    }
    before += prefix_size;
    if (before >= contents_.size()) return "is too short for its count";
    entries_ = contents_.substr(before);
    prefix_ = contents_.substr(before - prefix_size, prefix_size);
    return nullptr;
  }

  const char* Entries() {
    if (IsAlike() && entries_.size() % count_ != 0) return "has entries of different sizes";
    if (Offset(0) != 0) return "does not begin with its first entry";
    for (uint32_t i = 0; i < count_; ++i) {
      const uint64_t begin = Offset(i);
      const uint64_t end = i + 1 < count_ ? Offset(i + 1) : entries_.size();
      if (begin >= end || end > entries_.size()) return "has an offset out of order";
      if (const char* wrong = Entry(entries_.data() + begin, entries_.data() + end, i == 0)) {
        return wrong;
      }
    }
    return nullptr;
  }

  BlockKeys keys() const { return {prefix_, first_, last_}; }

 private:
  bool IsAlike() const { return offset_bytes_ == kBlockAlike; }
  uint64_t Offset(uint32_t index) const {
    if (IsAlike()) return entries_.size() / count_ * index;
    const char* at = offsets_ + size_t{index} * offset_bytes_;
    return offset_bytes_ == 2 ? base::LoadLe<uint16_t>(at) : base::LoadLe<uint32_t>(at);
  }

  static const char* Varint(const char* from, const char* end, uint64_t* value) {
    if (from < end && static_cast<uint8_t>(*from) < 0x80) {
      *value = static_cast<uint8_t>(*from);
      return from + 1;
    }
    return base::DecodeVarint(from, end, value);
  }

  const char* Entry(const char* from, const char* end, bool is_first) {
    uint64_t head = alike_head_;
    uint64_t lsn_delta = 0;
    if (!IsAlike()) {
      from = Varint(from, end, &head);
      if (from == nullptr) return "has a damaged entry";
      from = Varint(from, end, &lsn_delta);
      if (from == nullptr) return "has a damaged entry";
    }
    const uint64_t suffix_size = head >> 3;
    const auto room = static_cast<uint64_t>(end - from);
    const uint64_t key_size = prefix_.size() + suffix_size;
    if (suffix_size > room || key_size == 0 || key_size > log::kKeyBytesMax) {
      return "has a key of impossible size";
    }
    if (!ValidEntry(static_cast<log::RecordType>(head & 7), room - suffix_size)) {
      return "has an entry whose type and value do not fit";
    }
    if (lsn_delta > kLsnMax - min_lsn_) return "has an LSN out of range";
    return Order(Slice(from, suffix_size), min_lsn_ + lsn_delta, is_first);
  }

  const char* Order(Slice suffix, uint64_t lsn, bool is_first) {
    if (is_first) {
      first_ = suffix;
    } else {
      const int order = last_.compare(suffix);
      if (order > 0 || (order == 0 && lsn >= last_lsn_)) return "is not sorted";
    }
    last_ = suffix;
    last_lsn_ = lsn;
    return nullptr;
  }

  const Slice contents_;
  uint32_t count_ = 0;
  uint8_t offset_bytes_ = 0;
  uint64_t min_lsn_ = 0;
  uint64_t alike_head_ = 0;
  const char* offsets_ = nullptr;
  Slice entries_;
  Slice prefix_;
  Slice first_;
  Slice last_;
  uint64_t last_lsn_ = 0;
};

}  // namespace

const char* ValidateBlock(Slice contents, BlockKeys* keys) {
  BlockValidator block(contents);
  if (const char* wrong = block.Head()) return wrong;
  if (const char* wrong = block.Entries()) return wrong;
  *keys = block.keys();
  return nullptr;
}

// Reads the one head, which stands in place of the offsets.
void BlockView::ReadAlike() {
  entries_ = ReadVarint(offsets_, &alike_head_) + prefix_size_;
  alike_bytes_ = static_cast<size_t>(end_ - entries_) / count_;
}

int BlockView::ComparePrefix(Slice key, Slice* rest) const {
  const Slice head = key.substr(0, prefix_size_);
  *rest = key.substr(head.size());
  return prefix().compare(head);
}

uint32_t BlockView::LowerBound(Slice key) const {
  Slice rest;
  const int order = ComparePrefix(key, &rest);
  if (order != 0) return order > 0 ? 0 : count_;
  uint32_t low = 0;
  uint32_t high = count_;
  if (count_ >= 2 * kPivots) Narrow(rest, &low, &high);
  return Bisect(rest, low, high);
}

// In a block that is not in the processor's cache each probe of a binary search would wait for the
// one before. So some pivots are prefetched at once, and then the few entries between two of them.
void BlockView::Narrow(Slice suffix, uint32_t* low, uint32_t* high) const {
  const auto pivot = [this](uint32_t i) {
    return static_cast<uint32_t>(uint64_t{count_} * i / kPivots);
  };
  for (uint32_t i = 1; i < kPivots; ++i) __builtin_prefetch(entries_ + Offset(pivot(i)));
  uint32_t first = 1;  // the first pivot that is not below the suffix lies in [first, last]
  uint32_t last = kPivots;
  while (first < last) {
    const uint32_t middle = first + (last - first) / 2;
    if (Entry(pivot(middle)).suffix < suffix) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  *low = pivot(first - 1);
  *high = pivot(first);
  for (uint32_t i = *low; i < *high; ++i) __builtin_prefetch(entries_ + Offset(i));
}

uint32_t BlockView::Bisect(Slice suffix, uint32_t low, uint32_t high) const {
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (Entry(middle).suffix < suffix) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool BlockView::FindBinary(Slice key, uint64_t snapshot, BlockEntry* entry) const {
  Slice rest;
  if (ComparePrefix(key, &rest) != 0) return false;
  for (uint32_t index = LowerBound(key); index < count_; ++index) {
    *entry = Entry(index);
    if (entry->suffix != rest) return false;
    if (entry->lsn <= snapshot) return true;
  }
  return false;
}

bool BlockView::FindSequential(Slice key, uint64_t snapshot, BlockEntry* entry,
                               bool* passed) const {
  Slice rest;
  const int prefix_order = ComparePrefix(key, &rest);
  *passed = prefix_order > 0;
  if (prefix_order != 0) return false;
  for (uint32_t index = 0; index < count_; ++index) {
    *entry = Entry(index);
    const int order = entry->suffix.compare(rest);
    *passed = order > 0;
    if (*passed) return false;
    if (order == 0 && entry->lsn <= snapshot) return true;
  }
  return false;
}

}  // namespace quire::table
