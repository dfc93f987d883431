/// Reads a neighbour's database directly: its MemTables through shared memory, its tables and value
/// segments as files. No message, no wake-up, nothing written.
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, section 2.7 (storage groups);
///            docs/decisions/0005-direct-reads.md
/// Threads    Get: any number of threads
/// Invariants what a Get gives was the key's newest value at some instant during the call: the
///            board is looked at first, and MemTables are on it before they take writes
#pragma once

#include <memory>

#include "engine/engine_kind.h"
#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::lsm {

/// Reads the manifest; tables are opened by the first Get.
///
/// Cost  of a Get: in the MemTable about two cache misses; in tables as at the owner; at first and
///       after the owner changed its set of tables, one look at its manifest, and its new tables
///       are opened.
Result<std::unique_ptr<engine::PeerReader>> OpenPeerReader(io::FileSystem& fs,
                                                           const engine::PeerAddress& address,
                                                           const engine::ReaderOptions& options);

}  // namespace quire::lsm
