#include "io/files/ownership.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>

#include "io/files/descriptor.h"
#include "io/files/posix_error.h"

namespace quire::io {
namespace {

constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

std::string UserName(uid_t user) {
  char buffer[1024];
  struct passwd entry;
  struct passwd* found = nullptr;
  std::string number = std::to_string(user);
  if (::getpwuid_r(user, &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr) {
    return "user " + number;
  }
  return std::string("user ") + found->pw_name + " (" + number + ")";
}

Status BelongsTo(const std::string& what, uid_t owner, const std::string& advice) {
  return Status(Code::kInvalidArgument, what + " belongs to " + UserName(owner) +
                                            ", not to this process's " + UserName(::geteuid()) +
                                            "; " + advice);
}

// A group with one member would be harmless, but nothing shows that it stays so. `mends` is the
// command to run, without the mode and the path.
Status CheckMode(const struct stat& info, const std::string& what, const std::string& mends,
                 const std::string& path) {
  if ((info.st_mode & kOthersMayWrite) == 0) return Status();
  const bool all = (info.st_mode & S_IWOTH) != 0;
  return Status(Code::kInvalidArgument,
                what + " may be written by " + (all ? "everybody" : "its group") +
                    "; choose another, or run: " + mends + (all ? " go-w " : " g-w ") + path);
}

}  // namespace

Status CheckOwnDirectory(const std::string& path) {
  const FileDescriptor fd =
      FileDescriptor::Open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (!fd.ok()) return NoDirectoryStatus(errno, path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "ask about", path);
  if (info.st_uid != ::geteuid()) {
    return BelongsTo("directory " + path, info.st_uid, "choose a directory of your own");
  }
  return CheckMode(info, "directory " + path, "chmod", path);
}

Status CheckOwnFile(const struct stat& info, const std::string& path) {
  if (info.st_uid != ::geteuid() && ::geteuid() != 0) {
    return BelongsTo(path, info.st_uid, "nothing of it was changed");
  }
  // A copy that was made under umask 002 has many such files, so the advice is for all of them.
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
  return CheckMode(info, path, "chmod -R", directory.empty() ? path : directory);
}

Result<uint32_t> SoleWriterOf(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "ask about", path);
  QUIRE_RETURN_IF_ERROR(CheckMode(info, path, "chmod", path));
  return static_cast<uint32_t>(info.st_uid);
}

}  // namespace quire::io
