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

/// The form in which a block's contents are stored: the byte behind them.
enum class BlockForm : uint8_t { kRaw = 0, kLz4 = 1, kZstd = 2 };

/// Blocks larger than this are stored raw, so that a damaged size asks for no more memory.
constexpr uint64_t kCompressedRawBytesMax = 64ull << 20;

class Compressor {
 public:
  explicit Compressor(Compression compression);
  ~Compressor();
  /// Returns the compressed form of `raw` (with its size in front), valid until the next call; null
  /// if `raw` is to be stored as it is.
  const Buffer* Compress(Slice raw);
  /// Returns the form of what Compress returned.
  BlockForm form() const { return form_; }

 private:
  size_t CompressTo(char* to, size_t room, Slice raw);

  BlockForm form_;
  ZSTD_CCtx_s* zstd_ = nullptr;
  Buffer compressed_;
};

/// Reads the size of the raw contents from the front of `stored` (form kLz4 or kZstd); *body is
/// what follows. False: damaged.
bool RawSize(Slice stored, uint64_t* raw_size, Slice* body);
/// Decompresses `body` to exactly `raw_size` bytes at `to`: kOk, kCorruption (damaged) or
/// kOutOfMemory.
Code Decompress(BlockForm form, Slice body, char* to, uint64_t raw_size);

}  // namespace quire::table
