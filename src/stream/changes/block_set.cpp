#include "stream/changes/block_set.h"

#include <bit>

namespace quire::stream {

void BlockSet::AddWord(uint64_t word, uint64_t bits) {
  if (bits == 0) return;
  if (words_.empty()) words_.resize(WordCount());
  count_ += static_cast<uint64_t>(std::popcount(bits & ~words_[word]));
  words_[word] |= bits;
}

void BlockSet::Add(BlockRun run) {
  ForEachWord(run, [&](uint64_t word, uint64_t bits) { AddWord(word, bits); });
}

void BlockSet::Remove(BlockRun run) {
  if (words_.empty()) return;
  ForEachWord(run, [&](uint64_t word, uint64_t bits) {
    count_ -= static_cast<uint64_t>(std::popcount(bits & words_[word]));
    words_[word] &= ~bits;
  });
}

void BlockSet::Clear() {
  words_.clear();
  count_ = 0;
}

uint64_t BlockSet::CountIn(BlockRun run) const {
  uint64_t count = 0;
  ForEachWord(run, [&](uint64_t word, uint64_t bits) {
    count += static_cast<uint64_t>(std::popcount(bits & Word(word)));
  });
  return count;
}

std::vector<BlockRun> BlockSet::Runs() const {
  std::vector<BlockRun> runs;
  for (uint64_t word = 0; word < words_.size(); ++word) {
    uint64_t bits = words_[word];
    while (bits != 0) {
      const auto skip = static_cast<uint64_t>(std::countr_zero(bits));
      const auto length = static_cast<uint64_t>(std::countr_one(bits >> skip));
      const uint64_t first = word * kWordBlocks + skip;
      if (!runs.empty() && runs.back().first + runs.back().count == first) {
        runs.back().count += length;
      } else {
        runs.push_back({first, length});
      }
      if (skip + length == kWordBlocks) break;
      bits = bits >> (skip + length) << (skip + length);
    }
  }
  return runs;
}

}  // namespace quire::stream
