#include "table/index.h"

#include <algorithm>
#include <new>

#include "log/record.h"
#include "table/block.h"
#include "table/cache_line.h"
#include "table/format.h"

namespace quire::table {
namespace {

constexpr uint64_t kGroup = 16;

uint64_t GroupCount(uint64_t block_count) {
  return (block_count + kGroup - 1) / kGroup;
}

// How many of `count` sorted words are below `word`. The compiler makes no branches of it.
inline uint64_t CountBelow(const uint64_t* words, uint64_t count, uint64_t word) {
  if (count == 0) return 0;
  const uint64_t* first = words;
  while (count > 1) {
    const uint64_t half = count / 2;
    first += (first[half - 1] < word) * half;
    count -= half;
  }
  return static_cast<uint64_t>(first - words) + (*first < word);
}

// Asks for what a group's words or slots take, so that the search in it waits once.
void PrefetchGroup(const void* group) {
  for (uint64_t offset = 0; offset < kGroup * sizeof(uint64_t); offset += kCacheLineBytes) {
    __builtin_prefetch(static_cast<const char*>(group) + offset);
  }
}

size_t CommonPrefix(Slice a, Slice b) {
  const size_t size = std::min(a.size(), b.size());
  size_t common = 0;
  while (common < size && a[common] == b[common]) ++common;
  return common;
}

// The first 8 bytes of prefix + suffix, as base::KeyPrefix has them.
uint64_t WordOf(Slice prefix, Slice suffix) {
  if (prefix.size() >= sizeof(uint64_t)) return base::KeyPrefix(prefix);
  return base::KeyPrefix(prefix) | base::KeyPrefix(suffix) >> (8 * prefix.size());
}

// The order of prefix + suffix against `key`.
int CompareParts(Slice prefix, Slice suffix, Slice key) {
  const Slice head = key.substr(0, prefix.size());
  const int order = prefix.compare(head);
  return order != 0 ? order : suffix.compare(key.substr(head.size()));
}

}  // namespace

std::string ShortestSeparator(Slice last, Slice next) {
  // The first byte in which they differ, or the end of `last`, where `next` goes on.
  const size_t common = CommonPrefix(last, next);
  // A prefix of `next` that is longer than what they share lies above `last`; it must not be `next`
  // itself.
  const size_t size = common + 1;
  if (size < next.size() && size < last.size()) return std::string(next.substr(0, size));
  return std::string(last);
}

void IndexBuilder::Add(uint64_t stored_bytes, Slice separator, bool continues) {
  base::PutVarint(&bytes_, stored_bytes << 1 | (continues ? 1 : 0));
  base::PutLengthPrefixed(&bytes_, separator);
  ++block_count_;
}

// Memory: the object, room to begin a cache line, words, tops, offsets, places, then SSIndex as it
// is in the file.
uint64_t TableIndex::MemoryBytes(uint64_t block_count, uint64_t stored_bytes) {
  const uint64_t groups = GroupCount(block_count);
  return sizeof(TableIndex) + kCacheLineBytes +
         sizeof(uint64_t) * (groups * kGroup + groups + 2 * block_count + 1) + stored_bytes;
}

char* TableIndex::StoredPlace(char* memory, uint64_t block_count) {
  return memory + MemoryBytes(block_count, 0);
}

const TableIndex* TableIndex::Build(char* memory, uint64_t block_count, uint64_t contents_bytes,
                                    uint64_t data_bytes, const char** why) {
  auto* index = ::new (memory) TableIndex;
  index->block_count_ = block_count;
  index->group_count_ = GroupCount(block_count);
  const auto words = reinterpret_cast<uintptr_t>(memory + sizeof(TableIndex));
  const uintptr_t words_aligned = (words + kCacheLineBytes - 1) & ~(kCacheLineBytes - 1);
  index->words_ =
      reinterpret_cast<uint64_t*>(memory + sizeof(TableIndex) + (words_aligned - words));
  index->tops_ = index->words_ + index->group_count_ * kGroup;
  index->offsets_ = index->tops_ + index->group_count_;
  index->places_ = index->offsets_ + block_count + 1;
  index->stored_ = StoredPlace(memory, block_count);
  if (!index->Fill(Slice(index->stored_, contents_bytes), data_bytes, why)) return nullptr;
  index->FillWords();
  return index;
}

bool TableIndex::Fill(Slice contents, uint64_t data_bytes, const char** why) {
  base::ByteReader reader(contents);
  uint64_t offset = 0;
  Slice last;
  bool last_continues = false;
  *why = "is malformed";
  for (uint64_t block = 0; block < block_count_; ++block) {
    uint64_t size = 0;
    Slice separator;
    if (!reader.Varint(&size)) return false;
    const bool continues = (size & 1) != 0;
    size >>= 1;
    if (size < kStoredBlockBytesMin || size > data_bytes - offset) return false;
    places_[block] = contents.size() - reader.rest().size();
    if (!reader.LengthPrefixed(&separator)) return false;
    if (separator.empty() || separator.size() > log::kKeyBytesMax) return false;
    const int order = last.compare(separator);
    if (order > 0 || (order == 0 && !last_continues)) return false;
    offsets_[block] = offset << 1 | (continues ? 1 : 0);
    offset += size;
    last = separator;
    last_continues = continues;
  }
  offsets_[block_count_] = offset << 1;
  return offset == data_bytes && !last_continues && reader.rest().empty();
}

void TableIndex::FillWords() {
  if (block_count_ == 0) return;
  const Slice first = separator(0);
  common_ = first.substr(0, CommonPrefix(first, separator(block_count_ - 1)));
  for (uint64_t block = 0; block < block_count_; ++block) {
    words_[block] = base::KeyPrefix(separator(block).substr(common_.size()));
  }
  std::fill(words_ + block_count_, words_ + group_count_ * kGroup, UINT64_MAX);
  for (uint64_t group = 0; group < group_count_; ++group) {
    tops_[group] = words_[group * kGroup + kGroup - 1];
  }
}

Slice TableIndex::separator(uint64_t block) const {
  uint64_t size;
  const char* const bytes = ReadVarint(stored_ + places_[block], &size);
  return Slice(bytes, size);
}

// Compares prefix + suffix with the separator of `block`. If their words differ, there is no wait
// for the separator itself, which nothing has prefetched.
int TableIndex::Compare(Slice prefix, Slice suffix, uint64_t block) const {
  if (prefix.substr(0, common_.size()) == common_) {
    const uint64_t word = WordOf(prefix.substr(common_.size()), suffix);
    if (word != words_[block]) return word < words_[block] ? -1 : 1;
  }
  return CompareParts(prefix, suffix, separator(block));
}

const char* TableIndex::CheckKeys(uint64_t block, const BlockKeys& keys) const {
  if (block > 0) {
    const int order = Compare(keys.prefix, keys.first, block - 1);
    if (order < 0 || (order == 0 && !Continues(block - 1))) return "begins before the index says";
  }
  return Compare(keys.prefix, keys.last, block) > 0 ? "ends after the index says" : nullptr;
}

uint64_t TableIndex::FindBlock(Slice key, const CacheSlot* slots) const {
  const Slice head = key.substr(0, common_.size());
  const int order = head.compare(common_);
  if (order != 0) return order < 0 ? 0 : block_count_;
  const Slice rest = key.substr(head.size());
  const uint64_t word = base::KeyPrefix(rest);
  const uint64_t group = CountBelow(tops_, group_count_, word);
  if (group == group_count_) return block_count_;
  const uint64_t* const words = words_ + group * kGroup;
  PrefetchGroup(words);
  if (slots != nullptr) PrefetchGroup(slots + group * kGroup);
  const uint64_t first = group * kGroup + CountBelow(words, kGroup, word);
  if (first >= block_count_ || words_[first] != word) return std::min(first, block_count_);
  return FindAmongEqual(first, word, rest);
}

// Separators with the same word are ordered by what follows it.
uint64_t TableIndex::FindAmongEqual(uint64_t first, uint64_t word, Slice rest) const {
  const uint64_t* const end = std::upper_bound(words_ + first, words_ + block_count_, word);
  uint64_t low = first;
  uint64_t high = static_cast<uint64_t>(end - words_);
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (separator(middle).substr(common_.size()) < rest) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace quire::table
