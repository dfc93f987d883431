#include "io/ipc/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "io/files/posix_error.h"
#include "io/files/room.h"

namespace quire::io {
namespace {

constexpr char kWhat[] = "shared memory for requests";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<std::unique_ptr<SealedMemory>> SealedMemory::Create(uint64_t size) {
  FileDescriptor fd(::memfd_create("quire-requests", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.ok()) return ErrnoStatus(errno, "make", kWhat);
  // Allocates the memory, so that stores to it never meet a full machine.
  const int error = SetAside(fd.get(), 0, size);
  if (error != 0) return ErrnoStatus(error, "set aside room for", kWhat);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return ErrnoStatus(errno, "seal", kWhat);
  std::unique_ptr<SealedMemory> memory(new SealedMemory(std::move(fd), size));
  QUIRE_RETURN_IF_ERROR(memory->MapAll());
  return memory;
}

Result<std::unique_ptr<SealedMemory>> SealedMemory::Map(FileDescriptor fd, uint64_t size) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "ask about", kWhat);
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (static_cast<uint64_t>(info.st_size) != size || seals < 0 || (seals & kSeals) != kSeals) {
    return Status(Code::kCorruption, "the memory that a peer handed over is not as it should be");
  }
  std::unique_ptr<SealedMemory> memory(new SealedMemory(std::move(fd), size));
  QUIRE_RETURN_IF_ERROR(memory->MapAll());
  return memory;
}

Status SealedMemory::MapAll() {
  void* const data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", kWhat);
  data_ = static_cast<char*>(data);
  return Status();
}

SealedMemory::~SealedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace quire::io
