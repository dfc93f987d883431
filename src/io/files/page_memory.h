/// Memory in whole pages.
///
/// Layer      io
/// Threads    pure functions; an object is one owner's
#pragma once

#include <cstdint>
#include <utility>

#include "quire/status.h"

namespace quire::io {

/// [bytes] A page of this machine.
uint64_t PageBytes();

/// Zeroed memory that begins at a page, and ends at one. Goes with the object.
class PageMemory {
 public:
  PageMemory() = default;
  PageMemory(char* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  PageMemory(PageMemory&& other) noexcept { *this = std::move(other); }
  PageMemory& operator=(PageMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PageMemory();

  char* data() const { return data_; }
  /// Whole pages.
  uint64_t bytes() const { return bytes_; }
  /// Gives back the pages behind the first `bytes`, which are at most bytes(). Keeps them all if
  /// the kernel cannot divide them.
  void Shrink(uint64_t bytes);

 private:
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// At least `bytes`, which is not 0. Pages are taken when they are first written to. kOutOfMemory.
Result<PageMemory> AllocatePages(uint64_t bytes);

}  // namespace quire::io
