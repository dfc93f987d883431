/// A log into which the daemon writes versions that it fetched, under the numbers that they have
/// where they come from; local readers find them as they find all others.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 6.1
/// Threads    one at a time
#pragma once

#include <memory>
#include <string>

#include "io/file_system.h"
#include "quire/stream.h"
#include "stream/part.h"

namespace quire::stream {

class Mirror {
 public:
  /// `place` is a MirrorPlace; made where absent. What an earlier mirror has is there.
  static Result<std::unique_ptr<Mirror>> Open(io::FileSystem& fs, const std::string& place,
                                              const std::string& name, uint32_t rank,
                                              const StreamOptions& options);
  virtual ~Mirror() = default;

  /// Room in the log for a version's bytes (version.bytes of them, whole), which Commit makes a
  /// version. What was reserved before and not committed is forgotten. Older versions go where room
  /// is needed, but none that a reader has pinned: kNoSpace.
  virtual Result<Room> Reserve(Slice key, const StreamVersion& version) = 0;
  /// `hash`: DataHash of the bytes, which the caller has found to be right. A version that is there
  /// under the same number gives way, as of a store that was made anew; who views it keeps it.
  virtual Status Commit(uint64_t hash) = 0;
  /// Whether its files were removed since it was opened: readers of the place do not find it.
  virtual Result<bool> Removed() const = 0;
};

}  // namespace quire::stream
