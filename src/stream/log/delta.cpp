#include "stream/log/delta.h"

#include <algorithm>
#include <cstring>

#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "io/memory/streaming_stores.h"

namespace quire::stream {
namespace {

uint64_t BlockCount(uint64_t bytes) {
  return AlignUp(bytes, kBlockBytes) / kBlockBytes;
}
uint64_t TableBytes(uint64_t run_count) {
  return AlignUp((1 + 2 * run_count) * sizeof(uint64_t), kRecordBytes);
}

Status DamagedDelta(const VersionEntry& entry, const char* what) {
  return Status(Code::kCorruption, "version " + std::to_string(entry.version) +
                                       " of an object, at " + std::to_string(entry.data) + ": " +
                                       what);
}

// Visits the runs of a delta in order: calls `piece` with the place where the run is stored, its
// place in the object, and its size.
template <typename Piece>
void EachRun(const std::vector<BlockRun>& runs, uint64_t table_bytes, const VersionEntry& entry,
             const Piece& piece) {
  uint64_t at = table_bytes;
  for (const BlockRun& run : runs) {
    const uint64_t size = RunBytes(run, entry.bytes);
    piece(at, run.first * kBlockBytes, size);
    at += AlignUp(size, kRecordBytes);
  }
}

bool HasRoomFor(const std::vector<BlockRun>& runs, const VersionEntry& entry) {
  return DeltaBytes(runs, entry.bytes) == entry.stored;
}

Status ApplyPacked(const VersionEntry& entry, const char* data, char* to) {
  QUIRE_RETURN_IF_ERROR(CheckStored(entry, data));
  const uint64_t raw_max = entry.bytes + TableBytes(BlockCount(entry.bytes)) + kRecordBytes;
  QUIRE_ASSIGN_OR_RETURN(const std::string raw, Unpack(Slice(data, entry.stored), raw_max));
  if (!entry.delta) {
    if (raw.size() != entry.bytes) return DamagedDelta(entry, "it has another size");
    std::memcpy(to, raw.data(), raw.size());
    return Status();
  }
  uint64_t table_bytes = 0;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<BlockRun> runs,
                         DecodeRuns(raw, entry.bytes, &table_bytes));
  // The runs follow each other, each padded to whole lines except the last.
  uint64_t end = table_bytes;
  EachRun(runs, table_bytes, entry,
          [&](uint64_t from, uint64_t, uint64_t size) { end = from + size; });
  if (end != raw.size()) return DamagedDelta(entry, "its runs have another size");
  EachRun(runs, table_bytes, entry, [&](uint64_t from, uint64_t at, uint64_t size) {
    std::memcpy(to + at, raw.data() + from, size);
  });
  return Status();
}

}  // namespace

uint64_t RunBytes(const BlockRun& run, uint64_t bytes) {
  return std::min((run.first + run.count) * kBlockBytes, bytes) - run.first * kBlockBytes;
}

std::string EncodeRuns(const std::vector<BlockRun>& runs) {
  std::string table;
  table.reserve(TableBytes(runs.size()));
  base::PutFixed<uint64_t>(&table, runs.size());
  for (const BlockRun& run : runs) {
    base::PutFixed<uint64_t>(&table, run.first);
    base::PutFixed<uint64_t>(&table, run.count);
  }
  table.resize(TableBytes(runs.size()));
  return table;
}

Result<std::vector<BlockRun>> DecodeRuns(Slice stored, uint64_t bytes, uint64_t* table_bytes) {
  const Status damaged(Code::kCorruption, "the runs of a delta are damaged");
  const uint64_t block_count = BlockCount(bytes);
  base::ByteReader reader(stored);
  uint64_t count = 0;
  if (!reader.Fixed(&count) || count > block_count || TableBytes(count) > stored.size()) {
    return damaged;
  }
  std::vector<BlockRun> runs(count);
  uint64_t end = 0;
  for (BlockRun& run : runs) {
    if (!reader.Fixed(&run.first) || !reader.Fixed(&run.count) || run.first < end ||
        run.first >= block_count || run.count == 0 || run.count > block_count - run.first) {
      return damaged;
    }
    end = run.first + run.count;
  }
  *table_bytes = TableBytes(count);
  return runs;
}

uint64_t DeltaBytes(const std::vector<BlockRun>& runs, uint64_t bytes) {
  uint64_t total = TableBytes(runs.size());
  for (const BlockRun& run : runs) total += AlignUp(RunBytes(run, bytes), kRecordBytes);
  return total;
}

uint64_t DataHash(Slice bytes) {
  return base::Checksum(bytes, DataSeed());
}

Status CheckContent(const VersionEntry& entry, const char* bytes) {
  if (!entry.has_content_hash || DataHash(Slice(bytes, entry.bytes)) == entry.content_hash) {
    return Status();
  }
  return DamagedDelta(entry, "put together it is not what it was");
}

Status CheckStored(const VersionEntry& entry, const char* data) {
  const uint64_t seed = DataSeed();
  const Slice stored(data, entry.stored);
  const auto damaged = [&] { return DamagedDelta(entry, "its bytes are damaged"); };
  if (!entry.delta || entry.packed) {
    return base::Checksum(stored, seed) == entry.checksum ? Status() : damaged();
  }
  uint64_t table_bytes = 0;
  const Result<std::vector<BlockRun>> runs = DecodeRuns(stored, entry.bytes, &table_bytes);
  if (!runs.ok() || !HasRoomFor(*runs, entry)) return damaged();
  uint64_t hash = base::Checksum(stored.substr(0, table_bytes), seed);
  EachRun(*runs, table_bytes, entry, [&](uint64_t at, uint64_t, uint64_t size) {
    hash = base::Checksum(stored.substr(at, size), hash);
  });
  return hash == entry.checksum ? Status() : damaged();
}

Status Apply(const VersionEntry& entry, const char* data, char* to) {
  if (entry.packed) return ApplyPacked(entry, data, to);
  const uint64_t seed = DataSeed();
  const auto damaged = [&] { return DamagedDelta(entry, "its bytes are damaged"); };
  if (!entry.delta) {
    if (entry.stored != entry.bytes) return DamagedDelta(entry, "it has another size");
    return io::CopyHashed(to, data, entry.bytes, seed) == entry.checksum ? Status() : damaged();
  }
  uint64_t table_bytes = 0;
  const Slice stored(data, entry.stored);
  const Result<std::vector<BlockRun>> runs = DecodeRuns(stored, entry.bytes, &table_bytes);
  if (!runs.ok() || !HasRoomFor(*runs, entry)) return damaged();
  uint64_t hash = base::Checksum(stored.substr(0, table_bytes), seed);
  EachRun(*runs, table_bytes, entry, [&](uint64_t from, uint64_t at, uint64_t size) {
    hash = io::CopyHashed(to + at, data + from, size, hash);
  });
  return hash == entry.checksum ? Status() : damaged();
}

}  // namespace quire::stream
