#include "filter/rank_map/pair_list.h"

#include <algorithm>

#include "base/text/coding.h"

namespace quire::filter {

void AppendPairs(std::vector<KeyRank>* pairs, std::string* to) {
  std::sort(pairs->begin(), pairs->end());
  for (const KeyRank& pair : *pairs) {
    base::PutFixed<uint64_t>(to, pair.hash);
    base::PutFixed<uint32_t>(to, pair.rank);
  }
}

uint64_t PairList::HashAt(uint32_t i) const {
  return base::LoadLe<uint64_t>(bytes_.data() + Bytes(i));
}

uint32_t PairList::RankAt(uint32_t i) const {
  return base::LoadLe<uint32_t>(bytes_.data() + Bytes(i) + sizeof(uint64_t));
}

const char* PairList::Validate(uint32_t rank_count) const {
  if (bytes_.size() < Bytes(count_)) return "a cut-off list of pairs";
  for (uint32_t i = 0; i < count_; ++i) {
    if (RankAt(i) >= rank_count) return "a listed rank that is none";
    if (i > 0 && HashAt(i - 1) > HashAt(i)) return "listed pairs without order";
  }
  return nullptr;
}

void PairList::Find(uint64_t hash, std::vector<uint32_t>* ranks) const {
  uint32_t low = 0;
  for (uint32_t high = count_; low < high;) {
    const uint32_t middle = low + (high - low) / 2;
    if (HashAt(middle) < hash) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < count_ && HashAt(low) == hash; ++low) ranks->push_back(RankAt(low));
}

}  // namespace quire::filter
