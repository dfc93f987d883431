#include "io/files/posix_error.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "io/files/machine.h"

namespace quire::io {
namespace {

Code CodeOf(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return Code::kNoSpace;
    case ENOENT: return Code::kNotFound;
    case EMFILE:
    case ENFILE:
    case ENOMEM: return Code::kOutOfMemory;
    case EEXIST:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR: return Code::kInvalidArgument;
    default: return Code::kIo;
  }
}

const char* AdviceOn(int error) {
  switch (error) {
    case ENOSPC: return "make room on the device";
    case EDQUOT: return "make room within the quota, or have it raised";
    case EACCES:
    case EPERM: return "check its owner and permissions, and those of the directories above it";
    case EROFS: return "the file system is mounted read-only; choose another place";
    case ELOOP: return "Quire follows no symbolic links; name the real path";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    case ENOMEM: return "free memory, or raise the limit on mappings (vm.max_map_count)";
    case EFBIG: return "raise the limit on file size (ulimit -f)";
    case EIO: return "the device failed; look at the kernel's log";
    case ESTALE: return "the file server lost the file; mount it again";
    case EINTR: return "signals interrupt it without end; slow down the timer that sends them";
    default: return nullptr;
  }
}

}  // namespace

std::string ErrnoText(int error) { return std::generic_category().message(error); }

Status ErrnoStatus(int error, const std::string& action, const std::string& path) {
  std::string text = "cannot " + action + " " + path + ": " + ErrnoText(error);
  if (const char* advice = AdviceOn(error)) text.append("; ").append(advice);
  return Status(CodeOf(error), std::move(text));
}

Status NoDirectoryStatus(int error, const std::string& path) {
  struct stat info;
  const bool link = error == ENOTDIR && ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  return ErrnoStatus(link ? ELOOP : error, "open the directory", path);
}

Status NoParentStatus(const std::string& path) {
  return Status(Code::kNotFound, ErrnoStatus(ENOENT, "make the directory", path).message() +
                                     "; its parent is absent: make it, or correct the path");
}

std::string HolderText(const std::string& holder) {
  constexpr char kPid[] = " pid ";
  const size_t found = holder.find(kPid);
  if (found == std::string::npos || found == 0) return holder;
  const size_t begin = found + sizeof kPid - 1;
  const size_t end = std::min(holder.find_first_not_of("0123456789", begin), holder.size());
  const std::string_view rest = std::string_view(holder).substr(end);
  if (end == begin || (!rest.empty() && rest[0] != ' ' && rest[0] != ',')) return holder;
  std::string text =
      "process " + holder.substr(begin, end - begin) + " on host " + holder.substr(0, found);
  const size_t more = rest.find_first_not_of(" ,");
  if (more != std::string_view::npos) text.append(" (").append(rest.substr(more)).append(")");
  return text;
}

Status LockedStatus(const std::string& path, const std::string& holder) {
  if (holder == ProcessDescription()) {
    return Status(Code::kBusy, path + " is locked by this process (" + holder +
                                   "), which has it open already; close it there first");
  }
  return Status(Code::kBusy,
                path + " is locked by " + HolderText(holder) + "; wait for it to end, or end it");
}

}  // namespace quire::io
