/// Setting room aside in a file, so that later stores into it cannot fail for lack of it.
///
/// Layer      io (internal)
/// Threads    pure functions
#pragma once

#include <cstdint>

namespace quire::io {

/// fallocate(2) of [offset, offset + size), in pieces if signals interrupt it: tmpfs before Linux
/// 6.9 gives up a call at any signal and takes back what that call had set aside, so that one call
/// for all of it never ends under a profiler's timer. Returns 0, or errno. EINTR: not even small
/// pieces were set aside in kInterruptionsMax attempts one after another.
int SetAside(int fd, uint64_t offset, uint64_t size);

constexpr int kInterruptionsMax = 1000;
/// Pieces are not cut smaller.
constexpr uint64_t kRoomPieceMin = uint64_t{64} << 10;

}  // namespace quire::io
