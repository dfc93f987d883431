// A layer is filled bucket by bucket from the left; in a bucket the keys with the largest starts
// come first. Each key's equation is reduced by the existing rows until one of its slots is free,
// and becomes that slot's row. If it is reduced to nothing (0 = something else), the key is bumped,
// and with it the keys of its bucket that start before it, up to the next threshold: a layer has
// somewhat fewer slots than keys, so that hardly a slot stays empty. Rows are removed in the
// reverse order of their insertion: no row that stays was reduced by a removed one.
#include <algorithm>
#include <bit>
#include <vector>

#include "filter/rank_map/pair_list.h"
#include "filter/rank_map/ribbon.h"
#include "filter/rank_map/ribbon_layout.h"

namespace quire::filter {
namespace {

constexpr size_t kListedKeysMax = 6;  // fewer keys than this are listed, not given a layer
// Keys for each slot of a layer, in percent.
constexpr size_t kLoadPercent = 104;
// In a layer of one block all keys start at one place, so that a bumped key bumps all.
constexpr size_t kSpareSlots = 16;

// A key on its way through the layers.
struct Key {
  uint64_t hash;
  uint64_t position;
  uint32_t rank;
};

class Layer {
 public:
  Layer(uint32_t number, size_t key_count) : number_(number) {
    const size_t slots = key_count * 100 / kLoadPercent + kSpareSlots;
    block_count_ = static_cast<uint32_t>(slots / kSlotsPerBlock) + 1;
    rows_.resize(size_t{block_count_} * kSlotsPerBlock);
    thresholds_.resize(ThresholdBytes(block_count_));
  }
  uint32_t block_count() const { return block_count_; }
  const std::vector<char>& thresholds() const { return thresholds_; }

  // `keys` are in the order of their positions. The answer: those that are bumped.
  std::vector<Key> Fill(const std::vector<Key>& keys) {
    std::vector<Key> bumped;
    for (size_t begin = 0; begin < keys.size();) {
      const uint32_t bucket = EquationOf(keys[begin]).bucket();
      size_t end = begin + 1;
      while (end < keys.size() && EquationOf(keys[end]).bucket() == bucket) ++end;
      const size_t stay = FillBucket(bucket, keys, begin, end);
      bumped.insert(bumped.end(), keys.begin() + static_cast<ptrdiff_t>(begin),
                    keys.begin() + static_cast<ptrdiff_t>(stay));
      begin = end;
    }
    return bumped;
  }

  // Appends the slots: in each block a word for each bit of a rank.
  void Solve(int rank_bits, std::string* to) const {
    const size_t words_at = to->size();
    const auto bits = static_cast<size_t>(rank_bits);
    to->resize(words_at + size_t{block_count_} * bits * sizeof(uint64_t));
    uint64_t window[32] = {};  // of each bit: the 64 slots from this one on
    for (size_t slot = rows_.size(); slot-- > 0;) {
      const Row& row = rows_[slot];
      for (size_t bit = 0; bit < bits; ++bit) {
        const uint64_t above = window[bit] << 1;
        const auto set = static_cast<uint64_t>(std::popcount(above & row.coefficients) ^
                                               static_cast<int>(row.rank >> bit));
        window[bit] = above | (set & uint64_t{row.coefficients != 0});
      }
      if (slot % kSlotsPerBlock != 0) continue;
      char* const block = to->data() + words_at + slot / kSlotsPerBlock * bits * sizeof(uint64_t);
      for (size_t bit = 0; bit < bits; ++bit) base::StoreLe(block + bit * 8, window[bit]);
    }
  }

 private:
  struct Row {
    uint64_t coefficients = 0;  // bit i: of the slot i after this one; 0: the slot is free
    uint32_t rank = 0;
  };

  Equation EquationOf(const Key& key) const {
    return Equation(key.hash, key.position, number_, block_count_);
  }

  // Returns whether there is a place for the key; `*place` is its row in rows_.
  bool Insert(const Key& key, size_t* place) {
    const Equation equation = EquationOf(key);
    Row row{equation.coefficients, key.rank};
    for (size_t slot = equation.start;;) {
      Row& there = rows_[slot];
      if (there.coefficients == 0) {
        there = row;
        *place = slot;
        return true;
      }
      row.coefficients ^= there.coefficients;
      row.rank ^= there.rank;
      if (row.coefficients == 0) return false;
      const int skipped = std::countr_zero(row.coefficients);
      row.coefficients >>= skipped;
      slot += static_cast<size_t>(skipped);
    }
  }

  // The keys [begin, end) are the bucket's; those from the answer on have their places.
  size_t FillBucket(uint32_t bucket, const std::vector<Key>& keys, size_t begin, size_t end) {
    places_.clear();
    size_t first = end;
    while (first > begin) {
      size_t place = 0;
      if (!Insert(keys[first - 1], &place)) break;
      places_.push_back(place);
      --first;
    }
    if (first == begin) return begin;
    const uint32_t threshold = EquationOf(keys[first - 1]).offset() / kSlotsPerThreshold + 1;
    SetThreshold(bucket, threshold);
    while (first < end && EquationOf(keys[first]).offset() < BumpedSlots(threshold)) {
      rows_[places_.back()] = Row();
      places_.pop_back();
      ++first;
    }
    return first;
  }

  void SetThreshold(uint32_t bucket, uint32_t threshold) {
    const uint32_t nibble = std::min(threshold, kThresholdAll);
    thresholds_[bucket / 2] =
        static_cast<char>(thresholds_[bucket / 2] | static_cast<int>(nibble << bucket % 2 * 4));
  }

  const uint32_t number_;
  uint32_t block_count_ = 0;
  std::vector<Row> rows_;
  std::vector<char> thresholds_;
  std::vector<size_t> places_;  // of the bucket's keys, in the order in which they came
};

class RibbonBuilder {
 public:
  explicit RibbonBuilder(int rank_bits) : rank_bits_(rank_bits) {}

  // The first rank of each key goes into the layers.
  void Add(const KeyRank& pair) {
    if (!keys_.empty() && keys_.back().hash == pair.hash) {
      listed_.push_back(pair);
      flags_ = kRibbonHasExtra;
    } else {
      keys_.push_back({pair.hash, pair.hash, pair.rank});
    }
  }

  void Finish(std::string* to) {
    const size_t begin = to->size();
    FillLayers();
    for (const Key& key : keys_) listed_.push_back({key.hash, key.rank});
    base::PutFixed<uint16_t>(to, static_cast<uint16_t>(layers_.size()));
    base::PutFixed<uint16_t>(to, flags_);
    base::PutFixed<uint32_t>(to, static_cast<uint32_t>(listed_.size()));
    for (const Layer& layer : layers_) base::PutFixed<uint32_t>(to, layer.block_count());
    for (const Layer& layer : layers_) {
      to->append(layer.thresholds().data(), layer.thresholds().size());
    }
    to->resize(begin + RoundUp8(to->size() - begin));
    for (const Layer& layer : layers_) layer.Solve(rank_bits_, to);
    AppendPairs(&listed_, to);
  }

 private:
  void FillLayers() {
    while (keys_.size() > kListedKeysMax && layers_.size() < kLayersMax) {
      const auto number = static_cast<uint32_t>(layers_.size());
      if (number > 0) Reorder(number);
      layers_.emplace_back(number, keys_.size());
      keys_ = layers_.back().Fill(keys_);
    }
  }

  void Reorder(uint32_t number) {
    for (Key& key : keys_) key.position = LaterPosition(key.hash, number);
    std::sort(keys_.begin(), keys_.end(),
              [](const Key& a, const Key& b) { return a.position < b.position; });
  }

  const int rank_bits_;
  std::vector<Key> keys_;
  std::vector<Layer> layers_;
  std::vector<KeyRank> listed_;
  uint16_t flags_ = 0;
};

}  // namespace

void BuildRibbon(int rank_bits, const std::vector<KeyRank>& pairs, std::string* to) {
  RibbonBuilder builder(rank_bits);
  for (const KeyRank& pair : pairs) builder.Add(pair);
  builder.Finish(to);
}

}  // namespace quire::filter
