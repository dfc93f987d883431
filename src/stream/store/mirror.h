/// A log into which the daemon writes versions that it fetched, under the numbers that they have in
/// their original store; local readers find them like all other versions.
///
/// Layer      stream
/// Source     NVStream, HPDC18, section 6.1
/// Threads    one at a time
#pragma once

#include <memory>
#include <string>

#include "io/files/file_system.h"
#include "quire/stream.h"
#include "stream/store/part.h"

namespace quire::stream {

/// Returns the directory of the versions that the daemon fetches for the readers of this place.
std::string MirrorPlace(const std::string& place);

class Mirror {
 public:
  /// Opens a mirror; creates it if it is absent. `place` is a MirrorPlace. Keeps the content of an
  /// earlier mirror; if that is damaged, replaces it by an empty one, and versions are fetched
  /// again on demand.
  static Result<std::unique_ptr<Mirror>> Open(io::FileSystem& fs, const std::string& place,
                                              const std::string& name, uint32_t rank,
                                              const StreamOptions& options);
  virtual ~Mirror() = default;

  /// Reserves room in the log for a version's bytes (version.bytes of them, whole); Commit makes
  /// them a version. Drops an earlier reservation that was not committed. Removes older versions if
  /// room is needed, but none that a reader has pinned: kNoSpace.
  virtual Result<Reservation> Reserve(Slice key, const StreamVersion& version) = 0;
  /// Commits the reserved version. `hash`: DataHash of the bytes, which the caller has verified.
  /// Replaces a version with the same number, for example if the store was recreated; existing
  /// views keep the old one.
  virtual Status Commit(uint64_t hash) = 0;
  /// Returns whether the mirror's files were removed since it was opened, so that readers of the
  /// place do not find it.
  virtual Result<bool> Removed() const = 0;
};

}  // namespace quire::stream
