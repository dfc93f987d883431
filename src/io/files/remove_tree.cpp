#include "io/files/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/sync_point.h"
#include "io/files/descriptor.h"
#include "io/files/posix_error.h"

namespace quire::io {
namespace {

constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// Each level has a descriptor open.
constexpr int kLevelsMax = 64;

Result<std::vector<std::string>> NamesIn(const Descriptor& directory, const std::string& path) {
  Descriptor own = Descriptor::Duplicate(directory.get());
  if (!own.ok()) return ErrnoStatus(errno, "open the directory", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own.get()), ::closedir);
  if (!stream) return ErrnoStatus(errno, "list", path);
  own.Release();  // closedir closes it
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const struct dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, "list", path);
      return names;
    }
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
}

// What is open stays what it is, whatever takes its name meanwhile.
Status RemoveContents(const Descriptor& directory, const std::string& path, int level) {
  if (level == kLevelsMax) {
    return Status(Code::kInvalidArgument, path + " is too deep to be removed");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory, path));
  base::SyncPoint("io.remove_tree.listed");
  for (const std::string& name : names) {
    const std::string below = path + "/" + name;
    if (::unlinkat(directory.get(), name.c_str(), 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR) return ErrnoStatus(errno, "remove", below);
    base::SyncPoint("io.remove_tree.directory");
    const Descriptor inner(::openat(directory.get(), name.c_str(), kFlags));
    if (!inner.ok()) return ErrnoStatus(errno, "open the directory", below);
    QUIRE_RETURN_IF_ERROR(RemoveContents(inner, below, level + 1));
    if (::unlinkat(directory.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, "remove the directory", below);
    }
  }
  return Status();
}

}  // namespace

Status RemoveTreeAt(const std::string& directory) {
  {
    const Descriptor fd = Descriptor::Open(directory, kFlags);
    if (!fd.ok()) return ErrnoStatus(errno, "open the directory", directory);
    QUIRE_RETURN_IF_ERROR(RemoveContents(fd, directory, 0));
  }
  if (::rmdir(directory.c_str()) == 0) return Status();
  return ErrnoStatus(errno, "remove the directory", directory);
}

}  // namespace quire::io
