// Arbitrary bytes as a file of values: what is read lies within the epoch, and is what is there.
//
// Input: one byte of choices, u16 the place of the value, then the file. Choice bit 0: the checksum
// of the value is made right first. Bit 1: the epoch ends behind the file, which was cut off.
#include <cstdint>
#include <memory>
#include <string>

#include "base/core/check.h"
#include "base/hash/hash.h"
#include "base/text/coding.h"
#include "dataset/part/value_file.h"
#include "io/sim/sim_file_system.h"

namespace quire::dataset {
namespace {

constexpr char kPath[] = "/part-3.values";
constexpr uint64_t kSeed = 12345;
constexpr uint64_t kCutOffBytes = 1 << 16;
constexpr size_t kChecksumBytes = 4;

// Returns what a reader of the whole file in memory finds; null if there is no whole value.
const char* ValueAt(const std::string& file, uint64_t offset, uint64_t* size) {
  if (offset >= file.size()) return nullptr;
  const char* const end = file.data() + file.size();
  const char* const value = base::DecodeVarint(file.data() + offset, end, size);
  if (value == nullptr) return nullptr;
  const auto left = static_cast<uint64_t>(end - value);
  return left >= kChecksumBytes && *size <= left - kChecksumBytes ? value : nullptr;
}

void Run(std::string file, uint64_t offset, bool forge, bool cut_off) {
  uint64_t size = 0;
  const char* const value = ValueAt(file, offset, &size);
  bool sound = false;
  if (value != nullptr) {
    const auto right = static_cast<uint32_t>(base::Checksum(Slice(value, size), kSeed));
    char* const checksum = file.data() + (value - file.data()) + size;
    if (forge) base::StoreLe(checksum, right);
    sound = base::LoadLe<uint32_t>(checksum) == right;
  }
  const std::unique_ptr<io::SimFileSystem> fs = io::NewSimFileSystem();
  const auto written = fs->Open(kPath, io::FileOpenMode::kCreate);
  QUIRE_CHECK(written.ok() && (*written)->WriteAt(0, file).ok());
  const uint64_t end = file.size() + (cut_off ? kCutOffBytes : 0);
  std::string read = "before";
  const Status status = ReadValue(**written, kSeed, offset, end, &read);
  if (!status.ok()) QUIRE_CHECK(status.code() == Code::kCorruption && read == "before");
  // If the epoch ends behind the end of the file, the first piece that is read may, too.
  QUIRE_CHECK(status.ok() ? sound : !sound || cut_off);
  if (status.ok()) QUIRE_CHECK(Slice(read) == Slice(value, size));
}

}  // namespace
}  // namespace quire::dataset

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const char* const bytes = reinterpret_cast<const char*>(data);
  const auto offset = quire::base::LoadLe<uint16_t>(bytes + 1);
  quire::dataset::Run(std::string(bytes + 3, size - 3), offset, (data[0] & 1) != 0,
                      (data[0] & 2) != 0);
  return 0;
}
