/// The messages between the ranks of a database: operations, and the bytes of requests and answers.
///
/// Layer      kv
/// Encoding   docs/format/message-kv.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quire/slice.h"
#include "quire/status.h"
#include "runtime/channel.h"

namespace quire::kv {

/// The low four bits of a channel.
enum class WireOperation : uint32_t {
  kApply = 1,    ///< records, one after another; answer: ApplyFailures
  kWrite = 2,    ///< records, all or none
  kGet = 3,      ///< a key; answer: found, value
  kGetMany = 4,  ///< keys; answer: for a prefix of them a result each
  kFence = 5,    ///< nothing; its answer comes after those of all requests before it
  kFill = 7,     ///< records of older generations, for keys that are unknown
  kUpdate = 8,   ///< an update; answer: what its function returned
  kGetInGroup =
      9,  ///< a key, from a member of the storage group; answer: as kGet, or which tables to read
  kGetManyInGroup = 10,  ///< kGetMany from a member of the storage group
};

/// The channel of an operation of the database with that number.
constexpr uint32_t Channel(uint32_t database_number, WireOperation operation) {
  return runtime::Channel(database_number, static_cast<uint32_t>(operation));
}

/// Returns the status for an answer's status: an owner that no longer serves the channel has closed
/// the database.
Status OwnerStatus(int owner, const Status& status);

/// The operations of a batch that an owner could not apply.
struct ApplyFailures {
  uint64_t lost_count = 0;
  Status first;  ///< why, of the first that was lost
};
/// Nothing lost: no bytes. Without memory for the failure's text both functions give its code
/// alone.
std::string EncodeApplyFailures(const ApplyFailures& failures);
Result<ApplyFailures> DecodeApplyFailures(Slice answer);

/// The answer to a get of an absent key. A present one: kFoundByte, then the value.
constexpr char kAbsentByte = 0;
constexpr char kFoundByte = 1;
/// The tables that an owner names: those of its database with this id, at this edition of its
/// manifest or later.
struct NamedTables {
  uint64_t store_id = 0;
  uint64_t edition = 0;
  bool operator==(const NamedTables&) const = default;
};
/// The answer of kGetInGroup for a key that is not in memory: kTablesByte, store id, edition.
constexpr char kTablesByte = 3;
std::string EncodeTablesAnswer(const NamedTables& tables);
/// Decodes such an answer; false: it is another answer, for DecodeGetAnswer.
bool DecodeTablesAnswer(Slice answer, NamedTables* tables);
/// Returns the value in an answer; kNotFound: absent; kCorruption: not an answer.
Result<Slice> DecodeGetAnswer(Slice answer);

/// An update whose answer the caller waits for.
struct UpdateRequest {
  uint32_t id = 0;
  Slice key;
  Slice argument;
};
/// Encodes all of a kUpdate request but the argument, which follows it.
std::string EncodeUpdateHead(const UpdateRequest& update);
Result<UpdateRequest> DecodeUpdate(Slice request);

/// Appends a key to a kGetMany request.
void AddKey(std::string* request, Slice key);
Result<std::vector<Slice>> DecodeKeys(Slice request);
/// The byte, in an answer of kGetMany, of a key that could not be read.
constexpr char kFailedByte = 2;
/// Appends one result to the answer of kGetMany: `value` is used if `status` is OK.
void AddResult(std::string* answer, const Status& status, Slice value);
/// Appends, in an answer of kGetManyInGroup, a key that is not in memory.
void AddTables(std::string* answer, const NamedTables& tables);
/// One result of an answer of kGetMany or kGetManyInGroup.
struct GetResult {
  Status status;  ///< kNotFound: absent; else why it could not be read
  Slice value;
  std::optional<NamedTables> tables;  ///< the key is not in memory: ignore the rest
};
Result<std::vector<GetResult>> DecodeResults(Slice answer);

/// An answer of kGetMany ends after the result that brings it to this size; the caller requests the
/// rest again.
constexpr uint64_t kGetManyAnswerBytes = 4ull << 20;
/// A kGetMany request ends after the key that brings it to this size.
constexpr uint64_t kGetManyRequestBytes = 256ull << 10;

}  // namespace quire::kv
