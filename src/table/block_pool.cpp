#include "table/block_pool.h"

#include <bit>
#include <new>

#include "table/cache_line.h"

namespace quire::table {
size_t BlockPool::PieceBytes(size_t bytes) {
  // Large ones are few, and exact: what they waste would be wasted from the cache.
  if (bytes > kStepBytes * kClassCount) return bytes;
  return (bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
}

void* BlockPool::Allocate(size_t bytes) {
  return ::operator new (bytes, std::align_val_t{kCacheLineBytes}, std::nothrow);
}

void BlockPool::Free(void* piece) {
  ::operator delete (piece, std::align_val_t{kCacheLineBytes});
}

BlockPool::~BlockPool() {
  for (Piece* piece : pieces_) {
    while (piece != nullptr) {
      Piece* const next = piece->next;
      Free(piece);
      piece = next;
    }
  }
}

void* BlockPool::Take(size_t* bytes) {
  if (*bytes > kStepBytes * kClassCount) return nullptr;
  const size_t wanted = *bytes / kStepBytes - 1;
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t above = filled_ >> wanted;
  if (above == 0) return nullptr;
  const auto distance = static_cast<size_t>(std::countr_zero(above));
  if (distance > kClassesAbove) return nullptr;
  const size_t found = wanted + distance;
  Piece* const piece = pieces_[found];
  pieces_[found] = piece->next;
  if (piece->next == nullptr) {
    filled_ &= ~(uint64_t{1} << found);
  } else {
    __builtin_prefetch(piece->next);
  }
  *bytes = (found + 1) * kStepBytes;
  bytes_ -= *bytes;
  return piece;
}

void BlockPool::Give(void* piece, size_t bytes) {
  if (!Keep(piece, bytes)) Free(piece);
}

bool BlockPool::Keep(void* memory, size_t bytes) {
  if (bytes > kStepBytes * kClassCount) return false;
  const size_t at = bytes / kStepBytes - 1;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > bytes_max_ - bytes_) return false;
  pieces_[at] = ::new (memory) Piece{pieces_[at]};
  filled_ |= uint64_t{1} << at;
  bytes_ += bytes;
  return true;
}

uint64_t BlockPool::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace quire::table
