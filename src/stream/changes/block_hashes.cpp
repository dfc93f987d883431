#include "stream/changes/block_hashes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace quire::stream {
namespace {

constexpr uint64_t kWordBlocks = BlockSet::kWordBlocks;

// Returns the bits of the blocks whose hashes differ.
uint64_t Differing(const uint64_t* some, const uint64_t* others, uint64_t count) {
  uint64_t bits = 0;
  for (uint64_t i = 0; i < count; ++i) bits |= static_cast<uint64_t>(some[i] != others[i]) << i;
  return bits;
}

}  // namespace

BlockHashes::BlockHashes(const char* memory, uint64_t bytes)
    : memory_(memory), bytes_(bytes), kept_((bytes + kBlockBytes - 1) / kBlockBytes) {}

uint64_t BlockHashes::Update(BlockRun run, BlockSet* changed) {
  if (hashes_ == nullptr) hashes_ = std::make_unique<uint64_t[]>(blocks());
  std::array<uint64_t, kWordBlocks> now;
  uint64_t changed_count = 0;
  ForEachWord(run, [&](uint64_t word, uint64_t bits) {
    const auto begin = static_cast<uint64_t>(std::countr_zero(bits));
    const auto count = static_cast<uint64_t>(std::popcount(bits));
    const uint64_t first = word * kWordBlocks + begin;
    HashRun({first, count}, now.data());
    uint64_t* const before = hashes_.get() + first;
    const uint64_t differing = Differing(now.data(), before, count) << begin;
    const uint64_t kept = kept_.Word(word);
    changed->AddWord(word, (differing | ~kept) & bits);
    changed_count += static_cast<uint64_t>(std::popcount(differing & kept));
    std::memcpy(before, now.data(), count * sizeof(uint64_t));
    kept_.AddWord(word, bits);
  });
  return changed_count;
}

void BlockHashes::KeepMissing(BlockRun run) {
  if (hashes_ == nullptr) hashes_ = std::make_unique<uint64_t[]>(blocks());
  ForEachWord(run, [&](uint64_t word, uint64_t bits) {
    uint64_t missing = bits & ~kept_.Word(word);
    kept_.AddWord(word, missing);
    while (missing != 0) {
      const auto begin = static_cast<uint64_t>(std::countr_zero(missing));
      const auto count = static_cast<uint64_t>(std::countr_one(missing >> begin));
      const uint64_t first = word * kWordBlocks + begin;
      HashRun({first, count}, hashes_.get() + first);
      missing &= ~((~uint64_t{0} >> (kWordBlocks - count)) << begin);
    }
  });
}

uint64_t BlockHashes::FirstDifference() const {
  std::array<uint64_t, kWordBlocks> now;
  for (uint64_t first = 0; first < blocks(); first += kWordBlocks) {
    const uint64_t kept = kept_.Word(first / kWordBlocks);
    if (kept == 0) continue;
    const uint64_t count = std::min(kWordBlocks, blocks() - first);
    HashRun({first, count}, now.data());
    const uint64_t differing = Differing(now.data(), hashes_.get() + first, count) & kept;
    if (differing != 0) return first + static_cast<uint64_t>(std::countr_zero(differing));
  }
  return blocks();
}

void BlockHashes::Clear() {
  kept_.Clear();
  hashes_.reset();
}

void BlockHashes::HashRun(BlockRun run, uint64_t* hashes) const {
  const uint64_t whole = std::min(run.first + run.count, bytes_ / kBlockBytes);
  if (whole > run.first) {
    base::HashBlocks(memory_ + run.first * kBlockBytes, whole - run.first, hashes);
  }
  if (whole == run.first + run.count) return;
  const Slice last(memory_ + whole * kBlockBytes, bytes_ - whole * kBlockBytes);
  hashes[run.count - 1] = base::HashKey(last);
}

}  // namespace quire::stream
