/// errno as a Status: what was tried, on which path, the system's text, and what to do about it.
///
/// Layer      io (internal)
/// Threads    pure functions
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::io {

/// The status of a failed call: "cannot <action> <path>: <strerror>; <what to do>".
///
/// ENOSPC, EDQUOT: kNoSpace. ENOENT: kNotFound. ENOMEM, EMFILE, ENFILE: kOutOfMemory. A path that
/// is not what it should be (a link, a directory, there already, too long): kInvalidArgument. All
/// else: kIo.
Status ErrnoStatus(int error, const std::string& action, const std::string& path);

/// The status of a directory that could not be opened without following a link. There the kernel
/// calls a link "not a directory"; this names it.
Status NoDirectoryStatus(int error, const std::string& path);

/// A lock's holder as people are shown it: "process 12 on host node7 (job 3)" for
/// "node7 pid 12 job 3", which the lock's file contains. Other texts as they are.
std::string HolderText(const std::string& holder);
/// The status of a directory that cannot be made because the one above it is absent.
Status NoParentStatus(const std::string& path);
/// The status of Lock and LockShared if `holder` has the lock on `path`.
Status LockedStatus(const std::string& path, const std::string& holder);
/// The holder if the lock is LockShared's.
constexpr char kReadingHolder[] = "processes that read what it protects";

/// strerror() of it, thread-safe.
std::string ErrnoText(int error);

}  // namespace quire::io
