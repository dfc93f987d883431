/// A buffer that grows without being zeroed first: blocks are staged, encoded and written from it.
///
/// Layer      table
/// Threads    one thread
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "quire/slice.h"

namespace quire::table {

class Buffer {
 public:
  char* data() { return bytes_.get(); }
  const char* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  Slice slice() const { return Slice(bytes_.get(), size_); }
  void Clear() { size_ = 0; }
  /// Makes room for `more` bytes behind the present ones, whose contents stay. The new bytes count
  /// only after Commit().
  char* Reserve(size_t more) {
    if (capacity_ - size_ < more) [[unlikely]]
      Grow(more);
    return bytes_.get() + size_;
  }
  void Commit(size_t more) { size_ += more; }
  void Append(Slice bytes) {
    if (bytes.empty()) return;
    std::memcpy(Reserve(bytes.size()), bytes.data(), bytes.size());
    size_ += bytes.size();
  }

 private:
  void Grow(size_t more) {
    const size_t capacity = std::max({size_ + more, 2 * capacity_, size_t{4096}});
    std::unique_ptr<char[]> bytes(new char[capacity]);
    if (size_ != 0) std::memcpy(bytes.get(), bytes_.get(), size_);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace quire::table
