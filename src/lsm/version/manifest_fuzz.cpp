// DecodeManifest of arbitrary bytes: an error or a manifest, never more; what it accepts is the
// same after encoding.
//
// Input: a manifest file. If it begins with "S", the rest gets a header with the right size and
// checksum, so that the fields behind it are reached.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "lsm/version/manifest.h"

namespace quire::lsm {
namespace {

// The fields before the sizes are those of docs/format/manifest.md, "Header".
std::string Sealed(Slice payload) {
  const std::string valid = EncodeManifest(Manifest());
  constexpr size_t kSizeOffset = 40;
  std::string bytes = valid.substr(0, kSizeOffset);
  base::PutFixed(&bytes, uint64_t{payload.size()});
  base::PutFixed(&bytes,
                 base::ChecksumParts(bytes, {}, payload,
                                     base::ChecksumSeed(base::ChecksumKind::kManifest, 0, 0)));
  return bytes + std::string(payload);
}

void Run(Slice input) {
  const bool seal = !input.empty() && input[0] == 'S';
  const std::string bytes = seal ? Sealed(input.substr(1)) : std::string(input);
  const Result<Manifest> manifest = DecodeManifest(bytes, "MANIFEST");
  if (!manifest.ok()) {
    QUIRE_CHECK(manifest.status().message().find("MANIFEST") != std::string::npos);
    return;
  }
  const std::string encoded = EncodeManifest(*manifest);
  const Result<Manifest> again = DecodeManifest(encoded, "MANIFEST");
  QUIRE_CHECK(again.ok() && EncodeManifest(*again) == encoded);
  QUIRE_CHECK(again->runs.size() == manifest->runs.size());
}

}  // namespace
}  // namespace quire::lsm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::lsm::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
