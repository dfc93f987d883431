#include "partition/pair_buffer.h"

#include <algorithm>
#include <cstring>

#include "base/coding.h"

namespace quire::partition {

void PairBuffer::Add(Slice key, Slice value, uint32_t rank) {
  Reserve(kHeadBytes + key.size() + value.size());
  entries_.push_back({base::KeyPrefix(key), end_});
  char* to = bytes_.get() + end_;
  base::StoreLe(to, rank);
  base::StoreLe(to + 4, static_cast<uint32_t>(key.size()));
  base::StoreLe(to + 8, static_cast<uint32_t>(value.size()));
  to += kHeadBytes;
  std::memcpy(to, key.data(), key.size());
  if (!value.empty()) std::memcpy(to + key.size(), value.data(), value.size());
  end_ += kHeadBytes + key.size() + value.size();
  used_ += PairBytes(key.size(), value.size());
}

PairBuffer::Pair PairBuffer::PairAt(uint64_t at) const {
  const char* const from = bytes_.get() + at;
  const auto key_size = base::LoadLe<uint32_t>(from + 4);
  const auto value_size = base::LoadLe<uint32_t>(from + 8);
  const char* const key = from + kHeadBytes;
  return {base::LoadLe<uint32_t>(from), Slice(key, key_size), Slice(key + key_size, value_size)};
}

// Doubles, so that a small epoch takes little, up to what the buffer may have.
void PairBuffer::Reserve(uint64_t bytes) {
  constexpr uint64_t kRoomMin = 64 << 10;
  if (bytes <= room_ - end_) return;
  const uint64_t wanted =
      std::max(std::min(std::max(2 * room_, kRoomMin), capacity_), end_ + bytes);
  auto larger = std::make_unique_for_overwrite<char[]>(wanted);
  if (end_ > 0) std::memcpy(larger.get(), bytes_.get(), end_);
  bytes_ = std::move(larger);
  room_ = wanted;
}

// By key; of one key the highest rank first, as tables want it; of one rank the latest first.
Status PairBuffer::AddTo(table::TableBuilder* table) {
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const Pair left = PairAt(a.at);
    const Pair right = PairAt(b.at);
    if (const int order = left.key.compare(right.key); order != 0) return order < 0;
    return left.rank != right.rank ? left.rank > right.rank : a.at > b.at;
  });
  Pair last{};
  for (const Entry& entry : entries_) {
    const Pair pair = PairAt(entry.at);
    const bool again = last.key.data() != nullptr && last.rank == pair.rank && last.key == pair.key;
    if (again) continue;  // put once more later
    QUIRE_RETURN_IF_ERROR(
        table->Add(pair.key, log::RecordType::kPut, pair.value, LsnOf(pair.rank)));
    last = pair;
  }
  return Status();
}

void PairBuffer::Clear() {
  entries_.clear();
  end_ = 0;
  used_ = 0;
  if (room_ <= capacity_) return;  // it had one large pair
  bytes_.reset();
  room_ = 0;
}

}  // namespace quire::partition
