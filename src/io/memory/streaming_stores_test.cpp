#include "io/memory/streaming_stores.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/random.h"
#include "tests/support/one_page_memory.h"

namespace quire::io::streaming_stores_test {
namespace {

// Lines before and behind must stay unchanged.
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
  StreamingCopy(to, from.data() + misaligned, size, kind);
  WriteBack(to, lines_bytes);
  DrainStreamingStores();
  std::string expected(static_cast<size_t>(to - memory.data()), kUntouched);
  expected += from.substr(misaligned);
  expected.append(lines_bytes - size, '\0');
  expected.append(memory.size() - expected.size(), kUntouched);
  ASSERT_EQ(std::string(memory.data(), memory.size()), expected)
      << StoreKindName(kind) << ", " << size << " bytes, from " << misaligned;
}

TEST(Stores, EachStoreByPagesStaysInOnePageOfTheTarget) {
  test::OnePageMemory memory(4);
  const std::string from(3 * kStorePageBytes, 'f');
  for (const size_t size : {0u, 1u, 8u, 16u, 33u, 64u, 100u, 256u, 4096u, 4097u, 8200u}) {
    for (size_t before = 0; before <= 130; ++before) {
      char* const to = memory.data() + kStorePageBytes - before;
      StoreByPages(to, from.data(), size);
      ASSERT_EQ(memory.endless(), 0) << size << " bytes, " << before << " before the page's end";
      ASSERT_EQ(std::string(to, size), from.substr(0, size));
    }
  }
}

TEST(Stores, EachStoreOfWholeLinesStaysInOnePageOfTheTarget) {
  test::OnePageMemory memory(4);
  const std::string from(3 * kStorePageBytes, 'f');
  for (const StoreKind kind : StoreKinds()) {
    for (const size_t size : {64u, 100u, 4096u, 4160u, 8200u}) {
      for (size_t before = 0; before <= 256; before += kLineBytes) {
        char* const to = memory.data() + kStorePageBytes - before;
        StreamingCopy(to, from.data(), size, kind);
        static_cast<void>(StreamingCopyHashed(to, from.data(), size, 1, kind));
        DrainStreamingStores();
        ASSERT_EQ(memory.endless(), 0) << StoreKindName(kind) << ", " << size << ", " << before;
      }
    }
  }
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
}  // namespace quire::io::streaming_stores_test
