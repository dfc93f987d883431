/// LZ4 and Zstandard for data blocks.
///
/// Layer      table
/// Encoding   docs/format/table.md, "Data block"
/// Threads    Compressor: one thread. Decompress: any.
#pragma once

#include <cstdint>
#include <memory>

#include "quire/options.h"
#include "quire/slice.h"
#include "quire/status.h"
#include "table/buffer.h"

struct ZSTD_CCtx_s;

namespace quire::table {

/// How a block's contents lie in the file: the byte behind them.
enum class BlockForm : uint8_t { kRaw = 0, kLz4 = 1, kZstd = 2 };

/// Blocks larger than this are stored raw, so that a damaged size asks for no more memory.
constexpr uint64_t kCompressedRawBytesMax = 64ull << 20;

class Compressor {
 public:
  explicit Compressor(Compression compression);
  ~Compressor();
  /// The compressed form of `raw` (with its size in front), good until the next call. Null: raw is
  /// what to store.
  const Buffer* Compress(Slice raw);
  /// The result of Compress.
  BlockForm form() const { return form_; }

 private:
  size_t CompressTo(char* to, size_t room, Slice raw);

  BlockForm form_;
  ZSTD_CCtx_s* zstd_ = nullptr;
  Buffer compressed_;
};

/// The size of the raw contents that `stored` (form kLz4 or kZstd) says it has; *body is what
/// follows. False: damaged.
bool RawSize(Slice stored, uint64_t* raw_size, Slice* body);
/// Exactly `raw_size` bytes at `to` from `body`: kOk, kCorruption (damaged) or kOutOfMemory.
Code Decompress(BlockForm form, Slice body, char* to, uint64_t raw_size);

}  // namespace quire::table
