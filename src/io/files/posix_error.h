/// errno as a Status: what was tried, on which path, the system's text, and what to do about it.
///
/// Layer      io (internal)
/// Threads    pure functions
#pragma once

#include <string>

#include "quire/status.h"

namespace quire::io {

/// Returns the status of a failed call: "cannot <action> <path>: <strerror>; <what to do>".
///
/// ENOSPC, EDQUOT: kNoSpace. ENOENT: kNotFound. ENOMEM, EMFILE, ENFILE: kOutOfMemory. A wrong kind
/// of path (a link, a directory, one that exists already, too long): kInvalidArgument. All others:
/// kIo.
Status ErrnoStatus(int error, const std::string& action, const std::string& path);

/// Returns the status of a directory that could not be opened without following a link. The kernel
/// reports a link as "not a directory"; this text names the link.
Status NoDirectoryStatus(int error, const std::string& path);

/// Returns a lock's holder in readable form: "process 12 on host node7 (job 3)" for "node7 pid 12
/// job 3", which the lock's file contains. Returns other texts unchanged.
std::string HolderText(const std::string& holder);
/// Returns the status of a directory that cannot be created because its parent is absent.
Status NoParentStatus(const std::string& path);
/// Returns the status of Lock and LockShared if `holder` has the lock on `path`.
Status LockedStatus(const std::string& path, const std::string& holder);
/// The holder text if the lock is LockShared's.
constexpr char kReadingHolder[] = "processes that read what it protects";

/// Returns strerror() of `error`; thread-safe.
std::string ErrnoText(int error);

}  // namespace quire::io
