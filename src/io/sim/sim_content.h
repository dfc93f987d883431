/// The bytes of one simulated file twice: as processes see them (the page cache, which may be
/// mapped) and as the device has them; and what a power loss makes of the difference.
///
/// Layer      io (internal, simulation)
/// Threads    serialized by SimFileSystem, except that mapped bytes are stored to at any time
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/random.h"
#include "quire/slice.h"

namespace quire::io {

/// Zeroed, page-aligned memory that stays where it is.
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
  kMixed,  ///< each page its own fate: kept, dropped, torn at 64 bytes, rarely garbled
};

class SimContent {
 public:
  SimContent() : buffer_(std::make_shared<SimBuffer>(0)) {}

  uint64_t size() const { return size_; }
  /// The memory that mappings show; it stays valid as long as it is held.
  const std::shared_ptr<SimBuffer>& buffer() const { return buffer_; }
  /// False where growing to `size` would move memory that is mapped.
  bool CanHold(uint64_t size) const {
    return size <= buffer_->capacity() || buffer_.use_count() == 1;
  }
  /// Changes the size; new bytes are zero. Only where CanHold(size).
  void Resize(uint64_t size);
  /// Overwrites, growing where needed. Only where CanHold(offset + bytes.size()).
  void Write(uint64_t offset, Slice bytes);
  void Read(uint64_t offset, uint64_t size, char* to) const;
  /// Stores through a mapping may come from here on.
  void MarkMapped() { dirty_ = true; }
  /// It is persistent memory: what is not durable survives a loss of power line by line.
  void MarkPersistent() { persistent_ = true; }

  /// The device gets all bytes, and the size.
  void Sync();
  /// The device gets the size, and of the bytes no more than was asked for.
  void SyncRange(uint64_t offset, uint64_t size);
  /// A sync of these bytes has failed. As Linux does, takes their dirty pages for clean: they stay
  /// as they are in the page cache, a sync passes over them, and a power loss drops them.
  void FailSync(uint64_t offset, uint64_t size);
  /// Bytes were stored there, perhaps the same again: their pages are dirty.
  void MarkStored(uint64_t offset, uint64_t size);
  /// Replaces the bytes, in the page cache and on the device.
  void Replace(Slice bytes);

  /// The process is gone: later stores through its mappings change nothing here.
  void Freeze();
  /// The page cache is gone; the device keeps what `loss` and `random` let it keep. Frozen before.
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
