/// The parts of stores at this place, as other daemons see them.
///
/// Layer      tools
/// Threads    any
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "io/files/file_system.h"
#include "quire/stream.h"
#include "stream/remote/request.h"
#include "tools/quire-streamd/paged_lists.h"
#include "tools/quire-streamd/tcp_frame.h"

namespace quire::streamd {

/// Opens a part of a store: stream::OpenLocalReader, or a test's.
using OpenPart =
    std::function<Result<std::unique_ptr<StreamReader>>(const stream::StorePart& part)>;

class LocalParts {
 public:
  explicit LocalParts(OpenPart open) : open_(std::move(open)) {}

  /// Answers a request (but no wait) over `channel`; sends the bytes of a version directly from the
  /// log. A failure is one of the connection, which the caller must close.
  Status Serve(const stream::Request& request, uint64_t id, Channel& channel);
  /// Returns the body of the answer to a request that is no wait or fetch. If objects or versions
  /// are requested page by page, all pages come from one list, which is created for the first page.
  Result<std::string> BodyOf(const stream::Request& request);
  /// Calls StreamReader::Wait of the part.
  Result<uint64_t> Wait(const stream::StorePart& part, uint64_t after, uint64_t timeout_ms);
  /// Reopens readers that were opened before now: their stores may have been removed or recreated.
  void Refresh();

 private:
  Result<std::shared_ptr<StreamReader>> ReaderOf(const stream::StorePart& part);
  void Forget(const stream::StorePart& part);
  Result<std::string> BodyFrom(StreamReader& reader, const stream::Request& request);
  Result<std::string> ObjectsBehind(StreamReader& reader, const stream::Request& request);
  Result<std::string> VersionsBelow(StreamReader& reader, const stream::Request& request);
  Result<std::unique_ptr<StreamView>> ViewAsked(const stream::Request& request,
                                                std::shared_ptr<StreamReader>* reader);
  Status ServeFetch(const stream::Request& request, uint64_t id, Channel& channel);

  const OpenPart open_;
  std::mutex mutex_;
  std::map<stream::StorePart, std::shared_ptr<StreamReader>> readers_;
  PagedLists<stream::StorePart, std::string> objects_;
  PagedLists<std::pair<stream::StorePart, std::string>, StreamVersion> versions_;
};

/// [ns] Deadline for sending one answer, or one piece of a version.
constexpr uint64_t kFrameNs = 5'000'000'000;
/// [ns] Additional time for a version: 10 MB per second. While a version is being sent, its view
/// holds the writer's log, so without a deadline a slow peer could block the writer's puts.
constexpr uint64_t kFetchNsPerByte = 100;
/// Returns the pace for sending `bytes` from now on.
Pace PaceOf(uint64_t bytes);

/// Returns the parts at `place`, as far as it can be listed.
std::vector<stream::StorePart> PartsAt(io::FileSystem& fs, const std::string& place);

}  // namespace quire::streamd
