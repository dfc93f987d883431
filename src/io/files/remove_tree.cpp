#include "io/files/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/threads/sync_point.h"
#include "io/files/descriptor.h"
#include "io/files/posix_error.h"

namespace quire::io {
namespace {

constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// Each level has a descriptor open.
constexpr int kLevelsMax = 64;

// Returns at most `most` names.
Result<std::vector<std::string>> NamesIn(const FileDescriptor& directory, const std::string& path,
                                         size_t most) {
  FileDescriptor own = FileDescriptor::Duplicate(directory.get());
  if (!own.ok()) return ErrnoStatus(errno, "open the directory", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own.get()), ::closedir);
  if (!stream) return ErrnoStatus(errno, "list", path);
  own.Release();  // closedir closes it
  std::vector<std::string> names;
  while (names.size() < most) {
    errno = 0;
    const struct dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, "list", path);
      return names;
    }
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// Removes the contents of an open directory; another directory that takes its name meanwhile is not
// touched. Returns true if the directory is empty now.
Result<bool> RemoveContents(const FileDescriptor& directory, const std::string& path, int level,
                            size_t* most) {
  if (level == kLevelsMax) {
    return Status(Code::kInvalidArgument, path + " is too deep to be removed");
  }
  const size_t listed_most = *most;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         NamesIn(directory, path, listed_most));
  base::SyncPoint("io.remove_tree.listed");
  for (const std::string& name : names) {
    if (*most == 0) return false;
    const std::string below = path + "/" + name;
    if (::unlinkat(directory.get(), name.c_str(), 0) == 0 || errno == ENOENT) {
      --*most;
      continue;
    }
    if (errno != EISDIR) return ErrnoStatus(errno, "remove", below);
    base::SyncPoint("io.remove_tree.directory");
    const FileDescriptor inner(::openat(directory.get(), name.c_str(), kFlags));
    if (!inner.ok()) return NoDirectoryStatus(errno, below);
    QUIRE_ASSIGN_OR_RETURN(const bool empty, RemoveContents(inner, below, level + 1, most));
    if (!empty || *most == 0) return false;
    if (::unlinkat(directory.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, "remove the directory", below);
    }
    --*most;
  }
  return names.size() < listed_most;
}

}  // namespace

Result<bool> RemoveSomeAt(const std::string& directory, size_t* most) {
  {
    const FileDescriptor fd = FileDescriptor::Open(directory, kFlags);
    if (!fd.ok()) return NoDirectoryStatus(errno, directory);
    QUIRE_ASSIGN_OR_RETURN(const bool empty, RemoveContents(fd, directory, 0, most));
    if (!empty || *most == 0) return false;
  }
  if (::rmdir(directory.c_str()) != 0) {
    return ErrnoStatus(errno, "remove the directory", directory);
  }
  --*most;
  return true;
}

}  // namespace quire::io
