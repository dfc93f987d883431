/// The room of a segment file: it grows with the contents, so that a database takes only the space
/// that it needs.
///
/// Layer      log
/// Threads    any
#pragma once

#include <cstdint>

#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::log {

/// Reserves room in `file` for stores up to `end` (at most `end_max`). The room doubles, by
/// kRoomPieceMax at most, so that calls are few. If the device has less, the room grows by less: no
/// store is refused for which there is room.
///
/// Errors     as MappedFile::GrowRoom
Status GrowRoom(io::MappedFile& file, uint64_t end, uint64_t end_max);

constexpr uint64_t kRoomPieceMax = uint64_t{16} << 20;

}  // namespace quire::log
