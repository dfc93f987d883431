/// What the ranks of a database say to each other: operations, and the bytes of requests and
/// answers.
///
/// Layer      kv
/// Encoding   docs/format/message-kv.md
/// Threads    pure functions
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::kv {

/// The low four bits of a channel.
enum class Operation : uint32_t {
  kApply = 1,    ///< records, one after another; answer: Damage
  kWrite = 2,    ///< records, all or none
  kGet = 3,      ///< a key; answer: found, value
  kGetMany = 4,  ///< keys; answer: for a prefix of them a result each
  kFence = 5,    ///< nothing; its answer comes after those of all requests before it
  kJob = 6,      ///< of a background job: a rank's report, or what rank 0 tells
  kFill = 7,     ///< records of older generations, for keys that are known nowhere
  kUpdate = 8,   ///< an update; answer: what its function answered
  kGetInGroup =
      9,  ///< a key, from a member of the storage group; answer: as kGet, or where to look
};

/// The channel of an operation of the database with that number.
constexpr uint32_t Channel(uint32_t database_number, Operation operation) {
  return database_number << 4 | static_cast<uint32_t>(operation);
}
/// Answered by every Context at once: that it is there.
constexpr uint32_t kPingChannel = 0;
/// Database numbers fit a channel.
constexpr uint32_t kDatabaseNumberMax = (1u << 28) - 1;

/// What an answer's status means here: an owner that no longer serves the channel has closed the
/// database.
Status OwnerStatus(int owner, const Status& status);

/// What an owner could not apply of a batch.
struct Damage {
  uint64_t lost_count = 0;
  Status first;  ///< why, of the first that was lost
};
/// Nothing lost: no bytes.
std::string EncodeDamage(const Damage& damage);
Result<Damage> DecodeDamage(Slice answer);

/// The answer to a get of an absent key. A present one: kFoundByte, then the value.
constexpr char kAbsentByte = 0;
constexpr char kFoundByte = 1;
/// The answer of kGetInGroup for a key that is not in memory: kTablesByte, store id, edition.
constexpr char kTablesByte = 3;
std::string EncodeTablesAnswer(uint64_t store_id, uint64_t edition);
/// False: it is another answer, for DecodeGetAnswer.
bool DecodeTablesAnswer(Slice answer, uint64_t* store_id, uint64_t* edition);
/// The value in an answer; kNotFound: absent; kCorruption: not an answer.
Result<Slice> DecodeGetAnswer(Slice answer);

/// An update that is waited for.
struct UpdateRequest {
  uint32_t id = 0;
  Slice key;
  Slice argument;
};
/// All of a kUpdate request but the argument, which follows it.
std::string EncodeUpdateHead(const UpdateRequest& update);
Result<UpdateRequest> DecodeUpdate(Slice request);

/// Appends a key to a kGetMany request.
void AddKey(std::string* request, Slice key);
Result<std::vector<Slice>> DecodeKeys(Slice request);
/// In an answer of kGetMany, a key that could not be read.
constexpr char kFailedByte = 2;
/// Appends one result to the answer of kGetMany: `value` counts where `status` is OK.
void AddResult(std::string* answer, const Status& status, Slice value);
/// One result of a kGetMany answer.
struct GetResult {
  Status status;  ///< kNotFound: absent; else why it could not be read
  Slice value;
};
Result<std::vector<GetResult>> DecodeResults(Slice answer);

/// An answer of kGetMany ends after the result that brings it to this size; the rest is asked for
/// again.
constexpr uint64_t kGetManyAnswerBytes = 4ull << 20;
/// A kGetMany request ends after the key that brings it to this size.
constexpr uint64_t kGetManyRequestBytes = 256ull << 10;

}  // namespace quire::kv
