/// A copy of a version out of the mirror that is made while the daemon puts it there: the one takes
/// hardly longer than the other.
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
  /// Opens the mirror, or has it.
  using OpenMirror = std::function<Result<std::shared_ptr<StreamReader>>()>;

  /// `allocate` gives memory for the bytes, and outlives the copy.
  ArrivingCopy(OpenMirror open_mirror, const BufferAllocator& allocate)
      : open_mirror_(std::move(open_mirror)), allocate_(allocate) {}

  /// Copies what has come by now. The notices may contain anything: one that does not fit the
  /// mirror, or the notices before it, ends the copy.
  void Arrive(const Arrival& arrival);
  /// Copies the rest, once the daemon has answered. Whether the bytes are where `allocate` said,
  /// and what the answer says of them; if not, the version is to be read as any other.
  bool Finish(const FetchBody& fetched);

 private:
  Status Begin(const Arrival& arrival);
  bool Begins(const Arrival& arrival);

  const OpenMirror open_mirror_;
  const BufferAllocator& allocate_;
  std::shared_ptr<StreamReader> mirror_;
  std::shared_ptr<const char> from_;  // held of it; null: nothing came, or the copy has ended
  std::optional<io::HashedCopy> copy_;
  Arrival told_;
  bool ended_ = false;
};

}  // namespace quire::stream
