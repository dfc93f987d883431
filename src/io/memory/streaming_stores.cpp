#include "io/memory/streaming_stores.h"

#include <atomic>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::io {
namespace {

void PlainLines(char* to, const char* from, size_t size) {
  std::memcpy(to, from, size);
}

#if defined(__x86_64__)

void Sse2Lines(char* to, const char* from, size_t size) {
  for (size_t at = 0; at < size; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), bytes);
  }
}

__attribute__((target("avx2"))) void Avx2Lines(char* to, const char* from, size_t size) {
  for (size_t at = 0; at < size; at += 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), bytes);
  }
}

__attribute__((target("avx512f"))) void Avx512Lines(char* to, const char* from, size_t size) {
  for (size_t at = 0; at < size; at += 64) {
    const __m512i bytes = _mm512_loadu_si512(from + at);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), bytes);
  }
}

__attribute__((target("clwb"))) void CleanLine(const char* line) {
  _mm_clwb(const_cast<char*>(line));
}
__attribute__((target("clflushopt"))) void FlushLine(const char* line) {
  _mm_clflushopt(const_cast<char*>(line));
}

// Chooses the best instruction of this processor. GCC's and Clang's tables of features lack these
// two.
void (*ChooseWriteBack())(const char* line) {
  unsigned eax = 7;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
  if ((ebx >> 24 & 1) != 0) return CleanLine;
  if ((ebx >> 23 & 1) != 0) return FlushLine;
  return [](const char* line) { _mm_clflush(line); };
}

#elif defined(__aarch64__)

void NeonLines(char* to, const char* from, size_t size) {
  for (size_t at = 0; at < size; at += 32) {
    asm volatile(
        "ldp q0, q1, [%0]\n"
        "stnp q0, q1, [%1]\n"
        :
        : "r"(from + at), "r"(to + at)
        : "v0", "v1", "memory");
  }
}

#endif

using Lines = void (*)(char* to, const char* from, size_t size);

Lines LinesOf(StoreKind kind) {
  switch (kind) {
#if defined(__x86_64__)
    case StoreKind::kSse2:
      return Sse2Lines;
    case StoreKind::kAvx2:
      return Avx2Lines;
    case StoreKind::kAvx512:
      return Avx512Lines;
#elif defined(__aarch64__)
    case StoreKind::kNeon:
      return NeonLines;
#endif
    default:
      return PlainLines;
  }
}

}  // namespace

std::vector<StoreKind> StoreKinds() {
  std::vector<StoreKind> kinds{StoreKind::kPlain};
#if defined(__x86_64__)
  __builtin_cpu_init();
  kinds.push_back(StoreKind::kSse2);
  if (__builtin_cpu_supports("avx2")) kinds.push_back(StoreKind::kAvx2);
  if (__builtin_cpu_supports("avx512f")) kinds.push_back(StoreKind::kAvx512);
#elif defined(__aarch64__)
  kinds.push_back(StoreKind::kNeon);
#endif
  return kinds;
}

StoreKind BestStores() {
  static const StoreKind best = StoreKinds().back();
  return best;
}

const char* StoreKindName(StoreKind kind) {
  constexpr const char* kNames[] = {"plain", "sse2", "avx2", "avx512", "neon"};
  return kNames[static_cast<size_t>(kind)];
}

void StreamingCopy(char* to, const char* from, size_t size, StoreKind kind) {
  const Lines lines = LinesOf(kind);
  const size_t whole = size - size % kLineBytes;
  lines(to, from, whole);
  if (whole == size) return;
  char last[kLineBytes] = {};
  std::memcpy(last, from + whole, size - whole);
  lines(to + whole, last, kLineBytes);
}

// Uses instructions, because ThreadSanitizer does not know the fences of the language.
void DrainStreamingStores() {
#if defined(__x86_64__)
  asm volatile("sfence" : : : "memory");
#elif defined(__aarch64__)
  asm volatile("dsb ishst" : : : "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

void WriteBack(const char* from, size_t size) {
#if defined(__x86_64__)
  static void (*const write_back)(const char*) = ChooseWriteBack();
  const auto misaligned = reinterpret_cast<uintptr_t>(from) % kLineBytes;
  for (const char* line = from - misaligned; line < from + size; line += kLineBytes) {
    write_back(line);
  }
#elif defined(__aarch64__)
  const auto misaligned = reinterpret_cast<uintptr_t>(from) % kLineBytes;
  for (const char* line = from - misaligned; line < from + size; line += kLineBytes) {
    asm volatile("dc cvac, %0" : : "r"(line) : "memory");
  }
#else
  static_cast<void>(from);
  static_cast<void>(size);
#endif
}

}  // namespace quire::io
