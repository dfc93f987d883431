#include "io/files/room.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace quire::io {

int SetAside(int fd, uint64_t offset, uint64_t size) {
  uint64_t piece = size;
  int interruptions = 0;
  for (uint64_t done = 0; done < size;) {
    const uint64_t length = std::min(piece, size - done);
    if (::fallocate(fd, 0, static_cast<off_t>(offset + done), static_cast<off_t>(length)) == 0) {
      done += length;
      interruptions = 0;
    } else if (errno != EINTR || ++interruptions == kInterruptionsMax) {
      return errno;
    } else {
      piece = std::max(length / 2, kRoomPieceMin);
    }
  }
  return 0;
}

}  // namespace quire::io
