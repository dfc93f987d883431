/// Memory in whole pages.
///
/// Layer      io
/// Threads    pure functions; an object belongs to one thread at a time
#pragma once

#include <cstdint>
#include <utility>

#include "quire/status.h"

namespace quire::io {

/// [bytes] A page of this machine.
uint64_t PageBytes();

/// Zeroed memory in whole pages. Freed with the object.
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
  /// Returns its size, in whole pages [bytes].
  uint64_t bytes() const { return bytes_; }
  /// Frees the pages behind the first `bytes` (at most bytes()). Keeps all pages if the kernel
  /// cannot split the mapping.
  void Shrink(uint64_t bytes);

 private:
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// Allocates at least `bytes` (not 0). Each page takes memory when it is first written to.
/// kOutOfMemory.
Result<PageMemory> AllocatePages(uint64_t bytes);

}  // namespace quire::io
