#include "io/files/page_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "io/files/posix_error.h"

namespace quire::io {
namespace {

uint64_t WholePages(uint64_t bytes) {
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

}  // namespace

uint64_t PageBytes() {
  static const uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

PageMemory::~PageMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void PageMemory::Shrink(uint64_t bytes) {
  const uint64_t kept = WholePages(bytes);
  if (kept < bytes_ && ::munmap(data_ + kept, bytes_ - kept) == 0) bytes_ = kept;
}

Result<PageMemory> AllocatePages(uint64_t bytes) {
  const uint64_t rounded = WholePages(bytes);
  const std::string size = std::to_string(bytes) + " bytes of memory";
  if (rounded < bytes) return Status(Code::kOutOfMemory, "there are no " + size);
  void* const data =
      ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "allocate", size);
  return PageMemory(static_cast<char*>(data), rounded);
}

}  // namespace quire::io
