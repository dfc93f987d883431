#include "io/files/page_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "io/files/posix_error.h"

namespace quire::io {

uint64_t PageBytes() {
  static const uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<PageMemory> AllocatePages(uint64_t bytes) {
  const uint64_t rounded = (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
  const std::string size = std::to_string(bytes) + " bytes of memory";
  if (rounded < bytes) return Status(Code::kOutOfMemory, "there are no " + size);
  void* const data =
      ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "allocate", size);
  return PageMemory(static_cast<char*>(data), rounded);
}

}  // namespace quire::io
