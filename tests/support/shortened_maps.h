// A file system of which another program shortens files while they are mapped.
//
// Threads: one at a time.
#ifndef QUIRE_TESTS_SUPPORT_SHORTENED_MAPS_H_
#define QUIRE_TESTS_SUPPORT_SHORTENED_MAPS_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "io/files/file_system.h"
#include "io/paths/forwarding.h"

namespace quire::test {

/// The real one. A page that is gone from under a mapping is to a program what one is that the
/// device cannot give: a load from it raises SIGBUS.
class ShortenedMaps final : public io::ForwardingFileSystem {
 public:
  ShortenedMaps() : ForwardingFileSystem(io::PosixFileSystem()) {}

  /// From now on files whose name begins with `prefix` lose all but `bytes` as soon as they are
  /// mapped. An empty one: none does.
  void Shorten(std::string prefix, uint64_t bytes) {
    prefix_ = std::move(prefix);
    bytes_ = bytes;
  }
  int shortened() const { return shortened_; }

  Result<std::unique_ptr<io::MappedFile>> Map(const std::string& path, uint64_t size,
                                              io::MapMode mode) override {
    auto map = ForwardingFileSystem::Map(path, size, mode);
    const std::string name = std::filesystem::path(path).filename();
    if (map.ok() && !prefix_.empty() && name.starts_with(prefix_)) {
      std::filesystem::resize_file(path, bytes_);
      ++shortened_;
    }
    return map;
  }

 private:
  std::string prefix_;
  uint64_t bytes_ = 0;
  int shortened_ = 0;
};

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_SHORTENED_MAPS_H_
