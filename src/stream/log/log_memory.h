/// The memory of a log: stores that bypass the caches, and the fences that order them.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 4.3
/// Threads    one thread stores at a time
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "io/files/file_system.h"
#include "io/memory/streaming_stores.h"

namespace quire::stream {

/// An observer of every store and every fence, in their order; between two fences, stores may reach
/// memory in any order. For tests.
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
  /// Returns the memory at `offset`, for a caller that fills it and then calls Filled.
  char* room(uint64_t offset) { return map_->data() + offset; }
  uint64_t size() const { return map_->size(); }
  const std::string& path() const { return map_->path(); }
  bool persistent() const { return map_->persistent(); }
  /// Returns whether the pages are never written to a device: persistent memory, tmpfs.
  bool in_memory() const { return map_->in_memory(); }
  void Observe(StoreObserver* observer) { observer_ = observer; }

  /// Stores whole lines, with zeros behind the bytes; `offset` must be that of a line.
  void Store(uint64_t offset, Slice bytes);
  /// Stores like Store, and returns XXH3-64 of the bytes under `seed`.
  uint64_t StoreHashed(uint64_t offset, Slice bytes, uint64_t seed);
  /// Records that the caller's stores have filled [offset, offset + size).
  void Filled(uint64_t offset, uint64_t size);
  /// Orders stores: earlier stores reach memory before any later store.
  void Fence();
  /// Calls io::MappedFile::StoreAgain: needed before a sync of bytes that an earlier program
  /// stored.
  Status StoreAgain(uint64_t offset, uint64_t size) { return map_->StoreAgain(offset, size); }
  /// Calls io::MappedFile::TouchReadable: needed before reading bytes that an earlier or another
  /// program stored.
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
