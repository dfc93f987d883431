#include "dataset/part/pair_buffer.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/core/check.h"
#include "base/text/coding.h"

namespace quire::dataset {

void PairBuffer::Add(Slice key, Slice value, uint32_t rank) {
  Reserve(PairBytes(key.size(), value.size()));
  ++count_;
  entries()[0] = {base::KeyPrefix(key), end_};
  char* to = bytes_.get() + end_;
  base::StoreLe(to, rank);
  base::StoreLe(to + 4, static_cast<uint32_t>(key.size()));
  base::StoreLe(to + 8, static_cast<uint32_t>(value.size()));
  to += kHeadBytes;
  std::memcpy(to, key.data(), key.size());
  if (!value.empty()) std::memcpy(to + key.size(), value.data(), value.size());
  end_ += kHeadBytes + key.size() + value.size();
}

PairBuffer::Pair PairBuffer::PairAt(uint64_t at) const {
  const char* const from = bytes_.get() + at;
  const auto key_size = base::LoadLe<uint32_t>(from + 4);
  const auto value_size = base::LoadLe<uint32_t>(from + 8);
  const char* const key = from + kHeadBytes;
  return {base::LoadLe<uint32_t>(from), Slice(key, key_size), Slice(key + key_size, value_size)};
}

// Makes room for `bytes`. An empty buffer also takes a pair that is larger than its capacity.
void PairBuffer::Reserve(uint64_t bytes) {
  if (used() + bytes <= room_) return;
  QUIRE_CHECK(empty());
  const uint64_t entries = (std::max(capacity_, bytes) + sizeof(Entry) - 1) / sizeof(Entry);
  room_ = 0;
  bytes_ = std::make_unique_for_overwrite<char[]>(entries * sizeof(Entry));
  room_ = entries * sizeof(Entry);
}

// Adds the pairs by key; for the same key the highest rank first, as tables want it; for the same
// rank the latest first.
Status PairBuffer::AddTo(table::TableBuilder* table) {
  const std::span<Entry> sorted(entries(), count_);
  std::sort(sorted.begin(), sorted.end(), [this](const Entry& a, const Entry& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const Pair left = PairAt(a.at);
    const Pair right = PairAt(b.at);
    if (const int order = left.key.compare(right.key); order != 0) return order < 0;
    return left.rank != right.rank ? left.rank > right.rank : a.at > b.at;
  });
  Pair last{};
  for (const Entry& entry : sorted) {
    const Pair pair = PairAt(entry.at);
    const bool again = last.key.data() != nullptr && last.rank == pair.rank && last.key == pair.key;
    if (again) continue;  // a later put of this key is in the table
    QUIRE_RETURN_IF_ERROR(
        table->Add(pair.key, log::RecordType::kPut, pair.value, LsnOf(pair.rank)));
    last = pair;
  }
  return Status();
}

void PairBuffer::Clear() {
  count_ = 0;
  end_ = 0;
  if (room_ < capacity_ + sizeof(Entry)) return;
  bytes_.reset();  // it contained one large pair
  room_ = 0;
}

}  // namespace quire::dataset
