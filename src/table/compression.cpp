#include "table/compression.h"

#include <lz4.h>
#include <zstd.h>

#include "base/text/coding.h"

namespace quire::table {
namespace {

constexpr int kZstdLevel = 1;  // tables are rewritten by compaction: speed counts twice
constexpr size_t kSizeBytesMax = 10;

BlockForm FormOf(Compression compression) {
  switch (compression) {
    case Compression::kLz4:
      return BlockForm::kLz4;
    case Compression::kZstd:
      return BlockForm::kZstd;
    case Compression::kNone:
      break;
  }
  return BlockForm::kRaw;
}

// Making a context costs more than decompressing a block with it.
ZSTD_DCtx* ThreadZstd() {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  thread_local std::unique_ptr<ZSTD_DCtx, Free> context;
  if (context == nullptr) context.reset(ZSTD_createDCtx());
  return context.get();
}

}  // namespace

Compressor::Compressor(Compression compression) : form_(FormOf(compression)) {
  if (form_ == BlockForm::kZstd) zstd_ = ZSTD_createCCtx();
}

Compressor::~Compressor() {
  ZSTD_freeCCtx(zstd_);
}

size_t Compressor::CompressTo(char* to, size_t room, Slice raw) {
  if (form_ == BlockForm::kLz4) {
    const int size =
        LZ4_compress_default(raw.data(), to, static_cast<int>(raw.size()), static_cast<int>(room));
    return size > 0 ? static_cast<size_t>(size) : 0;
  }
  if (zstd_ == nullptr) return 0;
  const size_t size = ZSTD_compressCCtx(zstd_, to, room, raw.data(), raw.size(), kZstdLevel);
  return ZSTD_isError(size) != 0 ? 0 : size;
}

const Buffer* Compressor::Compress(Slice raw) {
  if (form_ == BlockForm::kRaw || raw.size() > kCompressedRawBytesMax) return nullptr;
  compressed_.Clear();
  // Room for less than seven eighths: what does not fit is not worth its decompression.
  const size_t room = raw.size() - raw.size() / 8;
  char* const to = compressed_.Reserve(kSizeBytesMax + room);
  const auto size_bytes = static_cast<size_t>(base::EncodeVarint(to, raw.size()) - to);
  if (size_bytes >= room) return nullptr;
  const size_t size = CompressTo(to + size_bytes, room - size_bytes, raw);
  if (size == 0) return nullptr;
  compressed_.Commit(size_bytes + size);
  return &compressed_;
}

bool RawSize(Slice stored, uint64_t* raw_size, Slice* body) {
  base::ByteReader reader(stored);
  if (!reader.Varint(raw_size) || *raw_size > kCompressedRawBytesMax) return false;
  *body = reader.rest();
  return true;
}

Code Decompress(BlockForm form, Slice body, char* to, uint64_t raw_size) {
  uint64_t size = 0;
  if (form == BlockForm::kLz4) {
    // No body of bounded raw contents can be longer than this; then it also fits an int.
    const auto body_max = static_cast<size_t>(LZ4_compressBound(static_cast<int>(raw_size)));
    if (body.size() > body_max) return Code::kCorruption;
    const int written = LZ4_decompress_safe(body.data(), to, static_cast<int>(body.size()),
                                            static_cast<int>(raw_size));
    if (written < 0) return Code::kCorruption;
    size = static_cast<uint64_t>(written);
  } else if (form == BlockForm::kZstd) {
    ZSTD_DCtx* const context = ThreadZstd();
    if (context == nullptr) return Code::kOutOfMemory;
    size = ZSTD_decompressDCtx(context, to, raw_size, body.data(), body.size());
    if (ZSTD_isError(size) != 0) return Code::kCorruption;
  } else {
    return Code::kCorruption;
  }
  return size == raw_size ? Code::kOk : Code::kCorruption;
}

}  // namespace quire::table
