#include "stream/log/delta.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_asserts.h"

namespace quire::stream::delta_test {
namespace {

constexpr uint64_t kBytes = 5000;

// Applies a packed delta of one block, of which only `data_bytes` are present.
Status ApplyPackedBlock(uint64_t data_bytes) {
  const std::string table = EncodeRuns({{0, 1}});
  const std::string data(data_bytes, 'd');
  const Result<std::string> packed = Pack({table, data});
  EXPECT_OK(packed.status());
  VersionEntry entry;
  entry.bytes = kBytes;
  entry.stored = packed->size();
  entry.delta = true;
  entry.packed = true;
  entry.checksum = DataHash(*packed);
  std::string object(kBytes, 'o');
  const Status applied = Apply(entry, packed->data(), object.data());
  if (applied.ok()) {
    EXPECT_EQ(object, std::string(kBlockBytes, 'd') + std::string(kBytes - kBlockBytes, 'o'));
  }
  return applied;
}

TEST(Delta, APackedOneHasTheBytesOfItsRunsAndNoOthers) {
  EXPECT_OK(ApplyPackedBlock(kBlockBytes));
  for (const uint64_t bytes :
       {kBlockBytes - 63, kBlockBytes - 1, kBlockBytes + 1, kBlockBytes * 2}) {
    EXPECT_CODE(ApplyPackedBlock(bytes), Code::kCorruption);
  }
}

}  // namespace
}  // namespace quire::stream::delta_test
