/// A mapped file whose pages are all present, like a stream's log: so copies into it cost only the
/// copying.
///
/// Layer      bench
/// Threads    one thread at a time
#pragma once

#include <cstdint>
#include <string>

#include "quire/status.h"

namespace quire::bench {

/// The file has no name any more, and is removed with this object.
class TouchedMap {
 public:
  /// Errors  kIo, kNoSpace, with the folder.
  static Result<TouchedMap> Make(const std::string& folder, uint64_t bytes);
  TouchedMap(TouchedMap&& other) noexcept;
  TouchedMap& operator=(TouchedMap&& other) noexcept;
  ~TouchedMap();

  /// [bytes] at a page.
  char* data() const { return data_; }
  /// [bytes]
  uint64_t size() const { return size_; }

 private:
  TouchedMap(char* data, uint64_t size) : data_(data), size_(size) {}
  char* data_;
  uint64_t size_;
};

}  // namespace quire::bench
