/// A copy of a version from the mirror, made while the daemon still writes it there: so copying
/// adds little time.
///
/// Layer      stream
/// Source     docs/decisions/0013-streams.md
/// Threads    one at a time
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "io/memory/streaming_stores.h"
#include "quire/database.h"
#include "quire/status.h"
#include "quire/stream.h"
#include "stream/remote/request.h"
#include "stream/remote/request_queue.h"

namespace quire::stream {

class ArrivingCopy {
 public:
  /// Opens the mirror, or returns the open one.
  using OpenMirror = std::function<Result<std::shared_ptr<StreamReader>>()>;

  /// `allocate` returns memory for the bytes, and must outlive the copy.
  ArrivingCopy(OpenMirror open_mirror, const BufferAllocator& allocate)
      : open_mirror_(std::move(open_mirror)), allocate_(allocate) {}

  /// Copies the bytes that have arrived so far. Notices are not trusted: one that does not fit the
  /// mirror, or the earlier notices, ends the copy.
  void Arrive(const Arrival& arrival);
  /// Copies the rest, once the daemon has answered. Returns whether the allocated memory contains
  /// the bytes that the answer describes; if not, the version must be read like any other.
  bool Finish(const FetchBody& fetched);

 private:
  Status Begin(const Arrival& arrival);
  bool Begins(const Arrival& arrival);

  const OpenMirror open_mirror_;
  const BufferAllocator& allocate_;
  std::shared_ptr<StreamReader> mirror_;
  std::shared_ptr<const char> from_;  // the held part of it; null: nothing arrived, or the copy has
                                      // ended
  std::optional<io::HashedCopy> copy_;
  Arrival told_;
  bool ended_ = false;
};

}  // namespace quire::stream
