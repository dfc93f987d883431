#include "dataset/part/value_file.h"

#include <algorithm>

#include "base/hash/hash.h"
#include "base/text/coding.h"

namespace quire::dataset {
namespace {

constexpr uint64_t kFirstReadBytes = 4096;
constexpr uint64_t kValueBytesMax = UINT32_MAX;
constexpr size_t kChecksumBytes = 4;

uint32_t ValueChecksum(Slice value, uint64_t seed) {
  return static_cast<uint32_t>(base::Checksum(value, seed));
}

}  // namespace

std::string EncodePointer(const ValuePointer& pointer) {
  std::string bytes;
  base::PutFixed(&bytes, pointer.rank);
  base::PutFixed(&bytes, pointer.offset);
  return bytes;
}

ValuePointer DecodePointer(Slice bytes) {
  return {base::LoadLe<uint32_t>(bytes.data()), base::LoadLe<uint64_t>(bytes.data() + 4)};
}

uint64_t ValueSeed(uint64_t id, uint32_t rank, uint64_t offset) {
  return base::ChecksumSeed(base::ChecksumKind::kValue, id + rank, offset);
}

void EncodeValue(Slice value, uint64_t seed, std::string* to) {
  base::PutVarint(to, value.size());
  to->append(value);
  base::PutFixed(to, ValueChecksum(value, seed));
}

Status ReadValue(const io::File& file, uint64_t seed, uint64_t offset, uint64_t end,
                 std::string* value) {
  const auto damaged = [&](const char* why) {
    return Status(Code::kCorruption,
                  file.path() + ": the value at " + std::to_string(offset) + " " + why);
  };
  if (offset >= end) return damaged("would be behind the end of its epoch");
  std::string bytes(std::min(kFirstReadBytes, end - offset), '\0');
  QUIRE_RETURN_IF_ERROR(file.ReadAt(offset, bytes.size(), bytes.data()));
  uint64_t size = 0;
  const char* const from = base::DecodeVarint(bytes.data(), bytes.data() + bytes.size(), &size);
  if (from == nullptr || size > kValueBytesMax) return damaged("has no possible size");
  const auto head = static_cast<uint64_t>(from - bytes.data());
  const uint64_t whole = head + size + kChecksumBytes;
  if (whole > end - offset) return damaged("would end behind its epoch");
  const uint64_t read = bytes.size();
  if (whole > read) {
    bytes.resize(whole);
    QUIRE_RETURN_IF_ERROR(file.ReadAt(offset + read, whole - read, bytes.data() + read));
  }
  const Slice text = Slice(bytes).substr(head, size);
  const auto checksum = base::LoadLe<uint32_t>(bytes.data() + head + size);
  if (checksum != ValueChecksum(text, seed)) return damaged("is damaged");
  value->assign(text);
  return Status();
}

}  // namespace quire::dataset
