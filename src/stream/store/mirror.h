/// A log into which the daemon writes versions that it fetched, under the numbers that they have
/// where they come from; local readers find them as they find all others.
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

/// The directory of the versions that the daemon fetches for the readers of this place.
std::string MirrorPlace(const std::string& place);

class Mirror {
 public:
  /// `place` is a MirrorPlace; made where absent. Keeps the content of an earlier mirror; if that
  /// is damaged, a new one takes its place, and what it had is fetched again on demand.
  static Result<std::unique_ptr<Mirror>> Open(io::FileSystem& fs, const std::string& place,
                                              const std::string& name, uint32_t rank,
                                              const StreamOptions& options);
  virtual ~Mirror() = default;

  /// Room in the log for a version's bytes (version.bytes of them, whole), which Commit makes a
  /// version. An earlier reservation that was not committed is dropped. Older versions go where
  /// room is needed, but none that a reader has pinned: kNoSpace.
  virtual Result<Reservation> Reserve(Slice key, const StreamVersion& version) = 0;
  /// `hash`: DataHash of the bytes, which the caller has found to be right. Replaces a version with
  /// the same number, for example if the store was recreated; existing views keep it.
  virtual Status Commit(uint64_t hash) = 0;
  /// Whether its files were removed since it was opened: readers of the place do not find it.
  virtual Result<bool> Removed() const = 0;
};

}  // namespace quire::stream
