#include "filter/ribbon.h"

#include <bit>

#include "filter/pair_list.h"
#include "filter/ribbon_layout.h"

namespace quire::filter {
namespace {

uint32_t Word(const char* at) {
  return base::LoadLe<uint32_t>(at);
}

// The parts of a ribbon.
class Ribbon {
 public:
  Ribbon(Slice bytes, int rank_bits) : bytes_(bytes), rank_bits_(static_cast<size_t>(rank_bits)) {
    layer_count_ = base::LoadLe<uint16_t>(bytes.data());
    has_extra_ = base::LoadLe<uint16_t>(bytes.data() + 2) == kRibbonHasExtra;
    listed_count_ = Word(bytes.data() + 4);
  }

  // Why it is none, or null.
  const char* Validate(uint32_t rank_count) const;

  void Find(uint64_t hash, std::vector<uint32_t>* ranks) const {
    const char* thresholds = bytes_.data() + kRibbonHeaderBytes + layer_count_ * sizeof(uint32_t);
    const char* words = bytes_.data() + WordsAt();
    for (uint32_t layer = 0; layer < layer_count_; ++layer) {
      const uint32_t block_count = BlockCount(layer);
      const uint64_t position = layer == 0 ? hash : LaterPosition(hash, layer);
      const Equation equation(hash, position, layer, block_count);
      if (equation.offset() >= BumpedSlots(Threshold(thresholds, equation.bucket()))) {
        ranks->push_back(Solution(words, equation));
        if (has_extra_) Listed().Find(hash, ranks);
        return;
      }
      thresholds += ThresholdBytes(block_count);
      words += block_count * rank_bits_ * sizeof(uint64_t);
    }
    Listed().Find(hash, ranks);
  }

 private:
  uint32_t BlockCount(uint32_t layer) const {
    return Word(bytes_.data() + kRibbonHeaderBytes + layer * sizeof(uint32_t));
  }
  size_t WordsAt() const {
    size_t at = kRibbonHeaderBytes + layer_count_ * sizeof(uint32_t);
    for (uint32_t layer = 0; layer < layer_count_; ++layer) at += ThresholdBytes(BlockCount(layer));
    return RoundUp8(at);
  }
  static uint32_t Threshold(const char* thresholds, uint32_t bucket) {
    return static_cast<uint32_t>(static_cast<unsigned char>(thresholds[bucket / 2])) >>
               bucket % 2 * 4 &
           15;
  }

  uint32_t Solution(const char* words, const Equation& equation) const {
    const char* const block = words + equation.start / kSlotsPerBlock * rank_bits_ * 8;
    const uint32_t shift = equation.start % kSlotsPerBlock;
    uint32_t rank = 0;
    if (shift == 0) {
      for (size_t bit = 0; bit < rank_bits_; ++bit) {
        const uint64_t slots = base::LoadLe<uint64_t>(block + bit * 8);
        rank |= static_cast<uint32_t>(std::popcount(slots & equation.coefficients) & 1) << bit;
      }
      return rank;
    }
    const char* const next = block + rank_bits_ * 8;
    for (size_t bit = 0; bit < rank_bits_; ++bit) {
      const uint64_t slots = base::LoadLe<uint64_t>(block + bit * 8) >> shift |
                             base::LoadLe<uint64_t>(next + bit * 8) << (64 - shift);
      rank |= static_cast<uint32_t>(std::popcount(slots & equation.coefficients) & 1) << bit;
    }
    return rank;
  }

  PairList Listed() const { return {bytes_.substr(ListedAt()), listed_count_}; }
  size_t ListedAt() const {
    size_t at = WordsAt();
    for (uint32_t layer = 0; layer < layer_count_; ++layer)
      at += BlockCount(layer) * rank_bits_ * 8;
    return at;
  }

  const Slice bytes_;
  const size_t rank_bits_;
  uint32_t layer_count_;
  bool has_extra_;
  uint32_t listed_count_;
};

// Its parts fill it exactly; each number in it is one that building writes.
const char* Ribbon::Validate(uint32_t rank_count) const {
  if (layer_count_ > kLayersMax) return "a ribbon with too many layers";
  uint64_t size = kRibbonHeaderBytes + layer_count_ * sizeof(uint32_t);
  if (bytes_.size() < size) return "a cut-off list of layers";
  uint64_t slots = 0;
  for (uint32_t layer = 0; layer < layer_count_; ++layer) {
    const uint32_t block_count = BlockCount(layer);
    if (block_count == 0) return "a layer without slots";
    size += ThresholdBytes(block_count);
    slots += uint64_t{block_count} * rank_bits_ * 8;
  }
  if (RoundUp8(size) + slots + PairList::Bytes(listed_count_) != bytes_.size()) {
    return "a ribbon of another size than its parts";
  }
  return Listed().Validate(rank_count);
}

}  // namespace

const char* ValidateRibbon(Slice body, int rank_bits, uint32_t rank_count) {
  if (body.size() < kRibbonHeaderBytes) return "a cut-off ribbon";
  return Ribbon(body, rank_bits).Validate(rank_count);
}

void FindInRibbon(Slice body, int rank_bits, uint64_t hash, std::vector<uint32_t>* ranks) {
  Ribbon(body, rank_bits).Find(hash, ranks);
}

}  // namespace quire::filter
