// A pair takes a free slot of its two buckets. If there is none, it takes the slot of another pair,
// by lot, which moves to its other bucket, and so on. After so many moves the last pair stays
// without a slot and goes to the next table. Each table has room for the remaining pairs and a
// twentieth more, so that the first one takes nearly all.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/core/random.h"
#include "base/text/coding.h"
#include "filter/rank_map/cuckoo.h"
#include "filter/rank_map/cuckoo_layout.h"
#include "filter/rank_map/pair_list.h"

namespace quire::filter {
namespace {

constexpr int kMovesMax = 500;
// Slots in use when a table is as full as it is meant to be.
constexpr uint64_t kFullPercent = 95;
constexpr size_t kListedPairsMax = 8;  // fewer pairs than this are listed, not given a table

class Table {
 public:
  Table(uint32_t number, size_t pair_count)
      : number_(number),
        bucket_count_(
            static_cast<uint32_t>((pair_count * 100 + kFullPercent * kSlotsPerCuckooBucket - 1) /
                                  (kFullPercent * kSlotsPerCuckooBucket))),
        slots_(size_t{bucket_count_} * kSlotsPerCuckooBucket),
        random_(number) {}

  // The pairs that have found no slot.
  std::vector<KeyRank> Fill(const std::vector<KeyRank>& pairs) {
    std::vector<KeyRank> left;
    for (const KeyRank& pair : pairs) {
      const CuckooPlace place(pair.hash, number_, bucket_count_);
      Slot moved{pair, place.partial};
      if (!Insert(place.bucket, &moved)) left.push_back(moved.pair);
    }
    return left;
  }

  uint32_t bucket_count() const { return bucket_count_; }

  void Append(int rank_bits, std::string* to) const {
    const int slot_bits = kPartialKeyBits + rank_bits;
    const size_t at = to->size();
    to->resize(at + CuckooTableBytes(bucket_count_, slot_bits) + sizeof(uint64_t));
    uint64_t bit = 0;
    for (const Slot& slot : slots_) {
      char* const word = to->data() + at + bit / 8;
      const uint64_t bits =
          slot.partial == 0 ? 0 : slot.partial | slot.pair.rank << kPartialKeyBits;
      base::StoreLe(word, base::LoadLe<uint64_t>(word) | bits << bit % 8);
      bit += static_cast<uint64_t>(slot_bits);
    }
    to->resize(to->size() - sizeof(uint64_t));
  }

 private:
  struct Slot {
    KeyRank pair{};
    uint32_t partial = 0;  // 0: free
  };

  bool PutInto(uint32_t bucket, const Slot& slot) {
    Slot* const first = slots_.data() + size_t{bucket} * kSlotsPerCuckooBucket;
    for (Slot* free = first; free != first + kSlotsPerCuckooBucket; ++free) {
      if (free->partial != 0) continue;
      *free = slot;
      return true;
    }
    return false;
  }

  // Puts the slot into a bucket. If that fails, `slot` is the last one that was moved.
  bool Insert(uint32_t bucket, Slot* slot) {
    if (PutInto(bucket, *slot)) return true;
    for (int moves = 0; moves < kMovesMax; ++moves) {
      bucket = CuckooPlace::Other(bucket, slot->partial, bucket_count_);
      if (PutInto(bucket, *slot)) return true;
      const uint64_t chosen = random_.Below(kSlotsPerCuckooBucket);
      std::swap(slots_[size_t{bucket} * kSlotsPerCuckooBucket + chosen], *slot);
    }
    return false;
  }

  const uint32_t number_;
  const uint32_t bucket_count_;
  std::vector<Slot> slots_;
  base::Random random_;
};

}  // namespace

void BuildCuckoo(int rank_bits, const std::vector<KeyRank>& pairs, std::string* to) {
  std::vector<Table> tables;
  std::vector<KeyRank> left;
  const std::vector<KeyRank>* next = &pairs;
  while (next->size() > kListedPairsMax && tables.size() < kCuckooTablesMax) {
    tables.emplace_back(static_cast<uint32_t>(tables.size()), next->size());
    left = tables.back().Fill(*next);
    next = &left;
  }
  if (tables.empty()) left = pairs;
  base::PutFixed<uint32_t>(to, static_cast<uint32_t>(tables.size()));
  base::PutFixed<uint32_t>(to, static_cast<uint32_t>(left.size()));
  for (const Table& table : tables) base::PutFixed<uint32_t>(to, table.bucket_count());
  for (const Table& table : tables) table.Append(rank_bits, to);
  to->resize(to->size() + kCuckooSlackBytes);
  AppendPairs(&left, to);
}

}  // namespace quire::filter
