/// The data of a version: all bytes of an object, or the changed blocks and their numbers; either
/// may be packed by LZ4. The functions here check and decode it.
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

/// Returns the bytes that a run covers in an object of `bytes`: the object's last block may be
/// short.
uint64_t RunBytes(const BlockRun& run, uint64_t bytes);
/// Returns the table in front of a delta's blocks, padded to whole cache lines.
std::string EncodeRuns(const std::vector<BlockRun>& runs);
/// Decodes such a table. kCorruption: EncodeRuns did not write it for an object of `bytes`.
/// `table_bytes`: becomes its size.
Result<std::vector<BlockRun>> DecodeRuns(Slice stored, uint64_t bytes, uint64_t* table_bytes);
/// Returns the size of an unpacked delta: the table and the blocks, each run at a cache line.
uint64_t DeltaBytes(const std::vector<BlockRun>& runs, uint64_t bytes);

/// Returns the checksum of contiguous bytes: of a whole version, or of an object's content.
uint64_t DataHash(Slice bytes);
/// Checks an object's bytes. kCorruption: the entry contains the hash of the whole object, and
/// these bytes have a different one.
Status CheckContent(const VersionEntry& entry, const char* bytes);
/// Verifies the checksum of the bytes stored at `data`. It is computed over their pieces in order,
/// each with the hash of the previous one as its seed (whole or packed: one piece; a delta: table
/// and runs).
Status CheckStored(const VersionEntry& entry, const char* data);
/// Copies a version to `to`, which has room for entry.bytes; a delta over the previous version,
/// which must be there. The bytes are verified during the copy: on kCorruption the content of `to`
/// is undefined.
Status Apply(const VersionEntry& entry, const char* data, char* to);

/// Returns `raw` packed; empty if that is not smaller. kOutOfMemory.
Result<std::string> Pack(const std::vector<Slice>& raw);
/// Returns the unpacked bytes. kCorruption: Pack did not make `packed`, or it has more than
/// `bytes_max` bytes unpacked.
Result<std::string> Unpack(Slice packed, uint64_t bytes_max);

}  // namespace quire::stream
