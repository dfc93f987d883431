#include "filter/rank_map/ribbon.h"

#include <bit>

#include "filter/rank_map/pair_list.h"
#include "filter/rank_map/ribbon_layout.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace quire::filter {
namespace {

// The slots that an equation selects in two adjacent blocks, with a row for each bit of ranks.
struct Rows {
  const char* block;
  const char* next_block;
  uint64_t mask;
  uint64_t next_mask;

  // Bit i: whether an odd number of slots of row i is set.
  uint32_t Parities(size_t row_count) const {
    uint32_t parities = 0;
    size_t row = 0;
#if defined(__SSE2__)
    for (; row + 4 <= row_count; row += 4) parities |= ParitiesOfFour(row) << row;
    if (row > 0 && row < row_count) {
      row = row_count - 4;  // some once more
      parities |= ParitiesOfFour(row) << row;
      return parities;
    }
#endif
    for (; row < row_count; ++row) parities |= Parity(row) << row;
    return parities;
  }

 private:
  uint32_t Parity(size_t row) const {
    const uint64_t slots = (base::LoadLe<uint64_t>(block + row * 8) & mask) ^
                           (base::LoadLe<uint64_t>(next_block + row * 8) & next_mask);
    return static_cast<uint32_t>(std::popcount(slots)) & 1;
  }

#if defined(__SSE2__)
  // Returns two rows, the upper half of each folded into its lower one.
  __m128i Two(size_t row) const {
    const auto load = [row](const char* from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * 8));
    };
    const __m128i slots = _mm_xor_si128(
        _mm_and_si128(load(block), _mm_set1_epi64x(static_cast<int64_t>(mask))),
        _mm_and_si128(load(next_block), _mm_set1_epi64x(static_cast<int64_t>(next_mask))));
    return _mm_xor_si128(slots, _mm_srli_epi64(slots, 32));
  }

  // The lower halves of four, each folded until its highest bit is its parity.
  uint32_t ParitiesOfFour(size_t row) const {
    __m128i rows = _mm_castps_si128(
        _mm_shuffle_ps(_mm_castsi128_ps(Two(row)), _mm_castsi128_ps(Two(row + 2)), 0b10001000));
    rows = _mm_xor_si128(rows, _mm_slli_epi32(rows, 16));
    rows = _mm_xor_si128(rows, _mm_slli_epi32(rows, 8));
    rows = _mm_xor_si128(rows, _mm_slli_epi32(rows, 4));
    rows = _mm_xor_si128(rows, _mm_slli_epi32(rows, 2));
    rows = _mm_xor_si128(rows, _mm_slli_epi32(rows, 1));
    return static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(rows)));
  }
#endif
};

// The parts of a ribbon.
class Ribbon {
 public:
  Ribbon(Slice bytes, int rank_bits) : bytes_(bytes), rank_bits_(static_cast<size_t>(rank_bits)) {
    layer_count_ = base::LoadLe<uint16_t>(bytes.data());
    has_extra_ = base::LoadLe<uint16_t>(bytes.data() + 2) == kRibbonHasExtra;
    listed_count_ = base::LoadLe<uint32_t>(bytes.data() + 4);
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
    return base::LoadLe<uint32_t>(bytes_.data() + kRibbonHeaderBytes + layer * sizeof(uint32_t));
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
    const uint32_t shift = equation.start % kSlotsPerBlock;
    const size_t row_bytes = rank_bits_ * sizeof(uint64_t);
    Rows rows;
    rows.block = words + equation.start / kSlotsPerBlock * row_bytes;
    rows.mask = equation.coefficients << shift;
    rows.next_block = shift == 0 ? rows.block : rows.block + row_bytes;  // which may be none
    rows.next_mask = shift == 0 ? 0 : equation.coefficients >> (kSlotsPerBlock - shift);
    return rows.Parities(rank_bits_);
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

// Returns what is wrong, or null: its parts must fill it exactly, and each number must be possible.
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
