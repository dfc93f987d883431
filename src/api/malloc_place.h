/// Memory for a value that a C program will free.
///
/// Layer      api
/// Threads    one thread
#pragma once

#include <cstddef>
#include <cstdlib>
#include <utility>

namespace quire::api {

/// An allocator that returns memory for a get; null if there is none. A NUL follows the bytes.
class MallocPlace {
 public:
  MallocPlace() = default;
  MallocPlace(const MallocPlace&) = delete;
  MallocPlace& operator=(const MallocPlace&) = delete;
  ~MallocPlace() { std::free(bytes_); }
  char* operator()(size_t size) {
    std::free(bytes_);
    bytes_ = static_cast<char*>(std::malloc(size + 1));
    size_ = size;
    if (bytes_ != nullptr) bytes_[size] = '\0';
    return bytes_;
  }
  size_t size() const { return size_; }
  const char* bytes() const { return bytes_; }
  /// Returns the memory, which the program must free from now on.
  char* Release() { return std::exchange(bytes_, nullptr); }

 private:
  char* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace quire::api
