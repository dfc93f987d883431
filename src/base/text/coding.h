/// Little-endian integers and varints in byte strings, and a reader that checks every length.
///
/// Layer      base
/// Threads    pure functions; a ByteReader belongs to one thread
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "quire/slice.h"

namespace quire::base {

template <typename T>
T LoadLe(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;  // Quire runs on little-endian machines; io/machine checks that at start.
}
template <typename T>
void StoreLe(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// Appends the little-endian bytes of `value`.
template <typename T>
void PutFixed(std::string* to, T value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof value);
}
/// Appends `value` in 7-bit groups, least significant first (1 to 10 bytes).
void PutVarint(std::string* to, uint64_t value);
/// Appends a varint length and the bytes.
void PutLengthPrefixed(std::string* to, Slice bytes);
/// Returns the number of bytes that PutVarint would append.
int VarintSize(uint64_t value);
/// Writes a varint at `to`, which has room for 10 bytes; returns the end.
char* EncodeVarint(char* to, uint64_t value);
/// Reads a varint from [from, end); returns the byte after it, or nullptr if it is truncated or too
/// long.
const char* DecodeVarint(const char* from, const char* end, uint64_t* value);

/// Reads fields off the front of a byte string. After the first failure every further read fails.
class ByteReader {
 public:
  explicit ByteReader(Slice bytes) : rest_(bytes) {}
  template <typename T>
  bool Fixed(T* value) {
    if (!ok_ || rest_.size() < sizeof(T)) return ok_ = false;
    *value = LoadLe<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return true;
  }
  bool Varint(uint64_t* value);
  /// Reads exactly `size` bytes, as a view into the input.
  bool Bytes(uint64_t size, Slice* bytes);
  bool LengthPrefixed(Slice* bytes);
  bool ok() const { return ok_; }
  Slice rest() const { return rest_; }

 private:
  Slice rest_;
  bool ok_ = true;
};

/// Returns the first 8 bytes of `key` as a big-endian number, zero-padded: numbers compare like the
/// bytes, except that different keys may have equal numbers.
uint64_t KeyPrefix(Slice key);

}  // namespace quire::base
