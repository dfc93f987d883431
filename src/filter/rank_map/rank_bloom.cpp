#include "filter/rank_map/rank_bloom.h"

#include <algorithm>
#include <cmath>

#include "base/text/coding.h"
#include "filter/rank_map/spread.h"

namespace quire::filter {
namespace {

constexpr size_t kHeaderBytes = 16;  // u64 bit_count, u32 probes, u32 0
constexpr uint32_t kRankProbesMax = 40;

// The bits of a pair, one after another.
class Probes {
 public:
  Probes(uint64_t hash, uint32_t rank, uint64_t bit_count) : bit_count_(bit_count) {
    next_ = Spread(hash + (uint64_t{rank} + 1) * kGoldenRatio);
    step_ = Spread(next_) | 1;
  }
  uint64_t Next() {
    const auto bit =
        static_cast<uint64_t>(static_cast<unsigned __int128>(next_) * bit_count_ >> 64);
    next_ += step_;
    return bit;
  }

 private:
  const uint64_t bit_count_;
  uint64_t next_;
  uint64_t step_;
};

}  // namespace

void BuildRankBloom(double bits_per_pair, const std::vector<KeyRank>& pairs, std::string* to) {
  const double bits = std::ceil(bits_per_pair * static_cast<double>(pairs.size()) / 8) * 8;
  const auto bit_count = static_cast<uint64_t>(bits);
  const double best = bits_per_pair * std::log(2.0);
  const auto probes =
      std::clamp<uint32_t>(static_cast<uint32_t>(std::lround(best)), 1, kRankProbesMax);
  base::PutFixed<uint64_t>(to, bit_count);
  base::PutFixed<uint32_t>(to, probes);
  base::PutFixed<uint32_t>(to, 0);
  const size_t at = to->size();
  to->resize(at + bit_count / 8);
  char* const bytes = to->data() + at;
  for (const KeyRank& pair : pairs) {
    Probes places(pair.hash, pair.rank, bit_count);
    for (uint32_t i = 0; i < probes; ++i) {
      const uint64_t bit = places.Next();
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] | 1 << bit % 8);
    }
  }
}

const char* ValidateRankBloom(Slice body) {
  if (body.size() < kHeaderBytes) return "a cut-off filter";
  const auto bit_count = base::LoadLe<uint64_t>(body.data());
  const auto probes = base::LoadLe<uint32_t>(body.data() + 8);
  if (probes == 0 || probes > kRankProbesMax) return "a filter with an impossible number of probes";
  if (bit_count % 8 != 0 || bit_count / 8 != body.size() - kHeaderBytes) {
    return "a filter of another size than its bits";
  }
  return nullptr;
}

void FindInRankBloom(Slice body, uint32_t rank_count, uint64_t hash, std::vector<uint32_t>* ranks) {
  const auto bit_count = base::LoadLe<uint64_t>(body.data());
  if (bit_count == 0) return;
  const auto probes = base::LoadLe<uint32_t>(body.data() + 8);
  const char* const bytes = body.data() + kHeaderBytes;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    Probes places(hash, rank, bit_count);
    uint32_t found = 0;
    for (; found < probes; ++found) {
      const uint64_t bit = places.Next();
      if ((bytes[bit / 8] >> bit % 8 & 1) == 0) break;
    }
    if (found == probes) ranks->push_back(rank);
  }
}

}  // namespace quire::filter
