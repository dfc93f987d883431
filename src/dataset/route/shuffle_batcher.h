/// Entries that wait until there are enough for one destination: a batch is one message.
///
/// Layer      dataset
/// Source     FilterKV, CMU-PDL-19-104, section 2 (payloads of 16 KiB)
/// Threads    one at a time
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quire/slice.h"

namespace quire::dataset {

struct ShuffleBatch {
  uint32_t destination = 0;
  std::string bytes;
};

class ShuffleBatcher {
 public:
  /// At most `slot_count` batches are open, one for each destination.
  ShuffleBatcher(uint32_t slot_count, uint64_t batch_bytes)
      : batch_bytes_(batch_bytes), open_(slot_count) {}

  /// Makes every batch begin with `head` from now on.
  void SetHead(std::string head) { head_ = std::move(head); }
  /// Returns the place for an entry of `bytes` for `destination`. Closes a batch that has no room
  /// for it. An empty batch accepts any entry, even one longer than a batch.
  std::string* Room(uint32_t slot, uint32_t destination, uint64_t bytes);
  /// Closes all batches.
  void CloseAll();
  /// Drops all batches.
  void Drop();
  bool has_closed() const { return !closed_.empty(); }
  /// Removes and returns the closed batches.
  std::vector<ShuffleBatch> TakeClosed() { return std::exchange(closed_, {}); }
  /// Returns the bytes of open batches.
  uint64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  void Close(ShuffleBatch* open);

  const uint64_t batch_bytes_;
  std::string head_;
  std::vector<ShuffleBatch> open_;  ///< by slot; without memory if nothing waits
  std::vector<ShuffleBatch> closed_;
  uint64_t buffer_bytes_ = 0;
};

}  // namespace quire::dataset
