#include "touched_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace quire::bench {

Result<TouchedMap> TouchedMap::Make(const std::string& folder, uint64_t bytes) {
  const auto failed = [&folder](Code code, const char* call, int error) {
    return Status(code, std::string(call) + " in " + folder + ": " + std::strerror(error));
  };
  const std::string path = folder + "/touched";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return failed(Code::kIo, "open", errno);
  ::unlink(path.c_str());
  const int error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    ::close(descriptor);
    return failed(Code::kNoSpace, "posix_fallocate", error);
  }
  void* place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (place == MAP_FAILED) return failed(Code::kIo, "mmap", errno);
  std::memset(place, 0, bytes);
  return TouchedMap(static_cast<char*>(place), bytes);
}

TouchedMap::TouchedMap(TouchedMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

TouchedMap& TouchedMap::operator=(TouchedMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

TouchedMap::~TouchedMap() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace quire::bench
