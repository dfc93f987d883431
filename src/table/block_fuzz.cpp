// Arbitrary bytes as the contents of a data block, raw or compressed: what ValidateBlock accepts is
// read within bounds and is sorted; each of its entries is found.
//
// Input: one byte (form of the block, as in the file), then the stored contents.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "table/block.h"
#include "table/compression.h"

namespace quire::table {
namespace {

// In memory of exactly the size that a block may take: the sanitizer sees every step beyond it.
struct Contents {
  Contents(Slice bytes, size_t room)
      : memory(new char[room + kBlockSlackBytes]()), size(bytes.size()) {
    if (!bytes.empty()) std::memcpy(memory.get(), bytes.data(), bytes.size());
  }
  std::unique_ptr<char[]> memory;
  size_t size;
};

void ReadBlock(Slice contents) {
  BlockKeys keys;
  if (ValidateBlock(contents, &keys) != nullptr) return;
  const BlockView view(contents);
  std::string last_key;
  uint64_t last_lsn = 0;
  for (uint32_t i = 0; i < view.count(); ++i) {
    const BlockEntry entry = view.Entry(i);
    const std::string key = std::string(view.prefix()) + std::string(entry.suffix);
    QUIRE_CHECK(i == 0 || key > last_key || (key == last_key && entry.lsn < last_lsn));
    BlockEntry found;
    bool passed = false;
    QUIRE_CHECK(view.FindBinary(key, entry.lsn, &found) && found.value == entry.value);
    QUIRE_CHECK(view.FindTagged(key, view.tag(i), entry.lsn, &found));
    QUIRE_CHECK(view.FindSequential(key, entry.lsn, &found, &passed) && found.value == entry.value);
    last_key = key;
    last_lsn = entry.lsn;
  }
}

void ReadStored(BlockForm form, Slice stored) {
  if (form == BlockForm::kRaw) {
    const Contents contents(stored, stored.size());
    return ReadBlock(Slice(contents.memory.get(), contents.size));
  }
  uint64_t raw_size = 0;
  Slice body;
  if (!RawSize(stored, &raw_size, &body) || raw_size > (1 << 20)) return;
  const Contents contents(Slice(), raw_size);
  if (Decompress(form, body, contents.memory.get(), raw_size) == Code::kOk) {
    ReadBlock(Slice(contents.memory.get(), raw_size));
  }
}

}  // namespace
}  // namespace quire::table

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  quire::table::ReadStored(static_cast<quire::table::BlockForm>(data[0] % 4),
                           quire::Slice(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
