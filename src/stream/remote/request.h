/// The requests of readers to daemons, and of daemons to daemons: encoded alike in shared memory
/// and in frames.
///
/// Layer      stream
/// Encoding   docs/format/message-stream.md
/// Threads    values and pure functions
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quire/slice.h"
#include "quire/status.h"
#include "quire/stream.h"
#include "stream/log/log_format.h"

namespace quire::stream {

enum class RequestOperation : uint8_t {
  kState = 1,     ///< the newest snapshot of a part, and whether its writer has finished
  kObjects = 2,   ///< keys behind `key`, in order
  kVersions = 3,  ///< versions of `key` below `number` (0: all), newest first
  kWait = 4,      ///< waits for a snapshot after `number`
  kFetch = 5,  ///< a version of `key`. From another daemon: its bytes. From this node's daemon:
               ///< that it is in the mirror
  kRegister = 6,  ///< `parts` are at `address`
  kLookup = 7,    ///< where a part is
};

/// [bytes] The maximum size of a request, and of an answer.
constexpr uint32_t kRequestBytesMax = 16 << 10;
constexpr uint32_t kAnswerBytesMax = 64 << 10;
/// [bytes] The maximum size of a request that names one part.
constexpr uint32_t kPartRequestBytesMax = 2048;
/// [ms] The maximum duration of one kWait; to wait longer, repeat it.
constexpr uint64_t kWaitMsMax = 2000;

/// A rank's part of a store.
struct StorePart {
  std::string store;
  uint32_t rank = 0;
  bool operator<(const StorePart& other) const {
    return std::pair<const std::string&, uint32_t>(store, rank) <
           std::pair<const std::string&, uint32_t>(other.store, other.rank);
  }
  bool operator==(const StorePart& other) const {
    return store == other.store && rank == other.rank;
  }
};

/// A daemon's registration of one of its parts.
struct RegisteredPart {
  StorePart part;
  uint64_t newest_ns = 0;  ///< unix time of its newest version; kWrittenNow
  bool operator==(const RegisteredPart& other) const {
    return part == other.part && newest_ns == other.newest_ns;
  }
};
/// The value of newest_ns while a program writes the part.
constexpr uint64_t kWrittenNow = UINT64_MAX;

struct Request {
  RequestOperation operation = RequestOperation::kState;
  StorePart part;
  std::string key;
  uint64_t number = 0;          ///< kVersions, kWait: see above; kFetch: which, 0 the newest
  bool at_snapshot = false;     ///< kFetch: `number` is a snapshot's, not a version's
  /// kFetch: to another daemon, a version whose bytes need not be sent; to this node's, one whose
  /// bytes in the mirror are damaged; 0: none.
  uint64_t have = 0;
  uint64_t have_time_ns = 0;    ///< its unix_time_ns: of another version under the same number
                                ///< the bytes are sent
  uint64_t timeout_ms = 0;      ///< kWait
  std::string address;          ///< kRegister; without a host: that of the sender
  std::vector<RegisteredPart> parts;  ///< kRegister
};

std::string EncodeRequest(const Request& request);
/// kCorruption : it is invalid, or contains impossible values.
Result<Request> DecodeRequest(Slice bytes);
/// Returns the maximum number of bytes that a part takes in kRegister.
uint64_t EncodedPartBytes(const RegisteredPart& part);

/// Encodes a result, and the body if it is OK.
std::string EncodeAnswer(const Status& status, Slice body);
/// Returns the body, a part of `bytes`, or the error that the other side sent.
Result<Slice> DecodeAnswer(Slice bytes);

struct StateBody {
  uint64_t last_snapshot = 0;
  bool finished = false;
};
std::string EncodeState(const StateBody& state);
Result<StateBody> DecodeState(Slice body);

/// Encodes as many of `keys` as an answer has room for; `more` (may be null): whether some are
/// left.
struct ObjectsBody {
  std::vector<std::string> keys;
  bool more = false;  ///< repeat the request after the last key
};
std::string EncodeObjects(std::span<const std::string> keys, bool* more = nullptr);
Result<ObjectsBody> DecodeObjects(Slice body);

struct VersionsBody {
  std::vector<StreamVersion> versions;
  bool more = false;
};
/// Encodes versions, otherwise like EncodeObjects.
std::string EncodeVersions(std::span<const StreamVersion> versions, bool* more = nullptr);
Result<VersionsBody> DecodeVersions(Slice body);

/// The body of an answer to kFetch. `hash`: DataHash of the version's bytes, which follow, or (for
/// a reader) arrived for this request.
struct FetchBody {
  StreamVersion version;
  std::optional<uint64_t> hash;
};
std::string EncodeFetch(const FetchBody& fetch);
Result<FetchBody> DecodeFetch(Slice body);

std::string EncodeNumber(uint64_t number);
Result<uint64_t> DecodeNumber(Slice body);

}  // namespace quire::stream
