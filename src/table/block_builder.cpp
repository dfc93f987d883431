#include "table/block_builder.h"

#include <algorithm>

#include "base/text/coding.h"
#include "table/block.h"

namespace quire::table {
namespace {

constexpr size_t kEntryHeadBytesMax = 20;  // two varints
constexpr size_t kShortOffsetMax = 65535;

char* PutVarintAt(char* to, uint64_t value) {
  if (value < 0x80) {
    *to = static_cast<char>(value);
    return to + 1;
  }
  return base::EncodeVarint(to, value);
}

char* PutBytesAt(char* to, const char* from, size_t size) {
  if (size != 0) std::memcpy(to, from, size);
  return to + size;
}

}  // namespace

void BlockBuilder::Add(Slice key, uint8_t tag, log::RecordType type, Slice value, uint64_t lsn) {
  entries_.push_back(
      {staged_.size(), value.size(), lsn, static_cast<uint32_t>(key.size()), type, tag});
  char* to = staged_.Reserve(key.size() + value.size());
  PutBytesAt(PutBytesAt(to, key.data(), key.size()), value.data(), value.size());
  staged_.Commit(key.size() + value.size());
}

Slice BlockBuilder::last_key() const {
  return KeyOf(entries_.back());
}

size_t BlockBuilder::CommonPrefix() const {
  // Keys are sorted: what the first and the last share, all share.
  const Slice first = KeyOf(entries_.front());
  const Slice last = KeyOf(entries_.back());
  const size_t size_max = std::min({first.size(), last.size(), kBlockPrefixBytesMax});
  return static_cast<size_t>(
      std::mismatch(first.begin(), first.begin() + static_cast<ptrdiff_t>(size_max), last.begin())
          .first -
      first.begin());
}

uint64_t BlockBuilder::MinLsn() const {
  uint64_t min_lsn = entries_.front().lsn;
  for (const Staged& entry : entries_) min_lsn = std::min(min_lsn, entry.lsn);
  return min_lsn;
}

// Whether one head says what each has: records of a simulation mostly do.
bool BlockBuilder::Alike() const {
  const Staged& first = entries_.front();
  return std::all_of(entries_.begin(), entries_.end(), [&first](const Staged& entry) {
    return entry.key_size == first.key_size && entry.value_size == first.value_size &&
           entry.lsn == first.lsn && entry.type == first.type;
  });
}

void BlockBuilder::Finish(Buffer* to) {
  entries_.size() > 1 && Alike() ? WriteAlike(to) : WriteEntries(to);
  entries_.clear();
  staged_.Clear();
}

char* BlockBuilder::PutHead(char* to, size_t prefix_size, size_t offset_bytes,
                            uint64_t min_lsn) const {
  base::StoreLe(to, static_cast<uint32_t>(entries_.size()));
  base::StoreLe(to + 4, static_cast<uint16_t>(prefix_size));
  to[6] = static_cast<char>(offset_bytes);
  to[7] = 0;
  base::StoreLe(to + 8, min_lsn);
  char* tag = to + kBlockHeadBytes;
  for (const Staged& entry : entries_) *tag++ = static_cast<char>(entry.tag);
  return tag;
}

void BlockBuilder::WriteAlike(Buffer* to) const {
  const Staged& first = entries_.front();
  const size_t prefix_size = CommonPrefix();
  const size_t suffix_size = first.key_size - prefix_size;
  char* const block =
      to->Reserve(kBlockHeadBytes + entries_.size() + kEntryHeadBytesMax + staged_.size());
  char* at = PutHead(block, prefix_size, kBlockAlike, first.lsn);
  at = PutVarintAt(at, uint64_t{suffix_size} << 3 | static_cast<uint64_t>(first.type));
  at = PutBytesAt(at, staged_.data(), prefix_size);
  for (const Staged& entry : entries_) {
    at = PutBytesAt(at, staged_.data() + entry.key_offset + prefix_size,
                    suffix_size + entry.value_size);
  }
  to->Commit(static_cast<size_t>(at - block));
}

void BlockBuilder::WriteEntries(Buffer* to) const {
  const size_t count = entries_.size();
  const size_t prefix_size = CommonPrefix();
  const uint64_t min_lsn = MinLsn();
  // An upper bound of where the last entry begins decides the width of offsets before it is known.
  const size_t last_offset_max = entries_.back().key_offset + count * kEntryHeadBytesMax;
  const size_t offset_bytes = last_offset_max <= kShortOffsetMax ? 2 : 4;
  const size_t head_bytes = kBlockHeadBytes + count * (1 + offset_bytes) + prefix_size;
  char* const block = to->Reserve(head_bytes + staged_.size() + count * kEntryHeadBytesMax);
  char* offset = PutHead(block, prefix_size, offset_bytes, min_lsn);
  char* const entries = block + head_bytes;
  PutBytesAt(entries - prefix_size, staged_.data(), prefix_size);
  char* at = entries;
  for (const Staged& entry : entries_) {
    if (offset_bytes == 2) {
      base::StoreLe(offset, static_cast<uint16_t>(at - entries));
    } else {
      base::StoreLe(offset, static_cast<uint32_t>(at - entries));
    }
    offset += offset_bytes;
    const size_t suffix_size = entry.key_size - prefix_size;
    at = PutVarintAt(at, uint64_t{suffix_size} << 3 | static_cast<uint64_t>(entry.type));
    at = PutVarintAt(at, entry.lsn - min_lsn);
    at = PutBytesAt(at, staged_.data() + entry.key_offset + prefix_size,
                    suffix_size + entry.value_size);
  }
  to->Commit(static_cast<size_t>(at - block));
}

}  // namespace quire::table
