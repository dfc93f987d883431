#include "base/text/coding.h"

#include <bit>

namespace quire::base {
namespace {

constexpr int kVarintBytesMax = 10;

}  // namespace

char* EncodeVarint(char* to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

const char* DecodeVarint(const char* from, const char* end, uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 64 && from < end; shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(*from++);
    if (shift == 63 && byte > 1) return nullptr;  // more than 64 bits
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return from;
    }
  }
  return nullptr;
}

int VarintSize(uint64_t value) { return (static_cast<int>(std::bit_width(value | 1)) + 6) / 7; }

void PutVarint(std::string* to, uint64_t value) {
  char buffer[kVarintBytesMax];
  to->append(buffer, static_cast<size_t>(EncodeVarint(buffer, value) - buffer));
}

void PutLengthPrefixed(std::string* to, Slice bytes) {
  PutVarint(to, bytes.size());
  to->append(bytes);
}

bool ByteReader::Varint(uint64_t* value) {
  if (!ok_) return false;
  const char* begin = rest_.data();
  const char* after = DecodeVarint(begin, begin + rest_.size(), value);
  if (after == nullptr) return ok_ = false;
  rest_.remove_prefix(static_cast<size_t>(after - begin));
  return true;
}

bool ByteReader::Bytes(uint64_t size, Slice* bytes) {
  if (!ok_ || size > rest_.size()) return ok_ = false;
  *bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

bool ByteReader::LengthPrefixed(Slice* bytes) {
  uint64_t size = 0;
  return Varint(&size) && Bytes(size, bytes);
}

uint64_t KeyPrefix(Slice key) {
  uint64_t prefix = 0;
  if (key.size() >= sizeof prefix) {
    prefix = LoadLe<uint64_t>(key.data());
  } else if (!key.empty()) {
    std::memcpy(&prefix, key.data(), key.size());
  }
  return __builtin_bswap64(prefix);
}

}  // namespace quire::base
