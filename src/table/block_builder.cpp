#include "table/block_builder.h"

#include <algorithm>

#include "base/coding.h"
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

void BlockBuilder::Finish(Buffer* to) {
  const size_t count = entries_.size();
  const size_t prefix_size = CommonPrefix();
  const uint64_t min_lsn = MinLsn();
  // An upper bound of where the last entry begins decides the width of offsets before it is known.
  const size_t last_offset_max = entries_.back().key_offset + count * kEntryHeadBytesMax;
  const size_t offset_bytes = last_offset_max <= kShortOffsetMax ? 2 : 4;
  const size_t head_bytes = kBlockHeadBytes + count * (1 + offset_bytes) + prefix_size;
  char* const block = to->Reserve(head_bytes + staged_.size() + count * kEntryHeadBytesMax);
  base::StoreLe(block, static_cast<uint32_t>(count));
  base::StoreLe(block + 4, static_cast<uint16_t>(prefix_size));
  block[6] = static_cast<char>(offset_bytes);
  block[7] = 0;
  base::StoreLe(block + 8, min_lsn);
  char* tag = block + kBlockHeadBytes;
  char* offset = tag + count;
  char* const entries = block + head_bytes;
  PutBytesAt(entries - prefix_size, staged_.data(), prefix_size);
  char* at = entries;
  for (const Staged& entry : entries_) {
    *tag++ = static_cast<char>(entry.tag);
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
  entries_.clear();
  staged_.Clear();
}

}  // namespace quire::table
