#include "log/room.h"

#include <algorithm>

namespace quire::log {

Status GrowRoom(io::MappedFile& file, uint64_t end, uint64_t end_max) {
  const uint64_t room = file.room();
  if (end <= room) return Status();  // another thread was faster
  for (uint64_t more = std::min(room, kRoomPieceMax);; more /= 2) {
    const uint64_t wanted = std::min(end_max, std::max(end, room + more));
    Status grown = file.GrowRoom(wanted);
    if (grown.code() != Code::kNoSpace || wanted <= end) return grown;
  }
}

}  // namespace quire::log
