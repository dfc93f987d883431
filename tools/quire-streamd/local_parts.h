/// The parts of stores that lie at this place, as other daemons see them.
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

  /// Answers a request but a wait over `channel`, the bytes of a version from where they lie. A
  /// failure is one of the connection: it is to be closed.
  Status Serve(const stream::Request& request, uint64_t id, Channel& channel);
  /// The body that answers a request but a wait or a fetch. If objects or versions are requested
  /// page by page, all pages come from one list, which is made for the first.
  Result<std::string> BodyOf(const stream::Request& request);
  /// StreamReader::Wait of the part.
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

/// [ns] How long one answer, or one piece of a version, may take on its way.
constexpr uint64_t kFrameNs = 5'000'000'000;
/// [ns] How long a version may, beyond that: 10 MB in each second. While it is on its way its view
/// holds the log of the program that writes, whose puts end where a peer may take what time it
/// likes.
constexpr uint64_t kFetchNsPerByte = 100;
/// From now on.
Pace PaceOf(uint64_t bytes);

/// The parts at `place`, as far as it can be looked through.
std::vector<stream::StorePart> PartsAt(io::FileSystem& fs, const std::string& place);

}  // namespace quire::streamd
