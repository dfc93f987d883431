/// Unnamed memory that one process creates and passes to another over a local connection. Its size
/// is sealed: neither process can remove pages that the other uses.
///
/// Layer      io
/// Threads    the words are the users' business
#pragma once

#include <cstdint>
#include <memory>

#include "io/files/posix_file.h"
#include "quire/status.h"

namespace quire::io {

class SealedMemory {
 public:
  /// Creates memory of `size` zero bytes.
  static Result<std::unique_ptr<SealedMemory>> Create(uint64_t size);
  /// Maps memory that another process created. kCorruption: its size is not `size`, or it is not
  /// sealed.
  static Result<std::unique_ptr<SealedMemory>> Map(FileDescriptor fd, uint64_t size);
  ~SealedMemory();
  SealedMemory(const SealedMemory&) = delete;
  SealedMemory& operator=(const SealedMemory&) = delete;

  char* data() const { return data_; }
  uint64_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  SealedMemory(FileDescriptor fd, uint64_t size) : fd_(std::move(fd)), size_(size) {}
  Status MapAll();

  FileDescriptor fd_;
  char* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace quire::io
