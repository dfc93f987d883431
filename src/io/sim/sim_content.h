/// The bytes of one simulated file twice: as processes see them (the page cache, which may be
/// mapped) and as the device has them; and the effect of a power loss on the difference.
///
/// Layer      io (internal, simulation)
/// Threads    serialized by SimFileSystem, except that mapped bytes are stored to at any time
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/core/random.h"
#include "quire/slice.h"

namespace quire::io {

/// Zeroed, page-aligned memory that is never moved.
class SimBuffer {
 public:
  explicit SimBuffer(uint64_t capacity);
  ~SimBuffer();
  SimBuffer(const SimBuffer&) = delete;
  SimBuffer& operator=(const SimBuffer&) = delete;
  char* data() const { return data_; }
  uint64_t capacity() const { return capacity_; }

 private:
  char* data_;
  uint64_t capacity_;
};

/// The effect of one power loss on unsynced pages.
enum class PowerLoss {
  kKeepAll,
  kDropAll,
  kMixed,  ///< random for each page: kept, dropped, torn at 64 bytes, rarely garbled
};

class SimContent {
 public:
  SimContent() : buffer_(std::make_shared<SimBuffer>(0)) {}

  uint64_t size() const { return size_; }
  /// Returns the memory that mappings show; it stays valid as long as the pointer is held.
  const std::shared_ptr<SimBuffer>& buffer() const { return buffer_; }
  /// Returns false if growing to `size` would move mapped memory.
  bool CanHold(uint64_t size) const {
    return size <= buffer_->capacity() || buffer_.use_count() == 1;
  }
  /// Changes the size; new bytes are zero. Requires CanHold(size).
  void Resize(uint64_t size);
  /// Overwrites bytes and grows the file if needed. Requires CanHold(offset + bytes.size()).
  void Write(uint64_t offset, Slice bytes);
  void Read(uint64_t offset, uint64_t size, char* to) const;
  /// Records that stores through a mapping may happen from now on.
  void MarkMapped() { dirty_ = true; }
  /// Makes the file persistent memory: of bytes that are not durable, each line survives a loss of
  /// power or not.
  void MarkPersistent() { persistent_ = true; }

  /// Writes all bytes and the size to the device.
  void Sync();
  /// Writes the size and the bytes of this range, and no others, to the device.
  void SyncRange(uint64_t offset, uint64_t size);
  /// A sync of these bytes has failed. Like Linux, treats their dirty pages as clean: they stay in
  /// the page cache, a sync ignores them, and a power loss drops them.
  void FailSync(uint64_t offset, uint64_t size);
  /// Records that bytes were stored there, perhaps the same ones: their pages are dirty.
  void MarkStored(uint64_t offset, uint64_t size);
  /// Replaces the bytes, in the page cache and on the device.
  void Replace(Slice bytes);

  /// Simulates the death of the process: later stores through its mappings change nothing here.
  void Freeze();
  /// Simulates a loss of power: drops the page cache; `loss` and `random` determine what the device
  /// keeps. Call Freeze before.
  void LosePower(PowerLoss loss, base::Random* random);

 private:
  void Reallocate(uint64_t capacity);
  bool IsForgotten(uint64_t begin);
  void ResolvePage(uint64_t begin, PowerLoss loss, base::Random* random);

  std::shared_ptr<SimBuffer> buffer_;
  uint64_t size_ = 0;
  std::string durable_;
  bool persistent_ = false;
  bool dirty_ = false;  // false: the page cache and the device agree
  // Pages that differ from the device's and are taken for clean, by their beginnings: their bytes
  // when the sync failed. A page with other bytes was stored to since, and is dirty.
  std::map<uint64_t, std::string> forgotten_;
};

}  // namespace quire::io
