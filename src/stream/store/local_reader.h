/// The reader of a stream whose log lies on this node, on any file system.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md, 0014-reading-beside-a-writer.md
/// Threads    as quire/stream.h
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/files/file_system.h"
#include "quire/stream.h"
#include "stream/log/log_format.h"

namespace quire::stream {

/// The side effects of a reader at the place.
enum class Access {
  kShared,  ///< it pins what it holds, and makes the index of a writer that died, under its lock
  kLook,    ///< nothing: no lock is taken, and no file is made or changed; its views are copies
};
/// StreamReader::Open of what lies at this place, and nowhere else.
///
/// A reader that looks never makes a writer wait. If the writer overwrites what is being copied,
/// the copy is made again, of what is there by then; kBusy if that happens 1000 times in a row.
Result<std::unique_ptr<StreamReader>> OpenLocalReader(io::FileSystem& fs, const std::string& place,
                                                      const std::string& name, uint32_t rank,
                                                      Access access = Access::kShared);
/// The id of the log that lies at this place now: random, another one of each store that is made.
/// kNotFound, kCorruption.
Result<uint64_t> LogIdAt(io::FileSystem& fs, const std::string& place, const std::string& name,
                         uint32_t rank);
/// For a reader of OpenLocalReader: bytes of the log that its writer is filling, held as by a view.
/// Only the writer knows how many of them have arrived. Must not outlive the reader.
///
/// Errors   kNotFound  The writer is beyond them. kCorruption  There can be none at that place.
Result<std::shared_ptr<const char>> RoomAt(StreamReader& reader, Position at, uint64_t bytes);
/// The memory that the program's `allocate` gives for `bytes` bytes.
///
/// Errors   kInvalidArgument  It threw; the text has what. kOutOfMemory  It gave none, or threw
///          std::bad_alloc.
Result<char*> CallAllocator(const BufferAllocator& allocate, uint64_t bytes);
/// A view that knows what all of its bytes hash to (DataHash) since they were stored.
class HashedView : public StreamView {
 public:
  /// Nullopt: it does not know.
  virtual std::optional<uint64_t> hash() const = 0;
};
/// The expected hash of a view's bytes. If no hash is stored, they are hashed now.
uint64_t HashOf(const StreamView& view);

}  // namespace quire::stream
