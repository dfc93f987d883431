"""What sabotage.py leaves out of calls on files, and of reads of mapped ones."""
from sabotage_kind import Sabotage

IO, LOG, LSM, STREAM = (f"quire_{folder}_test" for folder in ("io", "log", "lsm", "stream"))
INTERRUPTED = "quire_io_interrupted_test"

FILE_SABOTAGES = [
    Sabotage("room-in-pieces", "room is set aside in one call, however often it is interrupted",
             "src/io/files/room.cpp", "piece = std::max(length / 2, kRoomPieceMin);", "",
             INTERRUPTED, "Interrupted.RoomIsSetAsideInPieces*"),
    Sabotage("room-last-page", "a store to the last page of the room asks the device for space",
             "src/io/files/posix_file.cpp", "return TakeLastPage(file, end);", "return Status();",
             IO, "PosixFileSystem.TheLastPage*"),
    Sabotage("directory-sync-error", "an error of syncing a directory counts as being unable to",
             "src/io/files/posix_file_system.cpp",
             "if (errno == EINVAL || errno == EROFS || errno == ENOSYS || errno == EOPNOTSUPP) {",
             "if (errno != 0) {", INTERRUPTED, "Interrupted.ADirectoryThat*"),
    Sabotage("readable-by-calls", "an older kernel says of no page that it cannot be read",
             "src/io/files/posix_file.cpp", "const Status read = ReadIn(offset, size);",
             "const Status read;", INTERRUPTED, "Interrupted.AnOlderKernel*"),
    Sabotage("readable-lost", "a page that a mapping lost passes for one that is there",
             "src/io/files/posix_file.cpp", "return LostPages(path_, offset, size);",
             "return Status();", IO, "PosixFileSystem.PagesThatAreGone*"),
    Sabotage("replay-readable", "a replay looks at pages that were not asked for",
             "src/log/replay.cpp",
             "unreadable_ = bytes_.make_readable(readable_end_, next - readable_end_);",
             "", LOG, "MappedReplay.ALostPage*"),
    Sabotage("replay-unreadable", "a page that cannot be read passes for the end of the log",
             "src/log/replay.cpp", "if (status.ok()) status = unreadable_;",
             "if (!unreadable_.ok()) break;", LOG, "MappedReplay.ALostPage*"),
    Sabotage("adopted-header-readable", "an adopted segment's header page may be lost",
             "src/log/segment.cpp",
             "QUIRE_RETURN_IF_ERROR(segment->map_->MakeReadable(0, kSegmentHeaderBytes));", "",
             LSM, "LostPages.OfALog*"),
    Sabotage("adopted-readable", "a recovery replays without asking for pages",
             "src/lsm/memtable/memory_slot.cpp",
             "return segment_ == nullptr ? Status() : segment_->map().MakeReadable(offset, size);",
             "static_cast<void>(offset + size);\n  return Status();",
             LSM, "LostPages.OfALog*"),
    Sabotage("value-check-mapped", "a large value is checked in a mapping, which may lose pages",
             "src/lsm/vlog/value_files.cpp",
             "QUIRE_RETURN_IF_ERROR(file->ReadAt(ValueOffset(ref) + done, piece.size(), "
             "piece.data()));",
             "QUIRE_ASSIGN_OR_RETURN(const auto map, fs_.Map(file->path(), ValueOffset(ref) + "
             "ref.value_size, io::MapMode::kRead));\n"
             "    std::copy_n(map->data() + ValueOffset(ref) + done, piece.size(), piece.data());",
             LSM, "LostValues.OfALargeValue*"),
    Sabotage("value-copy-guarded", "a value of the active segment is copied from lost pages",
             "src/lsm/vlog/value_segment.cpp",
             "return segment_->map().TryCopy(ValueOffset(ref), ref.value_size, to);",
             "std::copy_n(segment_->data() + ValueOffset(ref), ref.value_size, to);\n"
             "  return true;", LSM, "LostValues.OfTheActive*"),
    Sabotage("stream-readable", "a get of a stream loads pages that may be lost",
             "src/stream/store/part.cpp",
             "QUIRE_RETURN_IF_ERROR(heap.CheckReadable(entry.data, entry.stored));", "",
             STREAM, "LostPages.AmidData*"),
    Sabotage("stream-walk-readable", "a page that cannot be read passes for the end of a stream",
             "src/stream/log/log_heap.cpp",
             "if (!record.ok() && record.status().code() != Code::kCorruption) return",
             "if (false) return", STREAM, "LostPages.AreAnErrorOfTheOpening"),
]
