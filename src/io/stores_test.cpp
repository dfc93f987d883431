#include "io/stores.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace quire::io {
namespace {

// Lines behind and before must stay as they are.
constexpr size_t kMarginBytes = 2 * kLineBytes;
constexpr char kUntouched = '#';

void ExpectCopies(StoreKind kind, size_t size, size_t misaligned) {
  base::Random random(size * 131 + misaligned);
  std::string from(misaligned + size, '\0');
  for (char& byte : from) byte = static_cast<char>(random.Below(256));
  const size_t lines_bytes = (size + kLineBytes - 1) / kLineBytes * kLineBytes;
  std::vector<char> memory(lines_bytes + 3 * kMarginBytes, kUntouched);
  char* to = memory.data() + kMarginBytes;
  to += kLineBytes - reinterpret_cast<uintptr_t>(to) % kLineBytes;
  StoreLines(to, from.data() + misaligned, size, kind);
  WriteBack(to, lines_bytes);
  StoreFence();
  std::string expected(static_cast<size_t>(to - memory.data()), kUntouched);
  expected += from.substr(misaligned);
  expected.append(lines_bytes - size, '\0');
  expected.append(memory.size() - expected.size(), kUntouched);
  ASSERT_EQ(std::string(memory.data(), memory.size()), expected)
      << StoreKindName(kind) << ", " << size << " bytes, from " << misaligned;
}

TEST(Stores, CopyEverySizeFromEveryAddressInWholeLines) {
  for (const StoreKind kind : StoreKinds()) {
    for (size_t size = 0; size <= 3 * kLineBytes; ++size) {
      for (size_t misaligned = 0; misaligned < 17; ++misaligned) {
        ASSERT_NO_FATAL_FAILURE(ExpectCopies(kind, size, misaligned));
      }
    }
    for (const size_t size : {4096u, 65537u, 1'000'000u}) {
      ASSERT_NO_FATAL_FAILURE(ExpectCopies(kind, size, 3));
    }
  }
}

TEST(Stores, TheBestIsOneThatTheProcessorHas) {
  EXPECT_EQ(StoreKinds().front(), StoreKind::kPlain);
  EXPECT_EQ(BestStores(), StoreKinds().back());
#if defined(__x86_64__) || defined(__aarch64__)
  EXPECT_NE(BestStores(), StoreKind::kPlain);
#endif
}

}  // namespace
}  // namespace quire::io
