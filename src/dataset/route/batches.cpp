#include "dataset/route/batches.h"

#include <algorithm>

namespace quire::dataset {

std::string* Batches::Room(uint32_t slot, uint32_t destination, uint64_t bytes) {
  Batch& open = open_[slot];
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

void Batches::Close(Batch* open) {
  buffer_bytes_ -= open->bytes.capacity();
  closed_.push_back(std::exchange(*open, {}));
}

void Batches::CloseAll() {
  for (Batch& open : open_) {
    if (!open.bytes.empty()) Close(&open);
  }
}

void Batches::Drop() {
  CloseAll();
  closed_.clear();
}

}  // namespace quire::dataset
