#include "stream/changes/change_probe.h"

#include <algorithm>

#include "base/core/random.h"
#include "base/hash/hash.h"
#include "stream/changes/block_hashes.h"

namespace quire::stream {
namespace {

// Enough pages to distinguish one half from one twentieth; more cost more than they are worth.
constexpr uint64_t kEnoughPages = 512;
// One page of `kStride` is sampled; of an object of at most `kSmallPages` one of `kSmallStride`.
constexpr uint64_t kStride = 16;
constexpr uint64_t kSmallStride = 4;
constexpr uint64_t kSmallPages = 64;

uint64_t StrideOf(uint64_t pages) {
  if (pages <= kSmallStride) return 1;
  return pages <= kSmallPages ? kSmallStride : std::max(kStride, pages / kEnoughPages);
}

}  // namespace

ChangeProbe::ChangeProbe(const char* memory, uint64_t bytes, uint64_t page_bytes)
    : memory_(memory),
      bytes_(bytes),
      page_bytes_(page_bytes),
      page_count_((bytes + page_bytes - 1) / page_bytes),
      stride_(StrideOf(page_count_)) {}

uint64_t ChangeProbe::sample_bytes() const {
  return std::min(bytes_, (page_count_ + stride_ - 1) / stride_ * page_bytes_);
}

// Hashes one page of each `stride_`, at a random place, because changes may lie at regular
// distances. The number of the sample seeds the places, so that End hashes the same pages again.
std::vector<uint64_t> ChangeProbe::HashSample() const {
  std::vector<uint64_t> hashes;
  base::Random places(begins_);
  for (uint64_t group = 0; group < page_count_; group += stride_) {
    const uint64_t pages = std::min(stride_, page_count_ - group);
    const uint64_t begin = (group + places.Below(pages)) * page_bytes_;
    const uint64_t end = std::min(begin + page_bytes_, bytes_);
    const uint64_t whole = (end - begin) / kBlockBytes;
    const size_t at = hashes.size();
    hashes.resize(at + whole);
    base::HashBlocks(memory_ + begin, whole, hashes.data() + at);
    const Slice rest(memory_ + begin + whole * kBlockBytes, (end - begin) % kBlockBytes);
    if (!rest.empty()) hashes.push_back(base::HashKey(rest));
  }
  return hashes;
}

void ChangeProbe::Begin() {
  ++begins_;
  hashes_.clear();
  hashes_ = HashSample();  // empty if HashSample throws
}

ChangedShares ChangeProbe::End() {
  const std::vector<uint64_t> now = HashSample();
  const uint64_t page_blocks = page_bytes_ / kBlockBytes;
  uint64_t blocks = 0;
  const uint64_t pages = (now.size() + page_blocks - 1) / page_blocks;
  uint64_t changed_pages = 0;
  for (uint64_t first = 0; first < now.size(); first += page_blocks) {
    const uint64_t before = blocks;
    for (uint64_t i = first; i < std::min<uint64_t>(first + page_blocks, now.size()); ++i) {
      if (now[i] != hashes_[i]) ++blocks;
    }
    if (blocks != before) ++changed_pages;
  }
  const double of_pages = static_cast<double>(changed_pages) / static_cast<double>(pages);
  hashes_.clear();
  return {static_cast<double>(blocks) / static_cast<double>(now.size()), of_pages, of_pages};
}

}  // namespace quire::stream
