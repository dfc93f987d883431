#include "io/files/immutable_file.h"

#include <cerrno>
#include <utility>

#include "io/files/descriptor_cache.h"
#include "io/files/machine.h"
#include "io/files/posix_error.h"
#include "io/files/posix_file.h"
#include "io/files/read_map.h"

namespace quire::io {
namespace {

class ImmutableFile final : public File {
 public:
  ImmutableFile(FileDescriptor fd, const std::string& path, int flags, const FileIdentity& identity,
                std::unique_ptr<ReadMap> map)
      : descriptor_(std::move(fd), path, flags, identity), map_(std::move(map)) {}

  Status ReadAt(uint64_t offset, size_t size, char* to) const override {
    if (map_ != nullptr && map_->TryCopy(offset, size, to)) return Status();
    const Result<CachedDescriptor::Use> fd = descriptor_.Get();
    if (fd.ok()) return ReadExactly(fd->get(), path(), offset, size, to);
    // The mapping shows the file that was opened, whichever file has its name now.
    if (map_ != nullptr && map_->Copy(offset, size, to)) return Status();
    return fd.status();
  }
  Status WriteAt(uint64_t, Slice) override { return Refused("write"); }
  Status Allocate(uint64_t) override { return Refused("set aside room for"); }
  Status Truncate(uint64_t) override { return Refused("truncate"); }
  Status Deallocate(uint64_t, uint64_t) override { return Refused("give back room of"); }
  Status Sync() override { return Refused("sync"); }
  void StartWriteBack(uint64_t, uint64_t) override {}
  // Returns the size at the opening, because the bytes do not change. A mapped file may have no
  // name any more.
  Result<uint64_t> Size() const override {
    if (map_ != nullptr) return map_->size();
    QUIRE_ASSIGN_OR_RETURN(const CachedDescriptor::Use fd, descriptor_.Get());
    return SizeOf(fd.get(), path());
  }
  const std::string& path() const override { return descriptor_.path(); }

 private:
  Status Refused(const char* action) const { return ErrnoStatus(EBADF, action, path()); }

  mutable CachedDescriptor descriptor_;
  const std::unique_ptr<ReadMap> map_;
};

}  // namespace

Result<std::unique_ptr<File>> NewImmutableFile(FileDescriptor fd, const std::string& path,
                                               int flags, bool keeps_name) {
  std::unique_ptr<ReadMap> map = ReadMap::TryMap(fd.get(), RealClock());
  if (map == nullptr && !keeps_name) {
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), path));
  }
  QUIRE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(fd.get(), path));
  return std::unique_ptr<File>(std::make_unique<ImmutableFile>(std::move(fd), path, flags,
                                                               identity, std::move(map)));
}

}  // namespace quire::io
