#include "kv/mounted_files_testing.h"

#include <utility>
#include <vector>

namespace quire::kv {
namespace {

class MountedFiles final : public io::FileSystem {
 public:
  MountedFiles(io::FileSystem& root, std::string at, io::FileSystem& mounted)
      : root_(root), at_(std::move(at)), mounted_(mounted) {}

  Result<std::unique_ptr<io::File>> Open(const std::string& path, io::OpenMode mode) override {
    return Of(path).Open(path, mode);
  }
  Result<std::unique_ptr<io::MappedFile>> Map(const std::string& path, uint64_t size,
                                              io::MapMode mode) override {
    return Of(path).Map(path, size, mode);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    QUIRE_RETURN_IF_ERROR(CheckSame(from, to));
    return Of(from).Rename(from, to);
  }
  Status Unlink(const std::string& path) override { return Of(path).Unlink(path); }
  Status Link(const std::string& from, const std::string& to) override {
    QUIRE_RETURN_IF_ERROR(CheckSame(from, to));
    return Of(from).Link(from, to);
  }
  Status MakeDirectory(const std::string& path) override { return Of(path).MakeDirectory(path); }
  Status RemoveDirectory(const std::string& path) override {
    return Of(path).RemoveDirectory(path);
  }
  Result<std::vector<io::FileInfo>> List(const std::string& directory) override {
    return Of(directory).List(directory);
  }
  Status SyncDirectory(const std::string& directory) override {
    return Of(directory).SyncDirectory(directory);
  }
  Result<bool> Exists(const std::string& path) override { return Of(path).Exists(path); }
  Result<std::unique_ptr<io::FileLock>> Lock(const std::string& path,
                                             const std::string& holder) override {
    return Of(path).Lock(path, holder);
  }
  Result<std::unique_ptr<io::FileLock>> LockShared(const std::string& path) override {
    return Of(path).LockShared(path);
  }
  Result<std::string> LockHolder(const std::string& path) override {
    return Of(path).LockHolder(path);
  }
  Result<uint64_t> FreeBytes(const std::string& path) override { return Of(path).FreeBytes(path); }
  uint64_t BootId() override { return root_.BootId(); }

 private:
  io::FileSystem& Of(const std::string& path) {
    return path == at_ || path.starts_with(at_ + "/") ? mounted_ : root_;
  }
  Status CheckSame(const std::string& from, const std::string& to) {
    if (&Of(from) == &Of(to)) return Status();
    return Status(Code::kUnsupported, from + " and " + to + " are on different file systems");
  }

  io::FileSystem& root_;
  const std::string at_;
  io::FileSystem& mounted_;
};

}  // namespace

std::unique_ptr<io::FileSystem> NewMountedFiles(io::FileSystem& root, std::string at,
                                                io::FileSystem& mounted) {
  return std::make_unique<MountedFiles>(root, std::move(at), mounted);
}

}  // namespace quire::kv
