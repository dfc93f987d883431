#include "kv/protocol/wire.h"

#include <new>
#include <utility>

#include "base/text/coding.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

constexpr int kCodeLast = static_cast<int>(Code::kUnsupported);

Status Malformed(const char* what) {
  return Status(Code::kCorruption, std::string("a message of another rank is not a valid ") + what);
}

void PutFailure(std::string* to, const Status& status) {
  base::PutVarint(to, static_cast<uint64_t>(status.code()));
  base::PutLengthPrefixed(to, status.message());
}

// Without memory for the text, the code alone counts.
Status FailureOf(Code code, Slice text) {
  try {
    return Status(code, std::string(text));
  } catch (const std::bad_alloc&) {
    return Status(code);
  }
}

// Returns false if there is no failure.
bool ReadFailure(base::ByteReader* reader, Status* status) {
  uint64_t code = 0;
  Slice text;
  if (!reader->Varint(&code) || !reader->LengthPrefixed(&text)) return false;
  if (code == 0 || code > static_cast<uint64_t>(kCodeLast)) return false;
  *status = FailureOf(static_cast<Code>(code), text);
  return true;
}

bool ReadTables(base::ByteReader* reader, NamedTables* tables) {
  return reader->Fixed(&tables->store_id) && reader->Fixed(&tables->edition);
}

}  // namespace

// Without memory for its text the code alone counts: a write that may have been stored must not
// look like a shortage, after which nothing was stored.
Status OwnerStatus(int owner, const Status& status) {
  const bool left = status.code() == Code::kNotFound;
  try {
    const std::string rank = "rank " + std::to_string(owner);
    if (left) return Status(Code::kPeerFailed, rank + " has left: it has closed the database");
    // These statuses name the rank themselves.
    if (runtime::IsOfASilentRank(status)) return status;
    return status.WithContext(rank);
  } catch (const std::bad_alloc&) {
    return Status(left ? Code::kPeerFailed : status.code());
  }
}

// Without memory for the text it sends the count and the code: they need no memory (a short string
// has room for them), and the sender must not count stored writes as lost.
std::string EncodeApplyFailures(const ApplyFailures& failures) {
  if (failures.lost_count == 0) return {};
  const auto encode = [&failures](const Status& first) {
    std::string answer;
    base::PutVarint(&answer, failures.lost_count);
    PutFailure(&answer, first);
    return answer;
  };
  try {
    return encode(failures.first);
  } catch (const std::bad_alloc&) {
    return encode(Status(failures.first.code()));
  }
}

Result<ApplyFailures> DecodeApplyFailures(Slice answer) {
  ApplyFailures failures;
  if (answer.empty()) return failures;
  base::ByteReader reader(answer);
  if (!reader.Varint(&failures.lost_count) || failures.lost_count == 0 ||
      !ReadFailure(&reader, &failures.first) || !reader.rest().empty()) {
    return Malformed("answer to a batch");
  }
  return failures;
}

std::string EncodeTablesAnswer(const NamedTables& tables) {
  std::string answer;
  AddTables(&answer, tables);
  return answer;
}

bool DecodeTablesAnswer(Slice answer, NamedTables* tables) {
  if (answer.empty() || answer[0] != kTablesByte) return false;
  base::ByteReader reader(answer.substr(1));
  return ReadTables(&reader, tables) && reader.rest().empty();
}

Result<Slice> DecodeGetAnswer(Slice answer) {
  if (answer.size() == 1 && answer[0] == kAbsentByte) return Status(Code::kNotFound);
  if (answer.empty() || answer[0] != kFoundByte) return Malformed("answer to a get");
  return answer.substr(1);
}

std::string EncodeUpdateHead(const UpdateRequest& update) {
  std::string head;
  base::PutFixed(&head, update.id);
  base::PutLengthPrefixed(&head, update.key);
  return head;
}

Result<UpdateRequest> DecodeUpdate(Slice request) {
  UpdateRequest update;
  base::ByteReader reader(request);
  if (!reader.Fixed(&update.id) || !reader.LengthPrefixed(&update.key)) {
    return Malformed("update");
  }
  update.argument = reader.rest();
  return update;
}

void AddKey(std::string* request, Slice key) {
  base::PutLengthPrefixed(request, key);
}

Result<std::vector<Slice>> DecodeKeys(Slice request) {
  std::vector<Slice> keys;
  base::ByteReader reader(request);
  while (!reader.rest().empty()) {
    Slice key;
    if (!reader.LengthPrefixed(&key)) return Malformed("list of keys");
    keys.push_back(key);
  }
  return keys;
}

void AddResult(std::string* answer, const Status& status, Slice value) {
  if (status.ok()) {
    answer->push_back(kFoundByte);
    base::PutLengthPrefixed(answer, value);
  } else if (status.code() == Code::kNotFound) {
    answer->push_back(kAbsentByte);
  } else {
    answer->push_back(kFailedByte);
    PutFailure(answer, status);
  }
}

void AddTables(std::string* answer, const NamedTables& tables) {
  answer->push_back(kTablesByte);
  base::PutFixed(answer, tables.store_id);
  base::PutFixed(answer, tables.edition);
}

Result<std::vector<GetResult>> DecodeResults(Slice answer) {
  std::vector<GetResult> results;
  base::ByteReader reader(answer);
  while (!reader.rest().empty()) {
    GetResult result;
    char mark = 0;
    reader.Fixed(&mark);
    bool valid = true;
    if (mark == kFoundByte) {
      valid = reader.LengthPrefixed(&result.value);
    } else if (mark == kAbsentByte) {
      result.status = Status(Code::kNotFound);
    } else if (mark == kTablesByte) {
      valid = ReadTables(&reader, &result.tables.emplace());
    } else {
      valid = mark == kFailedByte && ReadFailure(&reader, &result.status);
    }
    if (!valid) return Malformed("list of results");
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace quire::kv
