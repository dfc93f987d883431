/// The reader of a stream whose log is on this node, on any file system.
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
  kShared,  ///< the reader pins what it holds, and rebuilds the index of a dead writer, under the
            ///< part's lock
  kLook,    ///< none: the reader takes no lock, and creates or changes no file; its views are
            ///< copies
};
/// Opens a part that is at this place, as StreamReader::Open, without asking other nodes.
///
/// A reader with kLook never makes a writer wait. If the writer overwrites the source of a copy,
/// the reader copies again from the new state; kBusy if that happens 1000 times in a row.
Result<std::unique_ptr<StreamReader>> OpenLocalReader(io::FileSystem& fs, const std::string& place,
                                                      const std::string& name, uint32_t rank,
                                                      Access access = Access::kShared);
/// Returns the id of the log that is at this place now: random, and different for each store that
/// is created. kNotFound, kCorruption.
Result<uint64_t> LogIdAt(io::FileSystem& fs, const std::string& place, const std::string& name,
                         uint32_t rank);
/// Returns bytes of the log that the writer is still filling, held as by a view; `reader` must be
/// from OpenLocalReader. Only the writer knows how many of the bytes have arrived. The result must
/// not outlive the reader.
///
/// Errors   kNotFound  The writer is beyond them. kCorruption  No such bytes can be at that
///                                                             position.
Result<std::shared_ptr<const char>> RoomAt(StreamReader& reader, Position at, uint64_t bytes);
/// Returns the memory that the program's `allocate` returns for `bytes` bytes.
///
/// Errors   kInvalidArgument  It threw; the text contains the exception's text. kOutOfMemory  It
///          returned none, or threw std::bad_alloc.
Result<char*> CallAllocator(const BufferAllocator& allocate, uint64_t bytes);
/// A view that knows the hash (DataHash) of all of its bytes from when they were stored.
class HashedView : public StreamView {
 public:
  /// Returns the hash; nullopt if it is not stored.
  virtual std::optional<uint64_t> hash() const = 0;
};
/// Returns the expected hash of a view's bytes. If no hash is stored, hashes them now.
uint64_t HashOf(const StreamView& view);

}  // namespace quire::stream
