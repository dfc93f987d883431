/// The data of a version: all bytes of an object, or the changed blocks and their numbers; either
/// may be packed by LZ4. Checked and laid out again here.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 5.2 (delta-compression)
/// Encoding   docs/format/stream.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stream/log/log_format.h"
#include "stream/changes/tracker.h"

namespace quire::stream {

/// [bytes] of an object of `bytes` that a run covers: its last block may be short.
uint64_t RunBytes(const BlockRun& run, uint64_t bytes);
/// The table in front of a delta's blocks, padded to whole lines.
std::string EncodeRuns(const std::vector<BlockRun>& runs);
/// kCorruption: not what EncodeRuns wrote for an object of `bytes`. `table_bytes`: its size.
Result<std::vector<BlockRun>> DecodeRuns(Slice stored, uint64_t bytes, uint64_t* table_bytes);
/// The size of an unpacked delta: table and blocks, each run at a cache line.
uint64_t DeltaBytes(const std::vector<BlockRun>& runs, uint64_t bytes);

/// The checksum of bytes in one piece: of a whole version, and of what an object holds.
uint64_t DataHash(Slice bytes);
/// kCorruption: the entry says what all of the object hashes to, and these bytes do not.
Status CheckContent(const VersionEntry& entry, const char* bytes);
/// Compares the checksum of what is stored at `data`: of its pieces one after another, each under
/// the hash of the one before as its seed (whole, packed: one piece; a delta: table and runs).
Status CheckStored(const VersionEntry& entry, const char* data);
/// Lays a version into `to`, which has entry.bytes; of a delta over what is there, which must be
/// the version before. Checked while it is copied: on kCorruption anything may stand in `to`.
Status Apply(const VersionEntry& entry, const char* data, char* to);

/// `raw` packed; empty where that makes it no smaller. kOutOfMemory.
Result<std::string> Pack(const std::vector<Slice>& raw);
/// kCorruption: `packed` is not of Pack, or of more than `bytes_max`.
Result<std::string> Unpack(Slice packed, uint64_t bytes_max);

}  // namespace quire::stream
