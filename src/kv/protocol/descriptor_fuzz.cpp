// DecodeDescriptor of arbitrary text: an error that names the file, or a descriptor that is the
// same after encoding.
//
// Input: the file DATABASE. If it begins with "S", the rest gets a valid first line and a valid
// checksum, so that the lines between them are reached.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "kv/protocol/descriptor.h"

namespace quire::kv {
namespace {

// docs/format/database.md, "The descriptor".
std::string Sealed(Slice lines) {
  const std::string text = "quire database 1\n" + std::string(lines) + "\n";
  const uint64_t checksum =
      base::Checksum(text, base::ChecksumSeed(base::ChecksumKind::kManifest, 0, 0));
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(checksum));
  return text + "checksum = " + digits + "\n";
}

void Run(Slice input) {
  const bool seal = !input.empty() && input[0] == 'S';
  const std::string text = seal ? Sealed(input.substr(1)) : std::string(input);
  const Result<DatabaseDescriptor> descriptor = DecodeDescriptor(text, "DATABASE");
  if (!descriptor.ok()) {
    QUIRE_CHECK(descriptor.status().message().find("DATABASE") != std::string::npos);
    return;
  }
  QUIRE_CHECK(!descriptor->generations.empty());
  for (const Generation& generation : descriptor->generations) {
    QUIRE_CHECK(generation.rank_count > 0 && !generation.partitioner.empty());
  }
  const std::string encoded = EncodeDescriptor(*descriptor);
  const Result<DatabaseDescriptor> again = DecodeDescriptor(encoded, "DATABASE");
  QUIRE_CHECK(again.ok() && again->state == descriptor->state);
  QUIRE_CHECK(again->generations.size() == descriptor->generations.size());
  QUIRE_CHECK(EncodeDescriptor(*again) == encoded);
}

}  // namespace
}  // namespace quire::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::kv::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
