#include "kv/database/mounted_files_testing.h"

#include <utility>

#include "io/paths/forwarding.h"

namespace quire::kv {
namespace {

class MountedFiles final : public io::ForwardingFileSystem {
 public:
  MountedFiles(io::FileSystem& root, std::string at, io::FileSystem& mounted)
      : ForwardingFileSystem(root), at_(std::move(at)), mounted_(mounted) {}

  Status Rename(const std::string& from, const std::string& to) override {
    QUIRE_RETURN_IF_ERROR(CheckSame(from, to));
    return ForwardingFileSystem::Rename(from, to);
  }
  Status Link(const std::string& from, const std::string& to) override {
    QUIRE_RETURN_IF_ERROR(CheckSame(from, to));
    return ForwardingFileSystem::Link(from, to);
  }

 protected:
  io::FileSystem& At(const std::string& path) override {
    const bool mounted = path == at_ || path.starts_with(at_ + "/");
    return mounted ? mounted_ : ForwardingFileSystem::At(path);
  }

 private:
  Status CheckSame(const std::string& from, const std::string& to) {
    if (&At(from) == &At(to)) return Status();
    return Status(Code::kUnsupported, from + " and " + to + " are on different file systems");
  }

  const std::string at_;
  io::FileSystem& mounted_;
};

}  // namespace

std::unique_ptr<io::FileSystem> NewMountedFiles(io::FileSystem& root, std::string at,
                                                io::FileSystem& mounted) {
  return std::make_unique<MountedFiles>(root, std::move(at), mounted);
}

}  // namespace quire::kv
