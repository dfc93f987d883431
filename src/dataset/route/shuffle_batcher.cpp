#include "dataset/route/shuffle_batcher.h"

#include <algorithm>

namespace quire::dataset {

std::string* ShuffleBatcher::Room(uint32_t slot, uint32_t destination, uint64_t bytes) {
  ShuffleBatch& open = open_[slot];
  std::string& batch = open.bytes;
  if (!batch.empty() && batch.size() + bytes <= batch.capacity()) [[likely]]
    return &batch;
  if (!batch.empty()) Close(&open);
  batch.reserve(std::max(batch_bytes_, head_.size() + bytes));
  batch.append(head_);
  open.destination = destination;
  buffer_bytes_ += batch.capacity();
  return &batch;
}

void ShuffleBatcher::Close(ShuffleBatch* open) {
  buffer_bytes_ -= open->bytes.capacity();
  closed_.push_back(std::exchange(*open, {}));
}

void ShuffleBatcher::CloseAll() {
  for (ShuffleBatch& open : open_) {
    if (!open.bytes.empty()) Close(&open);
  }
}

void ShuffleBatcher::Drop() {
  CloseAll();
  closed_.clear();
}

}  // namespace quire::dataset
