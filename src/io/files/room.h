/// Allocation of space in a file, so that later stores into it cannot fail for lack of space.
///
/// Layer      io (internal)
/// Threads    pure functions
#pragma once

#include <cstdint>

namespace quire::io {

/// Calls fallocate(2) for [offset, offset + size), in pieces if signals interrupt it: tmpfs before
/// Linux 6.9 aborts a call at any signal and undoes its allocation, so that a single call for
/// everything never ends under a profiler's timer. Returns 0, or errno. EINTR: not even small
/// pieces were allocated in kInterruptionsMax consecutive attempts.
int SetAside(int fd, uint64_t offset, uint64_t size);

constexpr int kInterruptionsMax = 1000;
/// Pieces are not cut smaller.
constexpr uint64_t kRoomPieceMin = uint64_t{64} << 10;

}  // namespace quire::io
