#include "stream/log/log_memory.h"

#include "base/hash/hash.h"
#include "stream/log/log_format.h"

namespace quire::stream {

void LogMemory::Store(uint64_t offset, Slice bytes) {
  io::StreamingCopy(map_->data() + offset, bytes.data(), bytes.size(), kind_);
  Stored(offset, AlignUp(bytes.size(), io::kLineBytes));
}

uint64_t LogMemory::StoreHashed(uint64_t offset, Slice bytes, uint64_t seed) {
  const uint64_t hash =
      io::StreamingCopyHashed(map_->data() + offset, bytes.data(), bytes.size(), seed, kind_);
  Stored(offset, AlignUp(bytes.size(), io::kLineBytes));
  return hash;
}

void LogMemory::Filled(uint64_t offset, uint64_t size) {
  if (map_->persistent()) io::WriteBack(map_->data() + offset, size);
  map_->Stored(offset, size);
  if (observer_ != nullptr) observer_->OnStore(offset, size);
}

// Plain stores stay in the caches, and NEON stores may.
void LogMemory::Stored(uint64_t offset, uint64_t size) {
  const bool cached = kind_ == io::StoreKind::kPlain || kind_ == io::StoreKind::kNeon;
  if (cached) return Filled(offset, size);
  map_->Stored(offset, size);
  if (observer_ != nullptr) observer_->OnStore(offset, size);
}

void LogMemory::Fence() {
  io::DrainStreamingStores();
  map_->Stored(0, 0);
  if (observer_ != nullptr) observer_->OnFence();
}

}  // namespace quire::stream
