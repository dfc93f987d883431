/// A set of blocks, by their numbers.
///
/// Layer      stream
/// Threads    an object belongs to one thread
#pragma once

#include <cstdint>
#include <vector>

namespace quire::stream {

/// Blocks [first, first + count).
struct BlockRun {
  uint64_t first;
  uint64_t count;
};

class BlockSet {
 public:
  /// Blocks of one word of bits.
  static constexpr uint64_t kWordBlocks = 64;

  /// A set of blocks out of [0, blocks). Allocates memory when the first block is added.
  explicit BlockSet(uint64_t blocks) : blocks_(blocks) {}

  void Add(BlockRun run);
  void Remove(BlockRun run);
  /// Adds those of the blocks [kWordBlocks * word, ...) whose bits are set in `bits`.
  void AddWord(uint64_t word, uint64_t bits);
  /// Returns the bits of these blocks.
  uint64_t Word(uint64_t word) const { return words_.empty() ? 0 : words_[word]; }
  void Clear();

  uint64_t blocks() const { return blocks_; }
  /// Returns the number of blocks in the set.
  uint64_t count() const { return count_; }
  /// Returns the number of blocks of `run` in the set.
  uint64_t CountIn(BlockRun run) const;
  /// Returns the set as runs in rising order, none of which touches another.
  std::vector<BlockRun> Runs() const;

 private:
  uint64_t WordCount() const { return (blocks_ + kWordBlocks - 1) / kWordBlocks; }

  uint64_t blocks_;
  uint64_t count_ = 0;
  std::vector<uint64_t> words_;  // empty: none is in it
};

/// Calls use(word, bits) for each word that contains blocks of `run`.
template <typename Use>
void ForEachWord(BlockRun run, const Use& use) {
  constexpr uint64_t kBits = BlockSet::kWordBlocks;
  const uint64_t end = run.first + run.count;
  for (uint64_t at = run.first; at < end;) {
    const uint64_t word = at / kBits;
    const uint64_t stop = end < (word + 1) * kBits ? end : (word + 1) * kBits;
    const uint64_t count = stop - at;
    use(word, (~uint64_t{0} >> (kBits - count)) << at % kBits);
    at = stop;
  }
}

}  // namespace quire::stream
