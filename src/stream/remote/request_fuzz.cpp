// Arbitrary bytes as requests and answers about streams: decoded values are within their bounds,
// and do not change if they are encoded and decoded again.
//
// Input: one byte that chooses the decoder, then the bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "base/core/check.h"
#include "io/files/file_system.h"
#include "stream/remote/request.h"

namespace quire::stream {
namespace {

void RunRequest(Slice bytes) {
  const auto request = DecodeRequest(bytes);
  if (!request.ok()) return;
  QUIRE_CHECK(request->timeout_ms <= kWaitMsMax && request->key.size() <= kKeyBytesMax);
  if (request->operation != RequestOperation::kRegister) {
    QUIRE_CHECK(io::CheckName(request->part.store).ok());
  }
  const std::string encoded = EncodeRequest(*request);
  const auto again = DecodeRequest(encoded);
  QUIRE_CHECK(again.ok() && EncodeRequest(*again) == encoded);
}

void RunAnswer(Slice bytes) {
  const auto body = DecodeAnswer(bytes);
  if (body.ok()) QUIRE_CHECK(bytes.ends_with(*body));
}

void RunBody(uint8_t choice, Slice bytes) {
  if (choice == 2) {
    const auto state = DecodeState(bytes);
    if (state.ok()) QUIRE_CHECK(DecodeState(EncodeState(*state)).ok());
  } else if (choice == 3) {
    const auto objects = DecodeObjects(bytes);
    if (objects.ok()) QUIRE_CHECK(objects->keys.size() <= bytes.size());
  } else if (choice == 4) {
    const auto versions = DecodeVersions(bytes);
    if (versions.ok()) QUIRE_CHECK(versions->versions.size() <= bytes.size());
  } else {
    const auto fetch = DecodeFetch(bytes);
    if (fetch.ok()) {
      QUIRE_CHECK(fetch->version.version > 0 && fetch->version.shape.extents.size() <= 8);
      QUIRE_CHECK(DecodeFetch(EncodeFetch(*fetch)).ok());
    }
  }
}

}  // namespace
}  // namespace quire::stream

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // A copy of exactly the size, so that the sanitizer sees every access beyond it.
  const std::vector<char> bytes(data + 1, data + size);
  const quire::Slice input(bytes.data(), bytes.size());
  switch (data[0] % 6) {
    case 0:
      quire::stream::RunRequest(input);
      break;
    case 1:
      quire::stream::RunAnswer(input);
      break;
    default:
      quire::stream::RunBody(data[0] % 6, input);
  }
  return 0;
}
