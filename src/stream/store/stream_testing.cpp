#include "stream/store/stream_testing.h"

#include <algorithm>

#include "base/hash/hash.h"
#include "stream/store/local_reader.h"
#include "stream/store/writer.h"

namespace quire::stream {

std::string BytesOf(Slice key, uint64_t version, uint64_t size) {
  std::string bytes(size, '\0');
  const uint64_t seed = base::HashKey(key);
  for (uint64_t at = 0; at < size; at += sizeof(uint64_t)) {
    const uint64_t block = at / 256;
    // Each block changes after a number of versions of its own; the first one changes in each
    // version.
    const uint64_t age = block == 0 ? version : version / (1 + block % 5);
    const uint64_t word = (seed + age * 0x9E3779B97F4A7C15 + at) * 0xFF51AFD7ED558CCD;
    std::copy_n(reinterpret_cast<const char*>(&word), std::min<uint64_t>(8, size - at),
                bytes.data() + at);
  }
  return bytes;
}

void Compute(char* memory, Slice key, uint64_t version, uint64_t size) {
  BytesOf(key, version, size).copy(memory, size);
}

StreamMachine::StreamMachine() : fs_(io::NewSimFileSystem()) {}

Result<std::unique_ptr<StreamWriter>> StreamMachine::Write(const StreamOptions& options) {
  return OpenWriter(*fs_, "/place", "store", 0, options);
}

Result<std::unique_ptr<StreamReader>> StreamMachine::Read() {
  return OpenLocalReader(*fs_, "/place", "store", 0);
}

StreamOptions SmallLog(uint64_t log_bytes) {
  StreamOptions options;
  options.log_bytes = log_bytes;
  options.objects_max = 16;
  return options;
}

}  // namespace quire::stream
