/// Reads a neighbour's database directly: its MemTables through shared memory, its tables and value
/// segments as files. No message, no wake-up, nothing written.
///
/// Layer      lsm
/// Source     PapyrusKV, SC17, section 2.7 (storage groups);
///            docs/decisions/0005-direct-reads.md
/// Threads    Get: any number of threads
/// Invariants the result of a Get was the key's newest value at some instant during the call: Get
///            reads the board first, and MemTables are on it before they take writes
#pragma once

#include <memory>

#include "engine/engine_kind.h"
#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::lsm {

/// Opens a reader and reads the manifest; the first Get opens the tables.
///
/// Cost  of a Get: in the MemTable about two cache misses; in tables as at the owner. The first
///       Get, and the first one after the owner changed its set of tables, also reads the owner's
///       manifest and opens its new tables.
Result<std::unique_ptr<engine::PeerReader>> OpenPeerReader(io::FileSystem& fs,
                                                           const engine::PeerAddress& address,
                                                           const engine::ReaderOptions& options);

}  // namespace quire::lsm
