/// The memory of a log: what is stored into it past the caches, and when it is ordered.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 4.3
/// Threads    stores by one at a time
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "io/files/file_system.h"
#include "io/memory/streaming_stores.h"

namespace quire::stream {

/// Sees every store and every fence, in their order; between two fences stores may reach memory in
/// any. For tests.
class StoreObserver {
 public:
  virtual ~StoreObserver() = default;
  virtual void OnStore(uint64_t offset, uint64_t size) = 0;
  virtual void OnFence() = 0;
};

class LogMemory {
 public:
  explicit LogMemory(std::unique_ptr<io::MappedFile> map)
      : map_(std::move(map)), kind_(io::BestStores()) {}

  const char* data() const { return map_->data(); }
  /// For a caller that fills the room itself and then calls Filled.
  char* room(uint64_t offset) { return map_->data() + offset; }
  uint64_t size() const { return map_->size(); }
  const std::string& path() const { return map_->path(); }
  bool persistent() const { return map_->persistent(); }
  /// Pages that are never written out: persistent memory, tmpfs.
  bool in_memory() const { return map_->in_memory(); }
  void Observe(StoreObserver* observer) { observer_ = observer; }

  /// Whole lines, zeros behind the bytes; `offset` is that of a line.
  void Store(uint64_t offset, Slice bytes);
  /// The same, and XXH3-64 of the bytes under `seed`.
  uint64_t StoreHashed(uint64_t offset, Slice bytes, uint64_t seed);
  /// [offset, offset + size) was filled by the caller's stores.
  void Filled(uint64_t offset, uint64_t size);
  /// Earlier stores are in place before any later store.
  void Fence();
  /// Of io::MappedFile: before a sync of what an earlier program stored.
  Status StoreAgain(uint64_t offset, uint64_t size) { return map_->StoreAgain(offset, size); }
  /// Of io::MappedFile: before bytes are looked at that an earlier program, or another, stored.
  Status TouchReadable(uint64_t offset, uint64_t size) const {
    return map_->TouchReadable(offset, size);
  }
  Status Sync(uint64_t offset, uint64_t size) { return map_->Sync(offset, size); }
  void Prefault() { map_->Prefault(0, map_->size()); }

 private:
  void Stored(uint64_t offset, uint64_t size);

  std::unique_ptr<io::MappedFile> map_;
  io::StoreKind kind_;
  StoreObserver* observer_ = nullptr;
};

}  // namespace quire::stream
