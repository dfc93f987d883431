/// Stores to mapped files. StreamingCopy bypasses the caches: for bytes that this program will not
/// read again soon. No line is fetched only to be overwritten, the program's data stay in the
/// caches, and the stored bytes go to memory at once. StoreByPages is for all other stores.
///
/// Layer      io
/// Source     NVStream, HPDC18, sections 2 and 4.3 (streaming stores, one fence instead of a flush
///            of each line)
/// Threads    pure functions
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace quire::io {

/// The unit in which memory is written: a cache line.
constexpr size_t kLineBytes = 64;

enum class StoreKind : uint8_t { kPlain, kSse2, kAvx2, kAvx512, kNeon };

/// Returns the kinds that this processor has, the best last; kPlain is always first.
std::vector<StoreKind> StoreKinds();
/// Returns the best kind; it is determined at the first call.
StoreKind BestStores();
const char* StoreKindName(StoreKind kind);

/// Copies `size` bytes from any address to `to`, which is a multiple of kLineBytes. Whole lines are
/// written: behind the bytes there are zeros.
///
/// Order      The bytes are visible to other threads, and in memory, after DrainStreamingStores;
///            until then in any order.
/// Durability On persistent memory (DAX), then. kPlain leaves lines in the caches: WriteBack.
void StreamingCopy(char* to, const char* from, size_t size, StoreKind kind);

/// Copies like StreamingCopy, and returns the XXH3-64 of the bytes under `seed` (as
/// base::Checksum). Reads them once: as fast as the copy alone.
uint64_t StreamingCopyHashed(char* to, const char* from, size_t size, uint64_t seed,
                             StoreKind kind);

/// Copies, for readers, exactly `size` bytes between any addresses that do not overlap, and returns
/// their hash. The hash is that of the copied bytes, even if another program writes to `from`
/// meanwhile.
///
/// Order      That of ordinary stores. Copies that are too large for the caches bypass them.
uint64_t CopyHashed(char* to, const char* from, size_t size, uint64_t seed);

/// A CopyHashed in steps, for bytes that arrive in order: with the same checksum.
class HashedCopy {
 public:
  HashedCopy(char* to, const char* from, size_t size, uint64_t seed);
  ~HashedCopy();
  HashedCopy(HashedCopy&&) noexcept;
  /// Copies the bytes before `end` and before `size`. Up to a kilobyte waits for the next step.
  void CopyUpTo(size_t end);
  /// Copies the rest; returns the XXH3-64 of all bytes.
  uint64_t End();

 private:
  friend uint64_t CopyHashed(char* to, const char* from, size_t size, uint64_t seed);
  struct State;
  std::unique_ptr<State> state_;
};

/// The smallest page of a mapping.
constexpr size_t kStorePageBytes = 4096;

/// True if all of [to, to + size) is in one page.
inline bool InOnePage(const char* to, size_t size) {
  return reinterpret_cast<uintptr_t>(to) % kStorePageBytes + size <= kStorePageBytes;
}

/// Copies `size` bytes between any addresses. No single store is into two pages of `to`: memcpy
/// makes such stores, and on the mapping of a file they may never end. If a btrfs has no room, the
/// kernel writes pages back, and so closes them to stores, in order to open another one.
inline void StoreByPages(char* to, const char* from, size_t size) {
  while (!InOnePage(to, size)) {
    const size_t part = kStorePageBytes - reinterpret_cast<uintptr_t>(to) % kStorePageBytes;
    std::memcpy(to, from, part);
    to += part;
    from += part;
    size -= part;
  }
  if (size != 0) std::memcpy(to, from, size);
}

/// Makes earlier stores visible, and sends them to memory, before any later store.
void DrainStreamingStores();

/// Makes the caches write the lines of [from, from + size) to memory, and keep them if the
/// processor can. Complete after the next DrainStreamingStores.
void WriteBack(const char* from, size_t size);

}  // namespace quire::io
