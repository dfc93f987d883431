#include "table/block_stream.h"

#include <algorithm>

namespace quire::table {
namespace {

constexpr uint64_t kPieceBytesMin = 256 << 10;
constexpr uint64_t kPieceBytesMax = 1 << 20;

}  // namespace

Status BlockStream::Read(uint64_t block, Slice* contents) {
  if (block < first_ || block >= last_) {
    Choose(block);
    Status status = Fill();
    if (!status.ok()) {
      first_ = last_ = 0;
      return status;
    }
  }
  const uint64_t begin = index_.offset(block) - index_.offset(first_);
  CachedBlock* decompressed = nullptr;
  QUIRE_RETURN_IF_ERROR(table_.OpenBlock(
      index_, block, Slice(piece_.get()->data() + begin, index_.stored_bytes(block)), contents,
      &decompressed));
  if (decompressed != nullptr) decompressed_ = BlockPin::Adopt(decompressed);
  return Status();
}

// Sets [first_, last_) to a piece with `block` that goes on in the direction of the reading.
void BlockStream::Choose(uint64_t block) {
  const bool forward = block == last_;
  const bool backward = block + 1 == first_;
  const bool goes_on = last_ != 0 && (forward || backward);
  piece_bytes_max_ = goes_on ? std::min(2 * piece_bytes_max_, kPieceBytesMax) : kPieceBytesMin;
  uint64_t first = block;
  uint64_t last = block + 1;
  if (goes_on && backward) {
    while (first > 0 && index_.offset(last) - index_.offset(first - 1) <= piece_bytes_max_) --first;
  } else {
    while (last < index_.block_count() &&
           index_.offset(last + 1) - index_.offset(first) <= piece_bytes_max_) {
      ++last;
    }
  }
  first_ = first;
  last_ = last;
}

Status BlockStream::Fill() {
  const uint64_t begin = index_.offset(first_);
  const uint64_t size = index_.offset(last_) - begin;
  if (piece_.get() == nullptr || piece_.get()->size() < size) {
    piece_.Release();
    CachedBlock* const piece = CachedBlock::New(std::max(size, piece_bytes_max_));
    if (piece == nullptr) {
      return Status(Code::kOutOfMemory, table_.file().path() + ": no memory to read " +
                                            std::to_string(size) + " bytes");
    }
    piece_ = BlockPin::Adopt(piece);
  }
  return table_.file().ReadAt(begin, size, piece_.get()->data());
}

}  // namespace quire::table
