/// Work that another program does for a part whose writer has ended or died, and the check of its
/// log.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 6.2; docs/decisions/0013-streams.md
/// Threads    pure functions of what is at the place
#pragma once

#include <cstdint>
#include <string>

#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::stream {

/// Collects a part of a store whose writer has ended, under the policy that the writer had.
/// kBusy: a program writes it, or waits to write it.
Status CollectEnded(io::FileSystem& fs, const std::string& place, const std::string& name,
                    uint32_t rank);
/// Rebuilds the index of a part whose writer has died, as a writer does at Open. kBusy: a program
/// writes it, and so has an index.
Status RecoverIndex(io::FileSystem& fs, const std::string& place, const std::string& name,
                    uint32_t rank);
/// Walks a part's log as a writer does at Open; with `check_data` also verifies the data's
/// checksums, even of versions that no reader sees. A writer may continue meanwhile and does not
/// wait. Nothing is written.
///
/// Errors  kCorruption: commits are missing or damaged, so that no program can open it. kBusy: the
///         writer removes commits faster than they can be read.
Status CheckLog(io::FileSystem& fs, const std::string& place, const std::string& name,
                uint32_t rank, bool check_data);

}  // namespace quire::stream
