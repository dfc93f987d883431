/// The room of a segment file, which grows with what is in it: a database takes what it holds.
///
/// Layer      log
/// Threads    any
#pragma once

#include <cstdint>

#include "io/files/file_system.h"
#include "quire/status.h"

namespace quire::log {

/// Sets room aside in `file`, so that a store up to `end` (at most `end_max`) has its own. The room
/// doubles, by kRoomPieceMax at most, so that calls are few; if the device has less, it grows by
/// less: no store is refused for which there is room.
///
/// Errors     as MappedFile::GrowRoom
Status GrowRoom(io::MappedFile& file, uint64_t end, uint64_t end_max);

constexpr uint64_t kRoomPieceMax = uint64_t{16} << 20;

}  // namespace quire::log
