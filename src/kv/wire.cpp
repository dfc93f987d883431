#include "kv/wire.h"

#include "base/coding.h"

namespace quire::kv {
namespace {

constexpr int kCodeLast = static_cast<int>(Code::kUnsupported);

Status Malformed(const char* what) {
  return Status(Code::kCorruption, std::string("a message of another rank is not a valid ") + what);
}

}  // namespace

Status OwnerStatus(int owner, const Status& status) {
  const std::string rank = "rank " + std::to_string(owner);
  if (status.code() == Code::kNotFound) {
    return Status(Code::kPeerFailed, rank + " has left: it has closed the database");
  }
  // Those name the rank themselves.
  if (status.code() == Code::kTimedOut || status.code() == Code::kPeerFailed) return status;
  return status.WithContext(rank);
}

std::string EncodeDamage(const Damage& damage) {
  std::string answer;
  if (damage.lost_count == 0) return answer;
  base::PutVarint(&answer, damage.lost_count);
  base::PutVarint(&answer, static_cast<uint64_t>(damage.first.code()));
  base::PutLengthPrefixed(&answer, damage.first.message());
  return answer;
}

Result<Damage> DecodeDamage(Slice answer) {
  Damage damage;
  if (answer.empty()) return damage;
  base::Reader reader(answer);
  uint64_t code = 0;
  Slice text;
  if (!reader.Varint(&damage.lost_count) || !reader.Varint(&code) ||
      !reader.LengthPrefixed(&text) || !reader.rest().empty() || damage.lost_count == 0 ||
      code == 0 || code > static_cast<uint64_t>(kCodeLast)) {
    return Malformed("answer to a batch");
  }
  damage.first = Status(static_cast<Code>(code), std::string(text));
  return damage;
}

Result<Slice> DecodeGetAnswer(Slice answer) {
  if (answer.size() == 1 && answer[0] == kAbsentByte) return Status(Code::kNotFound);
  if (answer.empty() || answer[0] != kFoundByte) return Malformed("answer to a get");
  return answer.substr(1);
}

void AddKey(std::string* request, Slice key) {
  base::PutLengthPrefixed(request, key);
}

Result<std::vector<Slice>> DecodeKeys(Slice request) {
  std::vector<Slice> keys;
  base::Reader reader(request);
  while (!reader.rest().empty()) {
    Slice key;
    if (!reader.LengthPrefixed(&key)) return Malformed("list of keys");
    keys.push_back(key);
  }
  return keys;
}

void AddValue(std::string* answer, const Slice* value) {
  answer->push_back(value == nullptr ? kAbsentByte : kFoundByte);
  if (value != nullptr) base::PutLengthPrefixed(answer, *value);
}

Result<std::vector<FoundValue>> DecodeValues(Slice answer) {
  std::vector<FoundValue> values;
  base::Reader reader(answer);
  while (!reader.rest().empty()) {
    FoundValue value;
    char mark = 0;
    reader.Fixed(&mark);
    value.found = mark == kFoundByte;
    if (mark != kFoundByte && mark != kAbsentByte) return Malformed("list of values");
    if (value.found && !reader.LengthPrefixed(&value.value)) return Malformed("list of values");
    values.push_back(value);
  }
  return values;
}

}  // namespace quire::kv
