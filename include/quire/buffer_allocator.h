/// The function that provides the memory for a value that a get found.
///
/// Threads  those of the call that receives one
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace quire {

/// Returns memory for the `size` bytes of a value; null makes the get fail with kOutOfMemory. A
/// stream may call it more than once: the last memory gets the value. If it throws, the get fails;
/// calls of Quire inside it fail. While it blocks, a database's get delays no other call.
using BufferAllocator = std::function<char*(size_t size)>;

/// The allocator that makes a string as long as the value is, and returns its memory.
///
/// Example  status = database->Get("key", quire::Into(&text));
struct Into {
  /// `to` outlives the get.
  explicit Into(std::string* to) : value(to) {}
  /// Throws  std::bad_alloc: the get fails with kOutOfMemory.
  char* operator()(size_t size) const {
    value->resize(size);
    return value->data();
  }
  std::string* value;
};

}  // namespace quire
