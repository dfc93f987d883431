#include <lz4.h>

#include <algorithm>
#include <new>

#include "base/text/coding.h"
#include "stream/log/delta.h"

namespace quire::stream {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr uint32_t kUnpacked = 1u << 31;  // a chunk that LZ4 makes no smaller

Status DamagedPacking() {
  return Status(Code::kCorruption, "packed bytes are damaged");
}

void PackChunk(Slice raw, std::string* packed) {
  const size_t at = packed->size();
  const int bound = LZ4_compressBound(static_cast<int>(raw.size()));
  packed->resize(at + sizeof(uint32_t) + static_cast<size_t>(bound));
  char* const to = packed->data() + at + sizeof(uint32_t);
  int size = LZ4_compress_default(raw.data(), to, static_cast<int>(raw.size()), bound);
  uint32_t head = static_cast<uint32_t>(size);
  if (size <= 0 || static_cast<size_t>(size) >= raw.size()) {
    raw.copy(to, raw.size());
    size = static_cast<int>(raw.size());
    head = static_cast<uint32_t>(size) | kUnpacked;
  }
  base::StoreLe<uint32_t>(packed->data() + at, head);
  packed->resize(at + sizeof(uint32_t) + static_cast<size_t>(size));
}

bool UnpackChunk(base::ByteReader* reader, char* to, uint64_t size) {
  uint32_t head = 0;
  Slice packed;
  if (!reader->Fixed(&head) || !reader->Bytes(head & ~kUnpacked, &packed)) return false;
  if ((head & kUnpacked) != 0) {
    packed.copy(to, std::min<uint64_t>(size, packed.size()));
    return packed.size() == size;
  }
  const int got = LZ4_decompress_safe(packed.data(), to, static_cast<int>(packed.size()),
                                      static_cast<int>(size));
  return got >= 0 && static_cast<uint64_t>(got) == size;
}

}  // namespace

Result<std::string> Pack(const std::vector<Slice>& raw) {
  try {
    uint64_t raw_bytes = 0;
    for (const Slice piece : raw) raw_bytes += piece.size();
    std::string packed;
    base::PutFixed<uint64_t>(&packed, raw_bytes);
    std::string chunk;
    for (Slice piece : raw) {
      while (!piece.empty()) {
        const size_t part = std::min<size_t>(piece.size(), kChunkBytes - chunk.size());
        chunk.append(piece.substr(0, part));
        piece.remove_prefix(part);
        if (chunk.size() < kChunkBytes) continue;
        PackChunk(chunk, &packed);
        chunk.clear();
      }
    }
    if (!chunk.empty()) PackChunk(chunk, &packed);
    if (packed.size() >= raw_bytes) packed.clear();
    return packed;
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory to pack a version");
  }
}

Result<std::string> Unpack(Slice packed, uint64_t bytes_max) {
  base::ByteReader reader(packed);
  uint64_t raw_bytes = 0;
  if (!reader.Fixed(&raw_bytes) || raw_bytes > bytes_max) return DamagedPacking();
  try {
    std::string raw(raw_bytes, '\0');
    for (uint64_t at = 0; at < raw_bytes; at += kChunkBytes) {
      const uint64_t size = std::min(kChunkBytes, raw_bytes - at);
      if (!UnpackChunk(&reader, raw.data() + at, size)) return DamagedPacking();
    }
    if (!reader.rest().empty()) return DamagedPacking();
    return raw;
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "no memory to unpack a version");
  }
}

}  // namespace quire::stream
